"""Which processes may join a job: what listens while it starts, and what becomes of forged joins."""

import pathlib
import re
import subprocess
import sys
import time

from network import ROOT, compiled

MPIEXEC = pathlib.Path.home() / ".cache" / "ferrywire-peers" / "mpich" / "bin" / "mpiexec"
STARTS = 3
# One that any user can run.
PYTHON = "/usr/bin/python3" if pathlib.Path("/usr/bin/python3").exists() else sys.executable
# How late a rank under mpiexec is, while others wait for it with the join socket open.
LATE_SECONDS = 2
# The most time for all of that.
JOIN_SECONDS = 60

# Delays this host, so that the other one starts first.
LATE_RSH = """#!/bin/sh
case $1 in {late}) sleep 0.3 ;; esac
exec ip netns exec "$@"
"""


def doors(network, folder, report):
    nothing_listens(network, folder, report)
    if MPIEXEC.exists():
        forged_joins(network, folder, report)
    else:
        print("no mpiexec of MPICH (bench/peers/install): forged joins at the door of a host are not tested")


def nothing_listens(network, folder, report):
    """Under `ferry run` nothing listens for joins: there are the sockets of frames, from start to end, and the one at which the
    launcher tells its own user what ranks are doing. A stranger asks there and gets no answer."""
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "hello.c")
    rsh = folder / "late_rsh"
    rsh.write_text(LATE_RSH.format(late=network.hosts[1]))
    rsh.chmod(0o755)
    with Watch(network.hosts[:2]) as watch:
        known, found, looks = watch.listeners(), set(), 0
        # Check that a search can find something.
        decoy = subprocess.Popen(["ip", "netns", "exec", network.hosts[0], sys.executable, "-c", DECOY], stdout=subprocess.PIPE)
        decoy.stdout.readline()
        seen = watch.listeners() - known
        decoy.kill()
        decoy.communicate()
        good = len(seen) == 2
        stranger = subprocess.Popen(as_nobody(None, CURIOUS), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(STARTS):
            command = network.command(4, program, hosts=network.hosts[:2], rail="udp")
            command[command.index("ip netns exec")] = str(rsh)
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            while job.poll() is None:
                found |= watch.listeners() - known
                looks += 1
            good = good and job.returncode == 0
    told = stranger.communicate(timeout=JOIN_SECONDS)[0].strip()
    found = {listener for listener in found if not listener[-1].startswith(FACTS)}
    report.tell("joins: nothing listens under ferry run", good and not found,
                f"{looks} looks while {STARTS} jobs started: {sorted(found) or 'no listener'}; {len(seen)} of 2 decoys found")
    figures = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", told)}
    report.tell("joins: strangers learn nothing of a job", figures.get("asked", 0) > 0 and figures.get("answers") == 0, told)


def forged_joins(network, folder, report):
    """Under mpiexec the first rank of a host has a join socket for the others: a stranger tries to join there."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    host = network.hosts[0]
    late = ["sh", "-c", f"sleep {LATE_SECONDS}; exec {program} 1"]
    job = subprocess.Popen(["ip", "netns", "exec", host, MPIEXEC, "-n", "3", program, "1", ":", "-n", "1", *late],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    stranger = subprocess.Popen(as_nobody(host, STRANGER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = job.communicate(timeout=JOIN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        job.kill()
        said = f"the job is not over after {JOIN_SECONDS} s\n" + job.communicate()[0]
    told = stranger.communicate(timeout=JOIN_SECONDS)[0].strip()
    figures = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", told)}
    good = job.returncode == 0 and "lossy ranks=4" in said
    unheard = figures.get("joins", 0) > 100 and figures.get("answers") == figures.get("left_open") == 0
    report.tell("joins: forged ones at a door under mpiexec", good and unheard, told)
    if not good or report.verbose:
        print(said[-3000:])


def as_nobody(host, source, *words):
    """A Python program as another user on a host, or here. It is given as text, since that user may not read this folder."""
    there = ["ip", "netns", "exec", host] if host else []
    return [*there, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
            PYTHON, "-c", source, *map(str, words)]


class Watch:
    """What listens in some network namespaces, observed by an idle process in each."""

    def __init__(self, hosts):
        self.hosts = hosts

    def __enter__(self):
        self.inside = [subprocess.Popen(["ip", "netns", "exec", host, "sleep", "600"]) for host in self.hosts]
        time.sleep(0.3)
        return self

    def __exit__(self, *_):
        for process in self.inside:
            process.kill()
            process.wait()

    def listeners(self):
        found = set()
        for process in [*self.inside, None]:
            # The launcher is in our own namespace.
            folder = pathlib.Path(f"/proc/{process.pid if process else 'self'}/net")
            for name in ("tcp", "tcp6"):
                table = [line.split() for line in (folder / name).read_text().splitlines()[1:]]
                found |= {(name, words[1], words[9]) for words in table if words[3] == "0A"}
            table = [line.split() for line in (folder / "unix").read_text().splitlines()[1:]]
            found |= {("unix", *words[6:]) for words in table if int(words[3], 16) & 0x10000}
        return found


# How the names of sockets begin at which launchers tell facts.
FACTS = "@ferrywire-facts-"

# Asks at each socket of a launcher for facts, until its input ends. Counts the answers.
CURIOUS = r"""
import select, socket, sys
asked = answers = 0
while not select.select([sys.stdin], [], [], 0.01)[0]:
    for line in open("/proc/net/unix").read().splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or not fields[7].startswith("@ferrywire-facts-") or not int(fields[3], 16) & 0x10000:
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.settimeout(2)
            try:
                door.connect("\0" + fields[7][1:])
                asked += 1
                door.send(b"a")
                answers += bool(door.recv(1))
            except OSError:
                pass
print(f"asked={asked} answers={answers}")
"""

DECOY = """
import socket, time
decoys = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)]
decoys[1].bind("")
decoys[1].listen()
print("ready", flush=True)
time.sleep(60)
"""

# Connects to every join socket repeatedly: claims a false identity, sends too little, too much, the same twice, or
# nothing, and keeps connections that are not closed, until its input ends. Counts the answers.
STRANGER = r"""
import os, resource, select, socket, struct, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
hello = struct.pack("<I4sHHIQ", 1, b"FMET", 1, 1, os.getpid(), 4096)
welcome = struct.pack("<I4sHH", 1, b"FMET", 1, 2) + bytes(24)
words = [[hello], [hello] * 10, [hello[:7]], [hello[:4]], [b""], [os.urandom(300)], [os.urandom(100000)], [welcome],
         [struct.pack("<I4sHHi", 1, b"FMET", 1, 5, 7) + b"\xff" * 60000],
         [struct.pack("<I4sHHIQ", 2**32 - 1, b"FMET", 9, 1, 1, 1)], []]
joins = answers = refused = silent = 0
kept, names, over = [], set(), False
while not over:
    over = bool(select.select([sys.stdin], [], [], 0)[0])
    for line in open("/proc/net/unix").read().splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or not fields[7].startswith("@") or not int(fields[3], 16) & 0x10000:
            continue
        for _ in range(100):
            door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            door.setblocking(False)
            try:
                door.connect("\0" + fields[7][1:])
            except OSError:
                refused += 1
                break
            names.add(fields[7])
            joins += 1
            said = words[joins % len(words)]
            silent += not said
            try:
                for word in said:
                    door.send(word)
            except OSError:
                pass
            kept.append(door)
            while len(kept) > most - 100:
                kept.pop(0)
    if joins % 1600 == 0 or over:
        still = []
        for door in kept:
            try:
                heard = door.recv(65536)
                answers += bool(heard)
                door.close()
            except BlockingIOError:
                still.append(door)
            except OSError:
                door.close()
        kept = still
print(f"doors={len(names)} joins={joins} silent={silent} full={refused} left_open={len(kept)} answers={answers}")
"""

"""What another user can find out about a running job, and what a tap on the network can: nothing."""

import base64
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import threading
import time

from doors import MPIEXEC, PYTHON, as_nobody
from network import FERRY, ROOT, compiled, found_processes

SECONDS_MAX = 60
# Where else another user would look.
FOLDERS = ["/dev/shm", "/dev/mqueue", "/tmp", "/var/tmp", "/run"]

# Reaches a host, and records what the launcher sends to the daemon there.
LISTENING_RSH = """#!/bin/sh
umask 077
tee "{folder}/$1" | ip netns exec "$@"
"""

# Sends what it has read to each client of its socket.
BLABS = """
import socket
told = bytes.fromhex(input())
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.bind("")
door.listen()
print(flush=True)
while True:
    rank = door.accept()[0]
    rank.send(told)
"""

# Reaches a host for mpiexec, which names hosts by address.
RSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host={mark}-${{1##*.}}
shift
exec ip netns exec "$host" sh -c "$*"
"""


def secrets(network, folder, report):
    # A folder of the user that others may look into, like many home directories.
    with tempfile.TemporaryDirectory(prefix="ferrywire-secrets-") as home:
        home = pathlib.Path(home)
        home.chmod(0o755)
        program = compiled(home, ROOT / "tests" / "hosts.d" / "whisper.c")
        decoys(network, home, report)
        on_hosts(network, folder, home, program, report)
        with Job([FERRY, "run", "-n", "2", program], home) as job:
            tell(network, home, report, "on one machine", job.begun, [("what was said", job.whispered)])
        if MPIEXEC.exists():
            under_mpiexec(network, folder, home, program, report)
        else:
            print("no mpiexec of MPICH (bench/peers/install): secrets are not looked for under it")


def on_hosts(network, folder, home, program, report):
    """Learns the secret from the pipe to a daemon, which only root and the user can read."""
    heard = folder / "heard"
    heard.mkdir(mode=0o700)
    rsh = script(home / "listening_rsh", LISTENING_RSH.format(folder=heard))
    for options in ([], ["--insecure"]):
        command = network.command(2, *options, program, hosts=network.hosts[:2], rail="udp")
        command[command.index("ip netns exec")] = rsh
        with Tap(f"{network.bridge}v1") as tap, Job(command, home) as job:
            said = (heard / network.hosts[0]).read_bytes()
            secret = bytes(json.loads(re.search(rb'"secret":(\[[\d,]+\])', said).group(1)))
            if not options:
                needles = [("the secret", secret), ("what was said", job.whispered)]
                tell(network, home, report, "on hosts", job.begun, needles)
            else:
                time.sleep(0.2)
        packets = b"".join(tap.packets)
        leaked, understood = is_in(packets, secret), is_in(packets, job.whispered)
        # Unsealed traffic must be found: that shows that the tap works.
        good = not leaked and understood == bool(options) and len(packets) > 1000
        report.tell(f"secrets: on the network {' '.join(options)}", good,
                    f"{len(packets)} bytes heard; the secret is {'' if leaked else 'not '}there, "
                    f"what was said is {'' if understood else 'not '}there")


def under_mpiexec(network, folder, home, program, report):
    """The secret is in the KVS of mpiexec, and so in the memory of that program."""
    rsh = script(home / "mpiexec_rsh", RSH.format(mark=network.bridge))
    command = ["ip", "netns", "exec", network.hosts[0], MPIEXEC, "-iface", "eth0", "-launcher", "ssh", "-launcher-exec", rsh,
               "-hosts", "10.78.0.1,10.78.0.2", "-ppn", "1", "-n", "2", program]
    with Tap(f"{network.bridge}v1") as tap, Job(command, home) as job:
        pids = [pid for path in (MPIEXEC, MPIEXEC.parent / "hydra_pmi_proxy", program) for pid in found_processes(str(path))]
        words = {word for pid in pids for word in re.findall(rb"\b\d{1,10}-([0-9a-f]{64})\b", b"".join(memory(pid)))}
        needles = [("the secret", bytes.fromhex(word.decode())) for word in words]
        tell(network, home, report, f"under mpiexec, {len(needles)} secrets", job.begun,
             [*needles, ("what was said", job.whispered)], good=bool(needles))
    packets = b"".join(tap.packets)
    report.tell("secrets: on the network, under mpiexec", not is_in(packets, job.whispered), f"{len(packets)} bytes heard")
    if any(is_in(packets, needle) for _, needle in needles):
        print("      known (decision 0027): mpiexec carries the secret from host to host in the clear, over its own connections")


def decoys(network, home, report):
    """Secrets that anybody can find, each in another place, are found; one that no other user may read is not."""
    begun = time.time() - 1
    decoy = {name: os.urandom(32) for name in ("file", "memory", "argument", "environment", "socket", "closed")}
    (home / "open").write_text(f"the key is {base64.b64encode(decoy['file']).decode()}\n")
    closed = home / "closed"
    closed.write_bytes(decoy["closed"])
    closed.chmod(0o600)
    shared = pathlib.Path(f"/dev/shm/ferrywire-decoy-{os.getpid()}")
    shared.write_bytes(bytes(1000) + decoy["memory"])
    host = network.hosts[0]
    sleeps, environment = "import time; time.sleep(60)", {**os.environ, "DECOY": decoy["environment"].hex()}
    processes = [subprocess.Popen([PYTHON, "-c", sleeps, decoy["argument"].hex()]),
                 subprocess.Popen(as_nobody(host, sleeps), env=environment),
                 subprocess.Popen(["ip", "netns", "exec", host, PYTHON, "-c", BLABS],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)]
    try:
        processes[2].stdin.write(decoy["socket"].hex() + "\n")
        processes[2].stdin.flush()
        processes[2].stdout.readline()
        found = {line.split(" in ")[0] for line in scan(host, begun, decoy.items(), [*FOLDERS, home])["found"]}
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shared.unlink()
        closed.unlink()
    report.tell("secrets: decoys", found == set(decoy) - {"closed"},
                f"found: {', '.join(sorted(found))}; not found: {', '.join(sorted(set(decoy) - found))}")


def tell(network, home, report, where, begun, needles, good=True):
    """Searches as another user, on both hosts and where the launcher is. They share their files."""
    told = [scan(host, begun, needles, []) for host in network.hosts[:2]]
    told.append(scan(None, begun, needles, [*FOLDERS, home, os.getcwd()]))
    found = sorted({line for one in told for line in one["found"]})
    total = {key: sum(one[key] for one in told) for key in ("processes", "read", "denied", "files", "sockets", "spoke")}
    good = good and not found and total["processes"] > 0 and {one["uid"] for one in told} == {65534}
    report.tell(f"secrets: {where}", good, "; ".join(found) or
                "nothing in {processes} processes ({read} of their files read, {denied} denied), {files} new files, "
                "{sockets} sockets tried of which {spoke} spoke".format(**total))


def scan(host, begun, needles, folders):
    words = as_nobody(host or "", (ROOT / "tests" / "hosts.d" / "scan.py").read_text(), begun, *folders)
    # Without a host, in our own namespace.
    words = words if host else words[words.index("setpriv"):]
    text = json.dumps([(name, form.hex()) for name, needle in needles for form in forms_of(needle)])
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def forms_of(needle):
    """Half of the secret in every encoding: finding half would be too much."""
    forms = []
    for half in (needle[:16], needle[16:]):
        numbers = [str(byte) for byte in half]
        texts = [half.hex(), half.hex().upper(), ",".join(numbers), ", ".join(numbers)]
        forms += [half, *(text.encode() for text in texts)]
    for before in range(3):
        # What precedes it shifts the letters. The first and the last letters depend on neighbours.
        text = base64.b64encode(bytes(before) + needle).rstrip(b"=")[4:-2]
        forms += [text, text.replace(b"+", b"-").replace(b"/", b"_")]
    return forms


def is_in(text, needle):
    return any(form in text for form in forms_of(needle))


class Job:
    """A job of tests/hosts.d/whisper.c that has printed its secret."""

    def __init__(self, command, home):
        self.over, self.begun = home / "over", time.time() - 1
        self.process = subprocess.Popen([*map(str, command), self.over], cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line.startswith("whisper "):
            self.process.kill()
            raise RuntimeError(line + self.process.communicate()[1])
        self.whispered = bytes.fromhex(line.split()[1])
        return self

    def __exit__(self, *_):
        self.over.touch()
        _, trouble = self.process.communicate(timeout=SECONDS_MAX)
        self.over.unlink()
        if self.process.returncode:
            raise RuntimeError(trouble)


class Tap:
    """Captures all traffic on a cable."""

    def __init__(self, cable):
        self.cable, self.packets, self.over = cable, [], False

    def __enter__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((self.cable, 0))
        self.socket.settimeout(0.1)
        self.thread = threading.Thread(target=self.hear)
        self.thread.start()
        return self

    def hear(self):
        while not self.over:
            with contextlib.suppress(TimeoutError):
                self.packets.append(self.socket.recv(1 << 17))

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.socket.close()


def memory(pid):
    """All private writable memory of a process, piece by piece."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as bytes_of:
        for line in maps:
            place, rights = line.split()[:2]
            start, end = (int(word, 16) for word in place.split("-"))
            if rights.startswith("rw") and end - start < 256 << 20:
                with contextlib.suppress(OSError, ValueError):
                    bytes_of.seek(start)
                    yield bytes_of.read(end - start)


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)

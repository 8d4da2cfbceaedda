"""Attackers send datagrams that no rank may accept to the port of a running job."""

import ctypes
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

from network import FERRY, RELEASE, ROOT, compiled, found_processes, ip, run

PORT = 47000
RANKS = 4
# How long the job is watched without an attack, short or long; and the most with one.
QUIET_SECONDS = {True: 1, False: 5}
ATTACK_SECONDS = 1800
# The most that a rank or a daemon may grow under attack.
GROWTH_KB_MAX = 4096
# Attackers send from ports that only root has, and ranks send to the port of the job only: any packet to another port
# answers a stranger; so does any ICMP message.
COUNTERS = f"""
add table inet attack
add chain inet attack in {{ type filter hook input priority 0; }}
add chain inet attack out {{ type filter hook output priority 0; }}
add rule inet attack in udp dport {PORT} udp sport < 1024 counter
add rule inet attack out udp dport != {PORT} counter
add rule inet attack out ip protocol icmp counter
"""


def attack(network, folder, count, report):
    if not shutil.which("nft") or len(network.hosts) < 3:
        print("attacks are counted with nft, and take three hosts: not tested")
        return
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    over, short = folder / "attack-is-over", count < 1_000_000

    def command(seconds):
        # Two ranks on each host, so that local ranks can be confused.
        words = ["--port-range", f"{PORT}-{PORT}", program, seconds, 0, over]
        return network.command(RANKS, *words, hosts=network.hosts[:2], rail="udp")

    def quiet():
        good, _, said = run(command(QUIET_SECONDS[short]), report)
        return goodput(said) if good else 0.0

    victim, before = network.hosts[0], quiet()
    disguise(network.hosts[2], "10.78.0.2")
    counters(victim, COUNTERS)
    job = subprocess.Popen(command(ATTACK_SECONDS), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        pids = {"daemon": when_there(f"{FERRY}\0daemon", 2, job.pid), "rank": when_there(str(program), RANKS)}
        first = Look(pids)
        sent = besiege(network, count, report)
        lasted = job.poll() is None
        last = Look(pids) if lasted else first
    finally:
        over.touch()
        said = job.communicate(timeout=60)[0]
        over.unlink()
    came, answered, messages = counters(victim, "list table inet attack")
    counters(victim, "delete table inet attack")
    during, after = goodput(said), quiet()
    report.tell("attack: the job, every byte right", lasted and job.returncode == 0 and min(before, during, after) > 0,
                f"{before:.1f} MB/s before, {during:.1f} MB/s during, {after:.1f} MB/s after")
    if job.returncode:
        print(said[-3000:])
    report.tell("attack: no answers", sent == count and came > 0 and answered + messages == 0,
                f"{sent} sent, {came} packets came, {last.full - first.full} of all found a socket full; "
                f"{answered} answers and {messages} messages of ICMP left the host")
    for kind in pids:
        grown = last.own_kb(kind) - first.own_kb(kind)
        report.tell(f"attack: memory of each {kind}", grown <= GROWTH_KB_MAX,
                    f"{grown:+} KB, now {last.own_kb(kind)} KB of its own, {last.most_kb(kind)} KB in all at any time")
    # Frames of another local rank in a batch switch GRO off for the socket, unless they are repeats.
    report.tell("attack: sockets where trains are joined", last.joining == first.joining > 0, f"{last.joining} of {first.joining}")


def impostors(network, folder, count, report):
    """In an unsealed job, an attacker that hears the traffic forges frames of ranks on the victim's own host."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    over = folder / "impostors-are-over"
    words = ["--insecure", "--port-range", f"{PORT}-{PORT}", program, ATTACK_SECONDS, 0, over]
    job = subprocess.Popen(network.command(RANKS, *words, hosts=network.hosts[:2], rail="udp"), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    attack_words = [str(RELEASE / "examples" / "attack"), f"10.78.0.1:{PORT}", str(count), "listen", "near", "2"]
    try:
        when_there(str(program), RANKS)
        done = subprocess.run(["ip", "netns", "exec", network.hosts[0], *attack_words], stdout=subprocess.PIPE, text=True,
                              timeout=ATTACK_SECONDS)
        lasted = job.poll() is None
    finally:
        over.touch()
        said = job.communicate(timeout=60)[0]
        over.unlink()
    report.tell("attack: in the names of neighbours, --insecure", done.returncode == 0 and lasted and job.returncode == 0,
                f"{goodput(said):.1f} MB/s, every byte right; {done.stdout.strip()}")
    if job.returncode:
        print(said[-3000:])


def besiege(network, count, report):
    """Half of the attacks come from one that hears the job, a quarter each from a stranger and from a host address."""
    victim, stranger = network.hosts[0], network.hosts[2]
    ways = {"a stranger": (stranger, count // 4, []),
            "one with the address of a host": (stranger, count // 4, ["as", "10.78.0.2"]),
            "one who hears the job": (victim, count - 2 * (count // 4), ["listen"])}
    words = [str(RELEASE / "examples" / "attack"), f"10.78.0.1:{PORT}"]
    attackers = {who: subprocess.Popen(["ip", "netns", "exec", host, *words, str(share), *more],
                                       stdout=subprocess.PIPE, text=True)
                 for who, (host, share, more) in ways.items()}
    total = 0
    try:
        for who, attacker in attackers.items():
            told = attacker.communicate(timeout=ATTACK_SECONDS)[0].strip()
            figures = dict(re.findall(r"(\w+)=(\d+)", told))
            total += int(figures.get("sent", 0))
            report.tell(f"attack: by {who}", attacker.returncode == 0 and figures.get("answers") == "0", told)
    finally:
        for attacker in attackers.values():
            attacker.kill()
            attacker.wait()
    return total


class Look:
    """The observable state of a job at one moment."""

    def __init__(self, pids):
        self.memory = {kind: [memory(pid) for pid in numbers] for kind, numbers in pids.items()}
        self.joining = sum(joins(pid) for pid in pids["daemon"])
        self.full = sum(found_full(pid) for pid in pids["daemon"])

    def own_kb(self, kind):
        return max(own for own, _ in self.memory[kind])

    def most_kb(self, kind):
        return max(most for _, most in self.memory[kind])


def when_there(beginning, count, parent=None):
    """The processes whose command line begins with this, once there are `count` and they have settled."""
    until = time.monotonic() + 30
    while len(found_processes(beginning, parent)) < count and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)
    return found_processes(beginning, parent)


def goodput(said):
    found = re.search(r"MB_per_s=([\d.]+)", said)
    return float(found.group(1)) if found else 0.0


def disguise(host, address):
    """Gives a host the address of another one to send from, unannounced, so that the other still gets its packets."""
    ip("netns", "exec", host, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
    ip("-n", host, "addr", "replace", f"{address}/32", "dev", "lo")


def counters(host, words):
    """Runs a command of a host's packet filter; returns the packet counters that it prints."""
    done = subprocess.run(["ip", "netns", "exec", host, "nft", "-f", "-"], input=words, text=True, check=True,
                          stdout=subprocess.PIPE)
    return [int(number) for number in re.findall(r"counter packets (\d+)", done.stdout)]


def memory(pid):
    """KB of private memory of a process, and its peak of all memory."""
    told = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text() + pathlib.Path(f"/proc/{pid}/status").read_text()
    return [int(re.search(rf"{key}:\s+(\d+)", told).group(1)) for key in ("Private_Dirty", "VmHWM")]


def found_full(pid):
    """Number of datagrams dropped at full sockets, on the host of a process."""
    table = pathlib.Path(f"/proc/{pid}/net/snmp").read_text().splitlines()
    names, values = [line.split() for line in table if line.startswith("Udp:")]
    return int(values[names.index("RcvbufErrors")])


def joins(pid):
    """Number of sockets of a process at the port for which GRO is on."""
    table = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]]
    wanted = {f"socket:[{words[9]}]" for words in table if words[1].endswith(f":{PORT:04X}")}
    numbers = [int(entry.name) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir() if os.readlink(entry) in wanted]
    return sum(is_joined(pid, number) for number in numbers)


def is_joined(pid, number):
    watched = os.pidfd_open(pid)
    copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, watched, number, 0)
    os.close(watched)
    with socket.socket(fileno=copy) as found:
        return found.getsockopt(socket.IPPROTO_UDP, UDP_GRO)


PIDFD_GETFD = 438
UDP_GRO = 104

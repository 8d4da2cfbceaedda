"""Strangers send what no rank may accept to the port of a job, while it runs."""

import ctypes
import os
import pathlib
import re
import socket
import subprocess
import time

from network import FERRY, RELEASE, ROOT, compiled, found_processes, ip, run

PORT = 47000
# How long the job is watched without an attack, and with one at most.
QUIET_SECONDS = 4
ATTACK_SECONDS = 1800
# What a rank or an agent may grow by while it is attacked.
GROWTH_KB_MAX = 4096
# All that leaves the port for another one is an answer to somebody who is not of the job; so is any message of the network.
COUNTERS = f"""
add table inet attack
add chain inet attack in {{ type filter hook input priority 0; }}
add chain inet attack out {{ type filter hook output priority 0; }}
add rule inet attack in udp dport {PORT} udp sport != {PORT} counter
add rule inet attack out udp sport {PORT} udp dport != {PORT} counter
add rule inet attack out ip protocol icmp counter
"""


def attack(network, folder, count, report):
    """Half of it by one who hears the job, and a quarter each by a stranger and one with the address of a host."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    victim, _, stranger = network.hosts[:3]
    over = folder / "attack-is-over"

    def command(seconds):
        words = ["--port-range", f"{PORT}-{PORT}", program, seconds, over]
        return network.command(4, *words, hosts=network.hosts[:2], rail="udp")

    def quiet():
        good, _, said = run(command(QUIET_SECONDS), report)
        return goodput(said) if good else 0.0

    before_it = quiet()
    disguise(stranger, "10.78.0.2")
    counters(victim, COUNTERS)
    words = [str(RELEASE / "examples" / "attack"), f"10.78.0.1:{PORT}"]
    job = subprocess.Popen(command(ATTACK_SECONDS), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        time.sleep(1)
        pids = {"rank": found_processes(str(program)), "agent": found_processes(f"{FERRY}\0agent", parent=job.pid)}
        before, full = memory(pids), rejected_by_kernel(pids["agent"][0])
        joining = joins(pids)
        shares = [(stranger, count // 4, []), (stranger, count // 4, ["as", "10.78.0.2"]),
                  (victim, count - 2 * (count // 4), ["listen"])]
        attackers = [subprocess.Popen(["ip", "netns", "exec", host, *words, str(share), *more], stdout=subprocess.PIPE, text=True)
                     for host, share, more in shares]
        told = [attacker.communicate(timeout=ATTACK_SECONDS)[0].strip() for attacker in attackers]
        lasted = job.poll() is None
        after, full = memory(pids), rejected_by_kernel(pids["agent"][0]) - full
        joining = f"{joins(pids)} of {joining}"
    finally:
        over.touch()
        said = job.communicate(timeout=60)[0]
        over.unlink()
    came, answered, messages = counters(victim, "list table inet attack")
    counters(victim, "delete table inet attack")
    for line in told:
        report.tell("attack: " + line.split()[0], line.startswith("attack sent="), line)
    sent = sum(int(number) for line in told for number in re.findall(r"sent=(\d+)", line))
    answers = sum(int(number) for line in told for number in re.findall(r"answers=(\d+)", line))
    flood, after_it = goodput(said), quiet()
    report.tell("attack: the job, every byte right", lasted and job.returncode == 0 and min(before_it, flood, after_it) > 0,
                f"{before_it:.1f} MB/s before, {flood:.1f} MB/s during, {after_it:.1f} MB/s after")
    if job.returncode:
        print(said[-3000:])
    report.tell("attack: no answers", sent == count and came > 0 and answers + answered + messages == 0,
                f"{sent} sent, {came} packets came, {full} of all found a socket full, "
                f"{answers} answers heard, {answered} and {messages} of ICMP left the host")
    for kind, numbers in pids.items():
        grown = max(after[pid][0] - before[pid][0] for pid in numbers)
        dirty, high = (max(after[pid][at] for pid in numbers) for at in (0, 1))
        report.tell(f"attack: memory of each {kind}", grown <= GROWTH_KB_MAX,
                    f"at most {grown} KB more, now {dirty} KB of its own, {high} KB at most at any time")
    report.tell("attack: sockets where trains are joined", True, joining)


def goodput(said):
    found = re.search(r"MB_per_s=([\d.]+)", said)
    return float(found.group(1)) if found else 0.0


def disguise(host, address):
    """Gives a host an address of another one, to send from: nobody is told, so that what is for the other still gets there."""
    ip("netns", "exec", host, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
    ip("-n", host, "addr", "replace", f"{address}/32", "dev", "lo")


def counters(host, words):
    """Says this to the packet filter of a host; the numbers of packets that it tells."""
    done = subprocess.run(["ip", "netns", "exec", host, "nft", "-f", "-"], input=words, text=True, check=True, stdout=subprocess.PIPE)
    return [int(number) for number in re.findall(r"counter packets (\d+)", done.stdout)]


def memory(pids):
    """Of each process, KB that are its own, and the most that it has had."""
    found = {}
    for pid in sum(pids.values(), []):
        told = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text() + pathlib.Path(f"/proc/{pid}/status").read_text()
        found[pid] = [int(re.search(rf"{key}:\s+(\d+)", told).group(1)) for key in ("Private_Dirty", "VmHWM")]
    return found


def rejected_by_kernel(pid):
    """How many datagrams have found a socket full, on the host of a process."""
    names, values = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/snmp").read_text().splitlines() if line.startswith("Udp:")]
    return int(values[names.index("RcvbufErrors")])


def joins(pids):
    """How many sockets of the job there are at the port for which the kernel hands trains over in one piece."""
    count = 0
    for pid in pids["agent"]:
        table = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/udp").read_text().splitlines()[1:]]
        wanted = {f"socket:[{words[9]}]" for words in table if words[1].endswith(f":{PORT:04X}")}
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            if os.readlink(entry) in wanted:
                count += joined(pid, int(entry.name))
    return count


def joined(pid, number):
    watched = os.pidfd_open(pid)
    copy = ctypes.CDLL(None).syscall(PIDFD_GETFD, watched, number, 0)
    os.close(watched)
    with socket.socket(fileno=copy) as found:
        return found.getsockopt(socket.IPPROTO_UDP, UDP_GRO)


PIDFD_GETFD = 438
UDP_GRO = 104

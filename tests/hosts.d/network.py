"""Hosts as network namespaces, and jobs on them, for all tests and benchmarks with several hosts."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "release"
FERRY = RELEASE / "ferry"
# The most time for a job.
JOB_SECONDS = 120


class Network:
    """Hosts as network namespaces on a bridge, with IPv4 addresses or, with `six`, only IPv6. Removed at the end.

    A virtual cable carries up to 64 KB in one piece, which only a receiver would cut. With `one_by_one` the sender
    cuts it, and packets are as long as on a wire."""

    def __init__(self, count, rail=None, one_by_one=False, name="fw", six=False):
        self.rail, self.one_by_one, self.six = rail, one_by_one, six
        mark = f"{name}{os.getpid() % 100000}"
        self.bridge = mark
        self.hosts = [f"{mark}-{number}" for number in range(1, count + 1)]

    def __enter__(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for number, host in enumerate(self.hosts, 1):
            cable = f"{self.bridge}v{number}"
            ip("netns", "add", host)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", host)
            ip("link", "set", cable, "master", self.bridge, "up")
            if self.one_by_one:
                ip("-n", host, "link", "set", "eth0", "gso_max_segs", "1")
            address(host, f"fd78::{number:x}" if self.six else f"10.78.{number // 256}.{number % 256}")
        return self

    def __exit__(self, *_):
        for number, host in enumerate(self.hosts, 1):
            # Unanswered connections keep a namespace alive for minutes, and with it its end of the cable.
            ip("link", "del", f"{self.bridge}v{number}", check=False)
            ip("netns", "del", host, check=False)
        ip("link", "del", self.bridge, check=False)

    def lose(self, percent):
        """Drops this percentage of the packets that arrive at each host, until changed."""
        for host in self.hosts:
            rules = ["flush ruleset"]
            if percent:
                rules += ["add table inet lossy",
                          "add chain inet lossy input { type filter hook input priority 0; }",
                          f"add rule inet lossy input iifname eth0 numgen random mod 1000 < {percent * 10} drop"]
            subprocess.run(["ip", "netns", "exec", host, "nft", "-f", "-"], input="\n".join(rules), text=True, check=True)

    @contextlib.contextmanager
    def cut(self, at):
        """Pulls the cable of a host for the duration of the context."""
        cable = f"{self.bridge}v{at + 1}"
        ip("link", "set", cable, "down")
        try:
            yield
        finally:
            ip("link", "set", cable, "up")

    def react(self, name):
        """Sets the congestion control of TCP on all hosts."""
        for number, host in enumerate(self.hosts, 1):
            # By the route: the setting of a namespace takes only what the machine allows to all users.
            route = ["10.78.0.0/16", "dev", "eth0", "proto", "kernel", "scope", "link", "src", f"10.78.0.{number}"]
            ip("-n", host, "route", "change", *route, "congctl", name)

    def carried(self):
        """Bytes that have arrived at all hosts."""
        count = ["cat", "/sys/class/net/eth0/statistics/rx_bytes"]
        return sum(int(subprocess.run(["ip", "netns", "exec", host, *count], capture_output=True, check=True).stdout) for host in self.hosts)

    def sweep(self):
        """Kills everything that still runs on the hosts."""
        for host in self.hosts:
            left = subprocess.run(["ip", "netns", "pids", host], capture_output=True, text=True, check=True).stdout
            for pid in map(int, left.split()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def command(self, ranks, *words, hosts=None, rail=None):
        """The command line of a job."""
        names, rail = ",".join(hosts or self.hosts), rail or self.rail
        rail = ["--rail", rail] if rail else []
        return [str(FERRY), "run", "--rsh", "ip netns exec", *rail, "--hosts", names, "-n", str(ranks), *map(str, words)]


class Road(Network):
    """Two hosts whose cables end in a third namespace, where crates/host/examples/proxy.rs forwards packets."""

    def __init__(self, rail=None):
        super().__init__(2, rail, one_by_one=True)
        self.middle = f"{self.bridge}-m"
        self.hosts = [f"{self.bridge}-r{number}" for number in (1, 2)]

    def __enter__(self):
        ip("netns", "add", self.middle)
        for number, host in enumerate(self.hosts, 1):
            ip("netns", "add", host)
            ip("link", "add", f"to{number}", "netns", self.middle, "type", "veth", "peer", "name", "eth0", "netns", host)
            ip("-n", self.middle, "link", "set", f"to{number}", "up")
            ip("-n", host, "link", "set", "eth0", "gso_max_segs", "1")
            address(host, f"10.78.0.{number}")
        return self

    def __exit__(self, *_):
        for host in [*self.hosts, self.middle]:
            ip("netns", "del", host, check=False)

    @contextlib.contextmanager
    def drive(self, seed, **rules):
        """Forwards packets by these rules. The returned list has the counts when it is over."""
        words = [word for name, number in rules.items() for word in (f"--{name}", str(number))]
        proxy = subprocess.Popen(["ip", "netns", "exec", self.middle, RELEASE / "examples" / "proxy", "to1", "to2", "--seed", str(seed), *words],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = []
        try:
            yield told
        finally:
            told += proxy.communicate()[0].split()[1:]


class Cable:
    """Two hosts with a cable between them, for benchmarks. Removed at the end."""

    def __init__(self):
        mark = f"fwb{os.getpid() % 100000}"
        self.hosts = [f"{mark}-1", f"{mark}-2"]
        self.addresses = ["10.79.0.1", "10.79.0.2"]

    def __enter__(self):
        for host in self.hosts:
            ip("netns", "add", host)
        ip("link", "add", "eth0", "netns", self.hosts[0], "type", "veth", "peer", "name", "eth0", "netns", self.hosts[1])
        for host, number in zip(self.hosts, self.addresses):
            address(host, number)
        return self

    def __exit__(self, *_):
        for host in self.hosts:
            ip("netns", "del", host, check=False)

    def inside(self, at, *words):
        return ["ip", "netns", "exec", self.hosts[at], *map(str, words)]


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, stderr=None if check else subprocess.DEVNULL)


def address(host, number):
    """Gives a host at the end of a cable an address, and enables its interfaces."""
    # Skip duplicate address detection of IPv6, which takes a second.
    of_six = ":" in number
    ip("-n", host, "addr", "add", f"{number}/{64 if of_six else 16}", "dev", "eth0", *(["nodad"] if of_six else []))
    ip("-n", host, "link", "set", "eth0", "up")
    ip("-n", host, "link", "set", "lo", "up")


class Report:
    def __init__(self, verbose):
        self.verbose, self.wrong = verbose, 0

    def tell(self, name, good, detail=""):
        self.wrong += not good
        print(f"{'ok   ' if good else 'WRONG'} {name:44} {detail}".rstrip(), flush=True)


def run(command, report, limit=JOB_SECONDS, code=0):
    """Whether a job ended with this exit code, how long it took, and its output."""
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        good, said = done.returncode == code, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        good, said = False, f"not over after {limit} s\n{(error.stdout or b'').decode()}"
    if report.verbose or not good:
        print(said[-3000:], end="")
    return good, time.monotonic() - begun, said


def compiled(folder, source):
    program = folder / source.stem
    subprocess.run([FERRY, "cc", "-O2", "-I", source.parent, source, "-o", program, "-lpthread"], check=True)
    return program


def parent_of(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def found_processes(beginning, parent=None):
    """Processes whose command line begins with this, of one parent if it is given."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                # Zombies do not count.
                state, above = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            wanted = parent is None or int(above) == parent
            if line.startswith(beginning) and state not in "ZX" and wanted:
                found.append(int(entry.name))
    return found

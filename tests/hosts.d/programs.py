"""Programs with known results, on several hosts, on each rail."""

import json
import pathlib
import re
import subprocess

from network import FERRY, RELEASE, ROOT, Network, compiled, run

PROGRAMS = ["hello", "ring", "messages", "collectives", "datatypes", "objects", "topologies", "windows", "counters",
            "sessions", "partitioned", "files", "processes"]
EXAMPLES = ["pi", "stencil", "work_queue", "shared_counter"]
# The provider for shared memory works because these hosts are one machine.
PROVIDERS = ["tcp", "udp;ofi_rxd", "shm"]
SHARED = pathlib.Path("/dev/shm")
# Idle time, and the share of a core that a rank may take meanwhile, on a machine that has other work.
IDLE_SECONDS = 1
IDLE_PERCENT_MAX = 5


def programs(network, folder, report):
    for name in PROGRAMS:
        program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / f"{name}.c")
        for ranks in (2, len(network.hosts) + 2):
            good, seconds, _ = run(network.command(ranks, program), report)
            report.tell(f"{name}, {ranks} ranks", good, f"{seconds:.2f} s")
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "places.c")
    ranks = len(network.hosts)
    words = (program, 0, ":", "-n", ranks, program, 1)
    good, seconds, _ = run(network.command(ranks, *words), report)
    report.tell(f"places, {ranks} and {ranks} ranks", good, f"{seconds:.2f} s")
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "splits.c")
    for each in (1, 2, 3):
        ranks = each * len(network.hosts)
        good, seconds, _ = run(network.command(ranks, program, each), report)
        report.tell(f"splits, {ranks} ranks", good, f"{seconds:.2f} s")
    for name in EXAMPLES:
        ranks = 2 * len(network.hosts)
        for options in ([], ["--insecure"]):
            good, seconds, _ = run(network.command(ranks, *options, RELEASE / "examples" / name), report)
            report.tell(f"{name}, {ranks} ranks {' '.join(options)}", good, f"{seconds:.2f} s")


def idle(network, folder, report):
    """Idle ranks take no CPU time, whether sleeping outside MPI or waiting in it."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "idle.c")
    for ranks in (2, 2 * len(network.hosts)):
        good, _, said = run(network.command(ranks, program, IDLE_SECONDS), report)
        percent = [float(line.split("=")[1]) for line in said.splitlines() if line.startswith("idle percent=")]
        good = good and bool(percent) and percent[0] <= IDLE_PERCENT_MAX
        report.tell(f"idle, {ranks} ranks", good, f"{percent[0]:.2f} % of a core at most" if percent else "")


def six(folder, rails, report):
    """Hosts with IPv6 addresses only."""
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "messages.c")
    with Network(2, name="f6", six=True) as network:
        for rail in rails:
            for options in ([], ["--cidr", "fd78::/64"], ["--insecure"]):
                good, seconds, _ = run(network.command(4, *options, program, rail=rail), report)
                report.tell(f"IPv6, messages, 4 ranks, {rail} {' '.join(options)}", good, f"{seconds:.2f} s")
        done = subprocess.run(network.command(4, "--cidr", "10.0.0.0/8", program), capture_output=True, text=True)
        refused = done.returncode == 1 and "10.0.0.0/8" in done.stderr
        report.tell("IPv6, a network that no host is in is refused", refused, "" if refused else done.stderr.strip())


def providers():
    """The providers of libfabric that support messages here, without layered ones."""
    there = subprocess.run([FERRY, "info", "--json"], capture_output=True, text=True, check=True).stdout
    return {name.split(";")[0] for name in json.loads(there)["fabric"]["providers"]}


def fabric(network, folder, report, names):
    there = providers()
    before = set(SHARED.iterdir())
    for provider in PROVIDERS:
        rail = f"fabric:{provider}"
        if provider.split(";")[0] not in there:
            print(f"not tested: libfabric has no provider {provider} here")
            continue
        for name in names:
            program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / f"{name}.c")
            for ranks in (2, len(network.hosts) + 2):
                good, seconds, _ = run(network.command(ranks, program, rail=rail), report)
                report.tell(f"{name}, {ranks} ranks, {rail}", good, f"{seconds:.2f} s")
    # The provider for shared memory leaves a file for each rank (decision 0026), named after its process.
    for file in set(SHARED.iterdir()) - before:
        if re.fullmatch(r"\d+:\d+:\d+", file.name):
            file.unlink()
    done = subprocess.run(network.command(2, "true", rail="fabric:nothing"), capture_output=True, text=True)
    refused = done.returncode == 1 and "--rail fabric:nothing: libfabric" in done.stderr
    report.tell("a provider that is not there is refused", refused, done.stderr.strip() if not refused else "")
    unsealed(network, folder, there, report)


def unsealed(network, folder, there, report):
    """A job that is not sealed says so when it begins, and only then; with sealing required, it is refused."""
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "hello.c")
    rails = ["auto", "udp", *(["fabric:tcp"] if "tcp" in there else [])]
    for rail in rails:
        command = network.command(2, program, hosts=network.hosts[:2], rail=rail)
        done = subprocess.run(command, capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if "neither encrypted nor authenticated" in line]
        good = done.returncode == 0 and len(lines) == rail.startswith("fabric")
        report.tell(f"what is not sealed is told, {rail}", good, done.stderr.strip())
    for option in ("--insecure", "--trust-fabric", "--rail=fabric:tcp"):
        done = subprocess.run([FERRY, "run", "--sealed", option, "true"], capture_output=True, text=True)
        refused = done.returncode != 0 and "--sealed forbids" in done.stderr
        report.tell(f"--sealed {option} is refused", refused, done.stderr.strip())

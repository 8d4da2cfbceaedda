"""Traces of jobs on several hosts: what is in them, and whether their times are as right as they say.

Namespaces share the clock of the machine, by which the program says when it sent its messages. So it is known how wrong
the times in the trace are, also of a host whose monotonic clock is shifted, and over delayed connections."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import time

from network import FERRY, ROOT, compiled, found_processes, run

ROUNDS = 50
# What makes the monotonic clock of a host another.
SHIFTED = ["unshare", "--time", "--monotonic", "100000", "--fork", "--kill-child"]
# The time that may pass between two readings of clocks in a row, even on a machine that is busy, in the best of ROUNDS.
READING_NS = 20_000
# The most time until reapers have removed what was recorded.
GONE_SECONDS = 10
DELAYED = ROOT / "tests" / "hosts.d" / "delayed.py"


def traces(network, folder, report):
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "traces.c")
    place = folder / "recordings"
    place.mkdir()
    os.environ["TMPDIR"] = str(place)
    try:
        second = network.hosts[1]
        judge(network, program, folder, report, "plain", rsh(folder, second))
        judge(network, program, folder, report, "for three seconds", rsh(folder, second), seconds=3)
        judge(network, program, folder, report, "5 ms to one host and back", rsh(folder, second, delay=(5, 5)))
        judge(network, program, folder, report, "20 ms to one host", rsh(folder, second, delay=(20, 0)), seconds=1)
        judge(network, program, folder, report, "20 ms from one host", rsh(folder, second, delay=(0, 20)), seconds=1)
        if subprocess.run([*SHIFTED, "true"], capture_output=True).returncode == 0:
            judge(network, program, folder, report, "a shifted clock", rsh(folder, second, SHIFTED))
            judge(network, program, folder, report, "a shifted clock, 5 ms", rsh(folder, second, SHIFTED, (5, 5)))
        else:
            print("not tested: a shifted clock takes time namespaces")
        lost_host(network, program, folder, report)
        killed_launcher(network, program, report)
        report.tell("no recordings are left", not left())
    finally:
        del os.environ["TMPDIR"]


def rsh(folder, host, shifted=(), delay=None):
    """A command that reaches hosts, one of which by a delayed connection, or with another monotonic clock."""
    late = [str(word) for word in (DELAYED, *delay)] if delay else []
    words = shlex.join([*late, "ip", "netns", "exec", host, *shifted])
    script = folder / "rsh"
    script.write_text(f'[ "$1" != {host} ] || {{ shift; exec {words} "$@"; }}\nexec ip netns exec "$@"\n')
    return f"sh {script}"


def judge(network, program, folder, report, name, rsh, seconds=0):
    """A traced job, each of whose times and arrows is checked."""
    ranks, path = 2 * len(network.hosts), folder / "trace"
    command = network.command(ranks, "--trace", path, "--stats", program, ROUNDS, seconds)
    command[command.index("--rsh") + 1] = rsh
    good, took, said = run(command, report)
    try:
        assert good, "the job failed"
        trace = Trace(path)
        hosts = [host for host in network.hosts for _ in range(2)]
        assert trace.names == [f"rank {rank} on {host}" for rank, host in enumerate(hosts)], trace.names
        stats = json.loads(subprocess.run([FERRY, "report", "--json", path], capture_output=True, check=True).stdout)
        subprocess.run([FERRY, "report", path, "-o", folder / "page.html"], capture_output=True, check=True)
        for rank in range(ranks):
            sends = trace.times(rank, "MPI_Send")
            assert len(sends) == ROUNDS, f"rank {rank} has {len(sends)} sends"
            # Those of the child are not its own.
            queries = len(trace.times(rank, "MPI_Comm_rank"))
            assert queries == 1, f"rank {rank} has {queries} queries"
        messages = trace.messages()
        assert len(messages) == ranks * ROUNDS, f"{len(messages)} messages"
        claimed = stats["clock_error_ns"]
        moved = [notes["moved_ns"] for *_, notes in messages if "moved_ns" in notes]
        for from_rank, sent_ns, to_rank, received_ns, notes in messages:
            assert (from_rank + 1) % ranks == to_rank, "an arrow has a wrong end"
            assert sent_ns <= received_ns, f"a message arrives {sent_ns - received_ns} ns before it is sent"
            assert notes.get("moved_ns", 0) <= claimed, f"moved by {notes['moved_ns']} ns, and {claimed} are claimed"
        assert bool(moved) == ("before they were sent by these clocks" in said), "moved messages are not told"
        # By the clock that all hosts share.
        offsets = [min(in_trace - real for in_trace, real in zip(trace.times(rank, "MPI_Send"), told(said, rank)))
                   for rank in range(ranks)]
        wrong = max(offsets) - min(offsets)
        assert wrong <= claimed + READING_NS, f"times are wrong by {wrong} ns, and {claimed} are claimed"
        detail = f"wrong by {wrong / 1000:.1f} us, {claimed / 1000:.1f} claimed, {len(moved)} moved; {took:.1f} s"
        report.tell(f"traces: {name}", True, detail)
    except AssertionError as error:
        report.tell(f"traces: {name}", False, str(error))
        print(said[-2000:])


def told(said, rank):
    """When a rank sent its messages, by the clock of the machine."""
    return sorted(int(line.split()[2]) for line in said.splitlines() if line.startswith(f"sent {rank} "))


def lost_host(network, program, folder, report):
    """The daemon of a host is killed: the trace has the others."""
    path = folder / "trace"
    with started(network.command(2 * len(network.hosts), "--trace", path, program, ROUNDS, 60), program) as job:
        os.kill(sorted(found_processes(f"{FERRY}\0daemon", parent=job.pid))[1], signal.SIGKILL)
        said = job.communicate(timeout=60)[1]
    try:
        assert "[FW0829]" in said, "the missing host is not told"
        hosts = [host for host in network.hosts if f"recorded on {host} is missing" not in said]
        trace = Trace(path)
        ranks = sorted(hosts * 2)
        assert len(hosts) + 1 == len(network.hosts) and sorted(trace.hosts()) == ranks, trace.names
        assert all(sent <= received for _, sent, _, received, _ in trace.messages())
        report.tell("traces: a lost host", True, f"{len(trace.names)} ranks, {len(trace.messages())} messages")
    except (AssertionError, OSError) as error:
        report.tell("traces: a lost host", False, str(error))
        print(said[-2000:])


def killed_launcher(network, program, report):
    with started(network.command(len(network.hosts), "--trace", "/dev/null", program, ROUNDS, 60), program) as job:
        before = len(left())
        job.kill()
        job.communicate()
    begun = time.monotonic()
    while left() and time.monotonic() - begun < GONE_SECONDS:
        time.sleep(0.005)
    good = before == len(network.hosts) and not left()
    report.tell("traces: a killed launcher", good, f"{before} recordings are gone after {time.monotonic() - begun:.2f} s")


class started:
    """A job whose ranks run and record."""

    def __init__(self, command, program):
        self.command, self.program = command, str(program)

    def __enter__(self):
        self.job = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while self.job.poll() is None and not found_processes(self.program):
            time.sleep(0.01)
        # Until the first messages.
        time.sleep(2)
        return self.job

    def __exit__(self, *_):
        self.job.kill()
        self.job.wait()


def left():
    return [path for path in pathlib.Path(os.environ["TMPDIR"]).iterdir() if path.name.startswith("ferry-trace-")]


class Trace:
    """A trace as Perfetto would read it, from the numbers of fields in its sources."""

    def __init__(self, path):
        self.names, self.slices, self.flows, texts = [], {}, {}, {}
        for _, packet in (field for field in fields(path.read_bytes()) if field[0] == 1):
            found = dict(fields(packet))
            rank = found[10] - 1
            for kind, entry in fields(found.get(12, b"")):
                entry = dict(fields(entry))
                texts[rank, kind, entry[1]] = entry[2].decode()
            process = dict(fields(found.get(60, b""))).get(3)
            if process:
                self.names.append(dict(fields(process))[6].decode())
            event = list(fields(found.get(11, b"")))
            kinds = dict(event)
            name = texts.get((rank, 2, kinds.get(10)))
            if kinds.get(9) == 1:
                self.slices.setdefault((rank, name), []).append(found[8])
            notes = [dict(fields(note)) for field, note in event if field == 4]
            notes = {texts[rank, 3, note[1]]: note[3] for note in notes if 3 in note}
            for field, flow in event:
                if field == 47:
                    self.flows.setdefault(flow, []).append((name, rank, found[8], notes))

    def times(self, rank, name):
        """When calls of a rank began."""
        return sorted(self.slices.get((rank, name), []))

    def messages(self):
        """The sender of each message, when it was sent, its receiver, when it was received, and what is noted there."""
        found = []
        for ends in self.flows.values():
            marks = [end for end in ends if end[0] == "message"]
            if marks:
                (_, to, received, notes), = marks
                (_, rank, sent, _), = [end for end in ends if end[0] != "message"]
                found.append((rank, sent, to, received, notes))
        return found

    def hosts(self):
        return [name.split(" on ")[1] for name in self.names]


def fields(data):
    """The fields of a message of protocol buffers: their numbers, and a number or bytes."""
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 1:
            yield key >> 3, int.from_bytes(data[at:at + 8], "little")
            at += 8
        else:
            length = number()
            yield key >> 3, data[at:at + length]
            at += length

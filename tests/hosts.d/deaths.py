"""Parts of a job are killed, or stopped, at random moments."""

import os
import random
import signal
import subprocess
import time

from network import FERRY, JOB_SECONDS, ROOT, compiled, found_processes, parent_of

# The most time until everything is gone after a kill.
GONE_SECONDS = 5
# Number of sums, and the pause after each: together longer than the longest wait before a kill.
SUMS = 800
SUM_MICROSECONDS = 1000
# How long ranks are stopped: well below the ten seconds of silence that count as death.
STOP_SECONDS = 3
# The most time until survivors go on.
GO_ON_SECONDS = 10


def kills(network, folder, count, report):
    """Kills a part of a job, and waits until nothing of it is left."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    dice, gone = random.Random(7), []
    for number in range(count):
        job = subprocess.Popen(network.command(2 * len(network.hosts), program, 60),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(dice.uniform(0.02, 0.6))
        daemons = found_processes(f"{FERRY}\0daemon", parent=job.pid)
        parts = {"launcher": [job.pid], "daemon": daemons, "rank": found_processes(str(program))}
        kind = dice.choice([kind for kind, pids in parts.items() if pids])
        os.kill(dice.choice(parts[kind]), signal.SIGKILL)
        begun = time.monotonic()
        job.communicate(timeout=JOB_SECONDS)
        while time.monotonic() - begun < GONE_SECONDS and (found_processes(str(program)) or found_processes(f"{FERRY}\0daemon")):
            time.sleep(0.005)
        took = time.monotonic() - begun
        gone.append(1000 * took)
        if took >= GONE_SECONDS or job.returncode == 0:
            report.tell(f"kill {number} of a {kind}", False, f"after {took:.2f} s, exit code {job.returncode}")
    report.tell(f"{count} kills of ranks, daemons, launchers", True, f"all gone after, ms: {spread(gone)}")


def survivals(network, folder, count, seed, report):
    """Kills parts of jobs that go on without them. All survivors must finish, with the same sums."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "shrink.c")
    dice, noticed, again = random.Random(seed), [], []
    where = "on hosts" if network else "on one machine"
    kinds, wrong_before = {"rank": 0, "host": 0}, report.wrong
    for number in range(count):
        ranks = len(network.hosts) + 2 if network else dice.choice([3, 4, 6])
        words = ["--on-death", "continue", program, SUMS, SUM_MICROSECONDS]
        command = network.command(ranks, *words) if network else [str(FERRY), "run", "-n", str(ranks), *map(str, words)]
        with Survivor(command, ranks) as job:
            time.sleep(dice.uniform(0.0, 0.4))
            kind = dice.choice(["rank", "host"]) if network else "rank"
            kinds[kind] += 1
            if kind == "host":
                daemon = dice.choice(found_processes(f"{FERRY}\0daemon", parent=job.process.pid))
                dead = {rank for rank, pid in job.pids.items() if parent_of(pid) == daemon}
                victims = [daemon]
            else:
                # Sometimes a second rank, while the others are about to go on.
                dead = set(dice.sample(sorted(job.pids), dice.choice([1, 1, 2])))
                victims = [job.pids[rank] for rank in sorted(dead)]
            moment = time.monotonic_ns()
            for nth, pid in enumerate(victims):
                time.sleep(nth * dice.uniform(0.0, 0.01))
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    # It had finished before.
                    dead -= {rank for rank in dead if job.pids[rank] == pid}
            wrong = job.judged(dead, ranks, SUMS)
            left = found_processes(str(program)) + found_processes(f"{FERRY}\0daemon")
            went_on = [(at - moment) / 1e6 for rank, at in job.moments("goes on") if rank not in dead]
            if not wrong and max(went_on, default=0) > 1000 * GO_ON_SECONDS:
                wrong = f"went on after {max(went_on):.0f} ms"
            if wrong or left:
                report.tell(f"kill {number} of a {kind} {where}, seed {seed}", False, wrong or f"left: {left}")
                print(job.said[-3000:])
                continue
            first = {}
            for rank, at in job.moments("noticed"):
                if at > moment and rank not in dead:
                    first.setdefault(rank, (at - moment) / 1e6)
            noticed += first.values()
            again += went_on
    told = ", ".join(f"{number} {kind}s" for kind, number in kinds.items() if number)
    good = bool(noticed) and report.wrong == wrong_before
    report.tell(f"{count} kills {where}, survivors go on", good, f"{told}; {len(noticed)} noticed, ms: {spread(noticed)}; went on, ms: {spread(again)}")


def stops(network, folder, report):
    """Stops all ranks of a host for a while, which does not count as death."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "shrink.c")
    ranks = 2 * len(network.hosts)
    command = network.command(ranks, "--on-death", "continue", program, SUMS, SUM_MICROSECONDS)
    with Survivor(command, ranks) as job:
        daemon = found_processes(f"{FERRY}\0daemon", parent=job.process.pid)[1]
        stopped = [pid for pid in job.pids.values() if parent_of(pid) == daemon]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP_SECONDS)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        wrong = job.judged(set(), ranks, SUMS)
        good = not wrong and bool(stopped) and not job.moments("noticed")
        report.tell(f"{len(stopped)} ranks stopped for {STOP_SECONDS} s", good, wrong or "nobody took them for dead")


class Survivor:
    """A job of tests/hosts.d/shrink.c, with all ranks started."""

    def __init__(self, command, ranks):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said, self.pids = "", {}
        while len(self.pids) < ranks:
            line = self.process.stdout.readline()
            if not line:
                break
            self.said += line
            words = line.split()
            if words[:2] == ["shrink", "begins"]:
                self.pids[int(words[2])] = int(words[4])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def moments(self, what):
        """Rank and time of each line with this word."""
        lines = [line.split() for line in self.said.splitlines() if line.startswith(f"shrink {what} ")]
        skip = 1 + len(what.split())
        return [(int(words[skip]), int(words[skip + 1])) for words in lines]

    def judged(self, dead, ranks, sums):
        """What is wrong, as text, when the job is over and these ranks were killed."""
        try:
            rest, _ = self.process.communicate(timeout=JOB_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rest, _ = self.process.communicate()
            self.said += rest
            return f"not over after {JOB_SECONDS} s"
        self.said += rest
        done = {rank: sums for rank, sums in self.moments("done")}
        living = set(range(ranks)) - dead
        # A rank about to leave may have finished before it was killed.
        codes = {0} if not dead else {3} if not dead & set(done) else {0, 3, 137}
        if self.process.returncode not in codes:
            return f"exit code {self.process.returncode}"
        if not living <= set(done):
            return f"ranks {sorted(living - set(done))} did not finish"
        return "" if set(done.values()) == {sums} else f"sums differ: {done}"


def spread(milliseconds):
    """Median and maximum."""
    if not milliseconds:
        return "none"
    ordered = sorted(milliseconds)
    at = lambda share: ordered[min(len(ordered) - 1, int(share * len(ordered)))]
    return f"p50 {at(0.5):.1f} p99 {at(0.99):.1f} max {ordered[-1]:.1f}"

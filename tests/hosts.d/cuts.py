"""Cables that are pulled and reconnected."""

import random
import subprocess
import threading
import time

from deaths import SUM_MICROSECONDS, Survivor, spread
from network import JOB_SECONDS, ROOT, compiled
from roads import arrived

# Silence after which a host is taken for dead, and how long afterwards it must have been reported.
SILENCE_SECONDS = 10
NOTICED_SECONDS = 15
# Sums that take longer than pulling a cable.
SUMS = 300


def cuts(network, folder, count, longest, seed, report):
    """Pulls one cable after the other for less than the silence that counts as death. The job goes on undisturbed."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    dice, before = random.Random(seed), time.monotonic()
    plan = [(dice.uniform(0.05, 0.5), dice.randrange(len(network.hosts)), dice.uniform(0.1, longest)) for _ in range(count)]
    seconds = sum(pause + cut for pause, _, cut in plan)
    job = subprocess.Popen(network.command(len(network.hosts), program, seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watchdog = threading.Timer(JOB_SECONDS, job.kill)
    watchdog.start()
    said = job.stdout.readline()
    for pause, host, cut in plan:
        time.sleep(pause)
        with network.cut(host):
            time.sleep(cut)
    said += job.stdout.read()
    good = job.wait() == 0 and bool(arrived(said))
    watchdog.cancel()
    down = sum(cut for _, _, cut in plan)
    detail = f"{arrived(said)}; {down:.1f} of {time.monotonic() - before:.1f} s without a cable"
    report.tell(f"{count} cuts, seed {seed}", good, detail)
    if not good:
        print(said[-3000:])


def long_cut(network, folder, report):
    """Pulls a cable for good: the job ends, and reports the silence as the reason."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    job = subprocess.Popen(network.command(len(network.hosts), program, 60), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    job.stdout.readline()
    begun = time.monotonic()
    with network.cut(1):
        try:
            said, _ = job.communicate(timeout=SILENCE_SECONDS + NOTICED_SECONDS)
            good = job.returncode != 0 and f"cannot be reached: no answer for {SILENCE_SECONDS} s" in said
        except subprocess.TimeoutExpired:
            job.kill()
            said, good = job.communicate()[0], False
    report.tell("a cut for good ends the job", good, f"after {time.monotonic() - begun:.1f} s")
    if report.verbose or not good:
        print(said[-3000:])


def survived_cut(network, folder, report):
    """The same, with --on-death continue: all survivors go on, except those on the unreachable host."""
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "shrink.c")
    ranks = 2 * len(network.hosts)
    with Survivor(network.command(ranks, "--on-death", "continue", program, SUMS, SUM_MICROSECONDS), ranks) as job:
        dead, moment = {2, 3}, time.monotonic_ns()
        with network.cut(1):
            wrong = job.judged(dead, ranks, SUMS)
        went_on = [(at - moment) / 1e6 for rank, at in job.moments("goes on") if rank not in dead]
        report.tell("a cut for good, survivors go on", not wrong, wrong or f"went on, ms: {spread(went_on)}")
        if report.verbose or wrong:
            print(job.said[-3000:])

"""Many ranks on several hosts: how soon they start, and that a rank needs no more when there are more ranks."""

import re
import time

from network import ROOT, Network, compiled, run

HOSTS = 8
RANKS = [8, 16, 32, 64]
# The most time per host with one rank, on one machine that is all of the hosts.
MS_PER_HOST_MAX = 40
# The most memory that a rank may need for each further rank.
KB_PER_RANK_MAX = 4


def many(folder, rail, quick, wide, report):
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "many.c")
    found = {}
    with Network(HOSTS, rail, name="fm") as network:
        for ranks in RANKS[-1:] if quick else RANKS:
            good, seconds, said = run(network.command(ranks, program, time.monotonic_ns()), report)
            figures = dict(re.findall(r"(\w+)=([\d.-]+)", said))
            good = good and figures.get("ranks") == str(ranks) and float(figures["barrier_s"]) > 0
            told = ["after {} {} s, {} files, {} KB".format(moment, *(figures.get(f"{moment}_{unit}") for unit in ("s", "files", "kb")))
                    for moment in ("barrier", "neighbours", "all")]
            report.tell(f"{ranks} ranks on {HOSTS} hosts", good, f"{'; '.join(told)}; over after {seconds:.2f} s")
            if good:
                found[ranks] = figures
    if not quick:
        one_each(folder, rail, wide, report)
    if len(found) > 1:
        fewest, most = min(found), max(found)
        for moment in ("barrier", "neighbours"):
            files = {figures[f"{moment}_files"] for figures in found.values()}
            kb = [int(found[ranks][f"{moment}_kb"].split("-")[1]) for ranks in (fewest, most)]
            each = (kb[1] - kb[0]) / (most - fewest)
            report.tell(f"{most} ranks as {fewest}: after {moment}", len(files) == 1 and each <= KB_PER_RANK_MAX,
                        f"open files {', '.join(sorted(files))}; {each:+.2f} KB in a rank for each rank more")


def one_each(folder, rail, numbers, report):
    """These numbers of hosts, with one rank each: the launcher's cost per host."""
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "hello.c")
    with Network(max(numbers), rail, name="fn") as network:
        for hosts in numbers:
            tries = [run(network.command(hosts, program, hosts=network.hosts[:hosts]), report) for _ in range(3)]
            seconds = sorted(seconds for _, seconds, _ in tries)[1]
            good = all(good for good, *_ in tries) and seconds * 1000 / hosts <= MS_PER_HOST_MAX
            report.tell(f"start and end on {hosts} hosts", good, f"{seconds:.3f} s, {seconds * 1000 / hosts:.1f} ms for each")

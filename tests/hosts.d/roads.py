"""Jobs on networks that lose, delay and repeat packets."""

from network import ROOT, Road, compiled, run

# Fates of packets, per thousand.
BAD = {"late": 100, "depth": 32, "repeated": 100, "lost": 20}
ROADS = {"reordering": {"late": 100, "depth": 32}, "repetition": {"repeated": 100, "depth": 32}, "all, and loss of 2 %": BAD}


def losses(network, folder, rates, report):
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    for percent in rates:
        network.lose(percent)
        good, seconds, said = run(network.command(len(network.hosts), program, 3), report)
        found = arrived(said)
        report.tell(f"loss of {percent} %", good and bool(found), found or f"{seconds:.2f} s")
    network.lose(0)


def bad_roads(folder, rail, seconds, seed, report):
    """Two hosts on a network that reorders and duplicates packets."""
    lossy = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    others = [compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / f"{name}.c") for name in ("messages", "collectives")]
    with Road(rail) as road:
        for name, rules in ROADS.items():
            with road.drive(seed, **rules) as told:
                good, _, said = run(road.command(2, lossy, seconds), report)
            report.tell(f"{name}, seed {seed}", good and bool(arrived(said)) and befell(told, rules), f"{arrived(said)}; {' '.join(told)}")
        for program in others:
            with road.drive(seed, **BAD) as told:
                good, took, _ = run(road.command(4, program), report)
            report.tell(f"{program.name}, 4 ranks, all of it", good and befell(told, BAD), f"{took:.2f} s; {' '.join(told)}")


def befell(told, rules):
    """Whether each rule was applied to at least one packet."""
    counts = dict(word.split("=") for word in told)
    return all(int(counts.get(name, 0)) > 0 for name in rules if name != "depth")


def arrived(said):
    """The summary line of lossy."""
    return "".join(line for line in said.splitlines() if line.startswith("lossy ranks="))

"""Jobs on networks that lose packets."""

from network import ROOT, compiled, run


def losses(network, folder, rates, report):
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "lossy.c")
    for percent in rates:
        network.lose(percent)
        good, seconds, said = run(network.command(len(network.hosts), program, 3), report)
        found = [line for line in said.splitlines() if line.startswith("lossy ranks=")]
        report.tell(f"loss of {percent} %", good and bool(found), found[0] if found else f"{seconds:.2f} s")
    network.lose(0)

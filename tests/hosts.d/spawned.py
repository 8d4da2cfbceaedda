"""Ranks that are spawned on several hosts."""

from network import ROOT, compiled, run

# The exit codes of a job of which a rank was killed, and of one that went on without it.
KILLED = 137
SURVIVED = 3


def spawned(network, folder, report, times):
    hosts = network.hosts
    program = compiled(folder, ROOT / "crates" / "abi" / "tests" / "c" / "processes.c")
    for percent in (0, 5):
        network.lose(percent)
        good, seconds, _ = run(network.command(len(hosts) + 2, program, times), report)
        report.tell(f"processes, {percent} % of all packets are lost", good, f"{seconds:.2f} s")
    network.lose(0)
    program = compiled(folder, ROOT / "tests" / "hosts.d" / "children.c")

    def check(what, words, said="", code=0, options=()):
        good, seconds, text = run(network.command(len(hosts), *options, program, *words), report, code=code)
        report.tell(f"children {what}", good and said in text, f"{seconds:.2f} s")

    check("start where fewest ranks are", ["spread", len(hosts)])
    check("start on a host that is named", ["on", hosts[-1]])
    check("work after their parents have ended", ["outlive", "old"], "the children have summed")
    check("end, and their parents work", ["outlive", "new"])
    goes_on = ["--on-death", "continue"]
    check("are killed, and their parents go on", ["die"], "the parents go on", SURVIVED, goes_on)
    check("are killed, and the job ends", ["die"], "died of SIGKILL", KILLED)
    check("go on after their parents are killed", ["orphans"], "child 3 goes on", SURVIVED, goes_on)
    check("end with the job after that", ["orphans"], "died of SIGKILL", KILLED)

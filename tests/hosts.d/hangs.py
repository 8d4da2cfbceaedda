"""Programs of examples/broken that hang, on several hosts: the verdict is the same as on one, also while packets are
lost; and nothing is said about their correct twins."""

import re
import shutil
import subprocess
import time
import tomllib

from network import FERRY, ROOT

BROKEN = ROOT / "examples" / "broken"
# The programs for every change.
FEW = ["wrong_tag.c", "receive_cycle.c", "interleaved.c", "barrier_skipped.c"]
# Those that differ between hosts: a rank that waits for the lock of a window asks its host again and again, which proves
# nothing; and room for unexpected messages ends elsewhere, so that another sentence is found.
DIFFERENT = ["lock_kept.c", "unexpected_flood.c"]
# Packets that are lost, in percent. A job that fails may end before all ranks have come to their calls then, so only
# those that hang run with it.
LOSS = 10
DEADLOCK = 35
JOB_SECONDS = 60


def hangs(network, folder, report, quick):
    with open(BROKEN / "list.toml", "rb") as file:
        rows = tomllib.load(file)["program"]
    for row in rows:
        is_proof = row["kind"] == "proof" and row["name"].endswith(".c") and "yet" not in row
        if is_proof and row["name"] not in DIFFERENT and (not quick or row["name"] in FEW):
            verdicts(network, folder, report, row, quick)


def verdicts(network, folder, report, row, quick):
    hosts = network.hosts[:min(len(network.hosts), row["ranks"])]
    for fixed in [False, True] if row.get("twin", True) else [False]:
        program = folder / (row["name"].removesuffix(".c") + (".fixed" if fixed else ""))
        flags = ["-DFIXED"] if fixed else []
        subprocess.run([FERRY, "cc", "-O1", *flags, BROKEN / row["name"], "-o", program, "-lm"], check=True)
        hung = False
        for loss in [0, LOSS]:
            if loss and (quick or not hung or not shutil.which("nft")):
                continue
            if loss:
                network.lose(loss)
            verdict, code, seconds = outcome(network.command(row["ranks"], program, hosts=hosts), folder)
            if loss:
                network.lose(0)
            hung = code == DEADLOCK
            good = (verdict, code) == (None, 0) if fixed else verdict == row["verdict"]
            what = f"{row['name']}{', corrected' if fixed else ''}{f', {loss} % lost' if loss else ''}"
            report.tell(what, good, f"{seconds:.1f} s" if good else f"exit code {code}: {verdict}")


def outcome(command, folder):
    """The first line of the launcher, without process ids and its code, the exit code, and the seconds that it took."""
    begun = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_SECONDS, cwd=folder)
        said, code = done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        said, code = (error.stderr or b"").decode(), None
    lines = [line.removeprefix("ferry run: ") for line in said.splitlines() if line.startswith("ferry run: ")]
    lines = [line for line in lines if not line.startswith("hosts communicate by libfabric")]
    said = re.sub(r"\bpid \d+", "pid N", re.sub(r" \[FW\d{4}\]$", "", lines[0])) if lines else None
    return said, code, time.monotonic() - begun

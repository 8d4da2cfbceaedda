"""Trains a profile for the compiler: which code messages and collectives run on one host, and how often.

The library is built so that it counts, runs programs of bench/mpi, and llvm-profdata merges the counts.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Ranks, and a program of bench/mpi with its arguments. Nothing between hosts: ranks that wait for a network look again and
# again, and would make that the code to optimise for.
PROGRAMS = [(2, "pingpong -b 5"), (2, "prq -b 3"), (2, "ueq -b 3"), (2, "msgrate"), (4, "msgrate -b 3 -m 20"),
            (2, "coll -t 0.05"), (4, "coll -t 0.05 -b 1 -T 2"), (2, "halo")]
# No program takes so long, even if it counts on a busy machine.
PROGRAM_SECONDS = 180
# The oldest that reads what the present compiler writes.
PROFDATA_MIN = 19


def counting():
    """The flags for a library that counts, on this machine: zig cannot link the code that writes the counts.

    The path is only a default; if it changed, cargo would build all again."""
    return ["-Cprofile-generate=ferrywire-counts", "-Clinker=cc"]


def trained(profile):
    """The flags for a library that uses a profile. What the programs have not run, such as the rails between hosts, is
    optimised as ever, and not for size."""
    return [f"-Cprofile-use={profile}", "-Cllvm-args=-pgso=false"]


def profdata():
    """The path of llvm-profdata: from rustup's component llvm-tools, or from a package of LLVM. None if there is none."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    for path in Path(sysroot).glob("lib/rustlib/*/bin/llvm-profdata"):
        return path
    named = ["llvm-profdata"] + [f"llvm-profdata-{version}" for version in range(PROFDATA_MIN, PROFDATA_MIN + 20)]
    for path in filter(None, map(shutil.which, named)):
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"version (\d+)", told)
        if version and int(version[1]) >= PROFDATA_MIN:
            return path
    return None


def train(built, scratch, profile):
    """Installs the counting library beside `built`, which is its `ferry`, runs the programs, and writes the profile."""
    environment = {**os.environ, "LLVM_PROFILE_FILE": f"{scratch}/counts/%m_%p.profraw"}

    def run(*words):
        command = list(map(str, words))
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=PROGRAM_SECONDS)

    run(built, "install", "--prefix", scratch / "prefix")
    ferry = scratch / "prefix" / "bin" / "ferry"
    for name in {line.split()[0] for _, line in PROGRAMS}:
        run(ferry, "cc", "-O2", ROOT / "bench" / "mpi" / f"{name}.c", "-o", scratch / name)
    for ranks, line in PROGRAMS:
        name, *arguments = line.split()
        run(ferry, "run", "-n", ranks, scratch / name, *arguments)
    profile.parent.mkdir(parents=True, exist_ok=True)
    run(profdata(), "merge", "-o", profile, *sorted((scratch / "counts").glob("*.profraw")))

"""Compiles and starts a program on several hosts, which are network namespaces: on Ferrywire, and on peers over TCP."""

import pathlib
import shlex
import shutil
import subprocess

from network import FERRY

PEERS = pathlib.Path.home() / ".cache" / "ferrywire-peers"
# MPICH's own libfabric.
MPICH_FABRIC = PEERS / "mpich" / "lib" / "mpich"
# `ssh HOST COMMAND`, as the peers call it, with options before the host. Open MPI hangs if hosts share a name, which
# network namespaces do not change.
RSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
"""


class Way:
    """A library: how a job of a program is started on hosts, with equally many ranks on each."""

    def __init__(self, name, program, words, settings=None, rsh=None):
        self.name, self.program, self.words, self.settings = name, program, words, settings or {}
        self.rsh = rsh

    def command(self, hosts, *arguments, each=1):
        words = [str(word) for word in [*self.words(hosts, each), "-n", each * len(hosts), self.program, *arguments]]
        # Launchers of peers must run on a host, too, to be reachable from the others.
        return [self.rsh, hosts[0], f"exec {shlex.join(words)}"] if self.rsh else words


def ways(folder, source, rails=False, peers="all"):
    """Each installed library, with the program compiled for it; ours also unsealed and over libfabric if `rails`;
    without peers if `peers` says so."""
    rsh = folder / "rsh"
    rsh.write_text(RSH)
    rsh.chmod(0o755)

    def compiled(name, compiler):
        program = folder / f"{source.stem}_{name}"
        subprocess.run([*compiler, "-O2", source, "-o", program], check=True)
        return program

    def ferry(*options):
        return lambda hosts, _: [FERRY, "run", "--rsh", "ip netns exec", *options, "--hosts", ",".join(hosts)]

    def mpich(hosts, each):
        return [PEERS / "mpich" / "bin" / "mpiexec", "-launcher", "ssh", "-launcher-exec", rsh, "-iface", "eth0",
                "-hosts", ",".join(hosts), "-ppn", each]

    def openmpi(hosts, each):
        return [PEERS / "openmpi" / "bin" / "mpirun", "--allow-run-as-root", "--prtemca", "plm_ssh_agent", rsh, "--bind-to", "none",
                "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                "--host", ",".join(f"{host}:{each}" for host in hosts)]

    ours = compiled("ferrywire", [FERRY, "cc"])
    found = [Way("ferrywire", ours, ferry())]
    if rails:
        found.append(Way("insecure", ours, ferry("--insecure")))
    if rails and (MPICH_FABRIC.exists() or shutil.which("fi_info")):
        # With the same libfabric as MPICH, if installed: versions differ much.
        settings = {"LD_LIBRARY_PATH": str(MPICH_FABRIC)} if MPICH_FABRIC.exists() else {}
        found.append(Way("libfabric", ours, ferry("--rail", "fabric:tcp"), settings))
    if peers == "none":
        return found
    for name, words, settings in (("mpich", mpich, {"FI_PROVIDER": "tcp", "MPIR_CVAR_CH4_NETMOD": "ofi"}), ("openmpi", openmpi, {})):
        compiler = PEERS / name / "bin" / "mpicc"
        if compiler.exists():
            found.append(Way(name, compiled(name, [compiler]), words, settings, rsh))
        else:
            print(f"not measured: bench/peers/install has not put {name} on this machine")
    return found

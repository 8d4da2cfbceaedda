"""How programs are compiled for and launched by each library that is measured on one machine."""

import os
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
PEERS = pathlib.Path.home() / ".cache" / "ferrywire-peers"

OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
OVER_UCX = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx", "OMPI_MCA_pml_ucx_tls": "any",
            "OMPI_MCA_pml_ucx_devices": "any", "UCX_TLS": "posix,cma,self", "UCX_NET_DEVICES": "lo",
            "UCX_WARN_UNUSED_ENV_VARS": "n"}


def library(name):
    """The command that compiles, the command that launches, and environment variables."""
    if name == "ferrywire":
        ferry = str(BUILT / "ferry")
        return [ferry, "cc"], [ferry, "run", "-n"], {}
    home = PEERS / name.split("_")[0]
    if not (home / "bin" / "mpicc").exists():
        sys.exit(f"{name} is not in {PEERS}: bench/peers/install puts it there")
    settings = {} if name == "mpich" else {**OPEN_MPI, **(OVER_UCX if name == "openmpi_ucx" else {})}
    return [str(home / "bin" / "mpicc")], [str(home / "bin" / "mpiexec"), "-n"], settings

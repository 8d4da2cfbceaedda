"""Rank 0 reads the settings and broadcasts them; then all ranks add up their shares. The broadcast is inside the
branch of rank 0, so the others do not take part in it."""

import os

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
settings = numpy.zeros(2)
if comm.rank == 0:
    settings[:] = 0.5, 100
    comm.Bcast(settings, root=0)  # WRONG: all ranks have to call Bcast
elif os.environ.get("FIXED"):
    comm.Bcast(settings, root=0)
share, total = settings[:1] * comm.rank, numpy.zeros(1)
comm.Allreduce(share, total)
print(f"rank {comm.rank}: {total[0]}")

"""Rank 0 hands out numbers to workers and ends with an empty message to each. The loop over workers ends one too
early, so the last worker waits for its next number."""

import os

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
number = numpy.zeros(1)
if comm.rank == 0:
    for task in range(12):
        number[0] = task
        comm.Send(number, dest=1 + task % (comm.size - 1), tag=1)
    last = comm.size if os.environ.get("FIXED") else comm.size - 1  # WRONG: range() leaves out its end already
    for worker in range(1, last):
        comm.Send(number[:0], dest=worker, tag=1)
else:
    total = 0.0
    status = MPI.Status()
    while True:
        comm.Recv(number, source=0, tag=1, status=status)
        if status.Get_count(MPI.DOUBLE) == 0:
            break
        total += number[0]
    print(f"rank {comm.rank}: {total}")

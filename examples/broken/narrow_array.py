"""Rank 0 sends a column of measurements to rank 1, which has made its array in single precision: the column does
not fit into it."""

import os

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.Send(numpy.arange(1000, dtype=numpy.float64), dest=1, tag=9)
elif comm.rank == 1:
    kind = numpy.float64 if os.environ.get("FIXED") else numpy.float32  # WRONG: float64 is sent
    column = numpy.zeros(1000, dtype=kind)
    comm.Recv(column, source=0, tag=9)
    print("the last measurement is", column[-1])

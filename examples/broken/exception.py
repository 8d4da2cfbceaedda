"""Each rank evaluates a function at its own point, and the values are added up. The function does not exist at the
point of rank 1, which raises an exception and leaves, while the others wait for it."""

import os

import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
points = [2.0, 0.0, 1.0, 4.0]
point = points[comm.rank]
if os.environ.get("FIXED") and point == 0:
    point = 1e-6
value = numpy.array([1 / point])  # WRONG: nobody checks for zero
total = numpy.zeros(1)
comm.Allreduce(value, total, op=MPI.SUM)
if comm.rank == 0:
    print("the sum is", total[0])

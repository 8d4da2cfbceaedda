"""Two ranks exchange dictionaries with what they have found. Both receive first, so neither comes to its send."""

import os

from mpi4py import MPI

comm = MPI.COMM_WORLD
other = 1 - comm.rank
found = {"rank": comm.rank, "peaks": [3, 5, 8]}
if os.environ.get("FIXED"):
    theirs = comm.sendrecv(found, dest=other, sendtag=1, source=other, recvtag=1)
else:
    theirs = comm.recv(source=other, tag=1)  # WRONG: both ranks receive before they send
    comm.send(found, dest=other, tag=1)
print(f"rank {comm.rank}: rank {theirs['rank']} has found {theirs['peaks']}")

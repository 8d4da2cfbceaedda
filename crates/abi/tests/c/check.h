/* What the programs have in common: a check that says where it stands, and ends the job. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                                      \
    do {                                                                                 \
        if (!(what)) {                                                                   \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);           \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* A call that succeeds. */
#define OK(call) CHECK((call) == MPI_SUCCESS)

#endif

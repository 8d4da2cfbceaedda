/* Checks that the test programs share: a failed check prints its location and ends the job. */
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
/* A call that must succeed. */
#define OK(call) CHECK((call) == MPI_SUCCESS)

#endif

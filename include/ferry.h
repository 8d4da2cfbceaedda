/* What Ferrywire offers beyond MPI: user code on the NIC.
 *
 * A module is a small WebAssembly program that runs where messages arrive. Loading one on a communicator
 * makes another communicator of the same ranks, whose messages go to the module at their target, whatever
 * the application there does. The module forwards, answers, changes, consumes or delivers them; what it
 * delivers is received by MPI_Recv and its kin. Collectives on that communicator are as ever.
 *
 * docs/book/src/modules.md is the tutorial, ferry_module.h what modules in C include.
 *
 * All functions return an MPI error code, after the error handler of the communicator has seen it, and each
 * has a twin that begins with P, for tools. */

#ifndef FERRY_H
#define FERRY_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counters that each module has, from 0 on. */
#define FERRY_MODULE_COUNTERS 8

/* What a module has done at this rank. */
typedef struct {
    MPI_Count messages;  /* that it ran for */
    MPI_Count bytes;     /* of those */
    MPI_Count delivered; /* to the application */
    MPI_Count consumed;  /* messages that ended in it */
    MPI_Count sent;      /* messages that it sent or forwarded */
    MPI_Count lost;      /* those of them whose receiver was gone */
    MPI_Count faults;    /* messages that ended since it did not come to an end */
    MPI_Count stalls;    /* times that it waited, since too much of what it sent was on its way */
    MPI_Count fuel;      /* that it used */
    char last_fault[256]; /* in words; empty if there was none */
} Ferry_Module_stats;

/* Makes a communicator of the ranks of comm, with a module: len bytes of WebAssembly, or of its text form.
 * Collective; all ranks pass the same code. The module is compiled here and now. */
int Ferry_Module_load(MPI_Comm comm, const char *name, const void *code, MPI_Count len,
                      MPI_Comm *module_comm);

/* Another module takes over, with fresh state; what was counted stays. Collective, when nothing is on its way
 * that only the old one understands. */
int Ferry_Module_replace(MPI_Comm module_comm, const void *code, MPI_Count len);

/* Unloads the module and frees its communicator. Collective. */
int Ferry_Module_unload(MPI_Comm *module_comm);

/* The communicators with modules of this process: how many, and the first max of them. */
int Ferry_Module_list(int max, MPI_Comm module_comms[], int *count);

/* What the module has done at this rank. */
int Ferry_Module_get_stats(MPI_Comm module_comm, Ferry_Module_stats *stats);

/* Waits until a counter that the module raises at this rank is at least this. */
int Ferry_Module_wait(MPI_Comm module_comm, int counter, MPI_Count at_least);

#ifdef __cplusplus
}
#endif

#endif

/* Ferrywire's extension of MPI for user code on the NIC.
 *
 * A module is a small WebAssembly program that runs where messages arrive. Loading one on a communicator
 * creates another communicator of the same ranks. Messages on it go to the module at their target, whatever
 * the application there does. The module forwards, answers, changes, consumes or delivers them; MPI_Recv and
 * the other receive calls receive what it delivers. Collectives on that communicator work as usual.
 *
 * docs/book/src/modules.md is the tutorial. Modules in C include ferry_module.h.
 *
 * All functions return an MPI error code, after calling the error handler of the communicator. Each function
 * has a variant whose name begins with P, for tools. */

#ifndef FERRY_H
#define FERRY_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Number of counters of each module; the first is 0. */
#define FERRY_MODULE_COUNTERS 8

/* Statistics of a module at this rank. */
typedef struct {
    MPI_Count messages;  /* messages that it ran for */
    MPI_Count bytes;     /* bytes of those messages */
    MPI_Count delivered; /* messages that it delivered to the application */
    MPI_Count consumed;  /* messages that it consumed */
    MPI_Count sent;      /* messages that it sent or forwarded */
    MPI_Count lost;      /* messages among those sent whose receiver was gone */
    MPI_Count faults;    /* messages that ended with a fault of the module */
    MPI_Count stalls;    /* times that it waited, because too much of what it sent was in flight */
    MPI_Count fuel;      /* fuel that it used */
    char last_fault[256]; /* the last fault, as text; empty without one */
} Ferry_Module_stats;

/* Creates a communicator of the ranks of comm, with a module: len bytes of WebAssembly, in binary or text form.
 * Collective; all ranks pass the same code. The call compiles the module. */
int Ferry_Module_load(MPI_Comm comm, const char *name, const void *code, MPI_Count len,
                      MPI_Comm *module_comm);

/* Replaces the module by another one with fresh state; the statistics and counters continue. Collective. Call it
 * when no message is in flight that only the old module understands. */
int Ferry_Module_replace(MPI_Comm module_comm, const void *code, MPI_Count len);

/* Unloads the module and frees its communicator. Collective. */
int Ferry_Module_unload(MPI_Comm *module_comm);

/* Returns the number of communicators with modules in this process, and the first max of them. */
int Ferry_Module_list(int max, MPI_Comm module_comms[], int *count);

/* Returns the statistics of the module at this rank. */
int Ferry_Module_get_stats(MPI_Comm module_comm, Ferry_Module_stats *stats);

/* Waits until a counter of the module at this rank reaches at_least. */
int Ferry_Module_wait(MPI_Comm module_comm, int counter, MPI_Count at_least);

#ifdef __cplusplus
}
#endif

#endif

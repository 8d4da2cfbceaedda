/* Ferrywire's extensions of MPI: user code on the NIC, operators that run there, active messages, and counters.
 *
 * All functions return an MPI error code, after calling the error handler of the communicator or the window. Each
 * function has a variant whose name begins with P, for tools. */

#ifndef FERRY_H
#define FERRY_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Modules.
 *
 * A module is a small WebAssembly program that runs where messages arrive. Loading one on a communicator
 * creates another communicator of the same ranks. Messages on it go to the module at their target, whatever
 * the application there does. The module forwards, answers, changes, consumes or delivers them; MPI_Recv and
 * the other receive calls receive what it delivers. Collectives on that communicator work as usual.
 *
 * docs/book/src/modules.md is the tutorial. Modules in C include ferry_module.h. */

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

/* Active messages.
 *
 * A handler is a function of the program that the NIC calls where a message arrives, whatever the application there does.
 * It is to a module what a callback is to a plugin: it reads and writes the memory of the program, and nothing protects
 * the program from its mistakes. MPI_Send and its like send to it, in a communicator of its own.
 *
 * The NIC stands still while a handler runs, on any thread of the process. So a handler is short, does not block, makes no
 * call of MPI, and does not leave by an exception or longjmp. Handlers of one communicator do not run at the same time at
 * one rank; what they share with the rest of the program needs atomic accesses. */

/* What becomes of a message that a handler returns from. Any other value ends it with a fault, as that of a module. */
enum {
    FERRY_AM_DELIVER = 0, /* it goes to the application, where a receive gets it */
    FERRY_AM_DONE = 1     /* it ends here */
};

/* A message for a handler. It is valid until the handler returns. */
typedef struct Ferry_Am_message Ferry_Am_message;
struct Ferry_Am_message {
    int rank;          /* the rank that the handler runs at, in its communicator */
    int size;          /* the number of ranks */
    int source;        /* the rank that has sent the message */
    int tag;           /* its tag */
    const void *bytes; /* its bytes, which may begin at any address */
    MPI_Count len;     /* their number, at most 65,536: longer messages end with a fault */

    /* Sends bytes, which are copied, to the handler of a rank: at most 64 times for a message. Returns an error class. */
    int (*send)(const Ferry_Am_message *message, int to, int tag, const void *bytes, MPI_Count len);
    /* Raises a counter of this rank, for which Ferry_Module_wait waits. Returns an error class. */
    int (*raise)(const Ferry_Am_message *message, int counter, MPI_Count by);
    void *context;     /* for these two */
};

/* A handler. It returns FERRY_AM_DELIVER or FERRY_AM_DONE. */
typedef int Ferry_Am_handler(const Ferry_Am_message *message, void *state);

/* Creates a communicator of the ranks of comm, whose messages go to the handler. Collective; each rank passes a handler
 * and a state of its own. The functions for modules are for it, too: Ferry_Module_unload frees it. */
int Ferry_Am_create(MPI_Comm comm, const char *name, Ferry_Am_handler *handler, void *state,
                    MPI_Comm *am_comm);

/* Operators.
 *
 * An operator of reductions can be a WebAssembly program, too. Its code runs where contributions arrive, so a reduction
 * goes on while the application computes, which it cannot with an operator of MPI_Op_create. */

/* MPI_Op_create, with len bytes of WebAssembly in binary or text form instead of a function. The code imports nothing,
 * and exports its memory and the function combine; FERRY_COMBINE of ferry_module.h defines one. It is passed elements in
 * packed form: the bytes of the datatype without its gaps, at most 32 KiB each. If the code is stopped by an error, such
 * as an endless loop, the reduction and all later ones with this operator fail at this rank with MPI_ERR_OP. */
int Ferry_Op_create(const void *code, MPI_Count len, int commute, MPI_Op *op);

/* Counters.
 *
 * The NIC of each rank has counters for a window. A put can raise one of them at its target, and a counter that
 * reaches a value can start a message or a collective there. The application at the target need not call MPI for
 * either. docs/book/src/counters.md explains them. */

/* Gives each rank count counters for the window, all 0; the first is counter 0. Collective, with the same count at
 * all ranks, and once for each window. They are closed with the window. */
int Ferry_Win_counters(MPI_Win win, int count);

/* MPI_Put, which raises a counter of the target by one when all its bytes are in place. The counter says nothing
 * about other puts. Like MPI_Put, it needs an epoch, and is complete at the origin after the next flush. */
int Ferry_Put_notify(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                     int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                     MPI_Datatype target_datatype, int counter, MPI_Win win);

/* Returns the value of a counter of this rank. */
int Ferry_Counter_read(MPI_Win win, int counter, MPI_Count *value);

/* Sets a counter of this rank, also to a lower value. */
int Ferry_Counter_set(MPI_Win win, int counter, MPI_Count value);

/* Waits until a counter of this rank is at least at_least. The puts that have raised it can be read then. */
int Ferry_Counter_wait(MPI_Win win, int counter, MPI_Count at_least);

/* Starts a persistent request when a counter of this rank is at least at_least, as MPI_Start would. The request is
 * active at once; MPI_Wait, MPI_Test and their like complete it. It is a send (not a buffered one), a receive or a
 * collective, and what it sends is contiguous. Data that it sends is read when it starts, so that puts before can
 * write it. */
int Ferry_Counter_trigger(MPI_Win win, int counter, MPI_Count at_least, MPI_Request *request);

#ifdef __cplusplus
}
#endif

#endif

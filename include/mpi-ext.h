/* What a program can do when ranks die: the functions of User Level Failure Mitigation.
 *
 * They work in a job that was started with `ferry run --on-death continue`; elsewhere the job ends with its first
 * dead rank. docs/book/src/faults.md is the tutorial.
 *
 * A call that needs a dead rank returns an error of class MPIX_ERR_PROC_FAILED, if the error handler lets it
 * (MPI_ERRORS_RETURN). Each function has a twin that begins with P, for tools. */

#ifndef FERRY_MPI_EXT_H
#define FERRY_MPI_EXT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error classes. */
enum {
    MPIX_ERR_PROC_FAILED         = 101, /* a rank has died, and it cannot be done without it */
    MPIX_ERR_PROC_FAILED_PENDING = 102, /* a rank has died that might have been the sender; the request stays */
    MPIX_ERR_REVOKED             = 103  /* the communicator is revoked */
};

/* Ends everything in a communicator, at all members: calls that wait there return MPIX_ERR_REVOKED, and so do all
 * to come but those below. Not collective: one who calls it will do. */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);

/* Makes a communicator of the members that live, in their order. Collective among those. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);

/* Combines the flags of all members that live, bit by bit with AND. All of them get the same flag and the same
 * return code, whoever dies meanwhile: MPIX_ERR_PROC_FAILED if there is a dead member that not all have acknowledged. */
int MPIX_Comm_agree(MPI_Comm comm, int *flag);

/* The members that are dead, as far as this rank knows, in the order in which it heard of them. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);

/* This rank knows of the first num_to_ack of them. When it knows of all it can receive from MPI_ANY_SOURCE again. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);

/* The same, as older programs write it. */
int MPIX_Comm_failure_ack(MPI_Comm comm);
int MPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);

int PMPIX_Comm_revoke(MPI_Comm comm);
int PMPIX_Comm_is_revoked(MPI_Comm comm, int *flag);
int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);
int PMPIX_Comm_agree(MPI_Comm comm, int *flag);
int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);
int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);
int PMPIX_Comm_failure_ack(MPI_Comm comm);
int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group *failedgrp);

#ifdef __cplusplus
}
#endif

#endif

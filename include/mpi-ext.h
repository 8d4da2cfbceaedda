/* User Level Failure Mitigation: functions for programs that continue when ranks die.
 *
 * They work in a job that was started with `ferry run --on-death continue`; any other job ends when a rank dies.
 * docs/book/src/faults.md is the tutorial.
 *
 * A call that needs a dead rank raises an error of class MPIX_ERR_PROC_FAILED, and returns it if the error handler
 * permits (MPI_ERRORS_RETURN). Each function has a variant whose name begins with P, for tools. */

#ifndef FERRY_MPI_EXT_H
#define FERRY_MPI_EXT_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Error classes. */
enum {
    MPIX_ERR_PROC_FAILED         = 101, /* a rank that the call needs has died */
    MPIX_ERR_PROC_FAILED_PENDING = 102, /* a possible sender has died; the request stays active */
    MPIX_ERR_REVOKED             = 103  /* the communicator is revoked */
};

/* Revokes a communicator at all members: pending calls on it return MPIX_ERR_REVOKED, and so do all later calls
 * except those below. Not collective: it is enough that one member calls it. */
int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_is_revoked(MPI_Comm comm, int *flag);

/* Creates a communicator of the surviving members, in their order. Collective among them. */
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *newcomm);

/* Combines the flags of all surviving members by bitwise AND. All of them get the same flag and the same return code,
 * even if members die meanwhile: MPIX_ERR_PROC_FAILED if not all have acknowledged every dead member. */
int MPIX_Comm_agree(MPI_Comm comm, int *flag);

/* Returns the members that this rank knows to be dead, in the order in which it learnt of their deaths. */
int MPIX_Comm_get_failed(MPI_Comm comm, MPI_Group *failedgrp);

/* Acknowledges the first num_to_ack of them. With all acknowledged, this rank can receive from MPI_ANY_SOURCE again. */
int MPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int *num_acked);

/* The same under the names that older programs use. */
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

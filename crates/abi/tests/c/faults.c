/* What calls return when a rank dies, and how the survivors recover: four ranks, of which the last kills itself. */
#define _DEFAULT_SOURCE
#include "check.h"

#include <mpi-ext.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { DEAD = 3, RANKS = 4 };

static int class_of(int code)
{
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

/* Calls that need the dead rank fail at every rank; others work. */
static void messages(int me)
{
    int value = me, code = MPI_SUCCESS;
    /* The barrier ends at all members, also at those that exchange no messages with the dead one. */
    while (code == MPI_SUCCESS) code = MPI_Barrier(MPI_COMM_WORLD);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED);
    char text[MPI_MAX_ERROR_STRING];
    int length;
    OK(MPI_Error_string(code, text, &length));
    CHECK(strstr(text, "rank 3") != NULL);
    CHECK(class_of(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, DEAD, 0, MPI_COMM_WORLD)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, DEAD, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Probe(DEAD, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    int next = (me + 1) % DEAD, before = (me + DEAD - 1) % DEAD, got = -1;
    OK(MPI_Sendrecv(&me, 1, MPI_INT, next, 1, &got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got == before);
}

/* The only rank whose death is acknowledged, or -1. */
static int acknowledged(void)
{
    MPI_Group dead, world;
    int count, first = 0, rank = -1;
    OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &dead));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_size(dead, &count));
    CHECK(count <= 1);
    if (count == 1) OK(MPI_Group_translate_ranks(dead, 1, &first, world, &rank));
    OK(MPI_Group_free(&world));
    if (dead != MPI_GROUP_EMPTY) OK(MPI_Group_free(&dead));
    return rank;
}

/* A receive from any source requires that the deaths are acknowledged first. */
static void wildcards(int me)
{
    int value = -1, flag = 0, known = -1, next = (me + 1) % DEAD;
    MPI_Request request;
    MPI_Status status;
    int code = MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Probe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status)) == MPIX_ERR_PROC_FAILED);
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &request));
    code = MPI_Wait(&request, &status);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(request != MPI_REQUEST_NULL);
    if (me == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        OK(MPI_Error_string(code, text, &length));
        puts(text);
    }
    CHECK(class_of(MPI_Test(&request, &flag, &status)) == MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(request != MPI_REQUEST_NULL);
    MPI_Group failed, world;
    int dead, rank = 0;
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_size(failed, &dead));
    CHECK(dead == 1);
    OK(MPI_Group_translate_ranks(failed, 1, &rank, world, &dead));
    CHECK(dead == DEAD);
    OK(MPI_Group_free(&failed));
    OK(MPI_Group_free(&world));
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 0, &known));
    CHECK(known == 0 && acknowledged() == -1);
    if (me % 2 == 0) {
        OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 1, &known));
        CHECK(known == 1);
    } else {
        OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
    }
    CHECK(acknowledged() == DEAD);
    /* No rank sends before all have seen that nothing is there. */
    flag = 1;
    OK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    /* The request continues, and a new one waits. */
    OK(MPI_Test(&request, &flag, &status));
    OK(MPI_Send(&me, 1, MPI_INT, next, 2, MPI_COMM_WORLD));
    if (!flag) OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK(value == status.MPI_SOURCE && value == (me + DEAD - 1) % DEAD);
    OK(MPI_Send(&me, 1, MPI_INT, next, 3, MPI_COMM_WORLD));
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status));
    CHECK(value == (me + DEAD - 1) % DEAD);
}

/* One rank revokes, and all waiting calls return, whatever they wait for. */
static void revoking(int me, MPI_Comm comm)
{
    int value = 0, flag = 0;
    static char large[1 << 20];
    MPI_Comm pairs;
    OK(MPI_Comm_dup(comm, &pairs));
    OK(MPIX_Comm_is_revoked(pairs, &flag));
    CHECK(!flag);
    if (me == 0) {
        usleep(50000);
        OK(MPIX_Comm_revoke(pairs));
    } else if (me == 1) {
        CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, 2, 0, pairs, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    } else {
        MPI_Request requests[4];
        MPI_Status statuses[4];
        OK(MPI_Isend(large, sizeof large, MPI_CHAR, 0, 0, pairs, &requests[0]));
        OK(MPI_Issend(&value, 1, MPI_INT, 0, 1, pairs, &requests[1]));
        OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, pairs, &requests[2]));
        OK(MPI_Ibarrier(pairs, &requests[3]));
        CHECK(class_of(MPI_Waitall(4, requests, statuses)) == MPI_ERR_IN_STATUS);
        CHECK(class_of(statuses[0].MPI_ERROR) == MPIX_ERR_REVOKED);
        CHECK(class_of(statuses[2].MPI_ERROR) == MPIX_ERR_REVOKED);
        CHECK(class_of(statuses[3].MPI_ERROR) == MPIX_ERR_REVOKED);
    }
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, 0, 9, pairs)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, pairs, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Barrier(pairs)) == MPIX_ERR_REVOKED);
    OK(MPIX_Comm_is_revoked(pairs, &flag));
    CHECK(flag);
    /* The calls for recovery still work in it. */
    flag = 6 + me % 2;
    OK(MPIX_Comm_agree(pairs, &flag));
    CHECK(flag == 6);
    OK(MPI_Comm_free(&pairs));
    OK(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    int me, size, flag;
    MPI_Comm left;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size == RANKS);
    /* All ranks have joined; one may be dead before all know that. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == DEAD) raise(SIGKILL);
    messages(me);
    /* Not all ranks have acknowledged the death: all are told so. */
    flag = 7 - (me == 1);
    CHECK(class_of(MPIX_Comm_agree(MPI_COMM_WORLD, &flag)) == MPIX_ERR_PROC_FAILED);
    CHECK(flag == 6);
    wildcards(me);
    flag = 3;
    OK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    CHECK(flag == 3);
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &left));
    OK(MPI_Comm_size(left, &size));
    CHECK(size == DEAD);
    for (int round = 0; round < 20; round++) {
        int sum = -1;
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, left));
        CHECK(sum == 3);
        revoking(me, left);
    }
    OK(MPI_Comm_free(&left));
    OK(MPI_Finalize());
    return 0;
}

/* Small objects of many kinds: none of them is freed. */
#include <mpi.h>
#include <stdio.h>

static void largest(void *in, void *inout, int *len, MPI_Datatype *datatype) {
    (void)datatype;
    for (int i = 0; i < *len; i++)
        if (((int *)in)[i] > ((int *)inout)[i])
            ((int *)inout)[i] = ((int *)in)[i];
}

static void complain(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    fprintf(stderr, "error %d\n", *code);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Group group;
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler handler;
    int key;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Op_create(largest, 1, &op);
    MPI_Info_create(&info);
    MPI_Comm_create_errhandler(complain, &handler);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    printf("rank %d has made them\n", rank);
    /* WRONG: nothing is freed */
#ifdef FIXED
    MPI_Group_free(&group);
    MPI_Op_free(&op);
    MPI_Info_free(&info);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free_keyval(&key);
#endif
    return MPI_Finalize();
}

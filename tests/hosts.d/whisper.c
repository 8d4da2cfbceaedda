/* whisper FILE: rank 0 draws 32 bytes, prints them in hexadecimal digits, and broadcasts them repeatedly, until FILE
 * exists. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, over = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned char told[32] = { 0 };
    if (rank == 0) {
        FILE *noise = fopen("/dev/urandom", "r");
        if (argc < 2 || !noise || fread(told, 1, sizeof told, noise) != sizeof told) MPI_Abort(MPI_COMM_WORLD, 1);
        fclose(noise);
        printf("whisper ");
        for (size_t i = 0; i < sizeof told; i++) printf("%02x", told[i]);
        printf("\n");
        fflush(stdout);
    }
    while (!over) {
        MPI_Bcast(told, sizeof told, MPI_BYTE, 0, MPI_COMM_WORLD);
        usleep(2000);
        over = access(argv[1], F_OK) == 0;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}

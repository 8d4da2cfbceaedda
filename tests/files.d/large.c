/* large: ranks write or read a large file by collective calls, in blocks that interleave with those of other ranks.
 *
 *   large write|read PATH BYTES BLOCK CHUNK
 *
 * The file has BYTES bytes, of which blocks of BLOCK bytes belong to the ranks in turn. A call of a rank is for CHUNK
 * bytes. Each byte that is read is compared. Rank 0 prints the most memory that a rank needed besides its CHUNK. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static uint64_t word_at(uint64_t index) {
    uint64_t x = index * 0x9e3779b97f4a7c15u + 0x1234567;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 31);
}
/* Fills or compares `bytes` bytes that are at `offset` of the file. Returns the first that is wrong, or -1. */
static long pass(unsigned char *at, uint64_t offset, long bytes, int compare) {
    for (long i = 0; i < bytes;) {
        uint64_t here = offset + (uint64_t)i, word = word_at(here / 8);
        unsigned char *from = (unsigned char *)&word + here % 8;
        long take = 8 - (long)(here % 8);
        if (take > bytes - i) take = bytes - i;
        if (!compare) memcpy(at + i, from, (size_t)take);
        else if (memcmp(at + i, from, (size_t)take)) return i;
        i += take;
    }
    return -1;
}
static void must(int code, const char *what) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 6) return 2;
    int reads = !strcmp(argv[1], "read");
    int64_t total = atoll(argv[3]), block = atoll(argv[4]), chunk = atoll(argv[5]);
    /* Our bytes: whole turns of all ranks, and what is left of the last. */
    int64_t turns = total / (block * size), rest = total % (block * size) - block * rank;
    int64_t mine = turns * block + (rest < 0 ? 0 : rest > block ? block : rest), most = (turns + 1) * block;
    MPI_File file;
    MPI_Datatype piece, view;
    must(MPI_File_open(MPI_COMM_WORLD, argv[2], reads ? MPI_MODE_RDONLY : MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                       &file), "open");
    MPI_Type_contiguous((int)block, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, block * size, &view);
    MPI_Type_commit(&view);
    must(MPI_File_set_view(file, block * rank, MPI_BYTE, view, "native", MPI_INFO_NULL), "set_view");
    MPI_Offset bytes;
    must(MPI_File_get_size(file, &bytes), "get_size");
    if (reads && bytes != total) must(MPI_ERR_IO, "the size of the file");
    unsigned char *buffer = malloc((size_t)chunk);
    for (int64_t done = 0; done < most; done += chunk) {
        int64_t now = mine - done < 0 ? 0 : mine - done > chunk ? chunk : mine - done;
        for (int64_t at = 0; at < now && !reads;) {
            int64_t inside = (done + at) % block, take = block - inside < now - at ? block - inside : now - at;
            pass(buffer + at, (uint64_t)((done + at) / block * block * size + block * rank + inside), take, 0);
            at += take;
        }
        MPI_Status status;
        if (!reads) {
            must(MPI_File_write_all(file, buffer, (int)now, MPI_BYTE, &status), "write_all");
            continue;
        }
        memset(buffer, 0, (size_t)now);
        must(MPI_File_read_all(file, buffer, (int)now, MPI_BYTE, &status), "read_all");
        for (int64_t at = 0; at < now;) {
            int64_t inside = (done + at) % block, take = block - inside < now - at ? block - inside : now - at;
            int64_t offset = (done + at) / block * block * size + block * rank + inside;
            long wrong = pass(buffer + at, (uint64_t)offset, take, 1);
            if (wrong >= 0) {
                fprintf(stderr, "rank %d has read another byte %lld than was written\n", rank, (long long)(offset + wrong));
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
            at += take;
        }
    }
    must(MPI_File_close(&file), "close");
    free(buffer);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long beside = usage.ru_maxrss - chunk / 1024, worst;
    MPI_Reduce(&beside, &worst, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (!rank) printf("large %s bytes=%lld ranks=%d kilobytes=%ld\n", argv[1], (long long)total, size, worst);
    return MPI_Finalize();
}

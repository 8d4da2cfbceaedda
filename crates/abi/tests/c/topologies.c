/* Topologies and neighbourhood collectives, against what the arguments say: grids of all shapes, and random graphs
   that all ranks know. */
#include "check.h"

#include <string.h>

enum { BLOCK = 3, DEGREE_MAX = 64 };

static int rank, size;

/* A number that only the edge from one rank to another, the edge's number and the position determine. */
static int value(int from, int to, int edge, int at) {
    return ((from * 37 + to) * 41 + edge) * 43 + at;
}

/* The same sequence on all ranks. */
static unsigned long state = 7;
static int random_below(int end) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (int)((state >> 33) % (unsigned long)end);
}

static int topology(MPI_Comm comm) {
    int kind;
    OK(MPI_Topo_test(comm, &kind));
    return kind;
}

/* Coordinates, ranks and shifts of a grid, and an exchange along all its directions. */
static void grid(int ndims, const int *dims, const int *periods, int reorder) {
    MPI_Comm old = MPI_COMM_WORLD, comm, copy;
    int nodes = 1;
    for (int d = 0; d < ndims; d++)
        nodes *= dims[d];
    OK(MPI_Cart_create(old, ndims, dims, periods, reorder, &comm));
    if (comm == MPI_COMM_NULL)
        return;
    int me, count, found, got[4], wraps[4], mine[4], coords[4];
    OK(MPI_Comm_size(comm, &count));
    CHECK(count == nodes && topology(comm) == MPI_CART);
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Cartdim_get(comm, &count));
    CHECK(count == ndims);
    OK(MPI_Cart_get(comm, ndims, got, wraps, mine));
    for (int d = 0; d < ndims; d++)
        CHECK(got[d] == dims[d] && !wraps[d] == !periods[d]);
    for (int other = 0; other < nodes; other++) {
        int left = other;
        OK(MPI_Cart_coords(comm, other, ndims, coords));
        for (int d = ndims - 1; d >= 0; d--) {
            CHECK(coords[d] == left % dims[d]);
            left /= dims[d];
        }
        OK(MPI_Cart_rank(comm, coords, &found));
        CHECK(found == other);
        CHECK(other != me || memcmp(coords, mine, ndims * sizeof *mine) == 0);
    }

    /* What goes downwards in a dimension comes from above. */
    int sent[8][BLOCK], received[8][BLOCK], below[4], above[4];
    for (int d = 0; d < ndims; d++) {
        OK(MPI_Cart_shift(comm, d, 1, &below[d], &above[d]));
        memcpy(coords, mine, sizeof coords);
        coords[d]++;
        if (!periods[d] && coords[d] == dims[d]) {
            CHECK(above[d] == MPI_PROC_NULL);
        } else {
            OK(MPI_Cart_rank(comm, coords, &found));
            CHECK(above[d] == found);
        }
        for (int at = 0; at < BLOCK; at++) {
            sent[2 * d][at] = value(me, below[d], 2 * d, at);
            sent[2 * d + 1][at] = value(me, above[d], 2 * d + 1, at);
        }
    }
    OK(MPI_Comm_dup(comm, &copy));
    CHECK(topology(copy) == MPI_CART);
    MPI_Request persistent;
    OK(MPI_Neighbor_alltoall_init(sent, BLOCK, MPI_INT, received, BLOCK, MPI_INT, copy, MPI_INFO_NULL,
                                  &persistent));
    for (int way = 0; way < 4; way++) {
        MPI_Request request = persistent;
        memset(received, -1, sizeof received);
        if (way == 0) {
            OK(MPI_Neighbor_alltoall(sent, BLOCK, MPI_INT, received, BLOCK, MPI_INT, comm));
        } else if (way == 1) {
            OK(MPI_Ineighbor_alltoall(sent, BLOCK, MPI_INT, received, BLOCK, MPI_INT, comm, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        for (int d = 0; d < ndims; d++)
            for (int at = 0; at < BLOCK; at++) {
                int low = below[d] == MPI_PROC_NULL ? -1 : value(below[d], me, 2 * d + 1, at);
                int high = above[d] == MPI_PROC_NULL ? -1 : value(above[d], me, 2 * d, at);
                CHECK(received[2 * d][at] == low && received[2 * d + 1][at] == high);
            }
    }
    OK(MPI_Request_free(&persistent));
    OK(MPI_Comm_free(&copy));

    /* Every choice of dimensions that remain. */
    for (int chosen = 0; chosen < 1 << ndims; chosen++) {
        int remain[4], expected = 1, at = 0;
        for (int d = 0; d < ndims; d++) {
            remain[d] = chosen >> d & 1;
            expected *= remain[d] ? dims[d] : 1;
        }
        OK(MPI_Cart_sub(comm, remain, &copy));
        OK(MPI_Comm_size(copy, &count));
        CHECK(count == expected);
        OK(MPI_Cartdim_get(copy, &count));
        OK(MPI_Cart_get(copy, count, got, wraps, coords));
        for (int d = 0; d < ndims; d++)
            if (remain[d]) {
                CHECK(got[at] == dims[d] && !wraps[at] == !periods[d] && coords[at] == mine[d]);
                at++;
            }
        CHECK(at == count);
        OK(MPI_Comm_free(&copy));
    }
    OK(MPI_Comm_free(&comm));
}

/* Edges of a random graph, in the order in which both ends see them. */
static int edges[DEGREE_MAX * 2][3], edge_count;

/* Neighbours, weights and all collectives of a graph that `comm` has been given. */
static void exchange(MPI_Comm comm, int weighted) {
    int me, in = 0, out = 0, indegree, outdegree, flag;
    int sources[DEGREE_MAX * 2], destinations[DEGREE_MAX * 2], weights_in[DEGREE_MAX * 2], weights_out[DEGREE_MAX * 2];
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Dist_graph_neighbors_count(comm, &indegree, &outdegree, &flag));
    CHECK(!flag == !weighted);
    OK(MPI_Dist_graph_neighbors(comm, indegree, sources, weighted ? weights_in : MPI_UNWEIGHTED, outdegree,
                                destinations, weighted ? weights_out : MPI_UNWEIGHTED));
    for (int e = 0; e < edge_count; e++) {
        if (edges[e][1] == me) {
            CHECK(sources[in] == edges[e][0] && (!weighted || weights_in[in] == edges[e][2]));
            in++;
        }
        if (edges[e][0] == me) {
            CHECK(destinations[out] == edges[e][1] && (!weighted || weights_out[out] == edges[e][2]));
            out++;
        }
    }
    CHECK(in == indegree && out == outdegree);

    /* The n-th edge from one rank to another carries n + 1 numbers, every second of them left out in memory. */
    MPI_Datatype element, sparse;
    OK(MPI_Type_vector(1, 1, 1, MPI_INT, &element));
    OK(MPI_Type_create_resized(element, 0, 2 * sizeof(int), &sparse));
    OK(MPI_Type_free(&element));
    OK(MPI_Type_commit(&sparse));
    enum { ROOM = DEGREE_MAX * 2 };
    static int sent[DEGREE_MAX * 2][ROOM], received[DEGREE_MAX * 2][ROOM], gathered[DEGREE_MAX * 2][BLOCK];
    int sendcounts[DEGREE_MAX * 2], recvcounts[DEGREE_MAX * 2], sdispls[DEGREE_MAX * 2], rdispls[DEGREE_MAX * 2];
    MPI_Aint sbytes[DEGREE_MAX * 2], rbytes[DEGREE_MAX * 2];
    MPI_Datatype sendtypes[DEGREE_MAX * 2], recvtypes[DEGREE_MAX * 2];
    for (int e = 0; e < outdegree; e++) {
        int number = 0;
        for (int before = 0; before < e; before++)
            number += destinations[before] == destinations[e];
        sendcounts[e] = number + 1;
        sdispls[e] = e * ROOM;
        sbytes[e] = (char *)sent[e] - (char *)sent;
        sendtypes[e] = MPI_INT;
        for (int at = 0; at < ROOM; at++)
            sent[e][at] = value(me, destinations[e], number, at);
    }
    for (int e = 0; e < indegree; e++) {
        int number = 0;
        for (int before = 0; before < e; before++)
            number += sources[before] == sources[e];
        recvcounts[e] = number + 1;
        rdispls[e] = e * ROOM;
        rbytes[e] = (char *)received[e] - (char *)received;
        recvtypes[e] = sparse;
    }
    for (int way = 0; way < 3; way++) {
        int step = way == 1 ? 2 : 1;
        MPI_Request request;
        memset(received, -1, sizeof received);
        if (way == 0) {
            OK(MPI_Neighbor_alltoallv(sent, sendcounts, sdispls, MPI_INT, received, recvcounts, rdispls, MPI_INT, comm));
        } else if (way == 1) {
            OK(MPI_Ineighbor_alltoallw(sent, sendcounts, sbytes, sendtypes, received, recvcounts, rbytes, recvtypes,
                                       comm, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Neighbor_alltoallv_init(sent, sendcounts, sdispls, MPI_INT, received, recvcounts, rdispls, MPI_INT,
                                           comm, MPI_INFO_NULL, &request));
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&request));
        }
        for (int e = 0; e < indegree; e++)
            for (int at = 0; at < ROOM; at++) {
                int filled = at % step == 0 && at / step < recvcounts[e];
                int expected = filled ? value(sources[e], me, recvcounts[e] - 1, at / step) : -1;
                CHECK(received[e][at] == expected);
            }
    }
    OK(MPI_Type_free(&sparse));

    int mine[BLOCK];
    for (int at = 0; at < BLOCK; at++)
        mine[at] = value(me, 0, 0, at);
    for (int way = 0; way < 2; way++) {
        int counts[DEGREE_MAX * 2], displs[DEGREE_MAX * 2];
        memset(gathered, -1, sizeof gathered);
        if (way == 0) {
            OK(MPI_Neighbor_allgather(mine, BLOCK, MPI_INT, gathered, BLOCK, MPI_INT, comm));
        } else {
            for (int e = 0; e < indegree; e++) {
                counts[e] = BLOCK;
                displs[e] = e * BLOCK;
            }
            OK(MPI_Neighbor_allgatherv(mine, BLOCK, MPI_INT, gathered, counts, displs, MPI_INT, comm));
        }
        for (int e = 0; e < indegree; e++)
            for (int at = 0; at < BLOCK; at++)
                CHECK(gathered[e][at] == value(sources[e], 0, 0, at));
    }
}

/* A random graph, passed by the ranks that have its edges, or in pieces by any ranks. */
static void random_graph(int reorder, int weighted) {
    edge_count = random_below(DEGREE_MAX);
    /* In this order the pieces below put it together. */
    int owner = 0;
    int sources[DEGREE_MAX], degrees[DEGREE_MAX], destinations[DEGREE_MAX], weights[DEGREE_MAX], n = 0;
    for (int e = 0; e < edge_count; e++) {
        if (random_below(edge_count) < size && owner + 1 < size)
            owner++;
        for (int end = 0; end < 2; end++)
            edges[e][end] = random_below(size);
        edges[e][2] = random_below(100);
        if (owner == rank) {
            sources[n] = edges[e][0];
            degrees[n] = 1;
            destinations[n] = edges[e][1];
            weights[n++] = edges[e][2];
        }
    }
    MPI_Comm comm;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, destinations, weighted ? weights : MPI_UNWEIGHTED,
                             MPI_INFO_NULL, reorder, &comm));
    CHECK(topology(comm) == MPI_DIST_GRAPH);
    exchange(comm, weighted);
    OK(MPI_Comm_free(&comm));

    int in = 0, out = 0, from[DEGREE_MAX], to[DEGREE_MAX], weights_in[DEGREE_MAX], weights_out[DEGREE_MAX];
    for (int e = 0; e < edge_count; e++) {
        if (edges[e][1] == rank) {
            from[in] = edges[e][0];
            weights_in[in++] = edges[e][2];
        }
        if (edges[e][0] == rank) {
            to[out] = edges[e][1];
            weights_out[out++] = edges[e][2];
        }
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, from, weighted ? weights_in : MPI_UNWEIGHTED, out, to,
                                      weighted ? weights_out : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &comm));
    exchange(comm, weighted);
    OK(MPI_Comm_free(&comm));
}

/* A ring as a graph, of all ranks but the last if there are more than two. */
static void ring(int reorder) {
    int nodes = size > 2 ? size - 1 : size, index[64], ends[128], got[64], near[2], count;
    for (int node = 0; node < nodes; node++) {
        index[node] = 2 * node + 2;
        ends[2 * node] = (node + nodes - 1) % nodes;
        ends[2 * node + 1] = (node + 1) % nodes;
    }
    MPI_Comm comm;
    OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, index, ends, &count));
    CHECK(count == (rank < nodes ? rank : MPI_UNDEFINED));
    OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, index, ends, reorder, &comm));
    if (comm == MPI_COMM_NULL)
        return;
    int me, edges_found;
    CHECK(topology(comm) == MPI_GRAPH);
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Graphdims_get(comm, &count, &edges_found));
    CHECK(count == nodes && edges_found == 2 * nodes);
    OK(MPI_Graph_get(comm, nodes, 2 * nodes, got, ends));
    CHECK(memcmp(got, index, nodes * sizeof *got) == 0 && ends[2 * nodes - 1] == 0);
    OK(MPI_Graph_neighbors_count(comm, me, &count));
    CHECK(count == 2);
    OK(MPI_Graph_neighbors(comm, me, 2, near));
    int gathered[2] = {-1, -1};
    OK(MPI_Neighbor_allgather(&me, 1, MPI_INT, gathered, 1, MPI_INT, comm));
    CHECK(gathered[0] == near[0] && gathered[1] == near[1]);
    OK(MPI_Comm_free(&comm));
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void wrong_arguments(void) {
    MPI_Comm comm;
    int number, dims[1] = {size + 1}, periods[1] = {0}, coords[1] = {size}, zero[1] = {0}, outside[1] = {size};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Cartdim_get(MPI_COMM_WORLD, &number)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Graphdims_get(MPI_COMM_WORLD, &number, &number)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Neighbor_allgather(&number, 1, MPI_INT, dims, 1, MPI_INT, MPI_COMM_WORLD)) == MPI_ERR_TOPOLOGY);
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, zero, periods, 0, &comm)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, outside, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED,
                                                  MPI_INFO_NULL, 0, &comm)) == MPI_ERR_RANK);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &comm));
    CHECK(class_of(MPI_Cart_rank(comm, coords, &number)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_shift(comm, 1, 1, &number, &number)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, dims, 1, MPI_INT, comm)) == MPI_ERR_BUFFER);
    OK(MPI_Comm_free(&comm));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(topology(MPI_COMM_WORLD) == MPI_UNDEFINED);
    for (int reorder = 0; reorder < 2; reorder++) {
        for (int shape = 0; shape < 20; shape++) {
            int ndims = random_below(4), dims[4] = {0}, periods[4];
            for (int d = 0; d < ndims; d++)
                periods[d] = random_below(2);
            OK(MPI_Dims_create(ndims ? size : 1, ndims, dims));
            if (ndims && dims[0] > 1 && random_below(2))
                dims[0]--; /* Some ranks are left over. */
            grid(ndims, dims, periods, reorder);
        }
        ring(reorder);
        for (int weighted = 0; weighted < 2; weighted++)
            for (int graph = 0; graph < 10; graph++)
                random_graph(reorder, weighted);
    }
    wrong_arguments();
    OK(MPI_Finalize());
    return 0;
}

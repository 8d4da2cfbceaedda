/* Broadcast: sends one message to all ranks along a binary tree, forwarded by the NICs alone.
 *
 * The application at the root sends the message once, to its own rank, with any tag. Every other application
 * receives it from the root with that tag, as if the root had sent it to each: forwarding keeps sender and tag.
 *
 *     root:      MPI_Send(numbers, n, MPI_DOUBLE, root, tag, module_comm);
 *     others:    MPI_Recv(numbers, n, MPI_DOUBLE, root, tag, module_comm, ...);
 *
 * Payload: any bytes, up to the longest message that modules take.
 *
 * Any rank can be the root, and many broadcasts can be in progress: the module keeps no state, because the sender
 * of the message tells each rank its position in the tree. With ranks counted from the root, the children of i are
 * 2i + 1 and 2i + 2. Each rank but the root has one parent, so each receives once. A module forwards before it
 * delivers, so a busy application delays no rank below it.
 *
 * The root's module consumes the message: its application has the bytes already. A message to another rank than
 * the sender's own reaches only that rank and those below it.
 */
#include <ferry_module.h>

FERRY_ON_MESSAGE {
    uint32_t size = (uint32_t)ferry_size();
    uint32_t root = (uint32_t)ferry_sender();
    uint32_t from_root = ((uint32_t)ferry_rank() + size - root) % size;

    /* The first child goes first: its subtree is never the smaller one. */
    for (uint32_t child = 2 * from_root + 1; child <= 2 * from_root + 2; child++) {
        if (child < size) {
            ferry_forward((int32_t)((child + root) % size));
        }
    }
    return from_root == 0 ? FERRY_CONSUME : FERRY_DELIVER;
}

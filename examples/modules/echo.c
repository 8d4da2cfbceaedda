/* Echo: answers requests where they arrive. The application there takes no part; it may be computing.
 *
 * A request is a message with an even tag and any payload. Its answer has the same payload and the tag plus one.
 *
 *     MPI_Send(&number, 1, MPI_INT64_T, other, 6, module_comm);
 *     MPI_Recv(&number, 1, MPI_INT64_T, other, 7, module_comm, ...);
 *
 * The answer goes to a module too: to that of the rank that asked, which delivers it because its tag is odd.
 * Without such a rule two modules would answer each other's answers for ever. A rank may ask itself, because the
 * rule needs only the tag.
 */
#include <ferry_module.h>

static unsigned char payload[FERRY_MESSAGE_BYTES_MAX];

FERRY_ON_MESSAGE {
    int32_t tag = ferry_tag();
    int is_answer = tag % 2 == 1;
    if (is_answer) {
        return FERRY_DELIVER;
    }
    int32_t length = ferry_length();
    ferry_read(payload, 0, length);
    ferry_send(ferry_sender(), tag + 1, payload, length);
    return FERRY_CONSUME;
}

/* Echo: answers requests where they arrive. The application there takes no part; it may be computing.
 *
 * A request is a message with an even tag and any payload. Its answer has the same payload and the tag plus one.
 *
 *     MPI_Send(&number, 1, MPI_INT64_T, other, 6, module_comm);
 *     MPI_Recv(&number, 1, MPI_INT64_T, other, 7, module_comm, ...);
 *
 * The answer, too, comes to a module: to that of the rank that asked. The tag tells it that this is an answer,
 * to be delivered. Without such a rule two modules would answer each other's answers for ever. A rank may ask
 * itself: the rule needs the tag alone.
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

/* Steal: a queue of tasks at each rank, served by its NIC. A thief never waits for the victim's application.
 *
 * Any rank, including its own, sends requests to the rank that has the queue. Each request has one answer, with the
 * tag plus one, which the module of the asking rank delivers. Numbers are 32-bit, little-endian.
 *
 *     tag  request                               answer, tag + 1
 *     0    push: 32 bytes, the task              OK; FULL: the task was not queued
 *     2    steal: one number, 0, or 1 to wait    OK and the task; NONE; FULL: too many are waiting
 *     4    release: empty                        OK
 *
 *     answer: status, tasks left in the queue, then the 32 bytes of the task if there is one
 *
 * A steal from an empty queue is answered NONE at once, or waits if it asked to: waiting steals get the next tasks
 * that are pushed, first come, first served. Release answers NONE to all waiting steals, which is the way to end a
 * job. A thief steals the oldest task, likely the largest; the rank itself takes the newest, likely the warmest in
 * its cache.
 *
 * A malformed request is answered BAD instead of ending in a fault, because its sender waits for an answer.
 *
 * While a steal waits, the queue is empty. Each task pushed with OK is stolen once.
 */
#include <ferry_module.h>

enum {
    PUSH = 0,
    STEAL = 2,
    RELEASE = 4,
};

enum {
    OK = 0,
    NONE = 1,
    FULL = 2,
    BAD = 3,
};

enum {
    TASK_BYTES = 32,
    TASKS_MAX = 1024,
    /* Release answers all of them and its sender within the sends allowed for one message. */
    WAITING_MAX = FERRY_SENDS_MAX - 4,
};

struct task {
    uint64_t words[TASK_BYTES / 8];
};

struct answer {
    int32_t status;
    int32_t left;
    struct task task;
};

enum {
    ANSWER_WITHOUT_TASK = 8,
};

/* Both are rings: `*_count` entries from `*_first`, modulo the length. */
static struct task tasks[TASKS_MAX];
static uint32_t task_first, task_count;

static int32_t waiting[WAITING_MAX];
static uint32_t waiting_first, waiting_count;

static void answer(int32_t to, int32_t request, int32_t status) {
    struct answer answer = {.status = status, .left = (int32_t)task_count};
    ferry_send(to, request + 1, &answer, ANSWER_WITHOUT_TASK);
}

static void hand_over(int32_t to, const struct task *task) {
    struct answer answer = {.status = OK, .left = (int32_t)task_count, .task = *task};
    ferry_send(to, STEAL + 1, &answer, sizeof answer);
}

static int32_t longest_waiting(void) {
    int32_t thief = waiting[waiting_first];
    waiting_first = (waiting_first + 1) % WAITING_MAX;
    waiting_count--;
    return thief;
}

static void push(int32_t sender) {
    struct task task;
    ferry_read(&task, 0, TASK_BYTES);
    if (waiting_count > 0) {
        hand_over(longest_waiting(), &task);
        answer(sender, PUSH, OK);
    } else if (task_count < TASKS_MAX) {
        tasks[(task_first + task_count) % TASKS_MAX] = task;
        task_count++;
        answer(sender, PUSH, OK);
    } else {
        answer(sender, PUSH, FULL);
    }
}

static void steal(int32_t sender, int may_wait) {
    if (task_count > 0) {
        uint32_t slot = task_first;
        if (sender == ferry_rank()) {
            slot = (task_first + task_count - 1) % TASKS_MAX;
        } else {
            task_first = (task_first + 1) % TASKS_MAX;
        }
        task_count--;
        hand_over(sender, &tasks[slot]);
    } else if (!may_wait) {
        answer(sender, STEAL, NONE);
    } else if (waiting_count < WAITING_MAX) {
        waiting[(waiting_first + waiting_count) % WAITING_MAX] = sender;
        waiting_count++;
    } else {
        answer(sender, STEAL, FULL);
    }
}

static void release(int32_t sender) {
    while (waiting_count > 0) {
        answer(longest_waiting(), STEAL, NONE);
    }
    answer(sender, RELEASE, OK);
}

FERRY_ON_MESSAGE {
    int32_t tag = ferry_tag();
    int is_answer = tag % 2 == 1;
    if (is_answer) {
        return FERRY_DELIVER;
    }
    int32_t sender = ferry_sender();
    int32_t length = ferry_length();
    if (tag == PUSH && length == TASK_BYTES) {
        push(sender);
    } else if (tag == STEAL && length == 4) {
        steal(sender, ferry_read_i32(0) != 0);
    } else if (tag == RELEASE && length == 0) {
        release(sender);
    } else {
        answer(sender, tag, BAD);
    }
    return FERRY_CONSUME;
}

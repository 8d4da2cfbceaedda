/* Makes the machine appear to have sixteen cores, so that communicators are in several planes. */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set) {
    (void)process;
    memset(set, 0, bytes);
    for (int core = 0; core < 16; core++) CPU_SET_S(core, bytes, set);
    return 0;
}

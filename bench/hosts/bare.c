/* bare udp|tcp half|stream BYTES ROUNDS [ADDRESS]: the network without an MPI. With an address, this side begins.
 *
 * Both sides poll their socket, like an MPI with a core to itself, and are pinned to a core each. A lost datagram hangs
 * it: use a network that loses none. Prints what speed.c prints: "speed FIGURE". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 47100, WINDOW = 8 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        exit(1);
    }
}

/* A socket that is connected to the other side. */
static int meet(int datagrams, const char *address)
{
    int kind = datagrams ? SOCK_DGRAM : SOCK_STREAM, on = 1;
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_port = htons(PORT) }, there = here;
    int fd = socket(AF_INET, kind, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address) {
        must(inet_pton(AF_INET, address, &there.sin_addr) == 1, address);
        for (int tries = 0; connect(fd, (void *)&there, sizeof there) != 0; tries++) {
            must(tries < 500, "connect");
            usleep(10000);
        }
        /* The other side may not have started yet. */
        char answer;
        for (int tries = 0; datagrams && recv(fd, &answer, 1, MSG_DONTWAIT) < 0; tries++) {
            must(tries < 500, "no answer");
            send(fd, "", 1, 0);
            usleep(10000);
        }
    } else {
        must(bind(fd, (void *)&here, sizeof here) == 0, "bind");
        if (datagrams) {
            char question;
            socklen_t len = sizeof there;
            must(recvfrom(fd, &question, 1, 0, (void *)&there, &len) == 1, "recvfrom");
            must(connect(fd, (void *)&there, sizeof there) == 0, "connect");
            send(fd, "", 1, 0);
        } else {
            must(listen(fd, 1) == 0, "listen");
            fd = accept(fd, NULL, NULL);
        }
    }
    if (!datagrams)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void put(int fd, const char *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t now = send(fd, bytes + done, len - done, MSG_DONTWAIT);
        must(now > 0 || errno == EAGAIN, "send");
        done += now > 0 ? (size_t)now : 0;
    }
}

static void take(int fd, char *bytes, size_t len)
{
    double limit = 0;
    for (size_t done = 0; done < len;) {
        ssize_t now = recv(fd, bytes + done, len - done, MSG_DONTWAIT);
        must(now > 0 || errno == EAGAIN, "recv");
        done += now > 0 ? (size_t)now : 0;
        if (now < 0) {
            limit = limit > 0 ? limit : seconds() + 2;
            must(seconds() < limit, "nothing came");
        }
    }
}

int main(int argc, char **argv)
{
    int datagrams = !strcmp(argv[1], "udp"), halves = !strcmp(argv[2], "half"), rounds = atoi(argv[4]);
    size_t len = (size_t)atol(argv[3]);
    const char *address = argc > 5 ? argv[5] : NULL;
    char *bytes = calloc(1, len);
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(address ? 0 : 1 % sysconf(_SC_NPROCESSORS_ONLN), &core);
    sched_setaffinity(0, sizeof core, &core);
    int fd = meet(datagrams, address);
    double begun = 0;
    for (int round = -rounds / 10; round < rounds; round++) {
        if (round == 0)
            begun = seconds();
        for (int at = 0; at < (halves ? 1 : WINDOW); at++)
            address ? put(fd, bytes, len) : take(fd, bytes, len);
        size_t answer = halves ? len : 1;
        address ? take(fd, bytes, answer) : put(fd, bytes, answer);
    }
    double took = seconds() - begun;
    if (address)
        printf("speed %.3f\n", halves ? took / rounds / 2 * 1e6 : (double)len * WINDOW * rounds / took / 1e6);
    return 0;
}

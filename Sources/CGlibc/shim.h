// The parts of glibc that Swift's own Glibc module lacks: the settings of malloc, and poll by the nanosecond.
#ifndef BROKER_CGLIBC_SHIM_H
#define BROKER_CGLIBC_SHIM_H

#include <malloc.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/// ppoll(2) without a mask of signals, which its header declares only for GNU's own sources.
static inline long broker_poll(struct pollfd *polls, unsigned long count, struct timespec *patience) {
    return syscall(SYS_ppoll, polls, count, patience, (void *)0, 0L);
}

#endif

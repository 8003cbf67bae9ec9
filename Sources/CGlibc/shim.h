// The parts of glibc that Swift's own Glibc module lacks: the settings of malloc, poll by the nanosecond, and the width
// of characters.
#ifndef BROKER_CGLIBC_SHIM_H
#define BROKER_CGLIBC_SHIM_H

#include <malloc.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/// ppoll(2) without a mask of signals, which its header declares only for GNU's own sources.
static inline long broker_poll(struct pollfd *polls, unsigned long count, struct timespec *patience) {
    return syscall(SYS_ppoll, polls, count, patience, (void *)0, 0L);
}

/// wcwidth(3), which its header declares only for sources of the X/Open standard: columns of a terminal, by the thread's
/// locale; -1 of a character that has no width.
static inline int broker_character_width(unsigned int character) {
    extern int wcwidth(wchar_t character);
    return wcwidth((wchar_t)character);
}

#endif

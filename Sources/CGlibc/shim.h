// The parts of glibc that Swift's own Glibc module lacks: the settings of malloc, poll by the nanosecond, the width
// of characters, character encodings, and early writing.
#ifndef BROKER_CGLIBC_SHIM_H
#define BROKER_CGLIBC_SHIM_H

#include <iconv.h>
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

/// sync_file_range(2), which its header declares only for GNU's own sources: the kernel begins to write these bytes of the file to the
/// disk, and is not waited for.
static inline long broker_begin_writing(int file, long long offset, long long count) {
    enum { write = 2 };
    return syscall(SYS_sync_file_range, file, offset, count, write);
}

/// wcwidth(3), which its header declares only for sources of the X/Open standard: columns of a terminal, by the thread's
/// locale; -1 of a character that has no width.
static inline int broker_character_width(unsigned int character) {
    extern int wcwidth(wchar_t character);
    return wcwidth((wchar_t)character);
}

#endif

/*
 * Preloaded into a server of scripts/replicas: what cannot be had in a namespace of one machine.
 *
 * - ANOTHER_CLOCK names a file with a 64-bit number: the seconds that this server's clock of the day is ahead. Each call reads it, so the
 *   clock jumps while the server runs. (libfaketime does not start beside jemalloc.)
 * - ANOTHER_SQLITE is the version that SQLite says it is: it gives the server another fingerprint.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    static const volatile long *_Atomic seconds;
    static const long none;
    if (!seconds) {
        const char *path = getenv("ANOTHER_CLOCK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        if (file >= 0) close(file);
        seconds = mapped == MAP_FAILED ? &none : mapped;
    }
    return *seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (syscall(SYS_clock_gettime, clock, time)) return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += ahead();
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

/* The end of a wait, by the clock of the kernel. That of the time since the start of the system is not ahead. */
static struct timespec end_of_wait(const struct timespec *end) {
    struct timespec own = *end;
    if (own.tv_sec > 1000000000) own.tv_sec -= ahead();
    return own;
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict end) {
    static int (*_Atomic wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec own = end_of_wait(end);
    if (!wait) wait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    return wait(condition, mutex, &own);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict end) {
    static int (*_Atomic wait)(sem_t *, const struct timespec *);
    struct timespec own = end_of_wait(end);
    if (!wait) wait = dlsym(RTLD_NEXT, "sem_timedwait");
    return wait(semaphore, &own);
}

const char *sqlite3_sourceid(void) {
    static const char *(*_Atomic real)(void);
    const char *version = getenv("ANOTHER_SQLITE");
    if (version) return version;
    if (!real) real = dlsym(RTLD_NEXT, "sqlite3_sourceid");
    return real();
}

// What hand-overs between threads and pages cost a job that is alone: a server that receives, writes pages to a file as large as a
// WAL, syncs it and answers, on one thread, with a second thread that writes and answers, or with one that writes and hands back.
//
//     cc -O2 -pthread Tests/Bench/HandOver.c -o /tmp/hand-over && /tmp/hand-over FOLDER [JOBS]
//
// prints the median time of a job in microseconds, as its client sees it, in three rounds. FOLDER is on the disk in question.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 8192, FILE_PAGES = 512, JOB_BYTES = 200, ANSWER_BYTES = 100 };
enum mode { ONE_THREAD, SECOND_ANSWERS, HANDED_BACK };
static const char *const names[] = {"one thread", "a second thread answers", "a second thread hands back"};

static int sockets[2], file, back, pages;
static long next_page;
static enum mode mode;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static int waiting, stopping;

static void check(int is_good, const char *what) {
    if (is_good) return;
    perror(what);
    exit(1);
}

static void commit(void) {
    static char page[PAGE];
    for (int i = 0; i < pages; i++, next_page++)
        check(pwrite(file, page, PAGE, (next_page % FILE_PAGES) * PAGE) == PAGE, "pwrite");
    check(fdatasync(file) == 0, "fdatasync");
}

static void answer(void) {
    static const char bytes[ANSWER_BYTES];
    check(write(sockets[1], bytes, ANSWER_BYTES) == ANSWER_BYTES, "write");
}

static void *writer(void *unused) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!waiting && !stopping) pthread_cond_wait(&arrived, &lock);
        int ends = stopping;
        waiting = 0;
        pthread_mutex_unlock(&lock);
        if (ends) return unused;
        commit();
        if (mode == SECOND_ANSWERS) answer();
        else check(eventfd_write(back, 1) == 0, "eventfd");
    }
}

static void *server(void *unused) {
    char bytes[JOB_BYTES];
    struct pollfd polled[] = {{sockets[1], POLLIN, 0}, {back, POLLIN, 0}};
    for (;;) {
        check(poll(polled, 2, -1) > 0, "poll");
        if (polled[1].revents) {
            eventfd_t count;
            eventfd_read(back, &count);
            answer();
        }
        if (!polled[0].revents) continue;
        if (read(sockets[1], bytes, JOB_BYTES) != JOB_BYTES) return unused;
        if (mode == ONE_THREAD) {
            commit();
            answer();
            continue;
        }
        pthread_mutex_lock(&lock);
        waiting = 1;
        pthread_cond_signal(&arrived);
        pthread_mutex_unlock(&lock);
    }
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(int jobs) {
    char bytes[JOB_BYTES] = {0};
    double *times = malloc(jobs * sizeof *times);
    pthread_t threads[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "socketpair");
    stopping = waiting = 0;
    pthread_create(&threads[0], NULL, server, NULL);
    pthread_create(&threads[1], NULL, writer, NULL);
    for (int i = 0; i < jobs; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        check(write(sockets[0], bytes, JOB_BYTES) == JOB_BYTES, "write");
        check(recv(sockets[0], bytes, ANSWER_BYTES, MSG_WAITALL) == ANSWER_BYTES, "recv");
        clock_gettime(CLOCK_MONOTONIC, &end);
        times[i] = (end.tv_sec - begin.tv_sec) * 1e6 + (end.tv_nsec - begin.tv_nsec) / 1e3;
    }
    close(sockets[0]);
    pthread_join(threads[0], NULL);
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_signal(&arrived);
    pthread_mutex_unlock(&lock);
    pthread_join(threads[1], NULL);
    close(sockets[1]);
    qsort(times, jobs, sizeof *times, ascending);
    double result = times[jobs / 2];
    free(times);
    return result;
}

int main(int count, char **arguments) {
    if (count < 2) return fprintf(stderr, "Usage: %s FOLDER [JOBS]\n", arguments[0]), 2;
    int jobs = count > 2 ? atoi(arguments[2]) : 3000;
    char path[4096];
    snprintf(path, sizeof path, "%s/hand-over.XXXXXX", arguments[1]);
    check((file = mkstemp(path)) >= 0, path);
    unlink(path);
    check(posix_fallocate(file, 0, (off_t)FILE_PAGES * PAGE) == 0, "posix_fallocate");
    check((back = eventfd(0, 0)) >= 0, "eventfd");
    const int page_counts[] = {2, 4};
    for (int round = 0; round < 3; round++)
        for (mode = ONE_THREAD; mode <= HANDED_BACK; mode++)
            for (int i = 0; i < 2; i++) {
                pages = page_counts[i];
                printf("%d pages, %s: %.0f µs\n", pages, names[mode], median(jobs));
                fflush(stdout);
            }
    return 0;
}

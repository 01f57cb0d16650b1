/*
 * shim_clock.c: LD_PRELOAD; the wall clock of one process, moved at will.
 *
 * $SHIM_CLOCK_FILE holds one native int64: nanoseconds added to CLOCK_REALTIME
 * (clock_gettime, gettimeofday, time).  The file is mapped, so a test moves the
 * clock by writing to it.  CLOCK_MONOTONIC and the rest pass untouched.
 *
 * Nothing here allocates or asks the dynamic linker: jemalloc calls the clock
 * while it sets itself up, and would come back to us for memory.  The time is
 * therefore read by a plain system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define EXPORT __attribute__((visibility("default")))

/* Until the constructor has run the clock is the true one. */
static _Atomic int64_t *shift;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("SHIM_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED)
        shift = p;
    close(fd);
}

static int moved(clockid_t id)
{
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
}

static int read_clock(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc != 0 || !shift || !moved(id))
        return rc;
    int64_t ns = t->tv_sec * SECOND + t->tv_nsec + *shift;
    int64_t rest = ns % SECOND;
    if (rest < 0)
        rest += SECOND;
    t->tv_sec = (time_t)((ns - rest) / SECOND);
    t->tv_nsec = (long)rest;
    return 0;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
    return read_clock(id, t);
}

EXPORT int gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec t;
    (void)zone;
    if (read_clock(CLOCK_REALTIME, &t) != 0)
        return -1;
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *out)
{
    struct timespec t = { 0 };
    (void)read_clock(CLOCK_REALTIME, &t);
    if (out)
        *out = t.tv_sec;
    return t.tv_sec;
}

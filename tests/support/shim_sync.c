/*
 * shim_sync.c: LD_PRELOAD; a disk that is slow, broken or loses its power.
 *
 * $SHIM_SYNC_FILE holds struct shim_sync (shim_sync.h), mapped: a test changes
 * how fsync and fdatasync behave by writing to it, and reads what they did.
 * For each file it is noted how long it was when it was last synced: what is
 * behind that is lost when the power is cut, see redis_power_cut.
 *
 * A file's length is taken before the sync begins: what is written meanwhile
 * may or may not be on disk, and a disk that keeps less is the worse one.
 */
#include "support/shim_sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static struct shim_sync *ctl;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("SHIM_SYNC_FILE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof *ctl, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                   0);
    if (p != MAP_FAILED)
        ctl = p;
    close(fd);
}

/* A file's place among those noted, or a free one; NULL: there are too many. */
static struct shim_synced *place_of(uint64_t file)
{
    for (int i = 0; i < SHIM_SYNC_FILES; i++) {
        uint64_t none = 0;
        struct shim_synced *f = &ctl->files[i];
        if (f->file == file ||
            atomic_compare_exchange_strong(&f->file, &none, file) ||
            none == file)
            return f;
    }
    return NULL;
}

/* In steps, so that a test that ends the slowness is not kept waiting. */
static void dawdle(void)
{
    struct timespec step = { .tv_nsec = 1000000 };
    for (int64_t left = ctl->delay_ms; left > 0 && ctl->delay_ms > 0; left--)
        (void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &step, NULL);
}

static int sync_file(int fd, long call)
{
    struct stat st;
    if (!ctl || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return (int)syscall(call, fd);
    ctl->calls++;
    dawdle();
    if (ctl->fail) {
        errno = EIO;
        return -1;
    }
    int rc = (int)syscall(call, fd);
    struct shim_synced *f = rc == 0 ? place_of(shim_sync_file(fd)) : NULL;
    if (f && st.st_size > f->length)
        f->length = st.st_size;
    return rc;
}

EXPORT int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}

EXPORT int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

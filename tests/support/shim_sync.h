/*
 * shim_sync.h: what a test and the sync shim in its server share.  See
 * shim_sync.c.
 */
#ifndef SUPPORT_SHIM_SYNC_H
#define SUPPORT_SHIM_SYNC_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

enum { SHIM_SYNC_FILES = 256 };

struct shim_synced {
    _Atomic uint64_t file;  /* 0: unused */
    _Atomic int64_t length; /* of what is certainly on disk */
};

struct shim_sync {
    _Atomic int64_t delay_ms; /* of every sync            */
    atomic_bool fail;         /* every sync fails: EIO    */
    _Atomic uint64_t calls;   /* so far                   */
    struct shim_synced files[SHIM_SYNC_FILES];
};

/* Which file it is: a new one may have the inode of one that is gone, so its
 * birth counts as well, where that is kept.  0: unknown. */
static inline uint64_t shim_sync_file(int fd)
{
    struct statx x;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) != 0)
        return 0;
    uint64_t born = 0;
    if (x.stx_mask & STATX_BTIME)
        born = (uint64_t)x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec;
    return (x.stx_ino ^ born * UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

#endif

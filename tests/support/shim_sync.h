/*
 * shim_sync.h: what a test and the sync shim in its server share.  See
 * shim_sync.c.
 */
#ifndef SUPPORT_SHIM_SYNC_H
#define SUPPORT_SHIM_SYNC_H

#include <stdatomic.h>
#include <stdint.h>

enum { SHIM_SYNC_FILES = 256 };

struct shim_synced {
    _Atomic uint64_t inode; /* 0: unused */
    _Atomic int64_t length; /* of what is certainly on disk */
};

struct shim_sync {
    _Atomic int64_t delay_ms; /* of every sync            */
    atomic_bool fail;         /* every sync fails: EIO    */
    _Atomic uint64_t calls;   /* so far                   */
    struct shim_synced files[SHIM_SYNC_FILES];
};

#endif

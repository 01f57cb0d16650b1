/*
 * trusted.c: can somebody else put another directory in the place of this one?
 *
 * Who may rename in a directory above can do so between any two looks of ours,
 * whatever the mode of the directory itself is.  So every directory on the way,
 * as it is written and as links lead, belongs to us or to root and is writable
 * by its owner alone; or it has the sticky bit, as /tmp, where only the owner
 * of an entry may rename it, and the entry is ours or root's.
 */
#include "redis/trusted.h"
#include "base/error.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What root owns outside looks like this inside a user namespace. */
#define OVERFLOW_UID 65534

static bool is_strange(uid_t owner)
{
    return owner != 0 && owner != geteuid() && owner != OVERFLOW_UID;
}

static leat_code look(const char *path, leat_error *err)
{
    struct stat at, link;
    if (stat(path, &at) != 0 || lstat(path, &link) != 0)
        return leat__fail_errno(err, LEAT_EIO, errno,
                                "embedded: '%s' cannot be looked at", path);
    if (is_strange(at.st_uid) || is_strange(link.st_uid))
        return leat__fail(
            err, LEAT_EAUTH,
            "embedded: '%s' belongs to user %u, who could put "
            "another directory in the place of the server's; "
            "use one below your home",
            path, (unsigned)(is_strange(at.st_uid) ? at.st_uid : link.st_uid));
    bool writable = (at.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (writable && !(at.st_mode & S_ISVTX))
        return leat__fail(err, LEAT_EAUTH,
                          "embedded: others may rename in '%s' (mode %04o) and "
                          "put another directory in the place of the "
                          "server's; run chmod go-w on it, or use one below "
                          "your home",
                          path, (unsigned)at.st_mode & 07777);
    return LEAT_OK;
}

/* All directories above the last one. */
static leat_code walk(char *path, leat_error *err)
{
    leat_code rc = look("/", err);
    for (char *p = strchr(path + 1, '/'); rc == LEAT_OK && p;
         p = strchr(p + 1, '/')) {
        *p = '\0';
        rc = look(path, err);
        *p = '/';
    }
    return rc;
}

leat_code leat__trusted_way(const char *dir, leat_error *err)
{
    char *written = leat__strdup(dir, err);
    if (!written)
        return LEAT_ENOMEM;
    leat_code rc = walk(written, err);
    leat__free(written);
    if (rc != LEAT_OK)
        return rc;
    char real[PATH_MAX];
    if (!realpath(dir, real))
        return leat__fail_errno(err, LEAT_EIO, errno,
                                "embedded: '%s' cannot be looked at", dir);
    return walk(real, err);
}

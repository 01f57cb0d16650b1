/*
 * error.h: how a call says what happened.
 *
 * Every call that can fail returns a leat_code, or NULL for a constructor, and
 * fills the caller's leat_error, which may be NULL.  A code is one of three
 * kinds, and the difference matters to whoever decides whether to send again:
 *
 *   LEAT_OK        it happened
 *   LEAT_EUNKNOWN  it may have happened: the answer was lost
 *   all others     it certainly did not happen
 *
 * Threads: an error belongs to the caller; nothing is kept inside the library.
 */
#ifndef LEAT_ERROR_H
#define LEAT_ERROR_H

#include <leat/api.h>

LEAT_BEGIN

typedef enum leat_code {
    LEAT_OK = 0,
    LEAT_EUNKNOWN,  /* may have happened: the answer was lost             */
    LEAT_EINVAL,    /* an argument is wrong                               */
    LEAT_ENOMEM,    /* out of memory here                                 */
    LEAT_ENOENT,    /* the thing named does not exist                     */
    LEAT_EEXIST,    /* the thing to be made is there already              */
    LEAT_ECONN,     /* the server cannot be reached, or was lost before   */
                    /* the request left                                   */
    LEAT_ETIMEOUT,  /* the deadline passed before anything was done       */
    LEAT_EFULL,     /* a bound is reached: back-pressure                  */
    LEAT_EBUSY,     /* the server is loading, blocked by a script or full; */
                    /* or the thing is in use                              */
    LEAT_EREADONLY, /* the server is a replica, or another has the key    */
    LEAT_EAUTH,     /* credentials or rights are missing                  */
    LEAT_ECONFLICT, /* a watched key changed: run the whole unit again    */
    LEAT_ESERVER,   /* the server refused the command                     */
    LEAT_EPROTO,    /* the peer does not speak the protocol               */
    LEAT_EDECODE,   /* bytes that are not a message of this codec, or a   */
                    /* key of a queue that holds something else           */
    LEAT_ESTALE,    /* the lease, receipt or fence is no longer ours      */
    LEAT_ETOOBIG,   /* over a stated limit                                */
    LEAT_EUNSAFE,   /* the server keeps less than was asked for           */
    LEAT_ENOTSUP,   /* not in this build, or not with this server         */
    LEAT_EFORK,     /* a handle used in a forked child                    */
    LEAT_ECLOSED,   /* the handle is closed or stopping                   */
    LEAT_EIO,       /* the operating system failed a call                 */
    LEAT_CODES_     /* how many there are                                 */
} leat_code;

typedef struct leat_error {
    leat_code code;
    bool retriable; /* the same call may succeed later               */
    char msg[240];  /* for people: lower case, no full stop          */
} leat_error;

/* The code's name, "LEAT_EUNKNOWN"; never NULL. */
LEAT_API const char *leat_code_name(leat_code code);

/* What the code means, in a few words; never NULL. */
LEAT_API const char *leat_code_text(leat_code code);

LEAT_END
#endif

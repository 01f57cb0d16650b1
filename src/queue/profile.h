/*
 * profile.h: whose keys and bytes a queue has.
 *
 * A table for each: names of keys, a message as bytes and back, receipts, and
 * the scripts.  What a script is asked and answers is the same in all of them
 * (see the scripts of the native one), so that the code that asks is, too.
 */
#ifndef LEAT_QUEUE_PROFILE_H
#define LEAT_QUEUE_PROFILE_H

#include "base/buf.h"
#include "base/uuid.h"
#include "message/source.h"
#include "queue/keys.h"
#include "redis/script.h"

typedef struct queue_profile {
    const char *prefix; /* of keys, where none is given */

    /* Are the settings kept with the queue?  Else each handle has its own, and
     * the scripts are told. */
    bool kept;

    /* Each queue is a shard of its own, and its key ends by this; NULL: see
     * keys.h. */
    const char *shard;

    /* Who waits for messages, or for dead letters, is hinted by what is said
     * on these channels if `hears` it, and looks at least so often. */
    const char *channel, *dead_channel;
    bool (*hears)(leat_bytes said), (*hears_dead)(leat_bytes said);
    int64_t floor_ms;

    /* What a handle has where none is given, in bytes. */
    size_t max_message;

    /* A message is hidden for so long, at most, and a change at least. */
    int64_t hide_max_ms, hide_min_ms;

    /* LEAT_EINVAL or LEAT_ENOTSUP; name NULL: only the options. */
    leat_code (*check)(const char *name, const leat_queue_opts *o,
                       leat_error *err);

    /* The key that all scripts have, and any other. */
    void (*home)(leat__key *k, const char *prefix, const char *name);
    void (*key)(leat__key *k, const char *prefix, const char *name,
                const char *what);

    /* A new message's id, up to LEAT__QUEUE_ID_MAX bytes. */
    leat_code (*id)(leat__uuid7_gen *ids, char *out, leat_error *err);

    /* Can these go with a message?  May be NULL. */
    leat_code (*check_send)(const leat_msg *m, const leat_queue_send_opts *o,
                            leat_error *err);

    /* What max_message is compared with: of this message, and its size as it
     * was packed.  NULL: the latter. */
    size_t (*size)(const leat_msg *m, size_t packed);

    /* A message as one argument: as leat__queue_pack, the time may be 0. */
    leat_code (*pack)(leat__buf *b, leat_fields *f, const leat_msg *m,
                      leat_error *err);

    /* An answer's member and value.  LEAT_EDECODE: the message is none, and all
     * that is known of it is filled in; LEAT_EPROTO: the answer is none. */
    leat_code (*unpack)(leat_bytes member, leat_bytes value, bool fifo,
                        leat_fields *f, leat_queue_item *it, leat_error *err);

    /* What is known of a receipt; an empty queue or id is not.  False: it is
     * none. */
    bool (*receipt)(leat_bytes text, bool fifo, leat__receipt *out);

    /* send may be NULL: then each is used for all; and repair: there is
     * nothing to repair. */
    const leat__script *make, *send, *each, *take, *peek, *ack, *change,
        *expire, *redrive, *drop, *stats, *repair;
} queue_profile;

extern const queue_profile leat__queue_native;
extern const queue_profile leat__queue_redowl;

/* NULL: there is none such. */
const queue_profile *leat__queue_profile(leat_queue_profile which);

static inline const char *leat__profile_prefix(const queue_profile *p,
                                               const char *prefix)
{
    return prefix && *prefix ? prefix : p->prefix;
}

/* On a cluster all keys of a queue must be in one slot. */
leat_code leat__queue_one_slot(const leat__key *home, const char *name,
                               leat_error *err);

#endif

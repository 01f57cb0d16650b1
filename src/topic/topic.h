/*
 * topic.h: the inside of a topic handle.
 */
#ifndef LEAT_TOPIC_TOPIC_H
#define LEAT_TOPIC_TOPIC_H

#include "topic/keys.h"
#include "topic/partition.h"
#include "topic/retention.h"
#include <pthread.h>

enum { LEAT__INCARNATION = 16 }; /* 64 random bits in hexadecimal */

#define LEAT__LEASE_KEEP   "604800000" /* a week: then it is garbage */
#define LEAT__ABANDONED_MS INT64_C(604800000)

typedef struct leat__producer leat__producer;
typedef struct leat__lanes leat__lanes;

/* What is known of a topic, read from its meta key. */
typedef struct leat__topic_meta {
    uint32_t partitions;
    leat_partitioner partitioner;
    bool legacy;                   /* a bare stream, no meta */
    bool gone;                     /* it is being removed     */
    bool marked;                   /* u is beside every log   */
    char u[LEAT__INCARNATION + 1]; /* "": an earlier version made it */
    int64_t created_ms, updated_ms;
    leat_retention retention; /* as it was when it was read */
} leat__topic_meta;

/* What has become of it: standing.c. */
typedef enum leat__standing {
    LEAT__TOPIC_THERE = 0,
    LEAT__TOPIC_RESHAPED,
    LEAT__TOPIC_DOOMED,
    LEAT__TOPIC_AWAY
} leat__standing;

struct leat_topic {
    leat_client *client; /* borrowed */
    char *name;
    char prefix[LEAT__PREFIX_MAX + 1];
    leat_topic_opts opts;           /* with the defaults filled in */
    leat__topic_meta meta;          /* as it was when it was opened */
    leat__retention_seen retention; /* as it is now */
    _Atomic leat__standing standing;
    atomic_uint looks, incarnations; /* seen; other ones            */
    char u[LEAT__INCARNATION + 1];   /* of the last, under lock         */
    leat__chooser chooser;
    unsigned forks;                     /* the fork count it was made in   */
    pthread_mutex_t lock;               /* for making what follows         */
    _Atomic(leat__lanes *) lanes;       /* NULL: nothing published yet     */
    _Atomic(leat__producer *) producer; /* of all partitions; NULL: each has
                                           its own                         */
};

/* What is kept of it, as far as is known: read again every few seconds by
 * whoever uses it.  Any thread; no round trip. */
void leat__topic_retention(leat_topic *t, leat_retention *out);

/* LEAT_EFORK in a forked child. */
leat_code leat__topic_own(const leat_topic *t, leat_error *err);

/* LEAT_ENOENT: neither meta nor a stream of that name.  One that is being
 * removed is found. */
leat_code leat__topic_lookup(leat_client *c, const char *prefix,
                             const char *name, leat__topic_meta *out,
                             leat_error *err);

/* LEAT_EBUSY: it is being removed. */
leat_code leat__topic_whole(const char *name, const leat__topic_meta *m,
                            leat_error *err);

/* Make it so unless it is there; *out is what holds then, *made whether it was
 * this call.  LEAT_EUNKNOWN is possible only if it is not to be tried again;
 * LEAT_EBUSY: it is being removed. */
leat_code leat__topic_make(leat_client *c, const char *prefix, const char *name,
                           const leat__topic_meta *as, bool again,
                           leat__topic_meta *out, bool *made, leat_error *err);

/* Enter it into the registry; twice is as good as once. */
leat_code leat__topic_list(leat_client *c, const char *prefix, const char *name,
                           leat_error *err);

/* Are these a name and a prefix? */
leat_code leat__topic_check(const char *prefix, const char *name,
                            leat_error *err);

#endif

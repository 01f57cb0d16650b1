/*
 * topic_told.h: what a producer told of each message, compared with the logs.
 *
 * Message i has the body "i", padded if wished, and is entered here before it
 * is published.  After a run every accepted one was told once; the logs hold
 * each message that was called persisted once, where it was said to be, none
 * that was called failed, and each unknown one at most once; within a partition
 * they stand in the order of publishing.
 *
 * Threads: told_on is called by one thread at a time.
 */
#ifndef TOPIC_TOLD_H
#define TOPIC_TOLD_H

#include "support/leat.h"

#include <stdatomic.h>
#include <stdlib.h>

struct told_one {
    atomic_bool accepted;
    atomic_int told;
    leat_code code;
    leat_position at;
    bool retriable;
};

typedef struct told {
    struct told_one *m;
    int count;
    atomic_int all; /* outcomes */
    atomic_int ok, failed, unknown;
    char last[240]; /* text of the last failure */
    char *padded;   /* NULL: bodies are as short as can be */
    size_t pad;     /* bytes of a body otherwise; one thread publishes */
} told;

struct told_arg {
    told *l;
    int i;
};

static inline told *told_new(int count)
{
    told *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->m = calloc((size_t)count, sizeof *l->m);
    assert_non_null(l->m);
    l->count = count;
    return l;
}

/* Bodies of n bytes from now on. */
static inline void told_pad(told *l, size_t n)
{
    l->padded = malloc(n);
    assert_non_null(l->padded);
    memset(l->padded, ' ', n);
    l->pad = n;
}

static inline void told_free(told *l)
{
    free(l->padded);
    free(l->m);
    free(l);
}

static inline void told_on(void *arg, const leat_position *at,
                           const leat_error *err)
{
    struct told_arg *a = arg;
    struct told_one *m = &a->l->m[a->i];
    m->code = err ? err->code : LEAT_OK;
    m->retriable = err && err->retriable;
    if (at)
        m->at = *at;
    if (err)
        snprintf(a->l->last, sizeof a->l->last, "%s", err->msg);
    atomic_fetch_add(&m->told, 1);
    atomic_fetch_add(!err                         ? &a->l->ok
                     : err->code == LEAT_EUNKNOWN ? &a->l->unknown
                                                  : &a->l->failed,
                     1);
    atomic_fetch_add(&a->l->all, 1);
    free(a);
}

/* Publish message i; its key, which may be NULL, decides the partition. */
static inline leat_code told_publish(told *l, leat_topic *t, int i,
                                     const char *key, leat_error *err)
{
    char text[16], *body = l->padded ? l->padded : text;
    struct told_arg *a = malloc(sizeof *a);
    assert_non_null(a);
    *a = (struct told_arg){ l, i };
    size_t n = (size_t)snprintf(text, sizeof text, "%d ", i);
    if (l->padded) {
        memcpy(body, text, n);
        n = l->pad;
    }
    atomic_store(&l->m[i].accepted, true);
    leat_code rc = leat_topic_publish(
        t, &(leat_msg){ .key = leat_str(key), .body = leat_mem(body, n) },
        told_on, a, err);
    if (rc != LEAT_OK) {
        atomic_store(&l->m[i].accepted, false);
        free(a);
    }
    return rc;
}

/* A body that is kept beside the log of that key. */
static inline int told_beside(redis_server *s, const char *log, const char *id)
{
    size_t tag = (size_t)(strrchr(log, ':') - log);
    redisReply *r = redis_raw(s, "HGET %b:bodies %s", log, tag, id);
    assert_non_null(r);
    int n = r->type == REDIS_REPLY_STRING ? (int)strtol(r->str, NULL, 10) : -1;
    freeReplyObject(r);
    return n;
}

/* The body of an entry [id, [name, value, ...]] of the native codec. */
static inline int told_number(redis_server *s, const char *log,
                              const redisReply *entry)
{
    const redisReply *f = entry->element[1];
    for (size_t i = 0; i + 1 < f->elements; i += 2) {
        if (strcmp(f->element[i]->str, "b") == 0)
            return (int)strtol(f->element[i + 1]->str, NULL, 10);
        if (strcmp(f->element[i]->str, "@large") == 0)
            return told_beside(s, log, entry->element[0]->str);
    }
    return -1;
}

static inline void told_log(told *l, redis_server *s, const char *key,
                            int *there)
{
    int last = -1;
    redisReply *r = redis_raw(s, "XRANGE %s - +", key);
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    for (size_t k = 0; k < r->elements; k++) {
        int i = told_number(s, key, r->element[k]);
        char id[48];
        assert_in_range(i, 0, l->count - 1);
        if (i <= last)
            fail_msg("%s: %d stands behind %d", key, i, last);
        last = i;
        there[i]++;
        snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)l->m[i].at.ms,
                 (unsigned long long)l->m[i].at.seq);
        if (l->m[i].code == LEAT_OK)
            assert_string_equal(r->element[k]->element[0]->str, id);
    }
    freeReplyObject(r);
}

/* Compare with how often each is there. */
static inline void told_judge(told *l, const int *there)
{
    for (int i = 0; i < l->count; i++) {
        const struct told_one *m = &l->m[i];
        bool accepted = atomic_load(&m->accepted);
        if (atomic_load(&m->told) != accepted)
            fail_msg("message %d was told %d times", i, atomic_load(&m->told));
        bool ok = accepted && m->code == LEAT_OK;
        bool unknown = accepted && m->code == LEAT_EUNKNOWN;
        if (there[i] < ok || there[i] > (ok || unknown))
            fail_msg("message %d was called %s and is there %d times", i,
                     leat_code_name(m->code), there[i]);
    }
}

/* Compare with the partitions of topic "t". */
static inline void told_audit(told *l, redis_server *s, int partitions)
{
    int *there = calloc((size_t)l->count, sizeof *there);
    assert_non_null(there);
    for (int p = 0; p < partitions; p++) {
        char key[64];
        snprintf(key, sizeof key, "leat:{t/%d}:log", p);
        told_log(l, s, key, there);
    }
    told_judge(l, there);
    free(there);
}

#endif

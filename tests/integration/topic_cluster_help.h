/*
 * topic_cluster_help.h: a topic "t" on a cluster, under load.
 *
 * A writer publishes message 0, 1, 2, ... from a thread of its own until it is
 * stopped, message i with the key of i modulo KEYS; a reader receives, checks
 * that the messages of a partition come in order, and acknowledges.  Both go on
 * through whatever the test does meanwhile.
 */
#ifndef TOPIC_CLUSTER_HELP_H
#define TOPIC_CLUSTER_HELP_H

#include "support/rig.h"
#include "topic_told.h"

#include <pthread.h>

enum { PARTS = 12, KEYS = 240, LONG_MS = 60000, MOST = 200000 };

static inline void log_key(char *buf, size_t size, int partition)
{
    snprintf(buf, size, "leat:{t/%d}:log", partition);
}

/* The node that has the partition. */
static inline int node_of(int partition)
{
    char key[64];
    log_key(key, sizeof key, partition);
    return cluster_owner_of(rig, key);
}

static inline void told_audit_cluster(told *l, int partitions)
{
    int *there = calloc((size_t)l->count, sizeof *there);
    assert_non_null(there);
    for (int p = 0; p < partitions; p++) {
        char key[64];
        log_key(key, sizeof key, p);
        int node = cluster_owner_of(rig, key);
        assert_in_range(node, 0, CLUSTER_NODES);
        told_log(l, cluster_node(rig, node), key, there);
    }
    told_judge(l, there);
    free(there);
}

static inline leat_topic *open_topic(leat_client *c, const leat_topic_opts *o)
{
    leat_error e = { 0 };
    leat_topic_opts with = o ? *o : (leat_topic_opts){ 0 };
    with.auto_create = true;
    with.partitions = with.partitions ? with.partitions : PARTS;
    leat_topic *t = leat_topic_open(c, "t", &with, &e);
    if (!t)
        fail_msg("cannot open the topic: %s", e.msg);
    return t;
}

/* ---- the writer ------------------------------------------------------- */

typedef struct writer {
    leat_topic *topic;
    told *l;
    atomic_int next; /* the next number */
    atomic_bool stop;
    int64_t pause_us; /* between two */
    pthread_t thread;
} writer;

static inline void *writer_run(void *arg)
{
    writer *w = arg;
    char key[16];
    while (!atomic_load(&w->stop)) {
        int i = atomic_load(&w->next);
        if (i < w->l->count) {
            snprintf(key, sizeof key, "k%d", i % KEYS);
            leat_error e = { 0 };
            if (told_publish(w->l, w->topic, i, key, &e) == LEAT_OK)
                atomic_store(&w->next, i + 1);
        }
        nanosleep(&(struct timespec){ .tv_nsec = w->pause_us * 1000 }, NULL);
    }
    return NULL;
}

static inline void writer_start(writer *w, leat_topic *t)
{
    *w = (writer){ .topic = t, .l = told_new(MOST), .pause_us = 300 };
    assert_int_equal(pthread_create(&w->thread, NULL, writer_run, w), 0);
}

/* How many were published; all have their outcome. */
static inline int writer_stop(writer *w)
{
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    must(leat_topic_flush(w->topic, LONG_MS, err));
    return atomic_load(&w->next);
}

/* So many more were confirmed from now on. */
static inline void writer_confirms(writer *w, int more)
{
    int from = atomic_load(&w->l->ok);
    wait_until(atomic_load(&w->l->ok) >= from + more, LONG_MS);
}

/* ---- the reader ------------------------------------------------------- */

typedef struct reader {
    leat_source *source;
    atomic_uchar *seen; /* by number */
    atomic_int count;   /* different ones */
    atomic_int by_part[PARTS];
    int last[PARTS]; /* the highest first-time number of the partition */
    atomic_int disorder;
    atomic_bool stop;
    char why[240]; /* the last failure of a receive */
    pthread_t thread;
} reader;

static inline void reader_note(reader *r, leat_delivery *d)
{
    int i = body_number(d);
    int32_t part = leat_delivery_partition(d);
    if (i < 0 || i >= MOST || part < 0 || part >= PARTS)
        return;
    if (!atomic_exchange(&r->seen[i], 1)) {
        atomic_fetch_add(&r->count, 1);
        atomic_fetch_add(&r->by_part[part], 1);
        if (i < r->last[part])
            atomic_fetch_add(&r->disorder, 1);
        r->last[part] = i;
    }
}

static inline void *reader_run(void *arg)
{
    reader *r = arg;
    while (!atomic_load(&r->stop)) {
        leat_delivery *d[64];
        leat_error e = { 0 };
        int n = leat_source_receive(r->source, d, 64, 50, &e);
        if (n < 0)
            snprintf(r->why, sizeof r->why, "%s", e.msg);
        for (int i = 0; i < n; i++) {
            reader_note(r, d[i]);
            (void)leat_delivery_ack(d[i]);
        }
    }
    return NULL;
}

static inline void reader_start(reader *r, leat_topic *t, const char *group,
                                const leat_topic_source_opts *o)
{
    leat_error e = { 0 };
    *r = (reader){ .source = leat_topic_source(t, group, o, &e),
                   .seen = calloc(MOST, sizeof *r->seen) };
    if (!r->source)
        fail_msg("cannot join: %s", e.msg);
    assert_non_null(r->seen);
    assert_int_equal(pthread_create(&r->thread, NULL, reader_run, r), 0);
}

/* Wait until everything that was confirmed has been seen, then stop. */
static inline void reader_sees_all(reader *r, told *l)
{
    for (int i = 0; i < l->count; i++)
        if (atomic_load(&l->m[i].accepted) && l->m[i].code == LEAT_OK)
            wait_until(atomic_load(&r->seen[i]), LONG_MS);
}

static inline void reader_stop(reader *r)
{
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    leat_source_close(r->source);
    free(r->seen);
}

#endif

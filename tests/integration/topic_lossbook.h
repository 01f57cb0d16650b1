/*
 * topic_lossbook.h: a topic whose losses are entered in a book, and compared
 * with what is really missing.
 *
 * Messages have their number as body.  What the producer acknowledged is in the
 * book with its position, and so is each loss it told.  book_audit then reads
 * the logs: every acknowledged message that is not where it was said to be is
 * in exactly one loss, no loss speaks of one that is there, and counts agree.
 * Deliberate removals are not losses: book_removed takes them out.
 *
 * Threads: entries are made by the topic's threads, under a lock.
 */
#ifndef TOPIC_LOSSBOOK_H
#define TOPIC_LOSSBOOK_H

#include "support/leat.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { BOOK_MESSAGES = 65536, BOOK_LOSSES = 256, BOOK_MS = 60000 };

struct book_message {
    leat_position at;
    uint32_t partition;
    bool acked, missing, removed;
    int told; /* losses it is in */
};

typedef struct book {
    leat_client *client;
    leat_topic *topic;
    uint32_t partitions;
    redis_server *(*where)(uint32_t partition); /* NULL: on one server */
    pthread_mutex_t lock;
    struct book_message m[BOOK_MESSAGES];
    leat_loss losses[BOOK_LOSSES];
    int lost; /* how many of them */
    atomic_int tried, acked, told_lost, failed, unknown;
    uint64_t republished;
} book;

struct book_arg {
    book *b;
    int i;
};

static inline void book_on(void *arg, const leat_position *at,
                           const leat_error *err)
{
    struct book_arg *a = arg;
    book *b = a->b;
    pthread_mutex_lock(&b->lock);
    if (at) {
        b->m[a->i].at = *at;
        b->m[a->i].acked = true;
    }
    pthread_mutex_unlock(&b->lock);
    atomic_fetch_add(at                           ? &b->acked
                     : err->code == LEAT_EUNKNOWN ? &b->unknown
                                                  : &b->failed,
                     1);
    free(a);
}

static inline void book_on_loss(void *arg, const leat_loss *loss)
{
    book *b = arg;
    pthread_mutex_lock(&b->lock);
    if (b->lost < BOOK_LOSSES)
        b->losses[b->lost++] = *loss;
    b->republished += loss->republished;
    pthread_mutex_unlock(&b->lock);
    atomic_fetch_add(&b->told_lost, (int)loss->count);
}

/* Topic "t" at this URL; opts may be NULL. */
static inline book *book_open(const char *at, int partitions,
                              const leat_topic_opts *opts)
{
    book *b = calloc(1, sizeof *b);
    leat_topic_opts o = opts ? *opts : (leat_topic_opts){ 0 };
    leat_error e = { 0 };
    assert_non_null(b);
    pthread_mutex_init(&b->lock, NULL);
    b->partitions = (uint32_t)partitions;
    b->client = open_client(at, &(leat_client_opts){ .max_retry_ms = 50 });
    o.auto_create = true;
    o.partitions = partitions;
    o.timeout_ms = BOOK_MS;
    o.on_loss = book_on_loss;
    o.loss_arg = b;
    b->topic = leat_topic_open(b->client, "t", &o, &e);
    if (!b->topic)
        fail_msg("cannot open: %s", e.msg);
    return b;
}

static inline void book_close(book *b)
{
    leat_topic_close(b->topic);
    leat_client_close(b->client);
    b->topic = NULL;
    b->client = NULL;
}

static inline void book_free(book *b)
{
    if (b->topic)
        book_close(b);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static inline leat_code book_publish_one(book *b, leat_error *err)
{
    char body[16];
    int i = atomic_fetch_add(&b->tried, 1);
    struct book_arg *a = malloc(sizeof *a);
    assert_true(a && i < BOOK_MESSAGES);
    *a = (struct book_arg){ b, i };
    b->m[i].partition = (uint32_t)i % b->partitions;
    snprintf(body, sizeof body, "%d", i);
    leat_code rc = leat_topic_publish_to(
        b->topic, b->m[i].partition,
        &(leat_msg){ .body = leat_str(body), .key = leat_str("k") }, book_on, a,
        err);
    if (rc != LEAT_OK)
        free(a);
    return rc;
}

static inline void book_flush(book *b)
{
    must(leat_topic_flush(b->topic, BOOK_MS, err));
}

/* n messages, with their outcomes. */
static inline void book_publish(book *b, int n)
{
    for (int i = 0; i < n; i++)
        must(book_publish_one(b, err));
    book_flush(b);
}

/* A thread that publishes until it is told to stop, in small steps. */
struct book_load {
    book *b;
    pthread_t id;
    atomic_bool stop;
    const char *bad;
};

static inline void *book_load_run(void *arg)
{
    struct book_load *l = arg;
    while (!atomic_load(&l->stop) &&
           atomic_load(&l->b->tried) < BOOK_MESSAGES - 64) {
        for (int i = 0; i < 16; i++)
            if (book_publish_one(l->b, NULL) != LEAT_OK)
                l->bad = "a message was refused";
        wait_nap(1);
    }
    return NULL;
}

static inline void book_load_start(struct book_load *l, book *b)
{
    *l = (struct book_load){ .b = b };
    assert_int_equal(pthread_create(&l->id, NULL, book_load_run, l), 0);
}

/* The producer has connected again if it had to: what it had to tell it has
 * told.  What went out on a connection that was broken already has an unknown
 * outcome, and shows nothing. */
static inline void book_settle(book *b)
{
    int before = atomic_load(&b->acked);
    wait_until((book_publish(b, 1), atomic_load(&b->acked) > before), BOOK_MS);
}

static inline void book_load_stop(struct book_load *l)
{
    atomic_store(&l->stop, true);
    pthread_join(l->id, NULL);
    if (l->bad)
        fail_msg("%s", l->bad);
    book_flush(l->b);
    book_settle(l->b);
}

/* So many more are acknowledged than there were. */
static inline void book_wait_acked(book *b, int more)
{
    int until = atomic_load(&b->acked) + more;
    wait_until(atomic_load(&b->acked) >= until, BOOK_MS);
}

/* ---- the audit -------------------------------------------------------- */

static inline const char *book_key(uint32_t partition)
{
    static char key[64];
    snprintf(key, sizeof key, "leat:{t/%u}:log", partition);
    return key;
}

static inline int book_body(const redisReply *entry)
{
    const redisReply *f = entry->element[1];
    for (size_t i = 0; i + 1 < f->elements; i += 2)
        if (strcmp(f->element[i]->str, "b") == 0)
            return (int)strtol(f->element[i + 1]->str, NULL, 10);
    return -1;
}

static inline bool book_is_at(const struct book_message *m, const char *id)
{
    char text[48];
    snprintf(text, sizeof text, "%llu-%llu", (unsigned long long)m->at.ms,
             (unsigned long long)m->at.seq);
    return strcmp(text, id) == 0;
}

/* Every acknowledged message is missing until it is found; *copies, if given,
 * counts how often each is there, wherever. */
static inline void book_look(book *b, redis_server *s, int *copies)
{
    for (int i = 0; i < b->tried; i++)
        b->m[i].missing = b->m[i].acked;
    for (uint32_t p = 0; p < b->partitions; p++) {
        redisReply *r = redis_raw(b->where ? b->where(p) : s, "XRANGE %s - +",
                                  book_key(p));
        assert_non_null(r);
        assert_int_equal(r->type, REDIS_REPLY_ARRAY);
        for (size_t k = 0; k < r->elements; k++) {
            int i = book_body(r->element[k]);
            if (i < 0)
                continue; /* a stranger's */
            assert_true(i < b->tried && b->m[i].partition == p);
            if (copies)
                copies[i]++;
            if (b->m[i].acked &&
                book_is_at(&b->m[i], r->element[k]->element[0]->str))
                b->m[i].missing = false;
        }
        freeReplyObject(r);
    }
}

static inline int book_cmp(leat_position a, leat_position b)
{
    if (a.ms != b.ms)
        return a.ms < b.ms ? -1 : 1;
    return (a.seq > b.seq) - (a.seq < b.seq);
}

/* What is missing now was taken away on purpose. */
static inline void book_removed(book *b, redis_server *s)
{
    book_look(b, s, NULL);
    for (int i = 0; i < b->tried; i++)
        b->m[i].removed |= b->m[i].missing;
}

/* What is there and was called lost makes the count too high.  It may well have
 * a position between lost ones: a log that begins anew in the same millisecond
 * gives the same ids again. */
static inline void book_check_loss(book *b, const leat_loss *x)
{
    uint64_t n = 0;
    for (int i = 0; i < b->tried; i++) {
        struct book_message *m = &b->m[i];
        if (!m->acked || m->partition != x->partition ||
            book_cmp(m->at, x->from) < 0 || book_cmp(m->at, x->to) > 0)
            continue;
        if (m->missing)
            m->told++, n++;
    }
    if (x->exact ? n != x->count : n < x->count)
        fail_msg("a loss of %llu in which %llu are missing",
                 (unsigned long long)x->count, (unsigned long long)n);
}

/* How many are missing; all of them were told, and nothing else.  A loss that
 * is not exact may leave out older ones. */
static inline int book_audit(book *b, redis_server *s)
{
    int missing = 0, untold = 0;
    bool exact = true;
    book_look(b, s, NULL);
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < b->lost; i++) {
        book_check_loss(b, &b->losses[i]);
        exact &= b->losses[i].exact;
    }
    for (int i = 0; i < b->tried; i++) {
        const struct book_message *m = &b->m[i];
        if (m->told > 1)
            fail_msg("message %d was called lost %d times", i, m->told);
        missing += m->missing && !m->removed;
        untold += m->missing && !m->removed && !m->told;
    }
    pthread_mutex_unlock(&b->lock);
    if (untold > 0 && exact)
        fail_msg("%d of %d lost messages were not told", untold, missing);
    return missing;
}

/* Everything that was acknowledged is there, if anywhere. */
static inline void book_complete(book *b, redis_server *s)
{
    int *copies = calloc(BOOK_MESSAGES, sizeof *copies);
    assert_non_null(copies);
    book_look(b, s, copies);
    for (int i = 0; i < b->tried; i++)
        if (b->m[i].acked && copies[i] == 0)
            fail_msg("message %d was acknowledged and is nowhere", i);
    free(copies);
}

#endif

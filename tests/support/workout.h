/*
 * workout.h: all that a user does to topics, queues, pools, streams and dead
 * letters, in sections, against a server whose answers are not to be trusted:
 * every call may fail.
 *
 * Before it is included: WORKOUT_MS, how long an answer is waited for; and who
 * includes it has
 *   work_url(p)   where the servers are, of a place below
 *   begin()       called when a section has prepared what it needs
 *   prepared(ok)  called with whether there is what is to be worked on
 */
#ifndef SUPPORT_WORKOUT_H
#define SUPPORT_WORKOUT_H

#include "base/system.h"

#include <leat/leat.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGES = 6, LETTERS = 8 };

/* One server, also by TLS; a cluster; a master and its sentinels. */
typedef enum place { PLAIN, TLS, CLUSTER, SENTINEL } place;

/* SAFE: what is written is proved; OLD: only what Redis 6.0 has is used. */
typedef enum kind { USUAL, SAFE, OLD } kind;

static const char *work_at; /* the section's */

static leat_error e;
static leat_client *c;

static leat_msg text_of(int i, char text[16])
{
    snprintf(text, 16, "%d", i);
    return (leat_msg){ .body = leat_str(text), .key = leat_str(text) };
}

/* ---- topics ----------------------------------------------------------- */

/* Settles in every way, by number. */
static void settle(leat_delivery *d, int how)
{
    leat_code rc = how == 1   ? leat_delivery_nack(d, 1)
                   : how == 2 ? leat_delivery_fail(d, "no")
                   : how == 3 ? leat_delivery_reject(d, "never")
                              : leat_delivery_ack(d);
    (void)rc;
}

/* Receive until n came, or nothing more does. */
static void consume(leat_source *s, int n, bool reject)
{
    leat_delivery *d[8];
    for (int round = 0, got = 0; s && round < 20 && got < n; round++) {
        int k = leat_source_receive(s, d, 8, WORKOUT_MS / 5, &e);
        for (int i = 0; i < k; i++)
            settle(d[i], reject ? 3 : (got + i) % 4);
        got += k > 0 ? k : 0;
        if (k < 0)
            break;
    }
    if (s)
        (void)leat_source_flush(s, WORKOUT_MS, &e);
}

static void publish(leat_topic *t)
{
    char text[16];
    for (int i = 0; t && i < MESSAGES; i++) {
        leat_msg m = text_of(i, text);
        (void)leat_topic_publish(t, &m, NULL, NULL, &e);
    }
    if (t)
        (void)leat_topic_flush(t, WORKOUT_MS, &e);
}

static const leat_topic_source_opts member = { .name = "m",
                                               .lease_ms = 1000,
                                               .block_ms = 20,
                                               .drain_ms = 100,
                                               .retry = { .max_attempts = 3,
                                                          .delay_ms = 1 } };

static void create(void)
{
    const leat_topic_spec spec = { .partitions = 2 };
    (void)leat_topic_create(c, "t", &spec, &e);
}

static void topics(void)
{
    begin();
    create();
    leat_topic *t = leat_topic_open(c, "t", NULL, &e);
    publish(t);
    char text[16];
    leat_msg m = text_of(9, text);
    if (t)
        (void)leat_topic_publish_later(t, &m, 1, NULL, NULL, &e);
    leat_source *s = t ? leat_topic_source(t, "g", &member, &e) : NULL;
    consume(s, MESSAGES, false);
    leat_source_close(s);
    leat_topic_close(t);
}

/* A topic with messages settled in all ways, and a group. */
static void used_topic(bool reject)
{
    create();
    leat_topic *t = leat_topic_open(c, "t", NULL, &e);
    publish(t);
    leat_source *s = t ? leat_topic_source(t, "g", &member, &e) : NULL;
    consume(s, MESSAGES, reject);
    leat_source_close(s);
    leat_topic_close(t);
}

static void look(void)
{
    leat_names_free(leat_topic_names(c, NULL, &e));
    leat_names_free(leat_group_names(c, "t", NULL, &e));
    leat_topic_info_free(leat_topic_describe(c, "t", NULL, &e));
    leat_group_info_free(leat_group_describe(c, "t", "g", NULL, &e));
    leat_pending_free(leat_pending_list(c, "t", "g", NULL, &e));
    leat_browse *b = leat_browse_open(c, "t", NULL, &e);
    leat_seen seen;
    for (int i = 0; b && i < 20 && leat_browse_next(b, &seen, 0, &e) > 0; i++)
        continue;
    leat_browse_close(b);
    b = leat_browse_open(c, "t", &(leat_browse_opts){ .last = 2 }, &e);
    for (int i = 0; b && i < 20 && leat_browse_next(b, &seen, 0, &e) > 0; i++)
        continue;
    leat_browse_close(b);
}

static void admin(void)
{
    used_topic(false);
    begin();
    look();
    leat_trimmed trimmed;
    leat_retention keep = { .max_entries = 100 };
    leat_seek *seek = NULL;
    (void)leat_topic_alter(c, "t", NULL, &keep, &e);
    (void)leat_topic_trim(c, "t", &(leat_trim_opts){ .max_entries = 3 },
                          &trimmed, &e);
    (void)leat_group_pause(c, "t", "g", NULL, &e);
    (void)leat_group_seek(c, "t", "g", "start",
                          &(leat_seek_opts){ .force = true }, &seek, &e);
    leat_seek_free(seek);
    (void)leat_group_resume(c, "t", "g", NULL, &e);
    leat_remove_opts force = { .force = true };
    (void)leat_group_remove(c, "t", "g", &force, &e);
    (void)leat_topic_remove_with(c, "t", &force, &e);
}

/* The server hangs up on everybody else. */
static void cut_all(void)
{
    leat_client *x = leat_client_open(work_at, NULL, &e);
    leat_reply *r = NULL;
    if (x && leat_client_call(x,
                              LEAT_ARGS(leat_str("CLIENT"), leat_str("KILL"),
                                        leat_str("TYPE"), leat_str("normal"),
                                        leat_str("SKIPME"), leat_str("yes")),
                              NULL, &r, &e) == LEAT_OK)
        leat_reply_free(r);
    leat_client_close(x);
}

static void publish_large(leat_topic *t)
{
    static const char large[300] = "large";
    leat_msg m = { .body = leat_mem(large, sizeof large),
                   .key = leat_str("large") };
    for (int i = 0; t && i < 3; i++)
        (void)leat_topic_publish(t, &m, NULL, NULL, &e);
    if (t)
        (void)leat_topic_flush(t, WORKOUT_MS, &e);
}

static void follow(void)
{
    leat_seen seen;
    leat_browse *b = leat_browse_open(
        c, "t", &(leat_browse_opts){ .follow = true }, &e);
    for (int i = 0; b && i < 3 * MESSAGES; i++)
        if (leat_browse_next(b, &seen, WORKOUT_MS / 10, &e) <= 0)
            break;
    leat_browse_close(b);
}

/* Some are in flight while it is looked at. */
static void held_topic(leat_source *s)
{
    leat_delivery *d[4];
    int n = s ? leat_source_receive(s, d, 4, WORKOUT_MS, &e) : 0;
    if (n > 1)
        settle(d[--n], 0); /* behind others: the cursor stays */
    if (s)
        (void)leat_source_flush(s, WORKOUT_MS / 4, &e);
    leat_pending_free(leat_pending_list(c, "t", "g", NULL, &e));
    leat_group_info_free(leat_group_describe(c, "t", "g", NULL, &e));
    for (int i = 0; i < n; i++)
        settle(d[i], 0);
    consume(s, 2 * MESSAGES, false);
}

/* With all that a topic can have. */
static void rich(void)
{
    const leat_topic_spec spec = { .partitions = 2,
                                   .retention = { .max_entries = 2,
                                                  .max_age_ms = 1000,
                                                  .cap = 1000,
                                                  .large_body = 100 } };
    leat_trimmed trimmed;
    leat_metrics *m = leat_metrics_new(&e);
    begin();
    (void)leat_topic_create(c, "t", &spec, &e);
    leat_topic *t = leat_topic_open(c, "t", &(leat_topic_opts){ .metrics = m },
                                    &e);
    leat_topic_source_opts o = member;
    o.metrics = m;
    leat_source *s = t ? leat_topic_source(t, "g", &o, &e) : NULL;
    publish(t);
    publish_large(t);
    held_topic(s);
    cut_all();
    publish_large(t);
    consume(s, 3, true);
    follow();
    (void)leat_group_alter(
        c, "t", "g", &(leat_group_settings){ .lease_ms = 2000 }, NULL, &e);
    (void)leat_topic_trim(c, "t", &(leat_trim_opts){ .max_entries = 1 },
                          &trimmed, &e);
    leat_source_close(s);
    leat_topic_close(t);
    leat_metrics_free(m);
}

static size_t walk(leat_dlq *d, char ids[LETTERS][LEAT_DEAD_ID], bool back)
{
    leat_dead dead;
    size_t n = 0;
    leat_dlq_walk *w = leat_dlq_walk_open(
        d, &(leat_dlq_walk_opts){ .newest_first = back }, &e);
    while (w && n < LETTERS && leat_dlq_walk_next(w, &dead, &e) > 0)
        snprintf(ids[n++], LEAT_DEAD_ID, "%s", dead.id);
    leat_dlq_walk_close(w);
    return n;
}

static void letters(void)
{
    char ids[LETTERS][LEAT_DEAD_ID], now[LEAT_DEAD_ID];
    used_topic(true);
    begin();
    leat_dlq *d = leat_dlq_open(c, "t", NULL, &e);
    if (!d)
        return;
    size_t n = walk(d, ids, false);
    prepared(n > 0);
    (void)walk(d, ids, true);
    leat_dead_counts_free(leat_dlq_count(d, NULL, &e));
    const char *first = n > 0 ? ids[0] : "0:1-1";
    leat_dead_free(leat_dlq_get(d, first, &e));
    leat_dead_edit edit = { .body = leat_str("other") };
    (void)leat_dlq_edit(d, first, &edit, now, &e);
    const char *two[] = { n > 1 ? ids[1] : first, n > 2 ? ids[2] : first };
    (void)leat_dlq_replay(d, two, 2, NULL, NULL, &e);
    leat_dlq_move_opts to_log = { .republish = true, .limit = 1 };
    (void)leat_dlq_replay_all(d, NULL, &to_log, NULL, &e);
    (void)leat_dlq_remove(d, two, 1, NULL, NULL, &e);
    (void)leat_dlq_clear(d, NULL, NULL, NULL, &e);
    leat_dlq_close(d);
}

/* ---- queues ----------------------------------------------------------- */

static void heard(void *arg, const leat_queue_event *event, bool missed)
{
    (void)arg;
    (void)event;
    (void)missed;
}

static void named(void *arg, const char *name)
{
    (void)arg;
    (void)name;
}

static void send_some(leat_queue *q, int n)
{
    char text[MESSAGES][16];
    leat_msg m[MESSAGES];
    leat_queue_sent sent[MESSAGES];
    leat_queue_send_opts o[MESSAGES] = { { 0 } };
    for (int i = 0; i < n; i++) {
        m[i] = text_of(i, text[i]);
        o[i].dedup = leat_str(text[i / 2]);
    }
    (void)leat_queue_send_batch(q, m, (size_t)n, o, sent, &e);
    for (int i = 0; i < n; i++)
        (void)leat_queue_send(q, &m[i], NULL, sent, &e);
}

static void receive_some(leat_queue *q)
{
    leat_queue_batch *b = leat_queue_receive(
        q, &(leat_receive_opts){ .max = 8, .wait_ms = WORKOUT_MS / 10 }, &e);
    size_t n = b ? leat_queue_batch_count(b) : 0;
    leat_bytes receipts[8];
    leat_code outcome[8];
    for (size_t i = 0; i < n && i < 8; i++)
        receipts[i] = leat_queue_batch_at(b, i)->receipt;
    if (n > 0)
        (void)leat_queue_ack(q, receipts[0], &e);
    if (n > 1)
        (void)leat_queue_change_visibility(q, receipts[1], 0, &e);
    if (n > 2)
        (void)leat_queue_reject(q, receipts[2], "no", &e);
    if (n > 3) {
        leat_queue_hold *h = leat_queue_hold_start(q, receipts[3], 1000, &e);
        (void)leat_queue_change_batch(q, receipts + 3, n - 3, 1000, outcome,
                                      &e);
        leat_queue_hold_end(h);
        (void)leat_queue_ack_batch(q, receipts + 3, n - 3, outcome, &e);
    }
    leat_queue_batch_free(b);
}

static void care(leat_queue *q)
{
    int64_t n;
    leat_queue_stats stats;
    leat_queue_batch_free(leat_queue_peek(q, 4, true, &e));
    leat_queue_batch_free(leat_queue_peek(q, 4, false, &e));
    leat_queue_batch_free(leat_queue_receive(
        q, &(leat_receive_opts){ .max = 2, .dead = true }, &e));
    (void)leat_queue_stats_get(q, &stats, &e);
    (void)leat_queue_list(c, NULL, named, NULL, &e);
    (void)leat_queue_redrive(q, NULL, &n, &e);
    (void)leat_queue_requeue_expired_once(q, 0, &n, &e);
    (void)leat_queue_alter(q, &(leat_queue_opts){ .max_receives = 5 }, &e);
    (void)leat_queue_purge(q, false, &n, &e);
    (void)leat_queue_purge(q, true, &n, &e);
}

static void queue_with(const leat_queue_opts *o)
{
    begin();
    leat_queue *q = leat_queue_open(c, "q", o, &e);
    leat_queue_watch *w = leat_queue_watch_open(c, "q", o, o->durable_events,
                                                heard, NULL, &e);
    if (q) {
        send_some(q, MESSAGES);
        receive_some(q);
        care(q);
    }
    leat_queue_watch_close(w);
    leat_queue_close(q);
    (void)leat_queue_remove(c, "q", o, &e);
}

static void queues(void)
{
    queue_with(&(leat_queue_opts){ .max_receives = 3 });
}

static void fifo_queues(void)
{
    queue_with(&(leat_queue_opts){ .fifo = true, .durable_events = true });
}

static void told_queues(void)
{
    leat_client *other = leat_client_open(work_at, NULL, &e);
    queue_with(&(leat_queue_opts){ .event_client = other, .ttl_ms = 60000 });
    leat_client_close(other);
}

static void redowl_queues(void)
{
    queue_with(&(leat_queue_opts){ .profile = LEAT_QUEUE_REDOWL });
}

/* ---- pools ------------------------------------------------------------ */

static atomic_int handled;

static leat_verdict handle(leat_ctx *x, void *arg)
{
    (void)arg;
    int n = atomic_fetch_add(&handled, 1);
    return n % 4 == 1   ? LEAT_NACK
           : n % 4 == 2 ? LEAT_REJECT
           : n % 4 == 3 ? leat_ctx_nack(x, 1)
                        : LEAT_ACK;
}

static void pools(void)
{
    static const char *const names[] = { "a", "b", "c" };
    for (int i = 0; i < 3; i++) {
        leat_queue *q = leat_queue_open(
            c, names[i], &(leat_queue_opts){ .fifo = i == 2 }, &e);
        if (q)
            send_some(q, 4);
        leat_queue_close(q);
    }
    begin();
    atomic_store(&handled, 0);
    leat_pool *p = leat_pool_start(
        c, handle, NULL,
        &(leat_pool_opts){ .workers = 2, .retry_ms = 1, .poll_ms = 20 }, &e);
    for (int i = 0; p && i < 40 && atomic_load(&handled) < 16; i++)
        leat__sleep_ms(WORKOUT_MS / 50 + 1);
    if (p)
        (void)leat_pool_stop(p, WORKOUT_MS, &e);
}

/* ---- streams ---------------------------------------------------------- */

static void streams(void)
{
    begin();
    leat_stream *s = leat_stream_open(c, "s", NULL, &e);
    leat_sink *k = s ? leat_stream_sink(s, NULL, &e) : NULL;
    char text[16];
    for (int i = 0; k && i < MESSAGES; i++) {
        leat_msg m = text_of(i, text);
        (void)leat_sink_publish(k, &m, 1, NULL, NULL, &e);
    }
    if (k)
        (void)leat_sink_flush(k, WORKOUT_MS, &e);
    leat_sink_close(k);
    leat_stream_source_opts o = {
        .consumer = "me", .block_ms = 20, .idle_ms = 1000, .claim_ms = 20
    };
    leat_source *from = s ? leat_stream_source(s, "g", &o, &e) : NULL;
    leat_delivery *d[1];
    if (from && leat_source_receive(from, d, 1, WORKOUT_MS / 2, &e) == 1) {
        (void)leat_delivery_extend(d[0], 500, &e);
        (void)leat_delivery_nack(d[0], 0);
    }
    consume(from, MESSAGES, false);
    leat_source_close(from);
    leat_stream_close(s);
    /* A namesake finds what was left. */
    s = leat_stream_open(c, "s", NULL, &e);
    from = s ? leat_stream_source(s, "g", &o, &e) : NULL;
    consume(from, 2, false);
    leat_source_close(from);
    leat_stream_close(s);
}

/* ---- connections ------------------------------------------------------ */

static void clients(void)
{
    begin();
    for (int i = 0; i < 2; i++) {
        leat_client_opts o = { .timeout_ms = WORKOUT_MS, .resp2 = i == 1 };
        leat_client *x = leat_client_open(work_at, &o, &e);
        leat_reply *r = NULL;
        if (x && leat_client_call(x, LEAT_ARGS(leat_str("PING")), NULL, &r,
                                  &e) == LEAT_OK)
            leat_reply_free(r);
        leat_client_close(x);
    }
}

/* Commands whose answers come together, in an array of arrays. */
static void ask_multi(leat_conn *conn)
{
    const leat_bytes key = leat_str("{k}a"), list = leat_str("{k}b");
    (void)leat_conn_watch(conn, &key, 1, &e);
    if (leat_conn_begin(conn, &e) != LEAT_OK)
        return;
    (void)leat_conn_send(conn, LEAT_ARGS(leat_str("SET"), key, leat_str("1")),
                         NULL, &e);
    (void)leat_conn_send(conn, LEAT_ARGS(leat_str("RPUSH"), list, key), NULL,
                         &e);
    (void)leat_conn_send(
        conn,
        LEAT_ARGS(leat_str("LRANGE"), list, leat_str("0"), leat_str("-1")),
        NULL, &e);
    (void)leat_conn_exec(conn, &e);
}

static void multi(void)
{
    begin();
    for (int i = 0; i < 3; i++) {
        leat_conn *conn = leat_client_lend(c, WORKOUT_MS, &e);
        if (conn)
            ask_multi(conn);
        leat_client_return(c, conn);
    }
}

/* An input of the fuzzer has a section's number: new ones go to the end. */
static const struct section {
    const char *name;
    void (*run)(void);
    place place;
    kind kind;
} sections[] = {
    { "topics", topics, PLAIN, USUAL },
    { "admin", admin, PLAIN, USUAL },
    { "letters", letters, PLAIN, USUAL },
    { "queues", queues, PLAIN, USUAL },
    { "fifo", fifo_queues, PLAIN, USUAL },
    { "told", told_queues, PLAIN, USUAL },
    { "pools", pools, PLAIN, USUAL },
    { "streams", streams, PLAIN, USUAL },
    { "clients", clients, PLAIN, USUAL },
    { "redowl", redowl_queues, PLAIN, USUAL },
    { "multi", multi, PLAIN, USUAL },
    { "cluster", topics, CLUSTER, USUAL },
    { "cluster-admin", admin, CLUSTER, USUAL },
    { "cluster-queues", queues, CLUSTER, USUAL },
    { "cluster-multi", multi, CLUSTER, USUAL },
    { "sentinel", clients, SENTINEL, USUAL },
    { "sentinel-topics", topics, SENTINEL, USUAL },
    { "tls", clients, TLS, USUAL },
    { "tls-topics", topics, TLS, USUAL },
    { "tls-queues", queues, TLS, USUAL },
    { "rich", rich, PLAIN, USUAL },
    { "old-streams", streams, PLAIN, OLD },
    { "safe-topics", topics, SENTINEL, SAFE },
    { "safe-queues", queues, SENTINEL, SAFE },
    { "safe-streams", streams, SENTINEL, SAFE },
    { "safe-cluster", topics, CLUSTER, SAFE },
};

enum { SECTIONS = sizeof sections / sizeof *sections };

/* One section, with a client of its own. */
static void work(const struct section *s)
{
    leat_client_opts o = { .timeout_ms = WORKOUT_MS,
                           .connect_timeout_ms = 8 * WORKOUT_MS,
                           .max_retry_ms = WORKOUT_MS / 10 + 1 };
    leat_reply *r = NULL;
    o.durability = s->kind == SAFE ? LEAT_REPLICATED : o.durability;
    o.allow_weak = s->kind == SAFE;
    o.as_redis_6_0 = s->kind == OLD;
    work_at = work_url(s->place);
    c = leat_client_open(work_at, &o, &e);
    if (c && leat_client_call(c, LEAT_ARGS(leat_str("FLUSHDB")), NULL, &r,
                              &e) == LEAT_OK)
        s->run();
    leat_reply_free(r);
    leat_client_close(c);
}

#endif

/*
 * stream_cluster.c: a plain stream on a cluster, published and read while it
 * moves to other nodes and its master is replaced.
 */
#include "support/rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LONG_MS = 60000, MOST = 100000 };

/* ---- a writer and a reader -------------------------------------------- */

typedef struct flow {
    leat_stream *out, *in;
    leat_sink *sink;
    leat_source *source;
    atomic_int next, ok, failed, unknown;
    atomic_bool stop_writing, stop_reading;
    atomic_uchar seen[MOST];
    atomic_int count, disorder;
    char last[240];
    pthread_t writer, reader;
} flow;

static void on_told(void *arg, const leat_position *at, const leat_error *err)
{
    flow *f = arg;
    (void)at;
    if (err)
        snprintf(f->last, sizeof f->last, "%s", err->msg);
    atomic_fetch_add(!err                         ? &f->ok
                     : err->code == LEAT_EUNKNOWN ? &f->unknown
                                                  : &f->failed,
                     1);
}

static void *write_on(void *arg)
{
    flow *f = arg;
    char body[16];
    while (!atomic_load(&f->stop_writing)) {
        int i = atomic_load(&f->next);
        int n = snprintf(body, sizeof body, "%d ", i);
        leat_msg m = { .body = leat_mem(body, (size_t)n) };
        if (i < MOST &&
            leat_sink_publish(f->sink, &m, 1, on_told, f, NULL) == LEAT_OK)
            atomic_store(&f->next, i + 1);
        nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
    }
    return NULL;
}

static void *read_on(void *arg)
{
    flow *f = arg;
    int last = -1;
    while (!atomic_load(&f->stop_reading)) {
        leat_delivery *d[64];
        int n = leat_source_receive(f->source, d, 64, 50, NULL);
        for (int k = 0; k < n; k++) {
            int i = body_number(d[k]);
            if (!atomic_exchange(&f->seen[i], 1)) {
                atomic_fetch_add(&f->count, 1);
                if (!leat_delivery_redelivered(d[k]) && i < last)
                    atomic_fetch_add(&f->disorder, 1);
                last = i > last ? i : last;
            }
            (void)leat_delivery_ack(d[k]);
        }
    }
    return NULL;
}

static leat_stream *open_stream(void)
{
    leat_error e = { 0 };
    leat_stream *s = leat_stream_open(client, "s", NULL, &e);
    if (!s)
        fail_msg("open: %s", e.msg);
    return s;
}

static flow *flow_start(void)
{
    leat_error e = { 0 };
    flow *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->out = open_stream();
    f->in = open_stream();
    f->sink = leat_stream_sink(f->out, NULL, &e);
    if (!f->sink)
        fail_msg("sink: %s", e.msg);
    f->source = leat_stream_source(
        f->in, "g",
        &(leat_stream_source_opts){ .idle_ms = 2000, .claim_ms = 500 }, &e);
    if (!f->source)
        fail_msg("source: %s", e.msg);
    assert_int_equal(pthread_create(&f->writer, NULL, write_on, f), 0);
    assert_int_equal(pthread_create(&f->reader, NULL, read_on, f), 0);
    return f;
}

/* So many more are confirmed and read. */
static void flows(flow *f, int more)
{
    int ok = atomic_load(&f->ok), seen = atomic_load(&f->count);
    wait_until(atomic_load(&f->ok) >= ok + more, LONG_MS);
    wait_until(atomic_load(&f->count) >= seen + more, LONG_MS);
}

/* All confirmed ones are there once, and were read. */
static void flow_stop(flow *f)
{
    atomic_store(&f->stop_writing, true);
    pthread_join(f->writer, NULL);
    (void)leat_sink_flush(f->sink, LONG_MS, NULL);
    int n = atomic_load(&f->next), ok = atomic_load(&f->ok);
    print_message("%d published, %d confirmed, %d failed, %d unknown %s\n", n,
                  ok, f->failed, f->unknown, f->last);
    assert_int_equal(ok + atomic_load(&f->failed) + atomic_load(&f->unknown),
                     n);
    redis_server *s = cluster_node(rig, cluster_owner_of(rig, "s"));
    int64_t there = redis_int(s, "XLEN s");
    assert_in_range(there, ok, ok + atomic_load(&f->unknown));
    wait_until(atomic_load(&f->count) >= there, LONG_MS);
    atomic_store(&f->stop_reading, true);
    pthread_join(f->reader, NULL);
    leat_sink_close(f->sink);
    leat_source_close(f->source);
    leat_stream_close(f->out);
    leat_stream_close(f->in);
}

/* ---- tests ------------------------------------------------------------ */

static void a_stream_moves_key_by_key_under_its_users(void **state)
{
    unsigned slot = cluster_slot("s");
    int from = cluster_owner(rig, slot, -1), to = from ? 0 : 1;
    (void)state;
    while (!cluster_is_master(rig, to) || to == from)
        to++;
    flow *f = flow_start();
    flows(f, 200);
    assert_true(cluster_move_begin(rig, slot, from, to));
    flows(f, 200);
    assert_true(cluster_move_key(rig, "s", from, to));
    flows(f, 200); /* by ASK */
    assert_true(cluster_move_end(rig, slot, from, to));
    flows(f, 200);
    flow_stop(f);
    assert_int_equal(f->failed + f->unknown, 0);
    assert_int_equal(f->disorder, 0);
    free(f);
}

static void a_stream_goes_on_with_the_next_master(void **state)
{
    (void)state;
    int heir = cluster_replica_of(rig, cluster_owner_of(rig, "s"));
    assert_true(heir >= 0);
    flow *f = flow_start();
    flows(f, 200);
    assert_true(cluster_failover(rig, heir, LONG_MS));
    assert_int_equal(cluster_owner_of(rig, "s"), heir);
    flows(f, 200);
    flow_stop(f);
    assert_int_equal(f->failed, 0);
    free(f);
}

/* Each master has its own keys. */
static void streams_of_all_nodes_are_listed_described_and_removed(void **state)
{
    enum { STREAMS = 60 };
    leat_error e = { 0 };
    char name[16];
    (void)state;
    for (int i = 0; i < STREAMS; i++) {
        leat_reply *r = NULL;
        snprintf(name, sizeof name, "list-%02d", i);
        must(leat_client_call(client,
                              LEAT_ARGS(leat_str("XADD"), leat_str(name),
                                        leat_str("1-0"), leat_str("f"),
                                        leat_str("v")),
                              NULL, &r, err));
        leat_reply_free(r);
    }
    const leat_stream_names_opts o = { .match = "list-*" };
    leat_names *n = leat_stream_names(client, &o, &e);
    if (!n)
        fail_msg("%s", e.msg);
    assert_int_equal(n->count, STREAMS);
    for (size_t i = 0; i < n->count; i++) {
        leat_stream_info *s = leat_stream_describe(client, n->name[i], &e);
        assert_non_null(s);
        assert_int_equal(s->entries, 1);
        leat_stream_info_free(s);
        must(leat_stream_remove(client, n->name[i], NULL, err));
    }
    leat_names_free(n);
    n = leat_stream_names(client, &o, &e);
    assert_int_equal(n->count, 0);
    leat_names_free(n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        rig_test(streams_of_all_nodes_are_listed_described_and_removed),
        rig_test(a_stream_moves_key_by_key_under_its_users),
        rig_test(a_stream_goes_on_with_the_next_master),
    };
    return cmocka_run_group_tests(tests, start_rig, stop_rig);
}

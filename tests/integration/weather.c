/*
 * weather.c: what can pass ends nothing that runs.
 *
 * A topic's, a stream's and a queue's consumer, a pool and the producers run
 * while a password is changed, rights are taken away, or the sentinels do not
 * know the service.  When that is set right they go on by themselves.  With
 * OVER_TLS the same over TLS.
 */
#ifdef OVER_TLS
#include "support/certs.h"
#endif
#include "support/cluster.h"
#include "support/sentinels.h"
#include "support/server.h"

#include <stdatomic.h>

enum { LONG_MS = 60000, TOPIC = 0, STREAM, QUEUE, POOL, KINDS };

static atomic_int came[KINDS], warnings;

static leat_verdict handle(leat_ctx *x, void *arg)
{
    (void)x;
    atomic_fetch_add((atomic_int *)arg, 1);
    return LEAT_ACK;
}

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    (void)line;
    atomic_fetch_add(&warnings, level >= LEAT_LOG_WARN);
}

static const leat_run_opts run_opts = { .log = { .fn = on_log } };

/* ---- all that runs ---------------------------------------------------- */

typedef struct world {
    leat_client *client;
    leat_topic *topic;
    leat_stream *stream;
    leat_sink *sink;
    leat_queue *queue, *pooled;
    leat_run *run[POOL];
    leat_pool *pool;
} world;

static leat_run *run_of(leat_source *s, int kind)
{
    leat_error e = { 0 };
    leat_run *r = leat_run_start(s, handle, &came[kind], &run_opts, &e);
    if (!r)
        fail_msg("cannot start: %s", e.msg);
    return r;
}

static world world_of(const char *where)
{
    leat_error e = { 0 };
    world w = { .client = open_client(
                    where, &(leat_client_opts){ .max_retry_ms = 100 }) };
    for (int i = 0; i < KINDS; i++)
        atomic_store(&came[i], 0);
    atomic_store(&warnings, 0);
    w.topic = leat_topic_open(
        w.client, "t",
        &(leat_topic_opts){ .auto_create = true, .partitions = 1 }, &e);
    w.stream = leat_stream_open(w.client, "s", NULL, &e);
    w.sink = w.stream ? leat_stream_sink(w.stream, NULL, &e) : NULL;
    w.queue = leat_queue_open(w.client, "q", NULL, &e);
    w.pooled = leat_queue_open(w.client, "q",
                               &(leat_queue_opts){ .prefix = "pool" }, &e);
    w.pool = leat_pool_start(
        w.client, handle, &came[POOL],
        &(leat_pool_opts){ .prefix = "pool", .log = run_opts.log }, &e);
    if (!w.topic || !w.sink || !w.queue || !w.pooled || !w.pool)
        fail_msg("cannot open: %s", e.msg);
    w.run[TOPIC] = run_of(leat_topic_source(w.topic, "g", NULL, &e), TOPIC);
    w.run[STREAM] = run_of(leat_stream_source(w.stream, "g", NULL, &e), STREAM);
    w.run[QUEUE] = run_of(leat_queue_source(w.queue, NULL, &e), QUEUE);
    return w;
}

/* A message of each kind is sent and comes. */
static void all_flow(world *w)
{
    leat_msg m = { .id = leat_str("x"), .body = leat_str("x") };
    leat_msg q = { .body = leat_str("x") };
    int before[KINDS];
    for (int i = 0; i < KINDS; i++)
        before[i] = atomic_load(&came[i]);
    must(leat_topic_publish(w->topic, &m, NULL, NULL, err));
    must(leat_topic_flush(w->topic, LONG_MS, err));
    must(leat_sink_publish(w->sink, &m, 1, NULL, NULL, err));
    must(leat_sink_flush(w->sink, LONG_MS, err));
    must(leat_queue_send(w->queue, &q, NULL, NULL, err));
    must(leat_queue_send(w->pooled, &q, NULL, NULL, err));
    for (int i = 0; i < KINDS; i++)
        wait_until(atomic_load(&came[i]) > before[i], LONG_MS);
}

static void nothing_has_ended(world *w)
{
    leat_run_stats st;
    leat_pool_stats pool;
    for (int i = 0; i < POOL; i++) {
        leat_run_stats_get(w->run[i], &st);
        assert_false(st.failed);
    }
    leat_pool_stats_get(w->pool, &pool);
    assert_false(pool.failed);
}

/* What was settled just when it was not allowed is told by the stop. */
static void world_close(world *w)
{
    nothing_has_ended(w);
    for (int i = 0; i < POOL; i++)
        (void)leat_run_stop(w->run[i], LONG_MS, NULL);
    (void)leat_pool_stop(w->pool, LONG_MS, NULL);
    leat_sink_close(w->sink);
    leat_stream_close(w->stream);
    leat_queue_close(w->queue);
    leat_queue_close(w->pooled);
    leat_topic_close(w->topic);
    leat_client_close(w->client);
}

/* So long, that whoever gives up has done so; and it is told, but not at every
 * try. */
static void endure(int64_t ms)
{
    enum { WARNINGS_MOST = 100 };
    wait_until(atomic_load(&warnings) > 0, LONG_MS);
    wait_nap(ms);
    assert_in_range(atomic_load(&warnings), 1, WARNINGS_MOST);
}

/* ---- servers ---------------------------------------------------------- */

#ifdef OVER_TLS
static char certs[64];
#endif

/* Where it all runs: one server or a cluster. */
typedef struct place {
    char url[600];
    int count;
    redis_server *node[CLUSTER_NODES];
} place;

/* The URL with a user's login before its hosts. */
static void place_url(place *p, const char *at)
{
    const char *hosts = strstr(at, "://") + 3;
    snprintf(p->url, sizeof p->url, "%.*sapp:old@%s", (int)(hosts - at), at,
             hosts);
}

static void all_do(const place *p, const char *command)
{
    for (int i = 0; i < p->count; i++)
        redis_do(p->node[i], command);
}

static place server_place(void)
{
    char at[512];
    place p = { .count = 1, .node = { server } };
#ifdef OVER_TLS
    place_url(&p, redis_url_tls(server, at, sizeof at));
#else
    place_url(&p, redis_url(server, at, sizeof at));
#endif
    redis_flush(server);
    return p;
}

static place cluster_place(cluster *c)
{
    char at[500];
    place p = { .count = cluster_count(c) };
    for (int i = 0; i < p.count; i++)
        p.node[i] = cluster_node(c, i);
    place_url(&p, cluster_url(c, at, sizeof at));
#ifdef OVER_TLS
    size_t n = strlen(p.url);
    snprintf(p.url + n, sizeof p.url - n, "?cafile=%s/ca.crt", certs);
#endif
    return p;
}

static world begin(const place *p)
{
    all_do(p, "ACL SETUSER app reset on >old ~* &* +@all");
    world w = world_of(p->url);
    all_flow(&w);
    return w;
}

static void change_password(const place *p)
{
    world w = begin(p);
    all_do(p, "ACL SETUSER app >new <old");
    all_do(p, "CLIENT KILL USER app");
    endure(3000);
    all_do(p, "ACL SETUSER app >old");
    all_flow(&w);
    world_close(&w);
}

static void take_rights(const place *p)
{
    world w = begin(p);
    all_do(p, "ACL SETUSER app -@all +@connection +cluster");
    endure(3000);
    all_do(p, "ACL SETUSER app +@all");
    all_flow(&w);
    world_close(&w);
}

static void a_password_that_is_changed_and_changed_back(void **state)
{
    (void)state;
    place p = server_place();
    change_password(&p);
}

static void rights_that_are_taken_and_given_back(void **state)
{
    (void)state;
    place p = server_place();
    take_rights(&p);
}

/* Somebody's key in the place of ours. */
static void a_key_of_another_type_that_goes_away(void **state)
{
    (void)state;
    place p = server_place();
    world w = begin(&p);
    redis_do(server, "FLUSHALL");
    redis_do(server, "SET s x");
    redis_do(server, "SET leat:{t/0}:log x");
    endure(1000);
    redis_do(server, "DEL s leat:{t/0}:log");
    must(leat_sink_publish(w.sink, &(leat_msg){ .body = leat_str("x") }, 1,
                           NULL, NULL, err));
    wait_until(atomic_load(&came[STREAM]) > 1, LONG_MS);
    world_close(&w);
}

static void the_same_on_a_cluster(void **state)
{
    (void)state;
    cluster *c = cluster_start(
        &(cluster_opts){ .replicas = -1, .tls = server_opts.tls });
    assert_non_null(c);
    place p = cluster_place(c);
    change_password(&p);
    take_rights(&p);
    cluster_stop(c);
}

#ifndef OVER_TLS
/* ---- sentinels -------------------------------------------------------- */

static void sentinels_that_forget_the_service(void **state)
{
    char at[400];
    (void)state;
    sentinels *g = sentinels_start(NULL);
    assert_non_null(g);
    wait_until(sentinels_settled(g, 2), LONG_MS);
    int master = sentinels_master(g);
    world w = world_of(sentinels_url(g, at, sizeof at));
    all_flow(&w);
    for (int i = 0; i < SENTINELS_COUNT; i++)
        redis_do(sentinels_sentinel(g, i), "SENTINEL REMOVE shop");
    redis_do(sentinels_server(g, master), "CLIENT KILL TYPE normal SKIPME yes");
    redis_do(sentinels_server(g, master), "CLIENT KILL TYPE pubsub");
    endure(5000);
    for (int i = 0; i < SENTINELS_COUNT; i++)
        redis_do(sentinels_sentinel(g, i),
                 "SENTINEL MONITOR shop 127.0.0.1 %d 2",
                 redis_port(sentinels_server(g, master)));
    all_flow(&w);
    world_close(&w);
    sentinels_stop(g);
}

#endif

static int start(void **state)
{
#ifdef OVER_TLS
    if (!certs_dir(certs, sizeof certs) || !certs_usual(certs))
        return -1;
    server_opts.tls = certs;
#endif
    server_opts.tcp = true;
    return start_server(state);
}

static int stop(void **state)
{
    int rc = stop_server(state);
#ifdef OVER_TLS
    certs_remove(certs);
#endif
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_password_that_is_changed_and_changed_back),
        cmocka_unit_test(rights_that_are_taken_and_given_back),
        cmocka_unit_test(a_key_of_another_type_that_goes_away),
        cmocka_unit_test(the_same_on_a_cluster),
#ifndef OVER_TLS
        cmocka_unit_test(sentinels_that_forget_the_service),
#endif
    };
    return cmocka_run_group_tests(tests, start, stop);
}

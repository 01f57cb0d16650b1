/*
 * sentinel_failover.c: the master of a service dies, hangs or is replaced.
 *
 * One master, two replicas, three sentinels for all tests; each begins when
 * they have settled.  What a client does is done by threads that go on until
 * they are told to stop, and every wait is for a condition.  On a machine with
 * much to do the sentinels may replace a master that only was slow: so more
 * changes than the test makes are no failure.
 */
#include "support/leat.h"
#include "support/sentinels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { LONG_MS = 60000, MOST = 1 << 16, PACE_MS = 3 };

static sentinels *group;
static char url[400];

static int start(void **state)
{
    (void)state;
    group = sentinels_start(&(sentinels_opts){ .down_after_ms = 2000 });
    if (!group)
        return -1;
    sentinels_url(group, url, sizeof url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sentinels_stop(group);
    return 0;
}

static bool all_is_well(void *arg)
{
    (void)arg;
    for (int i = 0; i < SENTINELS_SERVERS; i++)
        if (!redis_alive(sentinels_server(group, i)))
            return false;
    return sentinels_settled(group, SENTINELS_SERVERS - 1);
}

/* Everything lives, and two replicas are linked to the master. */
static int settle(void **state)
{
    (void)state;
    return wait_for(all_is_well, NULL, LONG_MS) ? 0 : -1;
}

static redis_server *master(void)
{
    int i = sentinels_master(group);
    assert_true(i >= 0);
    return sentinels_server(group, i);
}

static bool is_replaced(const redis_server *old)
{
    int i = sentinels_master(group);
    return i >= 0 && sentinels_server(group, i) != old;
}

/* A failover can be given up half way; then it is asked for again. */
static bool replace(const redis_server *old)
{
    int i = sentinels_named(group, 0);
    if (i >= 0 && sentinels_server(group, i) == old)
        (void)sentinels_failover(group);
    wait_nap(50);
    return is_replaced(old);
}

/* ---- what the client says --------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    char last[300]; /* line that tells a change */
    int changes;
} said = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    (void)level;
    pthread_mutex_lock(&said.lock);
    if (strstr(line, "master of 'shop' is now")) {
        said.changes++;
        snprintf(said.last, sizeof said.last, "%s", line);
    }
    pthread_mutex_unlock(&said.lock);
}

static int changes(void)
{
    pthread_mutex_lock(&said.lock);
    int n = said.changes;
    pthread_mutex_unlock(&said.lock);
    return n;
}

static leat_client *open_shop(leat_metrics *m)
{
    pthread_mutex_lock(&said.lock);
    said.changes = 0;
    pthread_mutex_unlock(&said.lock);
    return open_client(
        url,
        &(leat_client_opts){ .metrics = m,
                             .log = { .fn = on_log, .level = LEAT_LOG_INFO } });
}

/* Which port a connection leads to, as the server itself says. */
static int port_of(leat_conn *conn)
{
    const leat_reply *r = NULL;
    must(leat_conn_call(
        conn, LEAT_ARGS(leat_str("CONFIG"), leat_str("GET"), leat_str("port")),
        NULL, &r, err));
    return (int)leat_reply_int(leat_reply_at(r, 1));
}

static bool leads_to(leat_client *c, const redis_server *s)
{
    leat_error e;
    leat_reply *r = NULL;
    if (leat_client_call(
            c, LEAT_ARGS(leat_str("CONFIG"), leat_str("GET"), leat_str("port")),
            &(leat_call_opts){ .idempotent = true }, &r, &e) != LEAT_OK)
        return false;
    bool ok = leat_reply_int(leat_reply_at(r, 1)) == redis_port(s);
    leat_reply_free(r);
    return ok;
}

/* ---- a read that nobody answers --------------------------------------- */

struct reader {
    pthread_t thread;
    leat_client *client;
    atomic_bool reads, ended;
    leat_code code;
};

static void *read_for_an_hour(void *arg)
{
    struct reader *q = arg;
    leat_error e = { 0 };
    leat_conn *conn = leat_client_lend(q->client, LONG_MS, &e);
    atomic_store(&q->reads, true);
    q->code = conn ? leat_conn_call(
                         conn,
                         LEAT_ARGS(leat_str("BLPOP"), leat_str("empty"),
                                   leat_str("3600")),
                         &(leat_send_opts){ .block_ms = 3600000 }, NULL, &e)
                   : e.code;
    leat_client_return(q->client, conn);
    atomic_store(&q->ended, true);
    return NULL;
}

static void start_reader(struct reader *q, leat_client *c)
{
    *q = (struct reader){ .client = c };
    assert_int_equal(pthread_create(&q->thread, NULL, read_for_an_hour, q), 0);
}

static int64_t blocked_clients(redis_server *s)
{
    char text[4096];
    const char *at = strstr(redis_text(s, text, sizeof text, "INFO clients"),
                            "blocked_clients:");
    return at ? strtoll(at + strlen("blocked_clients:"), NULL, 10) : -1;
}

/* ---- S1 --------------------------------------------------------------- */

struct work {
    leat_topic *topic;
    pthread_t thread;
    atomic_bool stop;
    atomic_int ok;
};

static void on_told(void *arg, const leat_position *at, const leat_error *err)
{
    struct work *w = arg;
    (void)at;
    if (!err)
        atomic_fetch_add(&w->ok, 1);
}

static void *publish(void *arg)
{
    struct work *w = arg;
    while (!atomic_load(&w->stop)) {
        (void)!leat_topic_publish(w->topic,
                                  &(leat_msg){ .body = leat_str("hello") },
                                  on_told, w, NULL);
        wait_nap(PACE_MS);
    }
    return NULL;
}

static int receive_some(leat_source *s)
{
    leat_delivery *d[50];
    leat_error e = { 0 };
    int n = leat_source_receive(s, d, 50, 100, &e);
    if (n < 0 && !e.retriable)
        fail_msg("%s", e.msg);
    for (int i = 0; i < n; i++)
        (void)!leat_delivery_ack(d[i]);
    return n > 0 ? n : 0;
}

#define receive_until(s, got, cond)                                            \
    do {                                                                       \
        int64_t until_ = wait_now_ms() + LONG_MS;                              \
        while (!(cond)) {                                                      \
            (got) += receive_some(s);                                          \
            if (wait_now_ms() > until_)                                        \
                fail_msg("not within %d ms: %s", LONG_MS, #cond);              \
        }                                                                      \
    } while (0)

static void a_topic_goes_on_after_its_master_was_killed(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_metrics *m = leat_metrics_new(NULL);
    leat_client *c = open_shop(m);
    struct work w = {
        .topic = leat_topic_open(
            c, "t", &(leat_topic_opts){ .auto_create = true, .partitions = 1 },
            &e)
    };
    assert_non_null(w.topic);
    leat_source *s = leat_topic_source(
        w.topic, "g", &(leat_topic_source_opts){ .lease_ms = 2000 }, &e);
    assert_non_null(s);
    assert_int_equal(pthread_create(&w.thread, NULL, publish, &w), 0);
    int got = 0;
    receive_until(s, got, got > 50);

    redis_server *old = master();
    int64_t before = wait_now_ms();
    redis_kill(old);
    receive_until(s, got, is_replaced(old));
    int64_t promoted = wait_now_ms();
    int ok = atomic_load(&w.ok), then = got;
    receive_until(s, got, atomic_load(&w.ok) > ok + 50 && got > then + 50);
    print_message("# another master after %d ms, 50 more after %d ms\n",
                  (int)(promoted - before), (int)(wait_now_ms() - before));

    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    leat_source_close(s);
    leat_topic_close(w.topic);
    leat_client_close(c);
    assert_true(changes() >= 1);
    leat_counter *counted = leat_metrics_counter(
        m, "leat_redis_failovers_total",
        "Changes of the master that were followed.", NULL, 0, NULL);
    assert_int_equal(leat_counter_get(counted), changes());
    leat_metrics_free(m);
    assert_true(redis_restart(old));
}

/* ---- S2 --------------------------------------------------------------- */

static void
a_read_on_a_master_that_hangs_is_cut_when_it_is_replaced(void **state)
{
    (void)state;
    struct reader q;
    leat_client *c = open_shop(NULL);
    redis_server *old = master();
    start_reader(&q, c);
    wait_until(blocked_clients(old) == 1, LONG_MS);

    redis_pause(old);
    wait_until(atomic_load(&q.ended), LONG_MS); /* not after an hour */
    assert_code(q.code, LEAT_EUNKNOWN);
    assert_true(changes() >= 1);
    wait_until(is_replaced(old), LONG_MS);
    int before = changes();

    /* The old one wakes up and still believes in itself: nobody goes there. */
    redis_resume(old);
    for (int i = 0; i < 5; i++) {
        leat_conn *conn = lend(c);
        int port = port_of(conn);
        assert_true(port != redis_port(old) || changes() > before);
        leat_client_return(c, conn);
    }
    pthread_join(q.thread, NULL);
    leat_client_close(c);
}

/* ---- S4 --------------------------------------------------------------- */

struct writer {
    pthread_t thread;
    leat_client *client;
    atomic_bool stop;
    atomic_int next, acked_count;
    bool acked[MOST]; /* both replicas have it */
};

/* Acknowledged is what both replicas of the master have: whichever of them is
 * promoted has it too. */
static bool write_one(struct writer *w, int i)
{
    char text[16];
    leat_error e = { 0 };
    const leat_reply *r = NULL;
    bool acked = false;
    leat_conn *conn = leat_client_lend(w->client, 1000, &e);
    if (!conn)
        return false;
    snprintf(text, sizeof text, "%d", i);
    if (leat_conn_call(
            conn, LEAT_ARGS(leat_str("SADD"), leat_str("kept"), leat_str(text)),
            NULL, NULL, &e) == LEAT_OK &&
        leat_conn_call(
            conn, LEAT_ARGS(leat_str("WAIT"), leat_str("2"), leat_str("500")),
            &(leat_send_opts){ .block_ms = 500 }, &r, &e) == LEAT_OK)
        acked = leat_reply_int(r) == 2;
    leat_client_return(w->client, conn);
    return acked;
}

static void *write_on(void *arg)
{
    struct writer *w = arg;
    while (!atomic_load(&w->stop)) {
        int i = atomic_load(&w->next);
        if (i < MOST && write_one(w, i)) {
            w->acked[i] = true;
            atomic_fetch_add(&w->acked_count, 1);
        }
        if (i < MOST)
            atomic_store(&w->next, i + 1);
        wait_nap(PACE_MS);
    }
    return NULL;
}

static void audit(const struct writer *w, redis_server *s)
{
    int lost = 0, n = atomic_load(&w->next);
    for (int i = 0; i < n; i++)
        lost += w->acked[i] && redis_int(s, "SISMEMBER kept %d", i) != 1;
    print_message("# %d written, %d acknowledged by both, %d of these lost\n",
                  n, atomic_load(&w->acked_count), lost);
    assert_int_equal(lost, 0);
}

static void nothing_that_both_replicas_had_is_lost_by_failovers(void **state)
{
    (void)state;
    struct writer *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->client = open_shop(NULL);
    redis_do(master(), "DEL kept");
    assert_int_equal(pthread_create(&w->thread, NULL, write_on, w), 0);
    for (int i = 0; i < 2; i++) {
        wait_until(all_is_well(NULL), LONG_MS);
        redis_server *old = master();
        int before = atomic_load(&w->acked_count), seen = changes();
        wait_until(atomic_load(&w->acked_count) > before + 20, LONG_MS);
        wait_until(replace(old), LONG_MS);
        wait_until(changes() > seen, LONG_MS);
        before = atomic_load(&w->acked_count);
        wait_until(atomic_load(&w->acked_count) > before + 20, LONG_MS);
    }
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    wait_until(all_is_well(NULL) && leads_to(w->client, master()), LONG_MS);
    leat_client_close(w->client);
    audit(w, master());
    free(w);
}

/* ---- the end of a client ---------------------------------------------- */

static void *lend_for_long(void *arg)
{
    struct reader *q = arg;
    leat_error e = { 0 };
    atomic_store(&q->reads, true);
    leat_conn *conn = leat_client_lend(q->client, LONG_MS, &e);
    q->code = conn ? LEAT_OK : e.code;
    leat_client_return(q->client, conn);
    atomic_store(&q->ended, true);
    return NULL;
}

static void a_close_while_there_is_no_master_does_not_hang(void **state)
{
    (void)state;
    leat_client *c = open_shop(NULL);
    struct reader q = { .client = c };
    redis_server *old = master();
    redis_kill(old);
    assert_int_equal(pthread_create(&q.thread, NULL, lend_for_long, &q), 0);
    wait_until(atomic_load(&q.reads), LONG_MS);
    leat_client_close(c);
    wait_until(atomic_load(&q.ended), LONG_MS / 2);
    pthread_join(q.thread, NULL);
    wait_until(is_replaced(old), LONG_MS);
    assert_true(redis_restart(old));
}

/* ---- the sentinels themselves ----------------------------------------- */

static void without_sentinels_open_connections_go_on(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_client *c = open_shop(NULL);
    leat_conn *conn = lend(c);
    int port = redis_port(master());
    for (int i = 0; i < SENTINELS_COUNT; i++)
        redis_kill(sentinels_sentinel(group, i));
    assert_int_equal(port_of(conn), port);

    leat_conn *other = leat_client_lend(c, 0, &e);
    assert_null(other); /* a new one needs somebody who knows */
    assert_code(e.code, LEAT_ECONN);
    assert_true(e.retriable);
    assert_non_null(strstr(e.msg, "sentinel 127.0.0.1:"));

    for (int i = 0; i < SENTINELS_COUNT; i++)
        assert_true(redis_restart(sentinels_sentinel(group, i)));
    wait_until((other = leat_client_lend(c, 1000, &e)) != NULL, LONG_MS);
    leat_client_return(c, other);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void one_dead_and_one_hanging_sentinel_do_not_matter(void **state)
{
    (void)state;
    redis_server *server = master();
    redis_kill(sentinels_sentinel(group, 0));
    redis_pause(sentinels_sentinel(group, 1));
    leat_client *c = open_shop(NULL);
    for (int i = 0; i < 3; i++) {
        leat_conn *conn = lend(c);
        leat_client_return(c, conn);
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    }
    leat_client_close(c);
    redis_resume(sentinels_sentinel(group, 1));
    assert_true(redis_restart(sentinels_sentinel(group, 0)));
}

static void the_servers_of_the_service_are_listed(void **state)
{
    (void)state;
    leat_node nodes[8];
    size_t n = 0;
    leat_client *c = open_shop(NULL);
    assert_int_equal(leat_client_topology(c), LEAT_SENTINEL);
    wait_until(leat_client_nodes(c, nodes, 8, &n, NULL) == LEAT_OK &&
                   n == SENTINELS_SERVERS,
               LONG_MS);
    assert_true(nodes[0].master);
    assert_int_equal(nodes[0].port, redis_port(master()));
    assert_int_equal(nodes[0].primary, -1);
    for (size_t i = 1; i < n; i++) {
        assert_false(nodes[i].master);
        assert_int_equal(nodes[i].primary, 0);
        assert_string_equal(nodes[i].host, "127.0.0.1");
        assert_int_not_equal(nodes[i].port, nodes[0].port);
    }
    must(leat_client_nodes(c, nodes, 1, &n, err));
    assert_int_equal(n, SENTINELS_SERVERS);
    must(leat_client_nodes(c, NULL, 0, &n, err));
    assert_int_equal(n, SENTINELS_SERVERS);
    leat_client_close(c);
}

#define settled(test) cmocka_unit_test_setup(test, settle)

int main(void)
{
    const struct CMUnitTest tests[] = {
        settled(the_servers_of_the_service_are_listed),
        settled(a_topic_goes_on_after_its_master_was_killed),
        settled(a_read_on_a_master_that_hangs_is_cut_when_it_is_replaced),
        settled(nothing_that_both_replicas_had_is_lost_by_failovers),
        settled(a_close_while_there_is_no_master_does_not_hang),
        settled(one_dead_and_one_hanging_sentinel_do_not_matter),
        settled(without_sentinels_open_connections_go_on),
    };
    return cmocka_run_group_tests(tests, start, stop);
}

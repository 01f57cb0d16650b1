/*
 * callbacks.c: what a callback may call.
 *
 * None runs under a lock that a call of the same handle takes: each is called
 * back into from its own callback here.  What hangs is ended by an alarm.
 */
#include "support/server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { LONG_MS = 60000, HANGS_S = 150 };

static int begin(void **state)
{
    alarm(HANGS_S);
    return open_one(state);
}

static int end(void **state)
{
    int rc = close_one(state);
    alarm(0);
    return rc;
}

#define callback_test(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const leat_msg hello = { .body = { "x", 1 } };

/* ---- pools ------------------------------------------------------------ */

static _Atomic(leat_pool *) pool;
static atomic_int asked, told;

static void show(void *arg, const leat_pool_queue *q)
{
    leat_pool_stats st;
    (void)arg, (void)q;
    leat_pool_stats_get(atomic_load(&pool), &st);
    atomic_fetch_add(&told, 1);
}

static void show_all(void *arg, const leat_pool_queue *q)
{
    show(arg, q);
    leat_pool_each(atomic_load(&pool), show, NULL);
}

static int weigh(void *arg, leat_bytes queue)
{
    leat_pool_stats st;
    (void)arg, (void)queue;
    wait_until(atomic_load(&pool), LONG_MS);
    leat_pool_stats_get(atomic_load(&pool), &st);
    leat_pool_each(atomic_load(&pool), show, NULL);
    atomic_fetch_add(&asked, 1);
    return 2;
}

static leat_verdict play(leat_ctx *x, void *arg)
{
    leat_pool_stats st;
    (void)x, (void)arg;
    wait_until(atomic_load(&pool), LONG_MS);
    leat_pool_stats_get(atomic_load(&pool), &st);
    leat_pool_each(atomic_load(&pool), show_all, NULL);
    return LEAT_ACK;
}

static void a_pools_callbacks_may_look_at_the_pool(void **state)
{
    (void)state;
    char name[16];
    leat_pool_stats st;
    atomic_store(&pool, NULL);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "q%d", i);
        leat_queue *q = leat_queue_open(client, name, NULL, NULL);
        must(leat_queue_send(q, &hello, NULL, NULL, err));
        leat_queue_close(q);
    }
    leat_pool *p = leat_pool_start(client, play, NULL,
                                   &(leat_pool_opts){ .weight = weigh }, NULL);
    assert_non_null(p);
    atomic_store(&pool, p);
    wait_until((leat_pool_stats_get(p, &st), st.acked == 5), LONG_MS);
    assert_int_equal(atomic_load(&asked), 5);
    atomic_store(&told, 0);
    leat_pool_each(p, show, NULL);
    assert_int_equal(atomic_load(&told), 5);
    must(leat_pool_stop(p, 0, err));
}

/* ---- topics ----------------------------------------------------------- */

typedef struct echo {
    leat_topic *topic;
    leat_sink *sink;
    leat_queue *queue;
    leat_source *source;
    atomic_int told, flushes_refused;
} echo;

static leat_topic *orders(leat_topic_opts o)
{
    leat_error e = { 0 };
    o.auto_create = true;
    o.partitions = 2;
    leat_topic *t = leat_topic_open(client, "orders", &o, &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

static int64_t in_log(void)
{
    return redis_int(server, "XLEN leat:{orders/0}:log") +
           redis_int(server, "XLEN leat:{orders/1}:log");
}

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    echo *x = arg;
    leat_error e = { 0 };
    (void)at, (void)err;
    if (leat_topic_flush(x->topic, 10, &e) == LEAT_EINVAL)
        atomic_fetch_add(&x->flushes_refused, 1);
    if (atomic_fetch_add(&x->told, 1) < 3)
        (void)leat_topic_publish(x->topic, &hello, on_published, x, NULL);
}

static void a_published_callback_may_publish(void **state)
{
    (void)state;
    echo x = { .topic = orders((leat_topic_opts){ 0 }) };
    must(leat_topic_publish(x.topic, &hello, on_published, &x, err));
    wait_until(atomic_load(&x.told) == 4, LONG_MS);
    assert_int_equal(atomic_load(&x.flushes_refused), 4);
    must(leat_topic_flush(x.topic, LONG_MS, err));
    assert_int_equal(in_log(), 4);
    leat_topic_close(x.topic);
}

static uint32_t choose(void *arg, const leat_msg *m, uint32_t partitions)
{
    echo *x = arg;
    (void)m;
    if (atomic_fetch_add(&x->told, 1) == 0) {
        must(leat_topic_publish(x->topic, &hello, NULL, NULL, err));
        must(leat_topic_publish_to(x->topic, 0, &hello, NULL, NULL, err));
    }
    return partitions - 1;
}

static void a_partitioner_may_publish(void **state)
{
    (void)state;
    echo x = { 0 };
    x.topic = orders((leat_topic_opts){ .partitioner = LEAT_PARTITION_OWN,
                                        .partition_fn = choose,
                                        .partition_arg = &x });
    const leat_msg many[] = { hello, hello, hello };
    must(leat_topic_publish(x.topic, &hello, NULL, NULL, err));
    must(leat_topic_publish_batch(x.topic, many, 3, NULL, NULL, err));
    must(leat_topic_flush(x.topic, LONG_MS, err));
    assert_int_equal(atomic_load(&x.told), 5); /* each is asked for once */
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:log"), 1);
    assert_int_equal(redis_int(server, "XLEN leat:{orders/1}:log"), 5);
    leat_topic_close(x.topic);
}

static void on_line(void *arg, leat_level level, const char *line)
{
    echo *x = arg;
    (void)level, (void)line;
    if (x->topic && atomic_fetch_add(&x->told, 1) == 0)
        must(leat_topic_publish(x->topic, &hello, NULL, NULL, err));
}

static void a_topics_logger_may_publish(void **state)
{
    (void)state;
    echo x = { 0 };
    x.topic = orders((leat_topic_opts){ .log = { .fn = on_line, .arg = &x } });
    must(leat_topic_publish(x.topic, &hello, NULL, NULL, err));
    must(leat_topic_flush(x.topic, LONG_MS, err));
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(atomic_load(&x.told) > 0, LONG_MS); /* it was lost, it says */
    wait_until(in_log() == 2, LONG_MS);
    leat_topic_close(x.topic);
}

static void on_loss(void *arg, const leat_loss *l)
{
    echo *x = arg;
    (void)l;
    must(leat_topic_publish(x->topic, &hello, NULL, NULL, err));
    if (x->source) {
        leat_topic_source_stats st;
        leat_topic_source_stats_get(x->source, &st);
    }
    atomic_fetch_add(&x->told, 1);
}

static void a_loss_may_be_answered_by_publishing(void **state)
{
    (void)state;
    echo x = { 0 };
    x.topic = orders((leat_topic_opts){ .on_loss = on_loss, .loss_arg = &x });
    must(leat_topic_publish_to(x.topic, 1, &hello, NULL, NULL, err));
    must(leat_topic_flush(x.topic, LONG_MS, err));
    redis_do(server, "DEL leat:{orders/1}:log");
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(atomic_load(&x.told) == 1, LONG_MS);
    wait_until(in_log() == 1, LONG_MS);
    leat_topic_close(x.topic);
}

static void on_assign(void *arg, leat_assign what, uint32_t partition,
                      uint64_t epoch)
{
    echo *x = arg;
    (void)what, (void)partition, (void)epoch;
    must(leat_topic_publish(x->topic, &hello, NULL, NULL, err));
    atomic_fetch_add(&x->told, 1);
}

static int64_t never_again(void *arg, const leat_failure *f)
{
    echo *x = arg;
    (void)f;
    must(leat_topic_publish_to(x->topic, 1, &hello, NULL, NULL, err));
    return -1;
}

static void on_dead(void *arg, const leat_failure *f, leat_fields *extra)
{
    (void)f, (void)extra;
    must(leat_topic_publish_to(((echo *)arg)->topic, 1, &hello, NULL, NULL,
                               err));
}

static void a_members_callbacks_may_publish(void **state)
{
    (void)state;
    leat_delivery *d;
    leat_error e = { 0 };
    echo x = { .topic = orders((leat_topic_opts){ 0 }) };
    leat_topic_source_opts o = { .on_assign = on_assign,
                                 .assign_arg = &x,
                                 .retry = { .fn = never_again, .arg = &x },
                                 .dead_fn = on_dead,
                                 .dead_arg = &x };
    leat_source *s = leat_topic_source(x.topic, "g", &o, &e);
    if (!s)
        fail_msg("%s", e.msg);
    for (int i = 0; i < 4; i++) { /* two of assigns; of one a retry, a death */
        assert_int_equal(leat_source_receive(s, &d, 1, LONG_MS, NULL), 1);
        if (i == 0)
            assert_int_equal(leat_delivery_fail(d, "no"), LEAT_OK);
        else
            assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    }
    assert_int_equal(atomic_load(&x.told), 2);
    leat_source_close(s);
    leat_topic_close(x.topic);
}

/* ---- sinks ------------------------------------------------------------ */

static void on_sunk(void *arg, const leat_position *at, const leat_error *err)
{
    echo *x = arg;
    leat_error e = { 0 };
    (void)at, (void)err;
    if (leat_sink_flush(x->sink, LONG_MS, &e) == LEAT_EINVAL)
        atomic_fetch_add(&x->flushes_refused, 1);
    if (atomic_fetch_add(&x->told, 1) < 3)
        (void)leat_sink_publish(x->sink, &hello, 1, on_sunk, x, NULL);
}

static void sink_echoes(leat_sink *k)
{
    echo x = { .sink = k };
    assert_non_null(k);
    must(leat_sink_publish(k, &hello, 1, on_sunk, &x, err));
    wait_until(atomic_load(&x.told) == 4, LONG_MS);
    assert_int_equal(atomic_load(&x.flushes_refused), 4);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
}

static void every_sinks_callback_may_publish(void **state)
{
    (void)state;
    leat_topic *t = orders((leat_topic_opts){ 0 });
    leat_queue *q = leat_queue_open(client, "q", NULL, NULL);
    leat_stream *s = leat_stream_open(client, "s", NULL, NULL);
    sink_echoes(leat_queue_sink(q, NULL));
    sink_echoes(leat_stream_sink(s, NULL, NULL));
    leat_stream_close(s);
    leat_queue_close(q);
    leat_topic_close(t);
}

/* Its line takes 10,000; the callback of the first fills it. */
enum { LINE = 10000 };

static atomic_int refused;

static void overfill(void *arg, const leat_position *at, const leat_error *err)
{
    leat_sink *k = arg;
    leat_error e = { 0 };
    (void)at, (void)err;
    for (int i = 0; i <= LINE && !atomic_load(&refused); i++)
        if (leat_sink_publish(k, &hello, 1, NULL, NULL, &e) == LEAT_EFULL)
            atomic_store(&refused, 1);
}

static void a_full_queue_sink_refuses_its_own_callback(void **state)
{
    (void)state;
    leat_queue *q = leat_queue_open(client, "q", NULL, NULL);
    leat_sink *k = leat_queue_sink(q, NULL);
    must(leat_sink_publish(k, &hello, 1, overfill, k, err));
    must(leat_sink_flush(k, LONG_MS, err));
    assert_int_equal(atomic_load(&refused), 1);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    leat_queue_close(q);
}

/* ---- queues and clients ----------------------------------------------- */

static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    echo *x = arg;
    (void)missed;
    if (strcmp(e->type, "sent") == 0 && atomic_fetch_add(&x->told, 1) == 0)
        must(leat_queue_send(x->queue, &hello, NULL, NULL, err));
}

static void an_event_may_be_answered_by_sending(void **state)
{
    (void)state;
    echo x = { .queue = leat_queue_open(client, "q", NULL, NULL) };
    leat_queue_watch *w = leat_queue_watch_open(client, "q", NULL, false,
                                                on_event, &x, NULL);
    assert_non_null(w);
    must(leat_queue_send(x.queue, &hello, NULL, NULL, err));
    wait_until(atomic_load(&x.told) == 2, LONG_MS);
    leat_queue_watch_close(w);
    leat_queue_close(x.queue);
}

static void on_name(void *arg, const char *name)
{
    leat_queue *q = leat_queue_open(client, name, NULL, NULL);
    assert_non_null(q);
    leat_queue_close(q);
    ++*(int *)arg;
}

static void queues_may_be_opened_while_they_are_listed(void **state)
{
    (void)state;
    int n = 0;
    leat_queue_close(leat_queue_open(client, "a", NULL, NULL));
    leat_queue_close(leat_queue_open(client, "b", NULL, NULL));
    must(leat_queue_list(client, NULL, on_name, &n, err));
    assert_int_equal(n, 2);
}

static _Atomic(leat_client *) speaker;

static void ask_again(void *arg, leat_level level, const char *line)
{
    (void)level, (void)line;
    leat_client *c = atomic_load(&speaker);
    if (!c || atomic_fetch_add((atomic_int *)arg, 1) > 0)
        return;
    (void)leat_client_call(
        c, LEAT_ARGS(leat_str("PING")),
        &(leat_call_opts){ .idempotent = true, .timeout_ms = 1 }, NULL, NULL);
}

/* The pool's lock, the waker's and those of a sentinel or cluster are apart. */
static void a_clients_logger_may_call_the_client(void **state)
{
    (void)state;
    atomic_int n = 0;
    redis_server *own = redis_start(NULL);
    char at[256];
    redis_url(own, at, sizeof at);
    leat_client *c = open_client(
        at,
        &(leat_client_opts){
            .log = { .fn = ask_again, .arg = &n, .level = LEAT_LOG_DEBUG } });
    atomic_store(&speaker, c);
    redis_kill(own);
    leat_error e = { 0 };
    (void)leat_client_call(
        c, LEAT_ARGS(leat_str("PING")),
        &(leat_call_opts){ .idempotent = true, .timeout_ms = 1 }, NULL, &e);
    assert_true(atomic_load(&n) > 0); /* it could not connect, it says */
    assert_true(redis_restart(own));
    must(leat_client_call(
        c, LEAT_ARGS(leat_str("PING")),
        &(leat_call_opts){ .idempotent = true, .timeout_ms = LONG_MS }, NULL,
        err));
    atomic_store(&speaker, NULL);
    leat_client_close(c);
    redis_stop(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        callback_test(a_pools_callbacks_may_look_at_the_pool),
        callback_test(a_published_callback_may_publish),
        callback_test(a_partitioner_may_publish),
        callback_test(a_topics_logger_may_publish),
        callback_test(a_loss_may_be_answered_by_publishing),
        callback_test(a_members_callbacks_may_publish),
        callback_test(every_sinks_callback_may_publish),
        callback_test(a_full_queue_sink_refuses_its_own_callback),
        callback_test(an_event_may_be_answered_by_sending),
        callback_test(queues_may_be_opened_while_they_are_listed),
        callback_test(a_clients_logger_may_call_the_client),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

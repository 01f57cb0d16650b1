/*
 * handles.c: what is opened from a client: it outlives a client that is closed
 * first, and has the client's logger and metrics unless it has its own.
 */
#include "support/server.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LONG_MS = 60000 };

/* ---- a client that tells ---------------------------------------------- */

typedef struct ear {
    pthread_mutex_t lock;
    int errors;
    char last[512]; /* of the errors */
} ear;

static void hear(void *arg, leat_level level, const char *line)
{
    ear *e = arg;
    pthread_mutex_lock(&e->lock);
    if (level == LEAT_LOG_ERROR) {
        e->errors++;
        snprintf(e->last, sizeof e->last, "%s", line);
    }
    pthread_mutex_unlock(&e->lock);
}

#define EAR                                                                    \
    {                                                                          \
        .lock = PTHREAD_MUTEX_INITIALIZER                                      \
    }

static leat_client *open_heard(ear *e, leat_metrics *m)
{
    assert_true(redis_flush(server));
    return open_client(
        url,
        &(leat_client_opts){ .log = { .fn = hear, .arg = e }, .metrics = m });
}

/* One error that names what is open, and nothing more is opened. */
static void close_too_early(leat_client *c, ear *e, const char *what)
{
    leat_error why = { 0 };
    leat_client_close(c);
    assert_int_equal(e->errors, 1);
    if (!strstr(e->last, what))
        fail_msg("'%s' does not name '%s'", e->last, what);
    assert_null(leat_topic_open(
        c, "late", &(leat_topic_opts){ .auto_create = true }, &why));
    assert_code(why.code, LEAT_ECLOSED);
    assert_null(leat_queue_open(c, "late", NULL, &why));
    assert_code(why.code, LEAT_ECLOSED);
    assert_null(leat_stream_open(c, "late", NULL, &why));
    assert_code(why.code, LEAT_ECLOSED);
    leat_client_close(c); /* it is closed: nothing happens */
    assert_int_equal(e->errors, 1);
}

static leat_topic *orders(leat_client *c)
{
    leat_error e = { 0 };
    leat_topic *t = leat_topic_open(
        c, "orders", &(leat_topic_opts){ .auto_create = true, .partitions = 2 },
        &e);
    if (!t)
        fail_msg("%s", e.msg);
    return t;
}

static void publish(leat_topic *t, const char *body)
{
    must(leat_topic_publish(t, &(leat_msg){ .body = leat_str(body) }, NULL,
                            NULL, err));
}

/* ---- the client first ------------------------------------------------- */

typedef struct load {
    leat_topic *topic;
    pthread_t thread;
    atomic_bool stop;
    atomic_int n;
} load;

static void *publish_on(void *arg)
{
    load *l = arg;
    while (!atomic_load(&l->stop)) {
        publish(l->topic, "x");
        must(leat_topic_flush(l->topic, LONG_MS, err));
        atomic_fetch_add(&l->n, 1);
    }
    return NULL;
}

static void a_topic_publishes_on_after_its_client_was_closed(void **state)
{
    (void)state;
    ear e = EAR;
    leat_client *c = open_heard(&e, NULL);
    load l = { .topic = orders(c) };
    assert_int_equal(pthread_create(&l.thread, NULL, publish_on, &l), 0);
    wait_until(atomic_load(&l.n) > 3, LONG_MS);
    close_too_early(c, &e, "1 topic;");
    int before = atomic_load(&l.n);
    wait_until(atomic_load(&l.n) > before + 3, LONG_MS);
    atomic_store(&l.stop, true);
    pthread_join(l.thread, NULL);
    leat_topic_close(l.topic);
    assert_int_equal(redis_int(server, "XLEN leat:{orders/0}:log") +
                         redis_int(server, "XLEN leat:{orders/1}:log"),
                     atomic_load(&l.n));
}

static void a_member_receives_on_after_its_client_was_closed(void **state)
{
    (void)state;
    ear e = EAR;
    leat_delivery *d;
    leat_client *c = open_heard(&e, NULL);
    leat_topic *t = orders(c);
    leat_source *s = leat_topic_source(t, "g", NULL, NULL);
    assert_non_null(s);
    close_too_early(c, &e, "1 topic;");
    publish(t, "x");
    assert_int_equal(leat_source_receive(s, &d, 1, LONG_MS, NULL), 1);
    assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    leat_source_close(s);
    leat_topic_close(t);
}

static void queues_work_on_after_their_client_was_closed(void **state)
{
    (void)state;
    ear e = EAR;
    leat_delivery *d;
    leat_client *c = open_heard(&e, NULL);
    leat_queue *q = leat_queue_open(c, "q", NULL, NULL);
    leat_queue *r = leat_queue_open(
        c, "r", &(leat_queue_opts){ .event_client = c }, NULL);
    leat_source *s = leat_queue_source(q, NULL, NULL);
    assert_int_equal(leat_source_receive(s, &d, 1, 10, NULL), 0); /* it waits */
    close_too_early(c, &e, "3 queues;");
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                         err));
    assert_int_equal(leat_source_receive(s, &d, 1, LONG_MS, NULL), 1);
    assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(s);
    leat_queue_close(r);
    leat_queue_close(q);
}

static leat_verdict count(leat_ctx *x, void *arg)
{
    (void)x;
    atomic_fetch_add((atomic_int *)arg, 1);
    return LEAT_ACK;
}

static void a_pool_serves_on_after_its_client_was_closed(void **state)
{
    (void)state;
    ear e = EAR;
    atomic_int n = 0;
    leat_client *c = open_heard(&e, NULL), *other = open_client(url, NULL);
    leat_queue *q = leat_queue_open(other, "q", NULL, NULL);
    leat_pool *p = leat_pool_start(c, count, &n, NULL, NULL);
    assert_non_null(p);
    close_too_early(c, &e, "1 pool;");
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                         err));
    wait_until(atomic_load(&n) == 1, LONG_MS);
    must(leat_pool_stop(p, 0, err));
    leat_queue_close(q);
    leat_client_close(other);
}

/* Its sink and source outlive the handle, too. */
static void a_stream_works_on_after_its_client_was_closed(void **state)
{
    (void)state;
    ear e = EAR;
    leat_delivery *d;
    leat_client *c = open_heard(&e, NULL);
    leat_stream *s = leat_stream_open(c, "s", NULL, NULL);
    leat_sink *k = leat_stream_sink(s, NULL, NULL);
    leat_source *from = leat_stream_source(s, "g", NULL, NULL);
    close_too_early(c, &e, "1 stream;");
    leat_stream_close(s);
    must(leat_sink_publish(k, &(leat_msg){ .body = leat_str("x") }, 1, NULL,
                           NULL, err));
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    assert_int_equal(leat_source_receive(from, &d, 1, LONG_MS, NULL), 1);
    assert_int_equal(leat_delivery_ack(d), LEAT_OK);
    leat_source_close(from);
}

static void no_event(void *arg, const leat_queue_event *e, bool missed)
{
    (void)arg, (void)e, (void)missed;
}

static void what_only_looks_outlives_its_client(void **state)
{
    (void)state;
    ear e = EAR;
    leat_seen x;
    leat_client *c = open_heard(&e, NULL);
    leat_topic *t = orders(c);
    publish(t, "x");
    leat_topic_close(t);
    leat_browse *b = leat_browse_open(c, "orders", NULL, NULL);
    leat_dlq *d = leat_dlq_open(c, "orders", NULL, NULL);
    leat_queue_watch *w = leat_queue_watch_open(c, NULL, NULL, false, no_event,
                                                NULL, NULL);
    assert_true(b && d && w);
    close_too_early(c, &e, "1 queue watch, 1 browse, 1 dead-letter list;");
    assert_int_equal(leat_browse_next(b, &x, 0, NULL), 1);
    leat_browse_close(b);
    leat_queue_watch_close(w);
    leat_dlq_close(d);
}

static void a_lent_connection_is_told_of_and_given_back(void **state)
{
    (void)state;
    ear e = EAR;
    leat_client *c = open_heard(&e, NULL);
    leat_conn *conn = lend(c);
    leat_client_close(c);
    assert_non_null(strstr(e.last, "1 lent connection;"));
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
    leat_client_return(c, conn);
}

static void a_client_that_is_closed_last_says_nothing(void **state)
{
    (void)state;
    ear e = EAR;
    leat_client *c = open_heard(&e, NULL);
    leat_topic *t = orders(c);
    publish(t, "x");
    leat_topic_close(t);
    leat_client_close(c);
    assert_int_equal(e.errors, 0);
}

static void *close_topic(void *t)
{
    leat_topic_close(t);
    return NULL;
}

static void a_client_and_its_last_handle_close_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        ear e = EAR;
        pthread_t thread;
        leat_client *c = open_heard(&e, NULL);
        leat_topic *t = orders(c);
        assert_int_equal(pthread_create(&thread, NULL, close_topic, t), 0);
        leat_client_close(c);
        pthread_join(thread, NULL);
    }
}

/* ---- inheritance ------------------------------------------------------ */

static void quiet(void *arg, leat_level level, const char *line)
{
    (void)level, (void)line;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Is there a series of that name, of this topic, queue or stream? */
static bool counts(leat_metrics *m, const char *name, const char *of)
{
    char series[100], label[100];
    bool found = false;
    snprintf(series, sizeof series, "%s{", name);
    snprintf(label, sizeof label, "messaging_destination_name=\"%s\"", of);
    char *text = leat_metrics_text(m, false, NULL), *rest = text;
    assert_non_null(text);
    for (char *line; (line = strsep(&rest, "\n"));)
        found |= strstr(line, series) == line && strstr(line, label);
    leat_metrics_text_free(text);
    return found;
}

static leat_verdict take_it(leat_ctx *x, void *arg)
{
    (void)x, (void)arg;
    return LEAT_ACK;
}

static void metrics_of_a_client_are_those_of_what_it_opens(void **state)
{
    (void)state;
    ear e = EAR;
    leat_metrics *m = leat_metrics_new(NULL);
    leat_client *c = open_heard(&e, m);
    leat_topic *t = orders(c);
    publish(t, "x");
    must(leat_topic_flush(t, LONG_MS, err));
    assert_true(counts(m, "leat_topic_queued_messages", "orders"));
    leat_source *s = leat_topic_source(t, "g", NULL, NULL);
    assert_true(counts(m, "leat_lease_owned", "orders"));
    leat_run *r = leat_run_start(s, take_it, NULL, NULL, NULL);
    assert_true(counts(m, "leat_run_in_flight", "orders"));
    must(leat_run_stop(r, 0, err));
    leat_topic_close(t);

    leat_queue *q = leat_queue_open(c, "q", NULL, NULL);
    assert_true(counts(m, "leat_queue_sent_messages_total", "q"));
    r = leat_run_start(leat_queue_source(q, NULL, NULL), take_it, NULL, NULL,
                       NULL);
    assert_true(counts(m, "leat_run_in_flight", "q"));
    must(leat_run_stop(r, 0, err));
    leat_queue_close(q);

    leat_stream *st = leat_stream_open(c, "s", NULL, NULL);
    leat_source *from = leat_stream_source(st, "g", NULL, NULL);
    assert_true(counts(m, "leat_stream_stale_messages_total", "s"));
    r = leat_run_start(from, take_it, NULL, NULL, NULL);
    assert_true(counts(m, "leat_run_in_flight", "s"));
    must(leat_run_stop(r, 0, err));
    leat_stream_close(st);

    leat_pool *p = leat_pool_start(c, take_it, NULL,
                                   &(leat_pool_opts){ .prefix = "pp" }, NULL);
    assert_true(counts(m, "leat_run_in_flight", "pp"));
    must(leat_pool_stop(p, 0, err));
    leat_client_close(c);
    leat_metrics_free(m);
}

static void metrics_of_its_own_go_before_the_clients(void **state)
{
    (void)state;
    ear e = EAR;
    leat_metrics *m = leat_metrics_new(NULL), *own = leat_metrics_new(NULL);
    leat_client *c = open_heard(&e, m);
    leat_queue *q = leat_queue_open(c, "q",
                                    &(leat_queue_opts){ .metrics = own }, NULL);
    leat_pool *p = leat_pool_start(
        c, take_it, NULL, &(leat_pool_opts){ .prefix = "pp", .metrics = own },
        NULL);
    assert_true(counts(own, "leat_queue_sent_messages_total", "q"));
    assert_true(counts(own, "leat_run_in_flight", "pp"));
    assert_false(counts(m, "leat_queue_sent_messages_total", "q"));
    assert_false(counts(m, "leat_run_in_flight", "pp"));
    must(leat_pool_stop(p, 0, err));
    leat_queue_close(q);
    leat_client_close(c);
    leat_metrics_free(own);
    leat_metrics_free(m);
}

/* Each noun is brought to say something. */
static leat_client *open_told(atomic_int *n)
{
    assert_true(redis_flush(server));
    return open_client(
        url, &(leat_client_opts){
                 .log = { .fn = quiet, .arg = n, .level = LEAT_LOG_INFO } });
}

static leat_verdict refuse(leat_ctx *x, void *arg)
{
    (void)arg;
    return leat_ctx_reject(x, "no");
}

static void a_topic_and_its_source_have_the_clients_logger(void **state)
{
    (void)state;
    atomic_int n = 0, own = 0;
    leat_client *c = open_told(&n);
    leat_topic_close(orders(c));
    atomic_store(&n, 0);
    leat_topic_opts other = { .partitions = 3 }; /* which it has not */
    leat_topic *t = leat_topic_open(c, "orders", &other, NULL);
    assert_true(atomic_load(&n) > 0);
    atomic_store(&n, 0);
    leat_source *s = leat_topic_source(t, "g", NULL, NULL);
    leat_delivery *d;
    wait_until(leat_source_receive(s, &d, 1, 10, NULL) == 0 &&
                   atomic_load(&n) > 0,
               LONG_MS); /* it has a partition, and says so */
    leat_source_close(s);
    leat_topic_close(t);

    atomic_store(&n, 0);
    other.log = (leat_logger){ .fn = quiet, .arg = &own };
    leat_topic_close(leat_topic_open(c, "orders", &other, NULL));
    assert_true(atomic_load(&own) > 0);
    assert_int_equal(atomic_load(&n), 0);
    leat_client_close(c);
}

static void a_stream_has_the_clients_logger(void **state)
{
    (void)state;
    atomic_int n = 0;
    leat_client *c = open_told(&n);
    leat_stream *s = leat_stream_open(c, "s", NULL, NULL);
    redis_do(server, "XADD s * body x");
    atomic_store(&n, 0);
    leat_run *r = leat_run_start(leat_stream_source(s, "g", NULL, NULL), refuse,
                                 NULL, NULL, NULL);
    wait_until(atomic_load(&n) > 0, LONG_MS); /* an entry is rejected */
    must(leat_run_stop(r, 0, err));
    leat_stream_close(s);
    leat_client_close(c);
}

static leat_verdict dawdle(leat_ctx *x, void *arg)
{
    (void)arg;
    while (!leat_ctx_cancelled(x))
        wait_nap(1);
    return LEAT_NACK;
}

static void a_queues_runner_and_a_pool_have_the_clients_logger(void **state)
{
    (void)state;
    atomic_int n = 0;
    leat_client *c = open_told(&n);
    leat_queue *q = leat_queue_open(c, "q", NULL, NULL);
    for (int pool = 0; pool < 2; pool++) {
        must(leat_queue_send(q, &(leat_msg){ .body = leat_str("x") }, NULL,
                             NULL, err));
        atomic_store(&n, 0);
        leat_run *r = NULL;
        leat_pool *p = NULL;
        if (pool)
            p = leat_pool_start(c, dawdle, NULL,
                                &(leat_pool_opts){ .max_processing_ms = 1 },
                                NULL);
        else
            r = leat_run_start(leat_queue_source(q, NULL, NULL), dawdle, NULL,
                               &(leat_run_opts){ .max_processing_ms = 1 },
                               NULL);
        wait_until(atomic_load(&n) > 0, LONG_MS); /* it takes too long */
        (void)leat_pool_stop(p, 0, NULL);
        (void)leat_run_stop(r, 0, NULL);
    }
    leat_queue_close(q);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_topic_publishes_on_after_its_client_was_closed),
        cmocka_unit_test(a_member_receives_on_after_its_client_was_closed),
        cmocka_unit_test(queues_work_on_after_their_client_was_closed),
        cmocka_unit_test(a_pool_serves_on_after_its_client_was_closed),
        cmocka_unit_test(a_stream_works_on_after_its_client_was_closed),
        cmocka_unit_test(what_only_looks_outlives_its_client),
        cmocka_unit_test(a_lent_connection_is_told_of_and_given_back),
        cmocka_unit_test(a_client_that_is_closed_last_says_nothing),
        cmocka_unit_test(a_client_and_its_last_handle_close_at_once),
        cmocka_unit_test(metrics_of_a_client_are_those_of_what_it_opens),
        cmocka_unit_test(metrics_of_its_own_go_before_the_clients),
        cmocka_unit_test(a_topic_and_its_source_have_the_clients_logger),
        cmocka_unit_test(a_stream_has_the_clients_logger),
        cmocka_unit_test(a_queues_runner_and_a_pool_have_the_clients_logger),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

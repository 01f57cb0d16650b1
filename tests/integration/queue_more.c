/*
 * queue_more.c: waiting, groups, what happens by itself, events, and the queue
 * as source and sink.
 */
#include "queue/keys.h"
#include "queue_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- waiting ---------------------------------------------------------- */

typedef struct waiter {
    leat_queue *q;
    pthread_t thread;
    leat_queue_batch *batch;
    leat_receive_opts opts;
    atomic_bool done;
} waiter;

static void *wait_for_one(void *arg)
{
    waiter *w = arg;
    w->batch = leat_queue_receive(w->q, &w->opts, NULL);
    atomic_store(&w->done, true);
    return NULL;
}

static void start_waiting(waiter *w, leat_queue *q)
{
    w->q = q;
    w->opts.wait_ms = LONG_MS;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_one, w), 0);
}

static int64_t listeners(leat_queue *q, const char *what)
{
    char channel[100];
    redisReply *r = redis_raw(server, "PUBSUB CHANNELS leat:*:%s:%s",
                              leat_queue_name(q), what);
    int64_t n = 0;
    if (r && r->elements == 1) {
        snprintf(channel, sizeof channel, "%s", r->element[0]->str);
        redisReply *s = redis_raw(server, "PUBSUB NUMSUB %s", channel);
        n = s && s->elements == 2 ? s->element[1]->integer : 0;
        freeReplyObject(s);
    }
    freeReplyObject(r);
    return n;
}

static void a_send_wakes_who_waits(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    waiter w = { 0 };
    start_waiting(&w, q);
    wait_until(listeners(q, "ready") == 1, LONG_MS);
    send_text(q, "x");
    wait_until(atomic_load(&w.done), LONG_MS);
    pthread_join(w.thread, NULL);
    assert_int_equal(leat_queue_batch_count(w.batch), 1);
    assert_item(item(w.batch), "x");
    leat_queue_batch_free(w.batch);
    leat_queue_close(q);
}

/* A hundred waiters, one connection that listens. */
static void many_wait_on_one_connection(void **state)
{
    enum { N = 20 };
    (void)state;
    waiter w[N] = { 0 };
    leat_queue *q[N];
    char name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "q%d", i);
        q[i] = queue_of(name, NULL);
        start_waiting(&w[i], q[i]);
    }
    wait_until(redis_int(server, "PUBSUB CHANNELS *:ready") == N, LONG_MS);
    char list[16384];
    redis_text(server, list, sizeof list, "CLIENT LIST TYPE pubsub");
    int lines = 0;
    for (char *p = list; (p = strchr(p, '\n')); p++)
        lines++;
    assert_int_equal(lines, 1);
    for (int i = 0; i < N; i++)
        send_text(q[i], "x");
    for (int i = 0; i < N; i++) {
        pthread_join(w[i].thread, NULL);
        assert_int_equal(leat_queue_batch_count(w[i].batch), 1);
        leat_queue_batch_free(w[i].batch);
        leat_queue_close(q[i]);
    }
}

static void an_interrupt_ends_the_wait(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    waiter w = { 0 };
    start_waiting(&w, q);
    wait_until(listeners(q, "ready") == 1, LONG_MS);
    leat_queue_interrupt(q);
    pthread_join(w.thread, NULL);
    assert_int_equal(leat_queue_batch_count(w.batch), 0);
    leat_queue_batch_free(w.batch);
    leat_queue_close(q);
}

static void assert_no_wait(leat_queue *q, const leat_receive_opts *o)
{
    int64_t before = wait_now_ms();
    leat_queue_batch *b = take(q, o);
    assert_int_equal(leat_queue_batch_count(b), 0);
    leat_queue_batch_free(b);
    assert_true(wait_now_ms() - before < LONG_MS / 2);
}

static void an_interrupt_before_the_wait_ends_that(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    leat_queue_interrupt(q);
    nothing(q); /* which does not wait: the interrupt is not for it */
    assert_no_wait(q, &(leat_receive_opts){ .wait_ms = LONG_MS });
    waiter w = { 0 };
    start_waiting(&w, q); /* it was for one */
    wait_until(listeners(q, "ready") == 1, LONG_MS);
    assert_false(atomic_load(&w.done));
    leat_queue_interrupt(q);
    pthread_join(w.thread, NULL);
    leat_queue_batch_free(w.batch);
    leat_queue_close(q);
}

static void a_readable_descriptor_ends_a_wait(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    int fd = eventfd(0, EFD_CLOEXEC);
    uint64_t one = 1;
    waiter w = { .opts.cancel_fd = fd }, other = { 0 };
    start_waiting(&w, q);
    start_waiting(&other, q);
    wait_until(listeners(q, "ready") == 1, LONG_MS);
    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
    pthread_join(w.thread, NULL);
    assert_int_equal(leat_queue_batch_count(w.batch), 0);
    assert_false(atomic_load(&other.done));
    assert_no_wait(q,
                   &(leat_receive_opts){ .wait_ms = LONG_MS, .cancel_fd = fd });
    leat_queue_interrupt(q);
    pthread_join(other.thread, NULL);
    leat_queue_batch_free(w.batch);
    leat_queue_batch_free(other.batch);
    close(fd);
    leat_queue_close(q);
}

static void a_send_wakes_who_may_be_cancelled(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    int fd = eventfd(0, EFD_CLOEXEC);
    waiter w = { .opts.cancel_fd = fd };
    start_waiting(&w, q);
    wait_until(listeners(q, "ready") == 1, LONG_MS);
    send_text(q, "x");
    pthread_join(w.thread, NULL);
    assert_int_equal(leat_queue_batch_count(w.batch), 1);
    leat_queue_batch_free(w.batch);
    close(fd);
    leat_queue_close(q);
}

/* A receive asks for memory between its first look at the interrupts and its
 * wait: there the interrupt comes. */
static leat_source *to_interrupt;

static void *interrupting_alloc(void *arg, void *old, size_t size)
{
    const leat_system *os = leat_system_default();
    (void)arg;
    leat_source *s = to_interrupt;
    to_interrupt = NULL;
    if (s)
        leat_source_interrupt(s);
    return os->alloc(os->arg, old, size);
}

static void an_interrupt_is_not_lost_before_the_wait_of_a_source(void **state)
{
    (void)state;
    leat_delivery *d;
    leat_system sys = *leat_system_default();
    sys.alloc = interrupting_alloc;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    leat_source *s = leat_queue_source(q, NULL, NULL);
    assert_non_null(s);
    leat_system_set(&sys);
    to_interrupt = s;
    int64_t before = wait_now_ms();
    int n = leat_source_receive(s, &d, 1, LONG_MS, NULL);
    leat_system_set(NULL);
    assert_int_equal(n, 0);
    assert_null(to_interrupt);
    assert_true(wait_now_ms() - before < LONG_MS / 2);
    leat_source_close(s);
    leat_queue_close(q);
}

static void an_interrupt_of_a_source_is_not_another_receives(void **state)
{
    (void)state;
    leat_delivery *d;
    leat_queue *q = queue_of("orders", NULL);
    leat_source *s = leat_queue_source(q, NULL, NULL);
    waiter w = { 0 };
    start_waiting(&w, q);
    wait_until(listeners(q, "ready") == 1, LONG_MS);
    leat_source_interrupt(s);
    assert_int_equal(leat_source_receive(s, &d, 1, LONG_MS, NULL), 0);
    assert_false(atomic_load(&w.done));
    leat_queue_interrupt(q);
    pthread_join(w.thread, NULL);
    leat_queue_batch_free(w.batch);
    leat_source_close(s);
    leat_queue_close(q);
}

static void a_short_wait_ends_empty(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .wait_ms = 50 });
    assert_int_equal(leat_queue_batch_count(b), 0);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- the reaper ------------------------------------------------------- */

static void what_expires_comes_back_though_nobody_receives(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 1 });
    leat_queue_send_opts later = { .delay_ms = 100 };
    send_text(q, "poison");
    leat_queue_batch_free(take(q, &(leat_receive_opts){ .visibility_ms = 50 }));
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("later") }, &later,
                         NULL, err));
    wait_until(stats(q).to_dead == 1 &&
                   redis_int(server, "LLEN leat:{q/41}:orders:ready") == 1,
               LONG_MS);
    conserved(q);
    leat_queue_close(q);
}

static void another_process_looks_after_what_the_dead_left(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    send_text(q, "x");
    leat_queue_batch_free(take(q, &(leat_receive_opts){ .visibility_ms = 20 }));
    leat_queue_close(q);
    leat_client *other = open_client(url, NULL);
    q = leat_queue_open(other, "orders", NULL, NULL);
    assert_non_null(q);
    wait_until(stats(q).requeued == 1, LONG_MS);
    leat_queue_close(q);
    leat_client_close(other);
}

/* Or whoever comes next would wait until it has run out. */
static void a_reaper_that_ends_gives_its_lease_up(void **state)
{
    (void)state;
    char lease[64], first[64], now[64];
    leat_queue *one = queue_of("orders", NULL), *two = queue_of("orders", NULL);
    snprintf(lease, sizeof lease, "leat:{q/%u}:reaper",
             leat__queue_shard("orders"));
    wait_until(redis_int(server, "EXISTS %s", lease) == 1, LONG_MS);
    redis_text(server, first, sizeof first, "GET %s", lease);
    wait_until(strcmp(redis_text(server, now, sizeof now, "GET %s", lease),
                      first) != 0,
               LONG_MS); /* it knows that it has it */
    leat_queue_close(one);
    assert_true(redis_int(server, "PTTL %s", lease) > 100);
    leat_queue_close(two);
    assert_true(redis_int(server, "PTTL %s", lease) <= 10);
}

static void a_handle_without_reaper_gives_back_nothing(void **state)
{
    (void)state;
    int64_t n;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    send_text(q, "x");
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .visibility_ms = 1 });
    int64_t sent = item(b)->sent_ms;
    leat_queue_batch_free(b);
    char text[64];
    do
        redis_text(server, text, sizeof text, "ECHO x");
    while (redis_int(server, "EVAL %s 0",
                     "local t = redis.call('TIME') return t[1] * 1000 + "
                     "math.floor(t[2] / 1000)") < sent + 50);
    nothing(q);
    must(leat_queue_requeue_expired_once(q, 10, &n, err));
    assert_int_equal(n, 1);
    b = take_one(q);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void dead_letters_move_to_another_queue_once(void **state)
{
    enum { N = 250 };
    (void)state;
    char seen[N] = { 0 };
    leat_queue *graves = queue_of("graves", NULL);
    leat_queue *q = queue_of(
        "orders",
        &(leat_queue_opts){ .max_receives = 1, .dead_queue = "graves" });
    send_many(q, 0, N);
    for (int i = 0; i < N;) {
        leat_queue_batch *b = take(
            q, &(leat_receive_opts){ .max = 100, .wait_ms = LONG_MS });
        for (size_t k = 0; k < leat_queue_batch_count(b); k++, i++)
            must(leat_queue_change_visibility(
                q, leat_queue_batch_at(b, k)->receipt, 0, err));
        leat_queue_batch_free(b);
    }
    wait_until(stats(graves).sent == N && stats(q).dead == 0, LONG_MS);
    for (int i = 0; i < N; i++) {
        leat_queue_batch *b = take_one(graves);
        const leat_msg *m = &item(b)->msg;
        char text[16] = "";
        memcpy(text, m->body.p, m->body.n);
        seen[(int)strtol(text, NULL, 10)]++;
        assert_true(leat_bytes_eq(leat_msg_header(m, "leat-dead-from"),
                                  leat_str("orders")));
        assert_true(leat_bytes_eq(leat_msg_header(m, "leat-dead-receives"),
                                  leat_str("1")));
        ack(graves, b);
        leat_queue_batch_free(b);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    conserved(q);
    leat_queue_close(q);
    leat_queue_close(graves);
}

static void gauges_and_counters_show_the_queue(void **state)
{
    (void)state;
    leat_metrics *m = leat_metrics_new(NULL);
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .max_receives = 1, .metrics = m });
    const leat_label l[] = { { "messaging_system", "leat" },
                             { "messaging_destination_name", "orders" } };
    leat_queue_send_opts later = { .delay_ms = 3600000 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("y") }, &later, NULL,
                         err));
    send_many(q, 0, 3);
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, NULL, err));
    leat_queue_batch_free(b);
    b = take_one(q);
    leat_gauge *visible = leat_metrics_gauge(m, "leat_queue_visible_messages",
                                             "", l, 2, NULL);
    leat_gauge *flying = leat_metrics_gauge(m, "leat_queue_in_flight_messages",
                                            "", l, 2, NULL);
    leat_gauge *delayed = leat_metrics_gauge(m, "leat_queue_delayed_messages",
                                             "", l, 2, NULL);
    leat_gauge *letters = leat_metrics_gauge(m, "leat_queue_dead_letters", "",
                                             l, 2, NULL);
    leat_gauge *oldest = leat_metrics_gauge(m, "leat_queue_oldest_seconds", "",
                                            l, 2, NULL);
    wait_until(leat_gauge_get(visible) == 1 && leat_gauge_get(flying) == 1 &&
                   leat_gauge_get(delayed) == 1 &&
                   leat_gauge_get(letters) == 1 && leat_gauge_get(oldest) > 0,
               LONG_MS);
    ack(q, b);
    assert_int_equal(leat_counter_get(leat_metrics_counter(
                         m, "leat_queue_sent_messages_total", "", l, 2, NULL)),
                     4);
    assert_int_equal(leat_counter_get(leat_metrics_counter(
                         m, "leat_queue_acked_messages_total", "", l, 2, NULL)),
                     1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    leat_metrics_free(m);
}

/* ---- fifo ------------------------------------------------------------- */

static void a_group_stands_still_while_one_is_in_flight(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_group(q, "a", "a1");
    send_group(q, "a", "a2");
    send_group(q, "b", "b1");
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 10 });
    assert_int_equal(leat_queue_batch_count(b), 2);
    assert_item(leat_queue_batch_at(b, 0), "a1");
    assert_true(leat_bytes_eq(leat_queue_batch_at(b, 0)->group, leat_str("a")));
    assert_item(leat_queue_batch_at(b, 1), "b1");
    nothing(q);
    assert_int_equal(stats(q).visible, 1);
    must(leat_queue_change_visibility(q, leat_queue_batch_at(b, 0)->receipt, 0,
                                      err));
    leat_queue_batch *again = take_one(q);
    assert_item(item(again), "a1");
    ack(q, again);
    leat_queue_batch_free(again);
    again = take_one(q);
    assert_item(item(again), "a2");
    leat_queue_batch_free(again);
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void a_fifo_queue_wants_a_group_and_no_delay(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    assert_code(leat_queue_send(q, &(leat_msg){ 0 }, NULL, NULL, &e),
                LEAT_EINVAL);
    leat_queue_send_opts o = { .group = leat_str("g"), .delay_ms = 5 };
    assert_code(leat_queue_send(q, &(leat_msg){ 0 }, &o, NULL, &e),
                LEAT_EINVAL);
    must(leat_queue_send(q, &(leat_msg){ .key = leat_str("k") }, NULL, NULL,
                         err));
    leat_queue_batch *b = take_one(q);
    assert_true(leat_bytes_eq(item(b)->group, leat_str("k")));
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static void a_delayed_fifo_queue_keeps_its_order(void **state)
{
    enum { N = 30 };
    (void)state;
    char text[16];
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .fifo = true, .delay_ms = 200 });
    for (int i = 0; i < N; i++) {
        snprintf(text, sizeof text, "%d", i);
        send_group(q, "g", text);
        if (i == N / 2)
            must(leat_queue_alter(q, &(leat_queue_opts){ .delay_ms = 1 }, err));
    }
    for (int i = 0; i < N; i++) {
        leat_queue_batch *b = take_one(q);
        snprintf(text, sizeof text, "%d", i);
        assert_item(item(b), text);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    conserved(q);
    leat_queue_close(q);
}

/* ---- events ----------------------------------------------------------- */

typedef struct heard {
    pthread_mutex_t lock;
    char text[4096];
    bool missed;
} heard;

static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    heard *h = arg;
    pthread_mutex_lock(&h->lock);
    size_t n = strlen(h->text);
    snprintf(h->text + n, sizeof h->text - n, "%s:%lld ", e->type,
             (long long)e->receives);
    h->missed |= missed;
    pthread_mutex_unlock(&h->lock);
}

static bool has_heard(heard *h, const char *text)
{
    pthread_mutex_lock(&h->lock);
    bool has = strcmp(h->text, text) == 0;
    pthread_mutex_unlock(&h->lock);
    return has;
}

#define ALL_EVENTS                                                             \
    "sent:-1 received:1 requeued:-1 received:2 to_dlq:2 dlq_received:2 "       \
    "dlq_redriven:0 received:1 acked:-1 "

static void live_a_life(leat_queue *q)
{
    int64_t n;
    send_text(q, "x");
    for (int i = 0; i < 2; i++) {
        leat_queue_batch *b = take_one(q);
        must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
        leat_queue_batch_free(b);
    }
    leat_queue_batch *b = take_dead(q);
    must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    must(leat_queue_redrive(q, NULL, &n, err));
    b = take_one(q);
    ack(q, b);
    leat_queue_batch_free(b);
}

static void events_tell_a_messages_life(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) { /* the queue's, all, the durable ones */
        heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
        redis_flush(server);
        leat_queue *q = queue_of(
            "orders",
            &(leat_queue_opts){ .max_receives = 2, .durable_events = true });
        leat_queue_watch *w = leat_queue_watch_open(
            client, how == 1 ? NULL : "orders", NULL, how == 2, on_event, &h,
            NULL);
        assert_non_null(w);
        if (how < 2)
            wait_until(redis_int(server, "PUBSUB CHANNELS *events") == 1,
                       LONG_MS);
        live_a_life(q);
        wait_until(has_heard(&h, ALL_EVENTS), LONG_MS);
        assert_false(h.missed);
        leat_queue_watch_close(w);
        leat_queue_close(q);
    }
}

static void a_watch_goes_on_after_a_lost_connection(void **state)
{
    (void)state;
    for (int durable = 0; durable < 2; durable++) {
        heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
        redis_flush(server);
        leat_queue *q = queue_of("orders",
                                 &(leat_queue_opts){ .durable_events = true });
        leat_queue_watch *w = leat_queue_watch_open(
            client, "orders", NULL, durable, on_event, &h, NULL);
        assert_non_null(w);
        if (!durable)
            wait_until(redis_int(server, "PUBSUB CHANNELS *events") == 1,
                       LONG_MS);
        send_text(q, "x");
        wait_until(has_heard(&h, "sent:-1 "), LONG_MS);
        redis_do(server, "CLIENT KILL TYPE pubsub");
        if (durable)
            redis_do(server, "CLIENT KILL TYPE normal");
        else
            wait_until(redis_int(server, "PUBSUB CHANNELS *events") == 1,
                       LONG_MS);
        send_text(q, "y");
        wait_until(has_heard(&h, "sent:-1 sent:-1 "), LONG_MS);
        assert_int_equal(h.missed, !durable);
        leat_queue_watch_close(w);
        leat_queue_close(q);
    }
}

static void events_go_through_another_client_where_asked(void **state)
{
    (void)state;
    heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    char other_url[256];
    leat_client *other = open_client(redis_url(s, other_url, sizeof other_url),
                                     NULL);
    leat_queue_watch *w = leat_queue_watch_open(other, "orders", NULL, false,
                                                on_event, &h, NULL);
    assert_non_null(w);
    wait_until(redis_int(s, "PUBSUB CHANNELS *events") == 1, LONG_MS);
    leat_queue *q = queue_of(
        "orders",
        &(leat_queue_opts){ .max_receives = 2, .event_client = other });
    live_a_life(q);
    wait_until(has_heard(&h, ALL_EVENTS), LONG_MS);
    leat_queue_close(q);
    leat_queue_watch_close(w);
    leat_client_close(other);
    redis_stop(s);
}

/* A message is received and left, twice; the reaper alone does the rest. */
static void leave_it_to_the_reaper(leat_queue *q, heard *h)
{
    static const char *const until[] = {
        "sent:-1 received:1 requeued:-1 ",
        "sent:-1 received:1 requeued:-1 received:2 to_dlq:2 "
    };
    send_text(q, "x");
    for (int i = 0; i < 2; i++) {
        leat_queue_batch *b = take_one(q);
        must(leat_queue_change_visibility(q, item(b)->receipt, 1, err));
        leat_queue_batch_free(b);
        wait_until(has_heard(h, until[i]), LONG_MS);
    }
}

/* One handle has events elsewhere, one of a queue that shares its shard, and so
 * its reaper's script, has not. */
static void what_expires_is_told_where_each_handle_says(void **state)
{
    (void)state;
    heard far = { .lock = PTHREAD_MUTEX_INITIALIZER };
    heard near = { .lock = PTHREAD_MUTEX_INITIALIZER };
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    char other_url[256];
    leat_client *other = open_client(redis_url(s, other_url, sizeof other_url),
                                     NULL);
    leat_queue_watch *there = leat_queue_watch_open(other, NULL, NULL, false,
                                                    on_event, &far, NULL);
    leat_queue_watch *here = leat_queue_watch_open(client, NULL, NULL, false,
                                                   on_event, &near, NULL);
    assert_non_null(there);
    assert_non_null(here);
    leat_queue_opts o = { .max_receives = 2 };
    leat_queue *carts = queue_of("carts", &o);
    o.event_client = other;
    leat_queue *orders = queue_of("orders", &o);
    assert_int_equal(redis_int(server, "EXISTS leat:{q/41}:orders:conf "
                                       "leat:{q/41}:carts:conf"),
                     2);
    leave_it_to_the_reaper(orders, &far);
    assert_true(has_heard(&near, ""));
    leave_it_to_the_reaper(carts, &near);
    leat_queue_close(orders);
    leat_queue_close(carts);
    leat_queue_watch_close(here);
    leat_queue_watch_close(there);
    leat_client_close(other);
    redis_stop(s);
}

static void an_event_client_that_hangs_holds_up_nothing(void **state)
{
    (void)state;
    redis_server *s = redis_start(NULL);
    assert_non_null(s);
    char other_url[256];
    leat_client *other = open_client(
        redis_url(s, other_url, sizeof other_url),
        &(leat_client_opts){ .timeout_ms = 10 * LONG_MS });
    leat_queue *q = queue_of(
        "orders",
        &(leat_queue_opts){ .visibility_ms = 50, .event_client = other });
    redis_do(s, "CLIENT PAUSE 600000");
    send_text(q, "x");
    for (int i = 0; i < 2; i++) {
        leat_queue_batch_free(take_one(q));
        wait_until(stats(q).requeued == i + 1, LONG_MS);
    }
    leat_queue_close(q);
    leat_client_close(other);
    redis_stop(s);
}

/* ---- source and sink -------------------------------------------------- */

typedef struct counts {
    atomic_int seen[300];
    atomic_int in_group[4];
    atomic_int last[4];
    atomic_int at_once, disorder;
    bool fifo;
} counts;

static leat_verdict count_one(leat_ctx *x, void *arg)
{
    counts *c = arg;
    const leat_msg *m = leat_ctx_msg(x);
    char text[16] = "";
    memcpy(text, m->body.p, m->body.n < 15 ? m->body.n : 15);
    int i = (int)strtol(text, NULL, 10);
    if (i % 7 == 0 && leat_delivery_attempt(leat_ctx_delivery(x)) == 1)
        return leat_ctx_nack(x, 10);
    if (c->fifo) {
        int g = i % 4;
        if (atomic_fetch_add(&c->in_group[g], 1) > 0)
            atomic_fetch_add(&c->at_once, 1);
        if (atomic_exchange(&c->last[g], i) > i)
            atomic_fetch_add(&c->disorder, 1);
        atomic_fetch_sub(&c->in_group[g], 1);
    }
    atomic_fetch_add(&c->seen[i], 1);
    return LEAT_ACK;
}

static void run_it(bool fifo)
{
    enum { N = 300 };
    char text[N][8];
    counts c = { .fifo = fifo };
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = fifo });
    leat_sink *k = leat_queue_sink(q, &e);
    assert_non_null(k);
    for (int i = 0; i < N; i++) {
        static const char *const keys[] = { "a", "b", "c", "d" };
        snprintf(text[i], sizeof text[i], "%d", i);
        must(leat_sink_publish(k,
                               &(leat_msg){ .key = leat_str(keys[i % 4]),
                                            .body = leat_str(text[i]) },
                               1, NULL, NULL, err));
    }
    must(leat_sink_flush(k, LONG_MS, err));
    assert_int_equal(stats(q).sent, N);
    leat_run *r = leat_run_start(leat_queue_source(q, NULL, &e), count_one, &c,
                                 NULL, &e);
    assert_non_null(r);
    wait_until(stats(q).acked == N, LONG_MS);
    must(leat_run_stop(r, LONG_MS, err));
    for (int i = 0; i < N; i++)
        assert_int_equal(c.seen[i], 1);
    assert_int_equal(c.at_once, 0);
    assert_int_equal(c.disorder, 0);
    conserved(q);
    leat_sink_close(k);
    leat_queue_close(q);
}

static void the_runner_serves_a_queue(void **state)
{
    (void)state;
    run_it(false);
}

static void the_runner_keeps_the_order_of_groups(void **state)
{
    (void)state;
    run_it(true);
}

static void a_source_settles_in_every_way(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_delivery *d[6];
    leat_queue *q = queue_of("orders", NULL);
    send_many(q, 0, 6);
    leat_source *s = leat_queue_source(
        q, &(leat_queue_source_opts){ .visibility_ms = 60000 }, &e);
    assert_non_null(s);
    assert_int_equal(leat_source_receive(s, d, 6, 0, &e), 6);
    assert_true(leat_delivery_left_ms(d[0]) > 1000);
    must(leat_delivery_extend(d[0], 120000, err));
    assert_true(leat_delivery_left_ms(d[0]) > 60000);
    assert_code(leat_delivery_ack(d[0]), LEAT_OK);
    assert_code(leat_delivery_nack(d[1], 0), LEAT_OK);
    assert_code(leat_delivery_nack(d[2], 100000), LEAT_OK);
    assert_code(leat_delivery_reject(d[3], "no good"), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    leat_queue_stats st = stats(q);
    assert_int_equal(st.acked, 1);
    assert_int_equal(st.visible, 1);
    assert_int_equal(st.in_flight, 3);
    assert_int_equal(st.dead, 1);
    leat_source_close(s); /* releases the two that are out */
    st = stats(q);
    assert_int_equal(st.visible, 3);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 3 });
    assert_item(leat_queue_batch_at(b, 0), "4");
    assert_int_equal(leat_queue_batch_at(b, 0)->receives, 1);
    assert_item(leat_queue_batch_at(b, 2), "1");
    assert_int_equal(leat_queue_batch_at(b, 2)->receives, 2);
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void a_stale_settlement_is_told(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_delivery *d;
    leat_queue *q = queue_of("orders", NULL);
    send_text(q, "x");
    leat_source *s = leat_queue_source(
        q, &(leat_queue_source_opts){ .visibility_ms = 30 }, &e);
    assert_int_equal(leat_source_receive(s, &d, 1, 0, &e), 1);
    wait_until(stats(q).requeued == 1, LONG_MS);
    assert_code(leat_delivery_extend(d, 1000, &e), LEAT_ESTALE);
    assert_code(leat_delivery_ack(d), LEAT_OK);
    assert_code(leat_source_flush(s, LONG_MS, &e), LEAT_ESTALE);
    assert_int_equal(stats(q).visible, 1);
    leat_source_close(s);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_send_wakes_who_waits),
        queue_test(many_wait_on_one_connection),
        queue_test(an_interrupt_ends_the_wait),
        queue_test(an_interrupt_before_the_wait_ends_that),
        queue_test(a_readable_descriptor_ends_a_wait),
        queue_test(a_send_wakes_who_may_be_cancelled),
        queue_test(an_interrupt_is_not_lost_before_the_wait_of_a_source),
        queue_test(an_interrupt_of_a_source_is_not_another_receives),
        queue_test(a_short_wait_ends_empty),
        queue_test(what_expires_comes_back_though_nobody_receives),
        queue_test(another_process_looks_after_what_the_dead_left),
        queue_test(a_reaper_that_ends_gives_its_lease_up),
        queue_test(a_handle_without_reaper_gives_back_nothing),
        queue_test(dead_letters_move_to_another_queue_once),
        queue_test(gauges_and_counters_show_the_queue),
        queue_test(a_group_stands_still_while_one_is_in_flight),
        queue_test(a_fifo_queue_wants_a_group_and_no_delay),
        queue_test(a_delayed_fifo_queue_keeps_its_order),
        queue_test(events_tell_a_messages_life),
        queue_test(a_watch_goes_on_after_a_lost_connection),
        queue_test(events_go_through_another_client_where_asked),
        queue_test(what_expires_is_told_where_each_handle_says),
        queue_test(an_event_client_that_hangs_holds_up_nothing),
        queue_test(the_runner_serves_a_queue),
        queue_test(the_runner_keeps_the_order_of_groups),
        queue_test(a_source_settles_in_every_way),
        queue_test(a_stale_settlement_is_told),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

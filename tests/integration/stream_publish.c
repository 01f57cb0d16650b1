/*
 * stream_publish.c: every message published to a stream is told once how it
 * ended, and it is true.
 */
#include "stream_help.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static leat_sink *open_sink(leat_client *c, const leat_stream_sink_opts *opts)
{
    leat_error e = { 0 };
    leat_stream *s = open_stream(c, NULL);
    leat_sink *k = leat_stream_sink(s, opts, &e);
    leat_stream_close(s);
    if (!k)
        fail_msg("sink: %s: %s", leat_code_name(e.code), e.msg);
    return k;
}

/* ---- what was told ---------------------------------------------------- */

struct told {
    atomic_int times;
    leat_code code;
    leat_position at;
};

static void on_told(void *arg, const leat_position *at, const leat_error *err)
{
    struct told *t = arg;
    t->code = err ? err->code : LEAT_OK;
    if (at)
        t->at = *at;
    atomic_fetch_add(&t->times, 1);
}

static leat_code publish_one(leat_sink *k, int number, struct told *t,
                             leat_error *e)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    return leat_sink_publish(k, &(leat_msg){ .body = leat_str(text) }, 1,
                             on_told, t, e);
}

static void publish_to(leat_sink *k, int n, struct told *t)
{
    for (int i = 0; i < n; i++)
        must(publish_one(k, i, &t[i], err));
}

/* How often each number stands in the stream. */
static void count_in_stream(int *count, int n)
{
    memset(count, 0, (size_t)n * sizeof *count);
    leat_source *q = subscribe(NULL);
    for (int64_t left = redis_int(server, "XLEN s"); left > 0; left--) {
        leat_delivery *d = next_of(q);
        int number = number_of(d);
        assert_in_range(number, 0, n - 1);
        count[number]++;
        ack(d);
    }
    leat_source_close(q);
}

/* OK: once; unknown: at most once; anything else: not at all. */
static void assert_truth(const struct told *t, int n)
{
    int *count = calloc((size_t)n, sizeof *count);
    count_in_stream(count, n);
    for (int i = 0; i < n; i++) {
        int least = t[i].code == LEAT_OK;
        int most = least || t[i].code == LEAT_EUNKNOWN;
        assert_int_equal(t[i].times, 1);
        if (count[i] < least || count[i] > most)
            fail_msg("%d was told %s and is there %d times", i,
                     leat_code_name(t[i].code), count[i]);
    }
    free(count);
}

/* ---- confirms --------------------------------------------------------- */

static void each_message_is_confirmed_once_with_its_position(void **state)
{
    enum { N = 3000 };
    static struct told t[N];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(client, NULL);
    publish_to(k, N, t);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_position last = { 0 };
    for (int i = 0; i < N; i++) {
        assert_int_equal(t[i].times, 1);
        assert_int_equal(t[i].code, LEAT_OK);
        assert_true(t[i].at.ms > last.ms ||
                    (t[i].at.ms == last.ms && t[i].at.seq > last.seq));
        last = t[i].at;
    }
    leat_sink_close(k);
    assert_truth(t, N);
}

static void a_lone_message_is_confirmed_without_a_flush(void **state)
{
    struct told t = { 0 };
    (void)state;
    leat_sink *k = open_sink(client, NULL);
    must(publish_one(k, 0, &t, err));
    wait_until(t.times == 1, LONG_MS);
    assert_int_equal(t.code, LEAT_OK);
    leat_sink_close(k);
}

static void several_connections_confirm_all(void **state)
{
    enum { N = 2000 };
    static struct told t[N];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(client,
                             &(leat_stream_sink_opts){ .connections = 4 });
    publish_to(k, N, t);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    assert_truth(t, N);
    assert_int_equal(redis_int(server, "XLEN s"), N);
}

enum { THREADS = 4, EACH = 500 };
static struct told by_thread[THREADS * EACH];
static leat_sink *shared;

static void *publisher(void *arg)
{
    int first = (int)(intptr_t)arg * EACH;
    for (int i = first; i < first + EACH; i++)
        if (publish_one(shared, i, &by_thread[i], NULL) != LEAT_OK)
            abort();
    return NULL;
}

static void threads_share_a_sink(void **state)
{
    pthread_t t[THREADS];
    memset(by_thread, 0, sizeof by_thread);
    (void)state;
    shared = open_sink(client, &(leat_stream_sink_opts){ .max_queued = 64 });
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&t[i], NULL, publisher, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    leat_sink_close(shared);
    assert_truth(by_thread, THREADS * EACH);
}

/* ---- bounds ----------------------------------------------------------- */

static void a_lossy_cap_drops_the_oldest(void **state)
{
    static struct told t[3000];
    (void)state;
    leat_sink *k = open_sink(
        client,
        &(leat_stream_sink_opts){ .lossy_maxlen = 10, .lossy_exact = true });
    publish_to(k, 100, t);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    assert_int_equal(redis_int(server, "XLEN s"), 10);
    leat_source *q = subscribe(NULL);
    leat_delivery *d = next_of(q);
    assert_int_equal(number_of(d), 90);
    ack(d);
    leat_source_close(q);

    assert_true(redis_flush(server));
    k = open_sink(client, &(leat_stream_sink_opts){ .lossy_maxlen = 10 });
    publish_to(k, 3000, t);
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    assert_in_range(redis_int(server, "XLEN s"), 10, 1000);

    leat_error e = { 0 };
    leat_stream *s = open_stream(client, NULL);
    assert_null(leat_stream_sink(
        s, &(leat_stream_sink_opts){ .lossy_exact = true }, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_stream_close(s);
}

static void a_full_sink_says_so(void **state)
{
    static struct told t[10];
    memset(t, 0, sizeof t);
    leat_error e = { 0 };
    (void)state;
    leat_sink *k = open_sink(
        client, &(leat_stream_sink_opts){ .max_queued = 5, .no_wait = true });
    redis_pause(server);
    publish_to(k, 5, t);
    leat_code rc = publish_one(k, 5, &t[5], &e);
    redis_resume(server);
    assert_code(rc, LEAT_EFULL);
    assert_true(e.retriable);
    must(leat_sink_flush(k, LONG_MS, err));
    assert_int_equal(t[5].times, 0);
    leat_msg six[6] = { 0 };
    assert_code(leat_sink_publish(k, six, 6, NULL, NULL, &e), LEAT_ETOOBIG);
    leat_sink_close(k);
    assert_truth(t, 5);
}

static void a_full_sink_waits_for_room(void **state)
{
    enum { N = 500 };
    static struct told t[N];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(client,
                             &(leat_stream_sink_opts){ .max_queued = 3 });
    publish_to(k, N, t);
    leat_sink_close(k);
    assert_truth(t, N);
}

static void a_batch_is_accepted_whole_or_not(void **state)
{
    leat_error e = { 0 };
    struct told t = { 0 };
    leat_msg m[3] = { { .body = leat_str("0") },
                      { .id = leat_mem("\xff\x00", 2) }, /* no text */
                      { .body = leat_str("1") } };
    (void)state;
    leat_stream *s = open_stream(
        client, &(leat_stream_opts){ .codec = &leat_codec_ce_binary });
    leat_sink *k = leat_stream_sink(s, NULL, &e);
    assert_code(leat_sink_publish(k, m, 3, on_told, &t, &e), LEAT_EINVAL);
    must(leat_sink_publish(k, m, 1, on_told, &t, err));
    must(leat_sink_flush(k, LONG_MS, err));
    assert_int_equal(t.times, 1);
    assert_int_equal(redis_int(server, "XLEN s"), 1);
    leat_sink_close(k);
    leat_stream_close(s);
}

/* ---- failures --------------------------------------------------------- */

static void a_refused_message_is_certainly_not_there(void **state)
{
    static struct told t[4];
    memset(t, 0, sizeof t);
    leat_error e = { 0 };
    (void)state;
    leat_sink *k = open_sink(client, NULL);
    redis_do(server, "SET s text");
    must(publish_one(k, 0, &t[0], err));
    must(leat_sink_flush(k, LONG_MS, err));
    assert_code(t[0].code, LEAT_EINVAL);
    must(leat_sink_publish(k, &(leat_msg){ 0 }, 1, NULL, NULL, err));
    assert_code(leat_sink_flush(k, LONG_MS, &e), LEAT_EINVAL);
    must(leat_sink_flush(k, LONG_MS, err)); /* told once */

    redis_do(server, "DEL s");
    redis_do(server, "CONFIG SET maxmemory 1");
    must(publish_one(k, 1, &t[1], err));
    must(leat_sink_flush(k, LONG_MS, err));
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_code(t[1].code, LEAT_EFULL);
    must(publish_one(k, 2, &t[2], err));
    must(leat_sink_flush(k, LONG_MS, err));
    assert_code(t[2].code, LEAT_OK);
    leat_sink_close(k);
    assert_int_equal(redis_int(server, "XLEN s"), 1);
}

static bool was_told(void *arg)
{
    const struct told *t = arg;
    return t->times == 1;
}

static void an_unanswered_message_is_unknown(void **state)
{
    static struct told t[10];
    memset(t, 0, sizeof t);
    (void)state;
    leat_client *c = open_client(url, &(leat_client_opts){ .timeout_ms = 300 });
    leat_sink *k = open_sink(c, NULL);
    redis_pause(server);
    publish_to(k, 10, t);
    bool told = wait_for(was_told, &t[0], LONG_MS);
    redis_resume(server);
    assert_true(told);
    assert_code(t[0].code, LEAT_EUNKNOWN);
    must(leat_sink_flush(k, LONG_MS, err)); /* the rest had not left */
    leat_sink_close(k);
    leat_client_close(c);
    assert_truth(t, 10);
}

static void a_server_that_stays_away_is_told_as_such(void **state)
{
    static struct told t[3];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(client,
                             &(leat_stream_sink_opts){ .timeout_ms = 200 });
    redis_kill(server);
    publish_to(k, 3, t);
    must(leat_sink_flush(k, LONG_MS, err));
    assert_true(redis_restart(server));
    for (int i = 0; i < 3; i++)
        assert_code(t[i].code, LEAT_ETIMEOUT);
    leat_sink_close(k);
    assert_int_equal(redis_int(server, "XLEN s"), 0);
}

static void what_did_not_leave_is_sent_when_the_server_is_back(void **state)
{
    static struct told t[50];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(client, NULL);
    redis_kill(server);
    publish_to(k, 50, t);
    assert_true(redis_restart(server));
    must(leat_sink_flush(k, LONG_MS, err));
    for (int i = 0; i < 50; i++)
        assert_code(t[i].code, LEAT_OK);
    leat_sink_close(k);
    assert_truth(t, 50);
}

static void closing_tells_everyone(void **state)
{
    static struct told t[20];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(client, NULL);
    redis_kill(server);
    publish_to(k, 20, t);
    leat_sink_close(k);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(t[i].times, 1);
        assert_code(t[i].code, LEAT_ECLOSED);
    }
    assert_true(redis_restart(server));
}

/* Connections are killed all the time. */
static void a_harassed_publisher_tells_the_truth(void **state)
{
    enum { N = 4000 };
    static struct told t[N];
    memset(t, 0, sizeof t);
    (void)state;
    leat_sink *k = open_sink(
        client, &(leat_stream_sink_opts){ .window = 32, .max_queued = 200 });
    for (int i = 0; i < N; i++) {
        must(publish_one(k, i, &t[i], err));
        if (i % 100 == 50)
            redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    }
    must(leat_sink_flush(k, LONG_MS, err));
    leat_sink_close(k);
    assert_truth(t, N);
}

/* ---- forward ---------------------------------------------------------- */

static leat_sink *sink_of(const char *name)
{
    leat_error e = { 0 };
    leat_stream *s = leat_stream_open(client, name, NULL, &e);
    leat_sink *k = s ? leat_stream_sink(s, NULL, &e) : NULL;
    leat_stream_close(s);
    if (!k)
        fail_msg("%s", e.msg);
    return k;
}

static void forwarding_acknowledges_what_is_confirmed(void **state)
{
    (void)state;
    publish(0, 3);
    leat_source *q = subscribe(NULL);
    leat_sink *k = sink_of("out");
    for (int i = 0; i < 3; i++) {
        leat_delivery *d = next_of(q);
        leat_msg two[2] = { *leat_delivery_msg(d), *leat_delivery_msg(d) };
        must(leat_stream_forward(k, d, two, 2, 0, err));
    }
    must(leat_sink_flush(k, LONG_MS, err));
    flush(q);
    assert_int_equal(pending(), 0);
    assert_int_equal(redis_int(server, "XLEN out"), 6);
    leat_sink_close(k);
    leat_source_close(q);
}

static void forwarding_nacks_what_failed(void **state)
{
    (void)state;
    publish(0, 1);
    redis_do(server, "SET out text");
    leat_source *q = subscribe(NULL);
    leat_sink *k = sink_of("out");
    leat_delivery *d = next_of(q);
    must(leat_stream_forward(k, d, leat_delivery_msg(d), 1, 1, err));
    must(leat_sink_flush(k, LONG_MS, err));
    d = next_of(q);
    assert_int_equal(leat_delivery_attempt(d), 2);
    redis_do(server, "DEL out");
    must(leat_stream_forward(k, d, leat_delivery_msg(d), 1, 1, err));
    must(leat_sink_flush(k, LONG_MS, err));
    flush(q);
    assert_int_equal(pending(), 0);
    leat_error e = { 0 };
    assert_code(leat_stream_forward(k, d, NULL, 0, 0, &e), LEAT_EINVAL);
    leat_sink_close(k);
    leat_source_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        stream_test(each_message_is_confirmed_once_with_its_position),
        stream_test(a_lone_message_is_confirmed_without_a_flush),
        stream_test(several_connections_confirm_all),
        stream_test(threads_share_a_sink),
        stream_test(a_lossy_cap_drops_the_oldest),
        stream_test(a_full_sink_says_so),
        stream_test(a_full_sink_waits_for_room),
        stream_test(a_batch_is_accepted_whole_or_not),
        stream_test(a_refused_message_is_certainly_not_there),
        stream_test(an_unanswered_message_is_unknown),
        stream_test(a_server_that_stays_away_is_told_as_such),
        stream_test(what_did_not_leave_is_sent_when_the_server_is_back),
        stream_test(closing_tells_everyone),
        stream_test(a_harassed_publisher_tells_the_truth),
        stream_test(forwarding_acknowledges_what_is_confirmed),
        stream_test(forwarding_nacks_what_failed),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

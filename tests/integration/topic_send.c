/*
 * topic_send.c: publishing where a log is bounded, by scripts: caps, lossy
 * lengths, what is refused, cut off, lost.
 */
#include "support/server.h"
#include "support/tcpfault.h"
#include "topic_told.h"

enum { SOON_MS = 30000, SMALL = 20, LARGE = 300 };

static int done(void **state)
{
    redis_do(server, "CONFIG SET maxmemory 0");
    return close_one(state);
}

static leat_topic *open_on(leat_client *c, const leat_topic_opts *opts)
{
    leat_topic_opts o = *opts;
    leat_error e = { 0 };
    o.auto_create = true;
    leat_topic *t = leat_topic_open(c, "t", &o, &e);
    if (!t)
        fail_msg("cannot open: %s: %s", leat_code_name(e.code), e.msg);
    return t;
}

static leat_topic *capped(int64_t cap)
{
    return open_on(client, &(leat_topic_opts){ .retention = { .cap = cap } });
}

/* Bodies of 100 bytes are large ones. */
static leat_topic *with_large(leat_client *c, int64_t cap)
{
    return open_on(c, &(leat_topic_opts){
                          .retention = { .cap = cap, .large_body = 100 } });
}

static void publish(told *l, leat_topic *t, int from, int to)
{
    for (int i = from; i < to; i++)
        must(told_publish(l, t, i, "k", err));
}

/* Some may fail: each told why. */
static void flush(leat_topic *t)
{
    (void)leat_topic_flush(t, SOON_MS, NULL);
}

static int64_t length(void)
{
    return redis_int(server, "XLEN leat:{t/0}:log");
}

static int64_t bodies(void)
{
    return redis_int(server, "HLEN leat:{t/0}:bodies");
}

/* ---- caps ------------------------------------------------------------- */

static void a_full_partition_refuses_until_there_is_room(void **state)
{
    (void)state;
    told *l = told_new(20);
    leat_topic *t = capped(10);
    publish(l, t, 0, 15);
    flush(t);
    assert_int_equal(l->ok, 10);
    assert_int_equal(l->failed, 5);
    for (int i = 10; i < 15; i++) {
        assert_code(l->m[i].code, LEAT_EFULL);
        assert_true(l->m[i].retriable);
    }
    assert_non_null(strstr(l->last, "raise the cap"));
    redis_do(server, "XTRIM leat:{t/0}:log MAXLEN 5");
    publish(l, t, 15, 20);
    flush(t);
    assert_int_equal(l->ok, 15);
    assert_int_equal(length(), 10);
    leat_topic_close(t);
    told_free(l);
}

static void what_a_cap_refuses_is_refused_alone_and_in_order(void **state)
{
    (void)state;
    told *l = told_new(3000);
    leat_topic *t = capped(50);
    publish(l, t, 0, 1);
    flush(t); /* it is connected: not all go after the last room was made */
    for (int i = 1; i < l->count; i++) {
        must(told_publish(l, t, i, "k", err));
        if (i % 100 == 0)
            redis_do(server, "XTRIM leat:{t/0}:log MAXLEN 0");
    }
    flush(t);
    assert_int_equal(l->unknown, 0);
    assert_true(l->ok >= 50 && l->failed > 0);
    int last = -1;
    for (int i = 0; i < l->count; i++) {
        if (l->m[i].code != LEAT_OK)
            continue;
        if (last >= 0)
            assert_true(l->m[i].at.ms > l->m[last].at.ms ||
                        l->m[i].at.seq > l->m[last].at.seq);
        last = i;
    }
    assert_in_range(length(), 0, 50);
    leat_topic_close(t);
    told_free(l);
}

static leat_code try_one(leat_topic *t)
{
    must(leat_topic_publish(t, &(leat_msg){ .body = leat_str("x") }, NULL, NULL,
                            err));
    return leat_topic_flush(t, SOON_MS, NULL);
}

/* A topic "t2" that gets a lossy length, beside one that gets a cap. */
static void what_is_altered_is_learnt_by_who_publishes(void **state)
{
    (void)state;
    leat_topic *t = capped(0);
    leat_topic *lossy = leat_topic_open(
        client, "t2", &(leat_topic_opts){ .auto_create = true }, NULL);
    assert_non_null(lossy);
    for (int i = 0; i < 500; i++) {
        leat_msg m = { .body = leat_str("x") };
        must(leat_topic_publish(t, &m, NULL, NULL, err));
        must(leat_topic_publish(lossy, &m, NULL, NULL, err));
    }
    must(leat_topic_flush(t, SOON_MS, err));
    must(leat_topic_flush(lossy, SOON_MS, err));
    must(leat_topic_alter(client, "t", NULL, &(leat_retention){ .cap = 5 },
                          err));
    must(leat_topic_alter(client, "t2", NULL,
                          &(leat_retention){ .lossy_maxlen = 10 }, err));
    wait_until(try_one(t) == LEAT_EFULL, SOON_MS);
    wait_until(try_one(lossy) == LEAT_OK &&
                   redis_int(server, "XLEN leat:{t2/0}:log") < 300,
               SOON_MS);
    leat_topic_close(lossy);
    leat_topic_close(t);
}

static void a_batch_over_the_cap_is_told_one_by_one(void **state)
{
    leat_msg m[8];
    (void)state;
    leat_topic *t = capped(3);
    for (int i = 0; i < 8; i++)
        m[i] = (leat_msg){ .body = leat_str("x") };
    must(leat_topic_publish_batch(t, m, 8, NULL, NULL, err));
    assert_code(leat_topic_flush(t, SOON_MS, NULL), LEAT_EFULL);
    assert_int_equal(length(), 3);
    leat_topic_close(t);
}

/* ---- lossy ------------------------------------------------------------ */

static void a_lossy_topic_keeps_about_its_length(void **state)
{
    (void)state;
    told *l = told_new(3000);
    leat_topic *t = open_on(
        client, &(leat_topic_opts){ .retention = { .lossy_maxlen = 200 } });
    publish(l, t, 0, l->count);
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, l->count);
    assert_in_range(length(), 200, 400);
    leat_topic_close(t);
    told_free(l);
}

static void what_a_lossy_log_drops_takes_its_body_along(void **state)
{
    (void)state;
    told *l = told_new(2000);
    told_pad(l, LARGE);
    leat_topic *t = open_on(
        client, &(leat_topic_opts){
                    .retention = { .lossy_maxlen = 100, .large_body = 100 } });
    for (int i = 0; i < l->count; i++) {
        publish(l, t, i, i + 1);
        if (i % 20 == 0)
            must(leat_topic_flush(t, SOON_MS, err));
    }
    must(leat_topic_flush(t, SOON_MS, err));
    assert_in_range(length(), 100, 300);
    assert_in_range(bodies(), length(), length() + 200);
    assert_int_equal(bodies(), redis_int(server, "ZCARD leat:{t/0}:large"));
    leat_topic_close(t);
    told_free(l);
}

/* ---- what the server says --------------------------------------------- */

static void a_server_that_forgets_its_scripts_is_told_them_again(void **state)
{
    (void)state;
    told *l = told_new(400);
    leat_topic *t = capped(100000);
    for (int i = 0; i < l->count; i++) {
        publish(l, t, i, i + 1);
        if (i % 40 == 0) {
            must(leat_topic_flush(t, SOON_MS, err));
            redis_do(server, "SCRIPT FLUSH");
        }
    }
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, l->count);
    told_audit(l, server, 1);
    leat_topic_close(t);
    told_free(l);
}

static void without_free_memory_publishing_is_refused_and_recovers(void **state)
{
    (void)state;
    told *l = told_new(9);
    leat_topic *t = with_large(client, 1000);
    publish(l, t, 0, 1);
    told_pad(l, LARGE);
    publish(l, t, 1, 2);
    must(leat_topic_flush(t, SOON_MS, err));
    redis_do(server, "CONFIG SET maxmemory 1");
    publish(l, t, 2, 4);
    assert_code(leat_topic_publish_later(t,
                                         &(leat_msg){ .body = leat_str("x") },
                                         1, NULL, NULL, NULL),
                LEAT_OK);
    assert_code(leat_topic_flush(t, SOON_MS, NULL), LEAT_EFULL);
    for (int i = 2; i < 4; i++) {
        assert_code(l->m[i].code, LEAT_EFULL);
        assert_true(l->m[i].retriable);
    }
    redis_do(server, "CONFIG SET maxmemory 0");
    publish(l, t, 4, 9);
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, 7);
    told_audit(l, server, 1);
    assert_int_equal(redis_int(server, "ZCARD leat:{t/0}:later"), 0);
    leat_topic_close(t);
    told_free(l);
}

static void a_replica_is_left_and_nothing_is_told_wrongly(void **state)
{
    (void)state;
    told *l = told_new(20);
    leat_topic *t = capped(1000);
    publish(l, t, 0, 10);
    must(leat_topic_flush(t, SOON_MS, err));
    int64_t before = redis_accepted(server);
    redis_do(server, "REPLICAOF 127.0.0.1 1");
    publish(l, t, 10, 20);
    /* It dials once all are answered: none is done behind a refused one. */
    wait_until(redis_accepted(server) > before, SOON_MS);
    redis_do(server, "REPLICAOF NO ONE");
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(l->ok, 20);
    told_audit(l, server, 1);
    leat_topic_close(t);
    told_free(l);
}

static void a_script_takes_a_message_of_as_many_headers_as_may_be(void **state)
{
    enum { MANY = LEAT_HEADERS_MAX + 1 };
    static leat_header h[MANY];
    static char names[MANY][8];
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = open_on(
        client, &(leat_topic_opts){ .retention = { .cap = 10 },
                                    .codec = &leat_codec_ce_binary });
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "h%d", i);
        h[i] = (leat_header){ leat_str(names[i]), leat_str("v") };
    }
    leat_msg m = { .headers = h, .header_count = MANY };
    assert_code(leat_topic_publish(t, &m, NULL, NULL, &e), LEAT_ETOOBIG);
    m.header_count = MANY - 1;
    must(leat_topic_publish(t, &m, NULL, NULL, err));
    must(leat_topic_flush(t, SOON_MS, err));
    assert_int_equal(length(), 1);
    leat_topic_close(t);
}

/* ---- losses ----------------------------------------------------------- */

struct losing {
    atomic_int lost, republished;
};

static void on_loss(void *arg, const leat_loss *x)
{
    struct losing *l = arg;
    atomic_fetch_add(&l->lost, (int)x->count);
    atomic_fetch_add(&l->republished, (int)x->republished);
}

static leat_topic *watched(struct losing *x)
{
    return open_on(client, &(leat_topic_opts){
                               .retention = { .cap = 20, .large_body = 100 },
                               .on_loss = on_loss,
                               .loss_arg = x,
                               .republish_bytes = 1 << 20 });
}

/* Ten small ones and ten large ones fill it. */
static told *fill(leat_topic *t)
{
    told *l = told_new(30);
    publish(l, t, 0, 10);
    must(leat_topic_flush(t, SOON_MS, err));
    told_pad(l, LARGE);
    publish(l, t, 10, 20);
    must(leat_topic_flush(t, SOON_MS, err));
    return l;
}

static void what_a_script_added_is_found_again(void **state)
{
    struct losing x = { 0 };
    (void)state;
    leat_topic *t = watched(&x);
    told *l = fill(t);
    for (int i = 0; i < 3; i++) {
        redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        publish(l, t, 20 + i, 21 + i);
        flush(t);
        assert_code(l->m[20 + i].code, LEAT_EFULL);
    }
    assert_int_equal(x.lost, 0);
    told_audit(l, server, 1);
    leat_topic_close(t);
    told_free(l);
}

static void
what_a_script_added_is_published_again_though_it_is_full(void **state)
{
    struct losing x = { 0 };
    (void)state;
    leat_topic *t = watched(&x);
    told *l = fill(t);
    redis_do(server, "DEL leat:{t/0}:log leat:{t/0}:bodies leat:{t/0}:large");
    redis_do(server, "XADD leat:{t/0}:log * another one");
    redis_do(server, "SCRIPT FLUSH");
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    wait_until(atomic_load(&x.republished) == 20, SOON_MS);
    assert_int_equal(x.lost, 20);
    assert_int_equal(length(), 21);
    assert_int_equal(bodies(), 10);
    publish(l, t, 20, 21);
    flush(t);
    assert_code(l->m[20].code, LEAT_EFULL);
    leat_topic_close(t);
    told_free(l);
}

/* ---- cuts ------------------------------------------------------------- */

struct cut {
    tcpfault *proxy;
    leat_client *client;
    leat_topic *topic;
    told *l;
    int at;
};

static struct cut cut_begin(int messages, size_t pad)
{
    char through[64];
    struct cut x = { .proxy = tcpfault_start(redis_socket(server), NULL),
                     .l = told_new(messages) };
    assert_non_null(x.proxy);
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(x.proxy));
    x.client = open_client(through, &(leat_client_opts){ .max_retry_ms = 5 });
    x.topic = with_large(x.client, 100000);
    if (pad)
        told_pad(x.l, pad);
    return x;
}

static void cut_end(struct cut *x)
{
    assert_int_equal(x->l->failed, 0);
    print_message("# %d persisted, %d unknown\n", x->l->ok, x->l->unknown);
    told_audit(x->l, server, 1);
    leat_topic_close(x->topic);
    leat_client_close(x->client);
    tcpfault_stop(x->proxy);
    told_free(x->l);
}

/* One message goes through, so that the next is a short call; then one that is
 * cut there. */
static bool cut_at(struct cut *x, tcpfault_dir dir, uint64_t plus)
{
    publish(x->l, x->topic, x->at, x->at + 1);
    x->at++;
    flush(x->topic);
    int rule = tcpfault_rule_add(
        x->proxy,
        &(tcpfault_rule){ .dir = dir,
                          .when = dir == TCPFAULT_UP ? TCPFAULT_COMMAND
                                                     : TCPFAULT_FRAME,
                          .command = dir == TCPFAULT_UP ? "EVALSHA" : NULL,
                          .plus = plus,
                          .action = TCPFAULT_RESET,
                          .times = 1 });
    assert_true(rule > 0);
    publish(x->l, x->topic, x->at, x->at + 1);
    x->at++;
    flush(x->topic);
    bool fired = tcpfault_fired(x->proxy, rule) > 0;
    tcpfault_clear(x->proxy);
    return fired;
}

/* Every byte takes a minute: that is for LEAT_LONG=1. */
static void cut_calls(size_t pad)
{
    enum { CALL = 620, ANSWER = 24, EVERY = 19 };
    uint64_t step = getenv("LEAT_LONG") ? 1 : EVERY;
    struct cut x = cut_begin(2 * (CALL + ANSWER), pad);
    for (uint64_t k = 0; k < CALL; k += step)
        (void)cut_at(&x, TCPFAULT_UP, k);
    for (uint64_t k = 0; k<ANSWER; k += step> 1 ? 3 : 1)
        (void)cut_at(&x, TCPFAULT_DOWN, k);
    assert_true(x.l->unknown > 0 && x.l->ok >= x.at / 2);
    cut_end(&x);
}

static void a_call_that_is_cut_at_any_byte_is_told_truly(void **state)
{
    (void)state;
    cut_calls(0);
}

static void a_large_one_that_is_cut_at_any_byte_is_whole_or_not(void **state)
{
    (void)state;
    cut_calls(LARGE);
    assert_int_equal(bodies(), length());
}

int main(void)
{
#define each(name) cmocka_unit_test_setup_teardown(name, open_one, done)
    const struct CMUnitTest tests[] = {
        each(a_full_partition_refuses_until_there_is_room),
        each(what_a_cap_refuses_is_refused_alone_and_in_order),
        each(what_is_altered_is_learnt_by_who_publishes),
        each(a_batch_over_the_cap_is_told_one_by_one),
        each(a_lossy_topic_keeps_about_its_length),
        each(what_a_lossy_log_drops_takes_its_body_along),
        each(a_server_that_forgets_its_scripts_is_told_them_again),
        each(without_free_memory_publishing_is_refused_and_recovers),
        each(a_replica_is_left_and_nothing_is_told_wrongly),
        each(a_script_takes_a_message_of_as_many_headers_as_may_be),
        each(what_a_script_added_is_found_again),
        each(what_a_script_added_is_published_again_though_it_is_full),
        each(a_call_that_is_cut_at_any_byte_is_told_truly),
        each(a_large_one_that_is_cut_at_any_byte_is_whole_or_not),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

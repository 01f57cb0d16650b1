/*
 * queue_faults.c: a queue whose network, server, clock, memory and keys fail.
 *
 * What was said to be sent is there once, what was said to be done is not seen
 * again, and all the rest is still to be had.
 */
#include "queue_help.h"
#include "support/clock.h"
#include "support/tcpfault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- cuts at every byte ----------------------------------------------- */

enum { TIMEOUT_MS = 400, MOST = 4000 };

static tcpfault *proxy;
static char proxy_url[64];
static char seen[MOST]; /* how often each message was received */
static leat_code said[MOST];
static int ops;
static leat_queue_profile whose; /* of both, the scripts differ   */
static uint64_t stride = 1;      /* of the bytes that are cut at */

static int open_proxy(void **state)
{
    if (open_one(state) != 0)
        return -1;
    ops = 0;
    memset(seen, 0, sizeof seen);
    proxy = tcpfault_start(redis_socket(server), NULL);
    if (!proxy)
        return -1;
    snprintf(proxy_url, sizeof proxy_url, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    return 0;
}

static int open_proxy_owl(void **state)
{
    whose = LEAT_QUEUE_REDOWL;
    stride = 23;
    return open_proxy(state);
}

static int close_proxy(void **state)
{
    whose = LEAT_QUEUE_NATIVE;
    stride = 1;
    tcpfault_stop(proxy);
    return close_one(state);
}

#define proxy_test(name)                                                       \
    cmocka_unit_test_setup_teardown(name, open_proxy, close_proxy)

#define owl_proxy_test(name)                                                   \
    {                                                                          \
#name "_of_redowl", name, open_proxy_owl, close_proxy, NULL            \
    }

static leat_queue *orders(void)
{
    return queue_of("orders", &(leat_queue_opts){ .profile = whose });
}

/* redowl counts nothing. */
static void all_are_somewhere(leat_queue *q)
{
    if (whose == LEAT_QUEUE_NATIVE)
        conserved(q);
}

static int64_t acked_of(leat_queue *q)
{
    leat_queue_stats s = stats(q);
    return whose == LEAT_QUEUE_NATIVE ? s.acked
                                      : MOST / 4 - s.visible - s.in_flight;
}

/* A handle behind the proxy with one sound connection, and what has passed on
 * it so far. */
typedef struct victim {
    leat_client *c;
    leat_queue *q;
    uint64_t up, down;
    int conn;
} victim;

static victim victim_of(void)
{
    leat_error e = { 0 };
    tcpfault_counts before = tcpfault_count(proxy);
    victim v = { .c = open_client(proxy_url,
                                  &(leat_client_opts){ .timeout_ms = TIMEOUT_MS,
                                                       .max_retry_ms = 20 }) };
    v.q = leat_queue_open(v.c, "orders",
                          &(leat_queue_opts){ .profile = whose,
                                              .no_reaper = true,
                                              .no_events = true },
                          &e);
    if (!v.q)
        fail_msg("cannot open: %s", e.msg);
    if (whose == LEAT_QUEUE_REDOWL) /* opening it asks for nothing */
        stats(v.q);
    tcpfault_counts now = tcpfault_count(proxy);
    v.up = now.up - before.up;
    v.down = now.down - before.down;
    v.conn = (int)now.connections;
    return v;
}

static void victim_close(victim *v)
{
    leat_queue_close(v->q);
    leat_client_close(v->c);
}

typedef leat_code op_fn(victim *v, int i);

static leat_code do_send(victim *v, int i)
{
    char text[16];
    snprintf(text, sizeof text, "%d", i);
    return leat_queue_send(v->q, &(leat_msg){ .body = leat_str(text) }, NULL,
                           NULL, NULL);
}

/* What a lost answer held comes with the next receive: nothing runs out here,
 * as the visibility is an hour. */
static leat_code do_receive(victim *v, int i)
{
    (void)i;
    leat_receive_opts o = { .visibility_ms = 3600000 };
    leat_queue_batch *b = leat_queue_receive(v->q, &o, NULL);
    if (!b) {
        tcpfault_clear(proxy);
        b = leat_queue_receive(v->q, &o, NULL);
    }
    assert_non_null(b);
    assert_int_equal(leat_queue_batch_count(b), 1);
    assert_int_equal(item(b)->receives, 1);
    seen[number(item(b))]++;
    leat_queue_batch_free(b);
    return LEAT_OK;
}

static leat_code do_ack(victim *v, int i)
{
    (void)i;
    leat_queue *side = orders();
    leat_queue_batch *b = take_one(side);
    int k = number(item(b));
    leat_code rc = leat_queue_ack(v->q, item(b)->receipt, NULL);
    if (rc == LEAT_OK)
        seen[k]++;
    else
        must(leat_queue_change_visibility(side, item(b)->receipt, 0, err));
    leat_queue_batch_free(b);
    leat_queue_close(side);
    return rc;
}

static void cut_once(op_fn *op, tcpfault_dir dir, uint64_t at,
                     tcpfault_action action)
{
    victim v = victim_of();
    tcpfault_clear(proxy);
    assert_true(tcpfault_rule_add(
        proxy, &(tcpfault_rule){ .conn = v.conn,
                                 .dir = dir,
                                 .when = TCPFAULT_OFFSET,
                                 .n = (dir == TCPFAULT_UP ? v.up : v.down) + at,
                                 .action = action,
                                 .times = 1 }));
    assert_true(ops < MOST);
    said[ops] = op(&v, ops);
    if (said[ops] != LEAT_OK && said[ops] != LEAT_EUNKNOWN &&
        said[ops] != LEAT_ECONN)
        fail_msg("cut at byte %d: %s", (int)at, leat_code_name(said[ops]));
    ops++;
    tcpfault_clear(proxy);
    victim_close(&v);
}

/* The first call also brings the script to the server. */
static tcpfault_counts size_of(op_fn *op)
{
    victim v = victim_of();
    said[ops] = op(&v, ops);
    assert_code(said[ops++], LEAT_OK);
    tcpfault_counts a = tcpfault_count(proxy);
    said[ops] = op(&v, ops);
    assert_code(said[ops++], LEAT_OK);
    tcpfault_counts b = tcpfault_count(proxy);
    victim_close(&v);
    return (tcpfault_counts){ .up = b.up - a.up, .down = b.down - a.down };
}

/* Requests are reset at every byte; what is slower is done at some: resets of
 * answers, which wait until the client's kernel has what came before, and with
 * LEAT_LONG=1 are done at every byte too; ends; silence. */
static void cut_all(op_fn *op)
{
    tcpfault_counts size = size_of(op);
    uint64_t some = stride > 1 ? stride : getenv("LEAT_LONG") ? 1 : 4;
    for (uint64_t at = 0; at <= size.up; at += stride)
        cut_once(op, TCPFAULT_UP, at, TCPFAULT_RESET);
    for (uint64_t at = 0; at <= size.down; at += some)
        cut_once(op, TCPFAULT_DOWN, at, TCPFAULT_RESET);
    if (stride > 1)
        return;
    for (uint64_t at = 0; at <= size.up; at += 9)
        cut_once(op, TCPFAULT_UP, at, TCPFAULT_CUT);
    for (uint64_t at = 0; at <= size.up; at += 89)
        cut_once(op, TCPFAULT_UP, at, TCPFAULT_BLACKHOLE);
    for (uint64_t at = 0; at <= size.down; at += 67)
        cut_once(op, TCPFAULT_DOWN, at, TCPFAULT_BLACKHOLE);
}

/* Receive all; a message that is not there is not seen. */
static void drain(leat_queue *q)
{
    for (;;) {
        leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 100 });
        size_t n = leat_queue_batch_count(b);
        for (size_t i = 0; i < n; i++)
            seen[number(leat_queue_batch_at(b, i))]++;
        ack(q, b);
        leat_queue_batch_free(b);
        if (n == 0)
            return;
    }
}

static void a_send_cut_anywhere_happens_once_or_says_so(void **state)
{
    (void)state;
    leat_queue *q = orders();
    cut_all(do_send);
    drain(q);
    int ok = 0;
    for (int i = 0; i < ops; i++) {
        int least = said[i] == LEAT_OK;
        int most = said[i] == LEAT_OK || said[i] == LEAT_EUNKNOWN;
        if (seen[i] < least || seen[i] > most)
            fail_msg("message %d was called %s and came %d times", i,
                     leat_code_name(said[i]), seen[i]);
        ok += said[i] == LEAT_OK;
    }
    print_message("# %d cuts, %d resolved\n", ops, ok);
    assert_true(ok > ops / 2);
    all_are_somewhere(q);
    leat_queue_close(q);
}

static void a_receive_cut_anywhere_loses_nothing(void **state)
{
    (void)state;
    leat_queue *q = orders();
    send_many(q, 0, MOST / 4);
    cut_all(do_receive);
    for (int i = 0; i < ops; i++)
        if (seen[i] != 1)
            fail_msg("message %d came %d times", i, seen[i]);
    if (whose == LEAT_QUEUE_NATIVE)
        assert_int_equal(stats(q).received, ops);
    all_are_somewhere(q);
    leat_queue_close(q);
}

static void an_ack_cut_anywhere_happens_or_says_so(void **state)
{
    (void)state;
    int done = 0;
    leat_queue *q = orders();
    send_many(q, 0, MOST / 4);
    cut_all(do_ack);
    for (int i = 0; i < ops; i++)
        done += said[i] == LEAT_OK;
    assert_true(acked_of(q) >= done);
    drain(q);
    int64_t acked = acked_of(q);
    for (int i = 0; i < MOST / 4; i++)
        if (seen[i] > 1 || (seen[i] == 0 && acked < MOST / 4))
            fail_msg("message %d came %d times", i, seen[i]);
    all_are_somewhere(q);
    leat_queue_close(q);
}

/* The old connection's command arrives after the new one's. */
static void a_command_that_was_held_up_does_nothing(void **state)
{
    (void)state;
    for (int receive = 0; receive < 2; receive++) {
        victim v = victim_of();
        if (receive)
            send_text(v.q, "1");
        leat_queue *q = orders();
        int64_t had = stats(q).sent;
        tcpfault_clear(proxy);
        tcpfault_rule_add(proxy, &(tcpfault_rule){ .conn = v.conn,
                                                   .dir = TCPFAULT_UP,
                                                   .when = TCPFAULT_COMMAND,
                                                   .command = "EVALSHA",
                                                   .n = 1,
                                                   .action = TCPFAULT_HOLD,
                                                   .times = 1 });
        if (receive) {
            leat_queue_batch *b = take_one(v.q);
            ack(v.q, b);
            leat_queue_batch_free(b);
        } else {
            must(leat_queue_send(v.q, &(leat_msg){ .body = leat_str("0") },
                                 NULL, NULL, err));
            leat_queue_batch *b = take_one(q);
            ack(q, b);
            leat_queue_batch_free(b);
        }
        tcpfault_counts before = tcpfault_count(proxy);
        tcpfault_release(proxy);
        wait_until(tcpfault_count(proxy).up > before.up, LONG_MS);
        wait_until(redis_int(server, "PING") != 0, LONG_MS);
        victim_close(&v);
        leat_queue_stats s = stats(q);
        if (whose == LEAT_QUEUE_NATIVE)
            assert_int_equal(s.sent, had + !receive);
        assert_int_equal(s.visible + s.in_flight, 0);
        all_are_somewhere(q);
        leat_queue_close(q);
    }
}

/* The first try is held up, the others are refused; then it arrives. */
static void a_refusal_after_a_lost_try_is_no_certainty(void **state)
{
    (void)state;
    victim v = victim_of();
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .conn = v.conn,
                                               .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_COMMAND,
                                               .command = "EVALSHA",
                                               .n = 1,
                                               .action = TCPFAULT_HOLD,
                                               .times = 1 });
    redis_do(server, "CONFIG SET maxmemory 1");
    leat_code rc = leat_queue_send(v.q, &(leat_msg){ .body = leat_str("0") },
                                   NULL, NULL, NULL);
    redis_do(server, "CONFIG SET maxmemory 0");
    assert_code(rc, LEAT_EUNKNOWN);
    tcpfault_release(proxy);
    leat_queue *q = orders();
    leat_queue_batch *b = take_one(q);
    assert_int_equal(leat_queue_batch_count(b), 1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    victim_close(&v);
}

/* ---- a server that dies ----------------------------------------------- */

typedef struct traffic {
    leat_client *c;
    leat_queue *q;
    pthread_t sender, receiver;
    atomic_int sent_ok, unknown, numbers, acks;
    atomic_bool stop;
    atomic_char sent[MOST], done[MOST];
} traffic;

static void *send_on(void *arg)
{
    traffic *t = arg;
    char text[16];
    for (int i = 0; i < MOST && !t->stop; i++) {
        snprintf(text, sizeof text, "%d", i);
        leat_code rc = leat_queue_send(
            t->q, &(leat_msg){ .body = leat_str(text) }, NULL, NULL, NULL);
        t->sent[i] = rc == LEAT_OK ? 1 : rc == LEAT_EUNKNOWN ? 2 : 0;
        t->sent_ok += rc == LEAT_OK;
        t->numbers = i + 1;
        wait_nap(1);
    }
    return NULL;
}

static void settle_all(traffic *t, const leat_queue_batch *b)
{
    for (size_t i = 0; i < leat_queue_batch_count(b); i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        if (leat_queue_ack(t->q, it->receipt, NULL) == LEAT_OK) {
            t->done[number(it)]++;
            t->acks++;
        }
    }
}

static void *receive_on(void *arg)
{
    traffic *t = arg;
    while (!t->stop) {
        leat_queue_batch *b = leat_queue_receive(
            t->q, &(leat_receive_opts){ .max = 10, .wait_ms = 20 }, NULL);
        if (b)
            settle_all(t, b);
        else
            wait_nap(5);
        leat_queue_batch_free(b);
    }
    return NULL;
}

static void a_killed_server_forgets_nothing_and_repeats_nothing(void **state)
{
    (void)state;
    static traffic t;
    char u[256];
    leat_error e = { 0 };
    redis_server *s = redis_start(&(redis_opts){ .aof = REDIS_AOF_ALWAYS });
    assert_non_null(s);
    t.c = open_client(redis_url(s, u, sizeof u), NULL);
    t.q = leat_queue_open(t.c, "orders",
                          &(leat_queue_opts){ .visibility_ms = 1000 }, &e);
    assert_non_null(t.q);
    pthread_create(&t.sender, NULL, send_on, &t);
    pthread_create(&t.receiver, NULL, receive_on, &t);
    for (int i = 1; i <= 3; i++) {
        wait_until(t.acks >= 20 * i, LONG_MS);
        redis_kill(s);
        assert_true(redis_restart(s));
    }
    wait_until(t.acks >= 80, LONG_MS);
    t.stop = true;
    pthread_join(t.sender, NULL);
    pthread_join(t.receiver, NULL);
    leat_queue_stats st = { 0 };
    int64_t end = wait_now_ms() + LONG_MS;
    do {
        leat_queue_batch *b = leat_queue_receive(
            t.q, &(leat_receive_opts){ .max = 100, .wait_ms = 100 }, NULL);
        if (b)
            settle_all(&t, b);
        leat_queue_batch_free(b);
        must(leat_queue_stats_get(t.q, &st, err));
    } while (st.acked < st.sent && wait_now_ms() < end);
    assert_int_equal(st.acked, st.sent);
    for (int i = 0; i < t.numbers; i++) {
        /* An ack in doubt may be told to nobody; a second is a lie. */
        if (t.done[i] > 1 || (t.done[i] && t.sent[i] == 0))
            fail_msg("message %d (%d) was done %d times", i, t.sent[i],
                     t.done[i]);
    }
    assert_true(st.sent >= t.sent_ok);
    conserved(t.q);
    leat_queue_close(t.q);
    leat_client_close(t.c);
    redis_stop(s);
}

/* ---- a clock that jumps ----------------------------------------------- */

static void a_jumping_clock_neither_loses_nor_keeps_messages(void **state)
{
    (void)state;
    char u[256];
    wall_clock clock = clock_new();
    redis_server *s = redis_start(&(redis_opts){ .clock_file = clock.path });
    assert_non_null(s);
    leat_client *c = open_client(redis_url(s, u, sizeof u), NULL);
    leat_queue *q = leat_queue_open(
        c, "orders", &(leat_queue_opts){ .visibility_ms = 3000 }, NULL);
    assert_non_null(q);
    send_text(q, "x");
    leat_queue_send_opts later = { .delay_ms = 2000 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("y") }, &later, NULL,
                         err));
    leat_queue_batch *first = take_one(q);
    clock_set(&clock, -3600); /* deadlines are not an hour away */
    leat_queue_batch *again = take_one(q), *second = take_one(q);
    assert_int_equal(item(again)->receives + item(second)->receives, 3);
    assert_int_not_equal(leat_queue_ack(q, item(first)->receipt, NULL),
                         LEAT_OK);
    must(leat_queue_change_visibility(q, item(again)->receipt, 3000000, err));
    must(leat_queue_change_visibility(q, item(second)->receipt, 3000000, err));
    clock_set(&clock, 7200); /* they come early, and once */
    leat_queue_batch_free(first);
    first = take_one(q);
    assert_int_equal(leat_queue_ack(q, item(first)->receipt, NULL), LEAT_OK);
    leat_queue_batch_free(first);
    first = take_one(q);
    must(leat_queue_ack(q, item(first)->receipt, err));
    leat_queue_batch_free(first);
    for (int i = 0; i < 40; i++) { /* it trembles */
        clock_set(&clock, i % 2 ? 0 : 1);
        send_text(q, "z");
        leat_queue_batch *b = take(
            q, &(leat_receive_opts){ .wait_ms = LONG_MS,
                                     .visibility_ms = 600000 });
        assert_int_equal(leat_queue_batch_count(b), 1);
        must(leat_queue_ack(q, item(b)->receipt, err));
        leat_queue_batch_free(b);
    }
    conserved(q);
    leat_queue_batch_free(again);
    leat_queue_batch_free(second);
    leat_queue_close(q);
    leat_client_close(c);
    redis_stop(s);
    clock_free(&clock);
}

/* ---- a server whose memory is full ------------------------------------ */

static void what_is_there_can_be_settled_at_maxmemory(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .max_receives = 1 });
    send_many(q, 0, 8);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 4 });
    redis_do(server, "CONFIG SET maxmemory 1");
    assert_code(leat_queue_send(q, &(leat_msg){ .body = leat_str("no") }, NULL,
                                NULL, &e),
                LEAT_EFULL);
    leat_queue_send_opts g = { .dedup = leat_str("d") };
    assert_code(
        leat_queue_send(q, &(leat_msg){ .body = leat_str("no") }, &g, NULL, &e),
        LEAT_EFULL);
    must(leat_queue_ack(q, leat_queue_batch_at(b, 0)->receipt, err));
    must(leat_queue_change_visibility(q, leat_queue_batch_at(b, 1)->receipt, 0,
                                      err)); /* a dead letter */
    must(leat_queue_change_visibility(q, leat_queue_batch_at(b, 2)->receipt,
                                      100000, err));
    must(leat_queue_change_visibility(q, leat_queue_batch_at(b, 3)->receipt, 1,
                                      err));
    wait_until(redis_int(server, "LLEN leat:{q/41}:orders:dead") == 2,
               LONG_MS); /* by the reaper */
    leat_queue_batch_free(b);
    b = take_one(q);
    ack(q, b);
    leat_queue_batch_free(b);
    int64_t n;
    must(leat_queue_redrive(q, NULL, &n, err));
    assert_int_equal(n, 2);
    redis_do(server, "CONFIG SET maxmemory 0");
    leat_queue_stats s = stats(q);
    assert_int_equal(s.sent, 8);
    assert_int_equal(s.acked, 2);
    assert_int_equal(s.in_flight, 1);
    conserved(q);
    leat_queue_close(q);
}

/* ---- keys that hold something else ------------------------------------ */

static void check_wrong(leat_queue *q, const char *key)
{
    leat_error e = { 0 };
    char real[128], side[140];
    snprintf(real, sizeof real, "%s", key);
    snprintf(side, sizeof side, "%s-aside", key);
    leat_queue_batch *held = take_one(q);
    leat_queue_stats before = stats(q);
    bool there = redis_int(server, "EXISTS %s", real) == 1;
    if (there)
        redis_do(server, "RENAME %s %s", real, side);
    redis_do(server, "SET %s wrong", real);
    leat_queue_sent sent = { 0 };
    leat_code rc = leat_queue_send(q, &(leat_msg){ .body = leat_str("new") },
                                   NULL, &sent, &e);
    if (rc != LEAT_OK) {
        assert_code(rc, LEAT_EDECODE);
        assert_non_null(strstr(e.msg, "orders"));
    }
    int64_t extra = rc == LEAT_OK;
    leat_queue_batch *b = leat_queue_receive(q, NULL, &e);
    if (!b)
        assert_code(e.code, LEAT_EDECODE);
    leat_code acked = leat_queue_ack(q, item(held)->receipt, &e);
    redis_do(server, "DEL %s", real);
    if (there)
        redis_do(server, "RENAME %s %s", side, real);
    if (acked != LEAT_OK)
        must(leat_queue_ack(q, item(held)->receipt, err));
    if (b)
        ack(q, b);
    leat_queue_batch_free(b);
    leat_queue_batch_free(held);
    leat_queue_stats after = stats(q);
    if (!strstr(key, ":stat")) {
        assert_int_equal(after.sent, before.sent + extra);
        conserved(q);
    }
}

static void a_key_of_another_type_is_an_error_and_no_loss(void **state)
{
    static const char *const what[] = { "ready", "body", "dead", "stat" };
    (void)state;
    char key[100];
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        redis_flush(server);
        leat_queue *q = queue_of("orders",
                                 &(leat_queue_opts){ .no_reaper = true });
        send_many(q, 0, 10);
        snprintf(key, sizeof key, "leat:{q/41}:orders:%s", what[i]);
        check_wrong(q, key);
        leat_queue_close(q);
    }
    redis_flush(server);
    leat_error e = { 0 };
    redis_do(server, "SET leat:{q/41}:orders:conf wrong");
    assert_null(leat_queue_open(client, "orders", NULL, &e));
    assert_code(e.code, LEAT_EDECODE);
}

static void a_body_that_is_gone_or_no_message_is_told(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    leat_msg m[] = { { .id = leat_str("a"), .body = leat_str("1") },
                     { .id = leat_str("b"), .body = leat_str("2") },
                     { .id = leat_str("c"), .body = leat_str("3") } };
    must(leat_queue_send_batch(q, m, 3, NULL, NULL, err));
    redis_do(server, "HDEL leat:{q/41}:orders:body a");
    redis_do(server, "HSET leat:{q/41}:orders:body b garbage");
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 3 });
    assert_int_equal(leat_queue_batch_count(b), 2);
    assert_non_null(leat_queue_batch_at(b, 0)->error);
    assert_true(
        leat_bytes_eq(leat_queue_batch_at(b, 0)->msg.id, leat_str("b")));
    assert_true(
        leat_bytes_eq(leat_msg_header(&leat_queue_batch_at(b, 0)->msg, "raw"),
                      leat_str("garbage")));
    assert_item(leat_queue_batch_at(b, 1), "3");
    ack(q, b);
    leat_queue_batch_free(b);
    assert_int_equal(stats(q).lost, 1);
    conserved(q);
    leat_queue_close(q);
}

/* Of n, every third of which has no body any more: the others, in order, each
 * in flight once and until the same moment. */
static void receive_some_of(leat_queue *q, int n)
{
    char ids[64][8];
    leat_msg m[64] = { 0 };
    for (int i = 0; i < n; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        m[i].id = m[i].body = leat_str(ids[i]);
    }
    must(leat_queue_send_batch(q, m, (size_t)n, NULL, NULL, err));
    for (int i = 2; i < n; i += 3)
        redis_do(server, "HDEL leat:{q/41}:orders:body %d", i);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = n });
    size_t k = 0;
    for (int i = 0; i < n; i++)
        if (i % 3 != 2)
            assert_item(leat_queue_batch_at(b, k++), ids[i]);
    assert_int_equal(leat_queue_batch_count(b), k);
    redisReply *r = redis_raw(server, "ZRANGE leat:{q/41}:due 0 -1 WITHSCORES");
    assert_int_equal(r->elements, 2 * k);
    for (size_t i = 1; i < r->elements; i += 2)
        assert_string_equal(r->element[i]->str, r->element[1]->str);
    freeReplyObject(r);
    ack(q, b);
    leat_queue_batch_free(b);
}

static void a_receive_of_any_size_leaves_out_what_is_gone(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    int lost = 0;
    for (int n = 1; n <= 24; n++) {
        receive_some_of(q, n);
        lost += n / 3;
        assert_int_equal(stats(q).lost, lost);
        conserved(q);
    }
    leat_queue_close(q);
}

/* Nothing that was decided while it was ahead lasts longer for that. */
static void a_clock_that_was_ahead_strands_nothing(void **state)
{
    (void)state;
    char u[256];
    wall_clock clock = clock_new();
    redis_server *s = redis_start(&(redis_opts){ .clock_file = clock.path });
    assert_non_null(s);
    leat_client *c = open_client(redis_url(s, u, sizeof u), NULL);
    leat_client *c2 = open_client(u, NULL);
    leat_queue_opts o = { .dedup_ms = 1000 };
    leat_queue *q = leat_queue_open(c, "orders", &o, NULL);
    assert_non_null(q);
    send_text(q, "x");
    clock_set(&clock, 3600);
    /* The reaper takes its turn, and then it dies. */
    redis_do(s, "DEL leat:{q/41}:reaper");
    wait_until(redis_int(s, "EXISTS leat:{q/41}:reaper") == 1, LONG_MS);
    clock_set(&clock, 0);
    leat_queue_close(q);
    q = leat_queue_open(c2, "orders", NULL, NULL);
    assert_non_null(q);
    leat_queue_send_opts later = { .delay_ms = 1500 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("y") }, &later, NULL,
                         err));
    wait_until(redis_int(s, "LLEN leat:{q/41}:orders:ready") == 2, LONG_MS);
    /* What is sent and hidden meanwhile, and comes when it should. */
    clock_set(&clock, 7200);
    leat_queue_send_opts once = { .dedup = leat_str("d"), .delay_ms = 1500 };
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("z") }, &once, NULL,
                         err));
    leat_queue_batch *b = take(
        q, &(leat_receive_opts){ .max = 2, .visibility_ms = 1500 });
    assert_int_equal(leat_queue_batch_count(b), 2);
    leat_queue_batch_free(b);
    clock_set(&clock, 0);
    wait_until(stats(q).visible == 3, LONG_MS);
    leat_queue_sent sent = { 0 };
    int64_t end = wait_now_ms() + LONG_MS;
    do
        must(leat_queue_send(q, &(leat_msg){ .body = leat_str("z") }, &once,
                             &sent, err));
    while (sent.duplicate && wait_now_ms() < end);
    assert_false(sent.duplicate);
    conserved(q);
    leat_queue_close(q);
    leat_client_close(c);
    leat_client_close(c2);
    redis_stop(s);
    clock_free(&clock);
}

/* ---- a server that forgets its scripts -------------------------------- */

static void forget(void)
{
    redis_do(server, "SCRIPT FLUSH");
}

static void forgotten_scripts_are_told_again(void **state)
{
    (void)state;
    int64_t n;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    leat_msg m[] = { { .id = leat_str("a") }, { .id = leat_str("b") } };
    forget();
    send_many(q, 0, 3);
    forget();
    must(leat_queue_send_batch(q, m, 2, NULL, NULL, err));
    forget();
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 5 });
    assert_int_equal(leat_queue_batch_count(b), 5);
    forget();
    must(leat_queue_ack(q, leat_queue_batch_at(b, 0)->receipt, err));
    forget();
    must(leat_queue_reject(q, leat_queue_batch_at(b, 1)->receipt, "no", err));
    forget();
    must(leat_queue_requeue_expired_once(q, 0, &n, err));
    forget();
    must(leat_queue_redrive(q, NULL, &n, err));
    assert_int_equal(n, 1);
    forget();
    conserved(q);
    forget();
    must(leat_queue_purge(q, false, &n, err));
    assert_int_equal(n, 4);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        proxy_test(a_send_cut_anywhere_happens_once_or_says_so),
        proxy_test(a_receive_cut_anywhere_loses_nothing),
        proxy_test(an_ack_cut_anywhere_happens_or_says_so),
        proxy_test(a_command_that_was_held_up_does_nothing),
        proxy_test(a_refusal_after_a_lost_try_is_no_certainty),
        owl_proxy_test(a_send_cut_anywhere_happens_once_or_says_so),
        owl_proxy_test(a_receive_cut_anywhere_loses_nothing),
        owl_proxy_test(an_ack_cut_anywhere_happens_or_says_so),
        owl_proxy_test(a_command_that_was_held_up_does_nothing),
        queue_test(a_killed_server_forgets_nothing_and_repeats_nothing),
        queue_test(a_jumping_clock_neither_loses_nor_keeps_messages),
        queue_test(a_clock_that_was_ahead_strands_nothing),
        queue_test(what_is_there_can_be_settled_at_maxmemory),
        queue_test(a_key_of_another_type_is_an_error_and_no_loss),
        queue_test(a_body_that_is_gone_or_no_message_is_told),
        queue_test(a_receive_of_any_size_leaves_out_what_is_gone),
        queue_test(forgotten_scripts_are_told_again),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/*
 * queue_edges.c: what is rare: large groups, orders that cross, answers that
 * are lost at a bad moment, and two who believe that a message is theirs.
 */
#include "queue_help.h"
#include "support/clock.h"
#include "support/tcpfault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 400 };

/* ---- a client behind a proxy ------------------------------------------ */

typedef struct victim {
    tcpfault *proxy;
    leat_client *c;
    leat_queue *q;
} victim;

static leat_queue_profile whose; /* of the victim's queue */

static victim victim_of(int64_t timeout_ms)
{
    leat_error e = { 0 };
    char u[64];
    victim v = { .proxy = tcpfault_start(redis_socket(server), NULL) };
    assert_non_null(v.proxy);
    snprintf(u, sizeof u, "redis://127.0.0.1:%d", tcpfault_port(v.proxy));
    v.c = open_client(
        u, &(leat_client_opts){ .timeout_ms = timeout_ms, .max_retry_ms = 20 });
    v.q = leat_queue_open(v.c, "orders",
                          &(leat_queue_opts){ .profile = whose,
                                              .no_reaper = true,
                                              .no_events = true },
                          &e);
    if (!v.q)
        fail_msg("cannot open: %s", e.msg);
    return v;
}

static void victim_close(victim *v)
{
    leat_queue_close(v->q);
    leat_client_close(v->c);
    tcpfault_stop(v->proxy);
}

/* What becomes of the n-th script from now on. */
static int strike(victim *v, uint64_t n, tcpfault_dir dir,
                  tcpfault_action action)
{
    return tcpfault_rule_add(v->proxy,
                             &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_COMMAND,
                                               .command = "EVALSHA",
                                               .n = n,
                                               .after = dir == TCPFAULT_DOWN,
                                               .action = action,
                                               .times = 1 });
}

/* ---- large groups ----------------------------------------------------- */

static void send_lots(leat_queue *q, const char *group, int n)
{
    static leat_msg m[LEAT_QUEUE_BATCH];
    for (int i = 0; i < LEAT_QUEUE_BATCH; i++)
        m[i] = (leat_msg){ .key = leat_str(group), .body = leat_str("x") };
    for (; n > 0; n -= LEAT_QUEUE_BATCH)
        must(leat_queue_send_batch(
            q, m, (size_t)(n < LEAT_QUEUE_BATCH ? n : LEAT_QUEUE_BATCH), NULL,
            NULL, err));
}

static void a_large_group_is_purged_whole(void **state)
{
    enum { N = 5500 };
    (void)state;
    int64_t n;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_lots(q, "g", N);
    must(leat_queue_purge(q, false, &n, err));
    assert_int_equal(n, N);
    assert_int_equal(stats(q).visible, 0);
    send_group(q, "g", "after");
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "after");
    leat_queue_batch_free(b);
    conserved(q);
    leat_queue_close(q);
}

static void a_removed_queue_leaves_no_group_behind(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_lots(q, "g", 5500);
    leat_queue_close(q);
    must(leat_queue_remove(client, "orders", NULL, err));
    assert_int_equal(redis_int(server, "EXISTS leat:{q/41}:orders:g:g"), 0);
    q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_group(q, "g", "after");
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "after");
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* As a removal that was cut short leaves it, while the reaper is at work. */
static void what_expires_while_its_queue_is_removed_leaves_nothing(void **state)
{
    (void)state;
    int64_t n;
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .fifo = true, .no_reaper = true });
    send_group(q, "g", "1");
    send_group(q, "g", "2");
    leat_queue_batch_free(take(q, &(leat_receive_opts){ .visibility_ms = 1 }));
    redis_do(server, "HSET leat:{q/41}:orders:conf gone 1");
    leat_queue *other = queue_of("other", NULL);
    do
        must(leat_queue_requeue_expired_once(q, 0, &n, err));
    while (n == 0);
    leat_queue_close(other);
    leat_queue_close(q);
    must(leat_queue_remove(client, "orders", NULL, err));
    assert_int_equal(redis_int(server, "EXISTS leat:{q/41}:orders:g:g"), 0);
    q = queue_of("orders", &(leat_queue_opts){ .fifo = true });
    send_group(q, "g", "after");
    leat_queue_batch *b = take_one(q);
    assert_item(item(b), "after");
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* How often a script ran, of those that were counted. */
static int64_t scripts_run(redis_server *s)
{
    char text[16384];
    redis_text(s, text, sizeof text, "INFO commandstats");
    const char *p = strstr(text, "cmdstat_evalsha:calls=");
    return p ? strtoll(p + strlen("cmdstat_evalsha:calls="), NULL, 10) : 0;
}

/* Many that are too old are dropped in steps, none of which holds up the
 * server, and what stands behind them is received at once. */
static void what_is_too_old_is_dropped_in_steps(void **state)
{
    enum { N = 10000 };
    (void)state;
    for (int fifo = 0; fifo < 2; fifo++) {
        char u[256];
        wall_clock clock = clock_new();
        redis_server *s = redis_start(
            &(redis_opts){ .clock_file = clock.path });
        assert_non_null(s);
        leat_client *c = open_client(redis_url(s, u, sizeof u), NULL);
        leat_queue *q = leat_queue_open(c, "orders",
                                        &(leat_queue_opts){ .fifo = fifo,
                                                            .ttl_ms = 3600000,
                                                            .no_reaper = true },
                                        NULL);
        assert_non_null(q);
        send_lots(q, "g", N);
        clock_set(&clock, 7200);
        send_group(q, "g", "fresh");
        int64_t before = scripts_run(s);
        leat_queue_batch *b = take(q, NULL);
        assert_int_equal(leat_queue_batch_count(b), 1);
        assert_item(item(b), "fresh");
        leat_queue_batch_free(b);
        assert_true(scripts_run(s) - before >= N / 2000);
        assert_int_equal(stats(q).expired, N);
        conserved(q);
        leat_queue_close(q);
        leat_client_close(c);
        redis_stop(s);
        clock_free(&clock);
    }
}

/* Each a million bytes; 34 of them are more than an answer has. */
static void send_large(leat_queue *q, int n)
{
    static char body[1000000];
    char group[16];
    for (int i = 0; i < n; i++) {
        snprintf(group, sizeof group, "%d", i);
        leat_queue_send_opts o = { .group = leat_str(group) };
        must(leat_queue_send(q, &(leat_msg){ .body = leat_mem(body, 1000000) },
                             &o, NULL, err));
    }
}

static int take_large(leat_queue *q, const leat_receive_opts *o)
{
    leat_queue_batch *b = take(q, o);
    int n = (int)leat_queue_batch_count(b);
    ack(q, b);
    leat_queue_batch_free(b);
    return n;
}

static void an_answer_has_a_bound_of_bytes(void **state)
{
    enum { N = 50, ROOM = 34 };
    const leat_queue_opts how[] = {
        { .no_reaper = true },
        { .no_reaper = true, .max_receives = 3 },
        { .no_reaper = true, .fifo = true },
    };
    const leat_receive_opts all = { .max = LEAT_QUEUE_BATCH };
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        redis_flush(server);
        leat_queue *q = queue_of("orders", &how[i]);
        send_large(q, N);
        leat_queue_batch *b = leat_queue_peek(q, LEAT_QUEUE_BATCH, false, NULL);
        assert_non_null(b);
        assert_int_equal(leat_queue_batch_count(b), ROOM);
        leat_queue_batch_free(b);
        assert_int_equal(take_large(q, &all), ROOM);
        assert_int_equal(redis_int(server, "ZCARD leat:{q/41}:work"), 1);
        assert_int_equal(take_large(q, &all), N - ROOM);
        assert_int_equal(redis_int(server, "ZCARD leat:{q/41}:work"), 0);
        conserved(q);
        leat_queue_close(q);
    }
}

/* ---- order ------------------------------------------------------------ */

static void nothing_overtakes_what_is_delayed_in_its_group(void **state)
{
    (void)state;
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .fifo = true, .delay_ms = 300 });
    leat_queue_send_opts now = { .group = leat_str("g"), .delay_ms = -1 };
    send_group(q, "g", "1");
    must(leat_queue_send(q, &(leat_msg){ .body = leat_str("2") }, &now, NULL,
                         err));
    send_group(q, "g", "3");
    must(leat_queue_alter(q, &(leat_queue_opts){ .delay_ms = -1 }, err));
    send_group(q, "g", "4");
    for (int i = 1; i <= 4; i++) {
        char text[] = { (char)('0' + i), '\0' };
        leat_queue_batch *b = take_one(q);
        assert_item(item(b), text);
        ack(q, b);
        leat_queue_batch_free(b);
    }
    assert_int_equal(stats(q).delayed, 0);
    send_group(q, "g", "5");
    assert_int_equal(stats(q).delayed, 0);
    conserved(q);
    leat_queue_close(q);
}

/* ---- duplicates ------------------------------------------------------- */

static void a_dedup_id_is_remembered_though_its_message_is_done(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", NULL);
    leat_queue_sent sent[2];
    leat_msg m = { .id = leat_str("17"), .body = leat_str("x") };
    leat_queue_send_opts o = { .dedup = leat_str("d") };
    must(leat_queue_send(q, &m, &o, sent, err));
    leat_queue_batch *b = take_one(q);
    ack(q, b);
    leat_queue_batch_free(b);
    must(leat_queue_send(q, &m, &o, sent, err));
    assert_true(sent[0].duplicate);
    assert_string_equal(sent[0].id, "17");
    leat_msg two[] = { m, m };
    leat_queue_send_opts same[] = { { .dedup = leat_str("e") },
                                    { .dedup = leat_str("e") } };
    must(leat_queue_send_batch(q, two, 2, same, sent, err));
    assert_false(sent[0].duplicate);
    assert_true(sent[1].duplicate);
    assert_int_equal(stats(q).sent, 2);
    conserved(q);
    leat_queue_close(q);
}

/* ---- the mover -------------------------------------------------------- */

static void die(leat_queue *q, const char *id, leat_bytes body)
{
    must(leat_queue_send(q, &(leat_msg){ .id = leat_str(id), .body = body },
                         NULL, NULL, err));
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, NULL, err));
    leat_queue_batch_free(b);
}

static void letters_of_equal_ids_are_both_moved(void **state)
{
    (void)state;
    leat_queue *graves = queue_of("graves", NULL);
    leat_queue_opts o = { .dead_queue = "graves" };
    leat_queue *a = queue_of("a", &o), *b = queue_of("b", &o);
    die(a, "17", leat_str("of a"));
    wait_until(stats(graves).visible == 1, LONG_MS);
    die(b, "17", leat_str("of b"));
    wait_until(stats(b).dead == 0, LONG_MS);
    assert_int_equal(stats(graves).visible, 2);
    leat_queue_close(a);
    leat_queue_close(b);
    leat_queue_close(graves);
}

static void a_letter_that_cannot_be_moved_holds_up_no_other(void **state)
{
    (void)state;
    static char large[2000];
    leat_queue *graves = queue_of("graves",
                                  &(leat_queue_opts){ .max_message = 1000 });
    leat_queue *q = queue_of("orders", NULL);
    die(q, "large", leat_mem(large, sizeof large));
    die(q, "small", leat_str("x"));
    must(
        leat_queue_alter(q, &(leat_queue_opts){ .dead_queue = "graves" }, err));
    wait_until(stats(graves).visible == 1 && stats(q).dead == 1, LONG_MS);
    conserved(q);
    leat_queue_close(q);
    leat_queue_close(graves);
}

/* ---- answers that are lost -------------------------------------------- */

/* It comes when what it took before is done, and others wait. */
static void a_receive_that_was_held_up_takes_nothing_more(void **state)
{
    (void)state;
    victim v = victim_of(TIMEOUT_MS);
    send_text(v.q, "1");
    strike(&v, 1, TCPFAULT_UP, TCPFAULT_HOLD);
    leat_queue_batch *b = take_one(v.q);
    ack(v.q, b);
    leat_queue_batch_free(b);
    send_text(v.q, "2");
    tcpfault_counts before = tcpfault_count(v.proxy);
    tcpfault_release(v.proxy);
    wait_until(tcpfault_count(v.proxy).up > before.up, LONG_MS);
    wait_until(redis_int(server, "PING") != 0, LONG_MS);
    leat_queue_stats s = stats(v.q);
    assert_int_equal(s.in_flight, 0);
    assert_int_equal(s.visible, 1);
    b = take_one(v.q);
    assert_item(item(b), "2");
    assert_int_equal(item(b)->receives, 1);
    leat_queue_batch_free(b);
    victim_close(&v);
}

static int open_owl(void **state)
{
    whose = LEAT_QUEUE_REDOWL;
    return open_one(state);
}

static int close_owl(void **state)
{
    whose = LEAT_QUEUE_NATIVE;
    return close_one(state);
}

/* What was taken and not told ran out: then there is something else. */
static void a_receive_in_doubt_goes_on_when_its_messages_ran_out(void **state)
{
    (void)state;
    leat_receive_opts o = { .visibility_ms = 1 };
    victim v = victim_of(TIMEOUT_MS);
    leat_queue *q = queue_of("orders", NULL);
    send_text(q, "1");
    tcpfault_rule_add(v.proxy, &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                                 .when = TCPFAULT_FRAME,
                                                 .n = 0,
                                                 .action = TCPFAULT_CUT });
    assert_null(leat_queue_receive(v.q, &o, NULL));
    tcpfault_clear(v.proxy);
    wait_until(stats(q).visible == 1, LONG_MS);
    leat_queue_batch *b = take(v.q, NULL);
    assert_int_equal(leat_queue_batch_count(b), 1);
    leat_queue_batch_free(b);
    leat_queue_close(q);
    victim_close(&v);
}

/* The first try worked, and then the door is shut. */
static void a_send_in_doubt_stays_so_when_nobody_answers_it(void **state)
{
    (void)state;
    leat_error e = { 0 };
    victim v = victim_of(TIMEOUT_MS);
    send_text(v.q, "1");
    redis_do(server, "CONFIG SET requirepass secret");
    strike(&v, 1, TCPFAULT_DOWN, TCPFAULT_CUT);
    leat_code rc = leat_queue_send(v.q, &(leat_msg){ .body = leat_str("2") },
                                   NULL, NULL, &e);
    redis_do(server, "CONFIG SET requirepass %s", "");
    assert_code(rc, LEAT_EUNKNOWN);
    assert_code(e.code, LEAT_EUNKNOWN);
    victim_close(&v);
}

static void a_removal_whose_last_answer_is_lost_is_done(void **state)
{
    (void)state;
    victim v = victim_of(TIMEOUT_MS);
    send_text(v.q, "1");
    must(leat_queue_remove(v.c, "orders", NULL, err)); /* tells the script */
    leat_queue_close(v.q);
    v.q = leat_queue_open(v.c, "orders",
                          &(leat_queue_opts){ .no_reaper = true }, NULL);
    assert_non_null(v.q);
    strike(&v, 5, TCPFAULT_DOWN, TCPFAULT_CUT); /* mark due ready dead end */
    must(leat_queue_remove(v.c, "orders", NULL, err));
    victim_close(&v);
}

/* ---- two who have it -------------------------------------------------- */

typedef struct slow {
    leat_queue *q;
    leat_bytes receipt;
    leat_code rc;
} slow;

static void *ack_slowly(void *arg)
{
    slow *s = arg;
    s->rc = leat_queue_ack(s->q, s->receipt, NULL);
    return NULL;
}

/* Its ack never came, another one's did: that it is done is not its doing. */
static void an_ack_repeated_after_anothers_is_stale(void **state)
{
    (void)state;
    for (int mine = 0; mine < 2; mine++) {
        pthread_t t;
        victim v = victim_of(3000);
        leat_queue *q = queue_of("orders", NULL);
        send_text(q, "1");
        if (mine) { /* the second receive's own, whose answer is lost */
            leat_queue_batch *b = take_one(q);
            must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
            leat_queue_batch_free(b);
        }
        leat_queue_batch *b = take_one(q);
        /* So that the script is known, and the rule meets the ack. */
        assert_code(leat_queue_ack(v.q, leat_str("v/orders/1/1/x/y.1"), NULL),
                    LEAT_ESTALE);
        slow s = { .q = v.q, .receipt = item(b)->receipt };
        int held = strike(&v, 1, mine ? TCPFAULT_DOWN : TCPFAULT_UP,
                          mine ? TCPFAULT_CUT : TCPFAULT_HALF_OPEN);
        pthread_create(&t, NULL, ack_slowly, &s);
        if (!mine) {
            wait_until(tcpfault_fired(v.proxy, held) == 1, LONG_MS);
            must(leat_queue_change_visibility(q, item(b)->receipt, 0, err));
            leat_queue_batch *other = take_one(q);
            ack(q, other);
            leat_queue_batch_free(other);
        }
        pthread_join(t, NULL);
        assert_code(s.rc, mine ? LEAT_OK : LEAT_ESTALE);
        assert_int_equal(stats(q).acked, mine + 1);
        leat_queue_batch_free(b);
        leat_queue_close(q);
        victim_close(&v);
    }
}

/* ---- a watch that is too slow ----------------------------------------- */

typedef struct sleeper {
    atomic_bool asleep, awake;
    atomic_int heard, missed;
} sleeper;

static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    sleeper *s = arg;
    (void)e;
    s->missed += missed;
    s->heard++;
    s->asleep = true;
    while (!s->awake)
        wait_nap(1);
}

static void a_watch_says_what_the_stream_no_longer_holds(void **state)
{
    enum { N = 12000 };
    (void)state;
    sleeper s = { 0 };
    leat_queue *q = queue_of("orders",
                             &(leat_queue_opts){ .durable_events = true });
    leat_queue_watch *w = leat_queue_watch_open(client, "orders", NULL, true,
                                                on_event, &s, NULL);
    assert_non_null(w);
    send_text(q, "1");
    wait_until(s.asleep, LONG_MS);
    send_lots(q, "g", N);
    s.awake = true;
    wait_until(s.missed == 1, LONG_MS);
    leat_queue_watch_close(w);
    leat_queue_close(q);
}

/* ---- many that are due at once ---------------------------------------- */

enum { DUE_LOTS = 50, DUE_LOT = LEAT_QUEUE_BATCH, DUE_FIFO = 900 };

/* n messages "<from>", ..., fifo: each of a group of its own. */
static void send_lot(leat_queue *q, int from, int n, bool fifo, int64_t delay)
{
    static leat_msg m[DUE_LOT];
    static leat_queue_send_opts o[DUE_LOT];
    static char text[DUE_LOT][16];
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%06d", from + i);
        m[i] = (leat_msg){ .body = leat_str(text[i]) };
        o[i] = (leat_queue_send_opts){ .delay_ms = delay,
                                       .group = leat_str(fifo ? text[i] : "") };
    }
    must(leat_queue_send_batch(q, m, (size_t)n, o, NULL, err));
}

/* Everything that has a deadline is due in one and the same millisecond. */
static void all_are_due_at_once(int n)
{
    assert_int_equal(redis_int(server, "EVAL %s 1 leat:{q/41}:due",
                               "local all = redis.call('ZRANGE', KEYS[1], 0, "
                               "-1) for i = 1, #all do redis.call('ZADD', "
                               "KEYS[1], 1000, all[i]) end return #all"),
                     n);
}

static void give_back_all(leat_queue *q, int n, int most)
{
    for (int left = n; left > 0;) {
        int64_t some = 0;
        must(leat_queue_requeue_expired_once(q, 400, &some, err));
        assert_true(some > 0 && some <= most);
        left -= (int)some;
        assert_true(left >= 0);
    }
}

static void receive_in_order(leat_queue *q, int n)
{
    for (int next = 0; next < n;) {
        leat_queue_batch *b = take(
            q,
            &(leat_receive_opts){ .max = DUE_LOT, .visibility_ms = 3600000 });
        assert_true(leat_queue_batch_count(b) > 0);
        for (size_t i = 0; i < leat_queue_batch_count(b); i++) {
            char text[16];
            snprintf(text, sizeof text, "%06d", next++);
            assert_item(leat_queue_batch_at(b, i), text);
        }
        leat_queue_batch_free(b);
    }
}

static void many_due_in_one_millisecond_come_back_in_order(void **state)
{
    (void)state;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    for (int i = 0; i < DUE_LOTS; i++)
        send_lot(q, i * DUE_LOT, DUE_LOT, false, 3600000);
    for (int round = 0; round < 2; round++) { /* delayed, then in flight */
        all_are_due_at_once(DUE_LOTS * DUE_LOT);
        give_back_all(q, DUE_LOTS * DUE_LOT, DUE_LOT);
        receive_in_order(q, DUE_LOTS * DUE_LOT);
    }
    conserved(q);
    leat_queue_close(q);
}

static void those_of_one_receive_come_back_together(void **state)
{
    (void)state;
    int64_t n = 0;
    leat_queue *q = queue_of("orders", &(leat_queue_opts){ .no_reaper = true });
    send_lot(q, 0, DUE_LOT, false, 0);
    receive_in_order(q, DUE_LOT);
    all_are_due_at_once(DUE_LOT);
    must(leat_queue_requeue_expired_once(q, 1, &n, err));
    assert_int_equal(n, DUE_LOT);
    receive_in_order(q, DUE_LOT);
    leat_queue_close(q);
}

/* Their groups cost the server more. */
static void fewer_of_a_fifo_queue_come_back_at_once(void **state)
{
    (void)state;
    leat_queue *q = queue_of(
        "orders", &(leat_queue_opts){ .no_reaper = true, .fifo = true });
    send_lot(q, 0, DUE_FIFO, true, 0);
    receive_in_order(q, DUE_FIFO);
    all_are_due_at_once(DUE_FIFO);
    give_back_all(q, DUE_FIFO, 400);
    receive_in_order(q, DUE_FIFO);
    conserved(q);
    leat_queue_close(q);
}

/* ---- redriven --------------------------------------------------------- */

static void the_reason_of_a_death_goes_with_the_redrive(void **state)
{
    (void)state;
    int64_t n = 0;
    leat_queue *q = queue_of("orders", NULL);
    send_text(q, "x");
    leat_queue_batch *b = take_one(q);
    must(leat_queue_reject(q, item(b)->receipt, "no", err));
    redisReply *r = redis_raw(server, "KEYS leat:*:orders:why");
    assert_int_equal(r->elements, 1);
    freeReplyObject(r);
    must(leat_queue_redrive(q, NULL, &n, err));
    r = redis_raw(server, "KEYS leat:*:orders:why");
    assert_int_equal(r->elements, 0);
    freeReplyObject(r);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* ---- what the server refuses for now ---------------------------------- */

static void replicas_wanted(const char *n)
{
    redisReply *r = redis_raw(server, "CONFIG SET min-replicas-to-write %s", n);
    assert_true(r && r->type == REDIS_REPLY_STATUS);
    freeReplyObject(r);
}

/* Also where a script looks at each message before it takes one. */
static void a_receive_without_replicas_may_be_tried_again(void **state)
{
    const leat_queue_opts kinds[] = { { .max_receives = 3 },
                                      { .ttl_ms = 600000 },
                                      { .fifo = true },
                                      { .no_reaper = true } };
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[16];
        leat_error e = { 0 };
        snprintf(name, sizeof name, "kind-%zu", i);
        leat_queue *q = queue_of(name, &kinds[i]);
        if (kinds[i].fifo)
            send_group(q, "g", "x");
        else
            send_text(q, "x");
        replicas_wanted("1");
        assert_null(leat_queue_receive(q, NULL, &e));
        replicas_wanted("0");
        assert_code(e.code, LEAT_EFULL);
        assert_true(e.retriable);
        leat_queue_batch *b = take_one(q);
        assert_item(item(b), "x");
        ack(q, b);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_receive_without_replicas_may_be_tried_again),
        queue_test(the_reason_of_a_death_goes_with_the_redrive),
        queue_test(a_large_group_is_purged_whole),
        queue_test(a_removed_queue_leaves_no_group_behind),
        queue_test(what_expires_while_its_queue_is_removed_leaves_nothing),
        queue_test(what_is_too_old_is_dropped_in_steps),
        queue_test(an_answer_has_a_bound_of_bytes),
        queue_test(nothing_overtakes_what_is_delayed_in_its_group),
        queue_test(a_dedup_id_is_remembered_though_its_message_is_done),
        queue_test(letters_of_equal_ids_are_both_moved),
        queue_test(a_letter_that_cannot_be_moved_holds_up_no_other),
        queue_test(a_receive_that_was_held_up_takes_nothing_more),
        { "a_receive_that_was_held_up_takes_nothing_more_of_redowl",
          a_receive_that_was_held_up_takes_nothing_more, open_owl, close_owl,
          NULL },
        queue_test(a_receive_in_doubt_goes_on_when_its_messages_ran_out),
        queue_test(a_send_in_doubt_stays_so_when_nobody_answers_it),
        queue_test(a_removal_whose_last_answer_is_lost_is_done),
        queue_test(an_ack_repeated_after_anothers_is_stale),
        queue_test(a_watch_says_what_the_stream_no_longer_holds),
        queue_test(many_due_in_one_millisecond_come_back_in_order),
        queue_test(those_of_one_receive_come_back_together),
        queue_test(fewer_of_a_fifo_queue_come_back_at_once),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

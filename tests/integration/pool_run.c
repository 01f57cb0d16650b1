/*
 * pool_run.c: a pool of workers over many queues of one server.
 */
#include "pool_help.h"
#include "queue/keys.h"
#include "redis/script.h"

#include <stdlib.h>

/* ---- finding ---------------------------------------------------------- */

enum { ROOMS = 100, MOVES = 5 };

static bool all_acked(leat_pool *p)
{
    leat_pool_stats s;
    leat_pool_stats_get(p, &s);
    return s.acked == ROOMS * MOVES;
}

/* ms from the start of a pool until all that was there before is done. */
static int64_t backlog_took(leat_queue *q[ROOMS])
{
    for (int i = 0; i < ROOMS; i++)
        send_many(q[i], 1, MOVES);
    log_clear();
    int64_t start = wait_now_ms();
    leat_pool *p = pool_of(note, NULL, &(leat_pool_opts){ .workers = 10 });
    wait_until(all_acked(p), LONG_MS);
    int64_t took = wait_now_ms() - start;
    for (int i = 0; i < ROOMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "room%d", i);
        assert_string_equal(log_of(name), "1 2 3 4 5");
    }
    stop(p);
    return took;
}

/* The best of a few, as the machine may be busy. */
static void
a_backlog_from_before_the_start_is_done_within_a_second(void **state)
{
    (void)state;
    leat_queue *q[ROOMS];
    int64_t best = INT64_MAX, limit = SANITIZED ? 10000 : 1000, runs = 0;
    for (int i = 0; i < ROOMS; i++)
        q[i] = queue_nr("room", i, NULL);
    for (; runs < 5 && best >= limit; runs++) {
        int64_t took = backlog_took(q);
        best = took < best ? took : best;
    }
    print_message("%d messages of %d queues: %lld ms\n", ROOMS * MOVES, ROOMS,
                  (long long)best);
    assert_true(best < limit);
    for (int i = 0; i < ROOMS; i++) {
        assert_int_equal(stats(q[i]).acked, MOVES * runs);
        leat_queue_close(q[i]);
    }
}

static void queues_made_later_by_others_are_found(void **state)
{
    (void)state;
    log_clear();
    leat_pool *p = pool_of(note, NULL, NULL);
    leat_queue *a = queue_of("early", NULL);
    send_text(a, "1");
    wait_until(log_count() == 1, LONG_MS);
    leat_client *other = open_client(url, NULL);
    leat_error e;
    leat_queue *b = leat_queue_open(other, "late", NULL, &e);
    assert_non_null(b);
    send_text(b, "2");
    wait_until(log_count() == 2, LONG_MS);
    assert_string_equal(log_of("late"), "2");
    stop(p);
    leat_queue_close(b);
    leat_client_close(other);
    leat_queue_close(a);
}

static void only_the_queues_of_its_prefix_are_served(void **state)
{
    (void)state;
    leat_queue *mine = queue_of("a", &(leat_queue_opts){ .prefix = "game" });
    leat_queue *other = queue_of("a", NULL);
    send_text(mine, "1");
    send_text(other, "2");
    log_clear();
    leat_pool *p = pool_of(note, NULL, &(leat_pool_opts){ .prefix = "game" });
    wait_until(log_count() == 1, LONG_MS);
    stop(p);
    assert_string_equal(log_of("a"), "1");
    assert_int_equal(stats(other).visible, 1);
    leat_queue_close(mine);
    leat_queue_close(other);
}

/* The sender may not publish, so that nobody is told. */
static void a_lost_hint_is_found_by_the_poll(void **state)
{
    (void)state;
    redis_do(server, "ACL SETUSER mute on >secret ~* +@all resetchannels");
    leat_client *mute = open_client(
        url, &(leat_client_opts){ .user = "mute", .password = "secret" });
    leat_error e = { 0 };
    leat_queue *q = leat_queue_open(mute, "quiet", NULL, &e);
    assert_non_null(q);
    send_text(q, "0");
    log_clear();
    leat_pool *p = pool_of(note, NULL, &(leat_pool_opts){ .poll_ms = 50 });
    wait_until(log_count() == 1, LONG_MS);
    send_text(q, "1");
    wait_until(log_count() == 2, LONG_MS);
    stop(p);
    leat_queue_close(q);
    leat_client_close(mute);
    redis_do(server, "ACL DELUSER mute");
}

/* ---- failing ---------------------------------------------------------- */

typedef struct failing {
    const char *body; /* of the one that fails */
    int times;        /* so often              */
    bool reject;
} failing;

static leat_verdict fail_some(leat_ctx *x, void *arg)
{
    failing *f = arg;
    log_handled(x);
    if (!body_is(x, f->body) || f->times <= 0)
        return LEAT_ACK;
    f->times--;
    return f->reject ? leat_ctx_reject(x, "never") : LEAT_NACK;
}

static void a_queue_waits_for_a_message_that_failed(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL), *other = queue_of("b", NULL);
    send_many(q, 1, 5);
    failing f = { "2", 2, false };
    log_clear();
    leat_pool *p = pool_of(fail_some, &f, &(leat_pool_opts){ .retry_ms = 100 });
    wait_until(strncmp(log_of("a"), "1 2", 3) == 0, LONG_MS);
    send_many(other, 7, 3);
    wait_until(log_count() == 10, LONG_MS);
    stop(p);
    assert_string_equal(log_of("a"), "1 2 2 2 3 4 5");
    assert_string_equal(log_of("b"), "7 8 9");
    assert_int_equal(stats(q).acked, 5);
    assert_int_equal(stats(q).dead, 0);
    conserved(q);
    leat_queue_close(q);
    leat_queue_close(other);
}

static leat_verdict at_once(leat_ctx *x, void *arg)
{
    atomic_int *left = arg;
    log_handled(x);
    if (body_is(x, "3") && atomic_fetch_sub(left, 1) > 0)
        return leat_ctx_nack(x, 0);
    return LEAT_ACK;
}

static void a_message_given_back_at_once_keeps_its_place(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL);
    send_many(q, 1, 50);
    atomic_int left = 3;
    log_clear();
    leat_pool *p = pool_of(at_once, &left, NULL);
    wait_until(log_count() == 53, LONG_MS);
    stop(p);
    assert_int_equal(strncmp(log_of("a"), "1 2 3 3 3 3 4 5 6 ", 18), 0);
    char all[512] = "1 2 3 3 3 3";
    for (int i = 4; i <= 50; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), " %d", i);
    assert_string_equal(log_of("a"), all);
    leat_queue_close(q);
}

static void a_queue_goes_on_if_that_is_wanted(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL);
    send_many(q, 1, 5);
    failing f = { "2", 1, false };
    log_clear();
    leat_pool *p = pool_of(fail_some, &f,
                           &(leat_pool_opts){ .retry_ms = 300, .go_on = true });
    wait_until(log_count() == 6, LONG_MS);
    stop(p);
    assert_string_equal(log_of("a"), "1 2 3 4 5 2");
    assert_int_equal(stats(q).acked, 5);
    conserved(q);
    leat_queue_close(q);
}

static void what_fails_too_often_dies_and_the_queue_goes_on(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        leat_queue *q = queue_nr("a", on,
                                 &(leat_queue_opts){ .max_receives = 3 });
        send_many(q, 1, 4);
        failing f = { "2", 99, false };
        log_clear();
        leat_pool *p = pool_of(
            fail_some, &f, &(leat_pool_opts){ .retry_ms = 20, .go_on = on });
        wait_until(stats(q).dead == 1 && stats(q).acked == 3, LONG_MS);
        stop(p);
        if (!on)
            assert_string_equal(log_of("a0"), "1 2 2 2 3 4");
        conserved(q);
        leat_queue_close(q);
    }
}

static void what_is_rejected_is_dead_at_once(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL);
    send_many(q, 1, 4);
    failing f = { "2", 1, true };
    log_clear();
    leat_pool *p = pool_of(fail_some, &f, NULL);
    wait_until(log_count() == 4, LONG_MS);
    stop(p);
    assert_string_equal(log_of("a"), "1 2 3 4");
    assert_int_equal(stats(q).dead, 1);
    conserved(q);
    leat_queue_close(q);
}

/* ---- beside each other ------------------------------------------------ */

typedef struct crowd {
    atomic_int in, most;
    atomic_bool open;
} crowd;

static void enter(crowd *c)
{
    int in = atomic_fetch_add(&c->in, 1) + 1, most = atomic_load(&c->most);
    while (in > most && !atomic_compare_exchange_weak(&c->most, &most, in))
        ;
}

static leat_verdict stay(leat_ctx *x, void *arg)
{
    crowd *c = arg;
    log_handled(x);
    enter(c);
    while (!atomic_load(&c->open))
        wait_nap(1);
    atomic_fetch_sub(&c->in, 1);
    return LEAT_ACK;
}

static void
queues_run_beside_each_other_but_not_a_queue_with_itself(void **state)
{
    (void)state;
    leat_queue *q[10];
    for (int i = 0; i < 10; i++) {
        q[i] = queue_nr("q", i, NULL);
        send_many(q[i], 1, 3);
    }
    crowd c = { 0 };
    log_clear();
    leat_pool *p = pool_of(stay, &c, NULL);
    wait_until(atomic_load(&c.in) == 10, LONG_MS);
    for (int i = 0; i < 10; i++) {
        char name[8];
        snprintf(name, sizeof name, "q%d", i);
        assert_string_equal(log_of(name), "1");
    }
    leat_pool_stats s;
    leat_pool_stats_get(p, &s);
    assert_int_equal(s.running, 10);
    assert_int_equal(s.threads, 10);
    assert_int_equal(s.queues, 10);
    atomic_store(&c.open, true);
    wait_until(log_count() == 30, LONG_MS);
    stop(p);
    for (int i = 0; i < 10; i++)
        leat_queue_close(q[i]);
}

/* Two pools, and so many of a queue at once in both. */
static void the_limit_of_a_queue_holds_over_all_pools(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL);
    send_many(q, 1, 20);
    crowd c = { 0 };
    log_clear();
    leat_pool_opts o = { .queue_workers = 3, .poll_ms = 20 };
    leat_pool *p = pool_of(stay, &c, &o), *r = pool_of(stay, &c, &o);
    wait_until(atomic_load(&c.in) == 3, LONG_MS);
    wait_nap(100); /* a fourth would come now, if it could */
    assert_int_equal(atomic_load(&c.most), 3);
    atomic_store(&c.open, true);
    wait_until(log_count() == 20, LONG_MS);
    assert_true(atomic_load(&c.most) <= 3);
    stop(p);
    stop(r);
    assert_int_equal(stats(q).acked, 20);
    leat_queue_close(q);
}

/* ---- fairness --------------------------------------------------------- */

static leat_verdict slow(leat_ctx *x, void *arg)
{
    log_handled(x);
    wait_nap(*(int *)arg);
    return LEAT_ACK;
}

/* Of queues of many shards.  One waits from the moment the server knows that
 * its last one is done, so that another may be one turn ahead, and no more.
 * Slow handlers: what is taken of a queue where nobody waits is one, too. */
static void no_queue_is_served_twice_while_another_waits(void **state)
{
    (void)state;
    enum { QUEUES = 12, EACH = 4 };
    leat_queue *q[QUEUES];
    int done[QUEUES] = { 0 }, nap = 25;
    for (int i = 0; i < QUEUES; i++) {
        q[i] = queue_nr("q", i, NULL);
        send_many(q[i], 1, EACH);
    }
    log_clear();
    leat_pool *p = pool_of(slow, &nap, &(leat_pool_opts){ .workers = 1 });
    wait_until(log_count() == QUEUES * EACH, LONG_MS);
    stop(p);
    for (int i = 0; i < QUEUES * EACH; i++) {
        int at = (int)strtol(handled.line[i] + 1, NULL, 10), least = EACH;
        done[at]++;
        for (int k = 0; k < QUEUES; k++)
            least = done[k] < least ? done[k] : least;
        assert_true(done[at] <= least + 2);
    }
    for (int i = 0; i < QUEUES; i++)
        leat_queue_close(q[i]);
}

/* A queue with thousands does not keep out one that comes later. */
static void a_long_queue_does_not_keep_out_a_short_one(void **state)
{
    (void)state;
    leat_queue *big = queue_of("big", NULL), *little = queue_of("little", NULL);
    for (int i = 0; i < 50; i++) {
        leat_msg m[100];
        for (int k = 0; k < 100; k++)
            m[k] = (leat_msg){ .body = leat_str("x") };
        must(leat_queue_send_batch(big, m, 100, NULL, NULL, err));
    }
    int nap = 1;
    log_clear();
    leat_pool *p = pool_of(slow, &nap, &(leat_pool_opts){ .workers = 1 });
    wait_until(log_count() > 20, LONG_MS);
    send_text(little, "1");
    int before = log_count();
    wait_until(*log_of("little") != '\0', LONG_MS);
    int at = 0;
    while (strcmp(handled.line[at], "little 1") != 0)
        at++;
    print_message("handled before it: %d\n", at - before);
    assert_true(at - before < 200);
    must(leat_pool_stop(p, 0, err));
    leat_queue_close(big);
    leat_queue_close(little);
}

/* Quick until told otherwise; then each takes a while. */
static leat_verdict quick_then_slow(leat_ctx *x, void *arg)
{
    atomic_int *nap = arg;
    log_handled(x);
    if (atomic_load(nap) > 0)
        wait_nap(atomic_load(nap));
    return LEAT_ACK;
}

static int longest_run(int from, int to)
{
    int longest = 0, run = 0;
    for (int i = from; i < to; i++) {
        size_t n = strcspn(handled.line[i], " ") + 1;
        bool same = i > from &&
                    strncmp(handled.line[i], handled.line[i - 1], n) == 0;
        run = same ? run + 1 : 1;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* A lot was taken of a queue whose handlers are slow now: it is not handled to
 * its end while another queue waits that came later. */
static void a_turn_is_as_long_as_handlers_are_quick(void **state)
{
    (void)state;
    enum { QUEUES = 3, EACH = 200 };
    leat_queue *q[QUEUES], *late = queue_of("late", NULL);
    atomic_int nap = 0;
    leat_msg lot[40];
    for (int i = 0; i < 40; i++)
        lot[i] = (leat_msg){ .body = leat_str("x") };
    for (int i = 0; i < QUEUES; i++) {
        q[i] = queue_nr("q", i, NULL);
        send_many(q[i], 1, EACH);
    }
    log_clear();
    leat_pool *p = pool_of(quick_then_slow, &nap,
                           &(leat_pool_opts){ .workers = 1 });
    wait_until(log_count() == QUEUES * EACH, LONG_MS);
    int quick = longest_run(0, log_count());
    wait_nap(300); /* what was done lately is forgotten */
    atomic_store(&nap, 20);
    must(leat_queue_send_batch(q[0], lot, 40, NULL, NULL, err));
    wait_until(log_count() >= QUEUES * EACH + 2, LONG_MS);
    send_text(late, "1");
    int before = log_count();
    wait_until(*log_of("late") != '\0', LONG_MS);
    int between = log_count() - before;
    print_message("quick ones in a row: %d; slow ones before the late: %d\n",
                  quick, between);
    assert_true(quick > 1);
    assert_true(between <= 5);
    atomic_store(&nap, 0);
    wait_until(log_count() == QUEUES * EACH + 41, LONG_MS);
    stop(p);
    for (int i = 0; i < QUEUES; i++)
        leat_queue_close(q[i]);
    leat_queue_close(late);
}

static int heavy(void *arg, leat_bytes queue)
{
    (void)arg;
    return leat_bytes_eq(queue, leat_str("q0")) ? 4 : 0;
}

static void a_heavier_queue_has_longer_turns(void **state)
{
    (void)state;
    leat_queue *q[3];
    for (int i = 0; i < 3; i++) {
        q[i] = queue_nr("q", i, NULL);
        send_many(q[i], 1, 24);
    }
    int nap = 20; /* a turn is one message, however busy the machine is */
    log_clear();
    leat_pool *p = pool_of(slow, &nap,
                           &(leat_pool_opts){ .workers = 1, .weight = heavy });
    wait_until(log_count() == 72, LONG_MS);
    stop(p);
    int n[3] = { 0 };
    for (int i = 0; i < 30; i++)
        n[handled.line[i][1] - '0']++;
    print_message("of the first 30: %d %d %d\n", n[0], n[1], n[2]);
    assert_true(n[0] >= 2 * n[1] && n[0] >= 2 * n[2]);
    assert_true(n[1] >= 3 && n[2] >= 3);
    for (int i = 0; i < 3; i++)
        leat_queue_close(q[i]);
}

/* ---- its life --------------------------------------------------------- */

static void what_did_not_begin_is_given_back_by_a_stop(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL);
    send_many(q, 1, 40);
    int nap = 20;
    log_clear();
    leat_pool *p = pool_of(slow, &nap, NULL);
    wait_until(log_count() >= 3, LONG_MS);
    stop(p);
    int done = log_count();
    leat_queue_stats s = stats(q);
    assert_int_equal(s.in_flight, 0);
    assert_int_equal(s.visible + s.acked, 40);
    assert_int_equal(s.acked, done);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 40 });
    assert_int_equal(leat_queue_batch_count(b), 40 - done);
    for (int i = 0; i < 40 - done; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", done + i + 1);
        const leat_queue_item *it = leat_queue_batch_at(b, (size_t)i);
        assert_item(it, text);
        assert_int_equal(it->receives, 1);
    }
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

static uint64_t threads(leat_pool *p)
{
    leat_pool_stats s;
    leat_pool_stats_get(p, &s);
    return s.threads;
}

static uint64_t known(leat_pool *p)
{
    leat_pool_stats s;
    leat_pool_stats_get(p, &s);
    return s.queues;
}

static void workers_come_with_the_work_and_go(void **state)
{
    (void)state;
    leat_queue *q[4];
    for (int i = 0; i < 4; i++)
        q[i] = queue_nr("q", i, NULL);
    crowd c = { 0 };
    log_clear();
    leat_pool *p = pool_of(stay, &c,
                           &(leat_pool_opts){ .workers = 8,
                                              .min_workers = 1,
                                              .worker_idle_ms = 50,
                                              .queue_idle_ms = 100 });
    assert_int_equal(threads(p), 1);
    for (int round = 0; round < 2; round++) {
        atomic_store(&c.open, false);
        for (int i = 0; i < 4; i++)
            send_text(q[i], "1");
        wait_until(atomic_load(&c.in) == 4, LONG_MS);
        assert_true(threads(p) >= 4);
        atomic_store(&c.open, true);
        wait_until(threads(p) == 1, LONG_MS);
        wait_until(known(p) == 0, LONG_MS);
    }
    stop(p);
    for (int i = 0; i < 4; i++)
        leat_queue_close(q[i]);
}

typedef struct counted {
    uint64_t received, acked, nacked, rejected;
    int queues;
} counted;

static void add(void *arg, const leat_pool_queue *q)
{
    counted *c = arg;
    c->queues++;
    if (!leat_bytes_eq(q->name, leat_str("a")))
        return;
    c->received += q->received;
    c->acked += q->acked;
    c->nacked += q->nacked;
    c->rejected += q->rejected;
}

static void each_queue_is_counted(void **state)
{
    (void)state;
    leat_queue *a = queue_of("a", NULL), *b = queue_of("b", NULL);
    send_many(a, 1, 5);
    send_many(b, 1, 2);
    failing f = { "5", 1, false };
    log_clear();
    leat_pool *p = pool_of(fail_some, &f, &(leat_pool_opts){ .retry_ms = 10 });
    wait_until(stats(a).acked == 5 && stats(b).acked == 2, LONG_MS);
    counted c = { 0 };
    leat_pool_each(p, add, &c);
    assert_int_equal(c.queues, 2);
    assert_int_equal(c.acked, 5);
    assert_int_equal(c.nacked, 1);
    assert_int_equal(c.rejected, 0);
    assert_true(c.received >= 6);
    leat_pool_stats s;
    leat_pool_stats_get(p, &s);
    assert_int_equal(s.acked, 7);
    assert_int_equal(s.nacked, 1);
    stop(p);
    leat_queue_close(a);
    leat_queue_close(b);
}

/* Handlers that take nearly three times their visibility.  True: nothing came
 * again. */
static bool kept(int64_t visibility_ms)
{
    int nap = (int)(visibility_ms * 8 / 3);
    leat_queue *q = queue_of(
        "a", &(leat_queue_opts){ .visibility_ms = visibility_ms });
    send_many(q, 1, 2);
    log_clear();
    leat_pool *p = pool_of(slow, &nap, NULL);
    wait_until(stats(q).acked == 2, LONG_MS);
    stop(p);
    bool once = strcmp(log_of("a"), "1 2") == 0 && stats(q).requeued == 0;
    must(leat_queue_remove(client, "a", NULL, err));
    leat_queue_close(q);
    return once;
}

/* Longer times when the machine was too busy to extend in time. */
static void slow_handlers_keep_what_they_have(void **state)
{
    (void)state;
    assert_true(kept(300) || kept(900) || kept(2700));
}

static void groups_of_a_fifo_queue_keep_their_order(void **state)
{
    (void)state;
    leat_queue *q = queue_of("f", &(leat_queue_opts){ .fifo = true });
    for (int i = 0; i < 5; i++) {
        char text[8];
        snprintf(text, sizeof text, "a%d", i);
        send_group(q, "a", text);
        text[0] = 'b';
        send_group(q, "b", text);
    }
    failing f = { "a1", 1, false };
    log_clear();
    leat_pool *p = pool_of(fail_some, &f, &(leat_pool_opts){ .retry_ms = 20 });
    wait_until(stats(q).acked == 10, LONG_MS);
    stop(p);
    int a = 0, b = 0;
    for (int i = 0; i < handled.n; i++) {
        const char *body = handled.line[i] + 2;
        int *at = body[0] == 'a' ? &a : &b;
        if (body[0] == 'a' && body[1] == '1' && *at == 2)
            continue; /* once more */
        assert_int_equal(body[1] - '0', (*at)++);
    }
    conserved(q);
    leat_queue_close(q);
}

static void a_queue_that_cannot_be_served_hinders_no_other(void **state)
{
    (void)state;
    leat_queue *bad = queue_of("bad", NULL), *good = queue_of("good", NULL);
    send_text(bad, "1");
    char key[64];
    redis_text(server, key, sizeof key, "EVAL %s 0",
               "return redis.call('KEYS', '*:bad:ready')[1]");
    redis_do(server, "SET %s nonsense", key);
    send_many(good, 1, 3);
    log_clear();
    leat_pool *p = pool_of(note, NULL, NULL);
    wait_until(log_count() == 3, LONG_MS);
    stop(p);
    assert_string_equal(log_of("good"), "1 2 3");
    leat_queue_close(bad);
    leat_queue_close(good);
}

static leat_verdict weigh(leat_ctx *x, void *arg)
{
    atomic_fetch_add((_Atomic size_t *)arg, leat_ctx_msg(x)->body.n);
    wait_nap(1);
    return LEAT_ACK;
}

/* More than is taken at once: nothing is too large for it together. */
static void large_messages_are_taken_a_few_at_a_time(void **state)
{
    (void)state;
    enum { QUEUES = 3, EACH = 40, SIZE = 1000 * 1000 };
    static char body[SIZE];
    leat_queue *q[QUEUES];
    _Atomic size_t got = 0;
    for (int i = 0; i < QUEUES; i++) {
        q[i] = queue_nr("large", i, NULL);
        for (int k = 0; k < EACH; k++) {
            leat_msg m = { .body = leat_mem(body, SIZE) };
            must(leat_queue_send(q[i], &m, NULL, NULL, err));
        }
    }
    leat_pool *p = pool_of(weigh, &got, NULL);
    wait_until(atomic_load(&got) == (size_t)QUEUES * EACH * SIZE, LONG_MS);
    stop(p);
    for (int i = 0; i < QUEUES; i++) {
        assert_int_equal(stats(q[i]).acked, EACH);
        assert_int_equal(stats(q[i]).requeued, 0);
        leat_queue_close(q[i]);
    }
}

/* Messages that serve.lua gives of queue a, of 10 that are a megabyte each. */
static size_t served(const char *bytes, const char *number)
{
    leat__key due;
    const leat_reply *r;
    leat_conn *conn = leat_client_lend(client, LONG_MS, NULL);
    assert_non_null(conn);
    leat__key_shard(&due, "leat", leat__queue_shard("a"), "due");
    leat_bytes key = leat__key_bytes(&due);
    const leat_bytes args[] = { leat_str("1"),    leat_str("0123456789abcdef"),
                                leat_str(number), leat_str("0"),
                                leat_str("0"),    leat_str("99"),
                                leat_str("32"),   leat_str("32"),
                                leat_str(bytes) };
    must(leat__script_call(conn, &leat__script_pool_serve, &key, 1, args, 9, &r,
                           err));
    assert_int_equal(leat_reply_len(r), 4);
    size_t n = (leat_reply_len(leat_reply_at(r, 3)) - 2) / 2;
    leat_client_return(client, conn);
    return n;
}

static void what_is_taken_at_once_has_a_bound_of_bytes(void **state)
{
    (void)state;
    enum { SIZE = 1000 * 1000 };
    static char body[SIZE];
    leat_queue *q = queue_of("a", NULL);
    leat_msg m = { .body = leat_mem(body, SIZE) };
    for (int i = 0; i < 10; i++)
        must(leat_queue_send(q, &m, NULL, NULL, err));
    assert_int_equal(served("1", "1"), 1);
    assert_int_equal(served("2500000", "2"), 3);
    assert_int_equal(stats(q).visible, 6);
    assert_int_equal(served("64000000", "3"), 6);
    assert_int_equal(stats(q).in_flight, 10);
    leat_queue_close(q);
}

/* What done.lua, asked once more, says of a receipt of queue a: how many
 * numbers, of which the second is the receipt's. */
static size_t done_again(leat_bytes receipt, int64_t *outcome)
{
    leat__key due;
    leat__receipt r;
    const leat_reply *reply;
    leat_conn *conn = leat_client_lend(client, LONG_MS, NULL);
    assert_non_null(conn);
    assert_true(leat__receipt_parse(receipt, false, &r));
    leat__key_shard(&due, "leat", leat__queue_shard("a"), "due");
    leat_bytes key = leat__key_bytes(&due);
    const leat_bytes args[] = { leat_str("0"), leat_str("1"), leat_str("0"),
                                leat_str("a"), leat_str("+"), leat_str("1"),
                                leat_str("1"), receipt,       r.id };
    must(leat__script_call(conn, &leat__script_pool_done, &key, 1, args, 9,
                           &reply, err));
    size_t n = leat_reply_len(reply);
    *outcome = n > 1 ? leat_reply_int(leat_reply_at(reply, 1)) : 1;
    leat_client_return(client, conn);
    return n;
}

/* A pool's answer was lost, and the message was somebody else's meanwhile. */
static void what_another_receipt_has_done_is_not_called_ours(void **state)
{
    (void)state;
    int64_t outcome;
    leat_queue *q = queue_of("a", NULL);
    send_text(q, "1");
    leat_queue_batch *first = take(q,
                                   &(leat_receive_opts){ .visibility_ms = 1 });
    assert_int_equal(leat_queue_batch_count(first), 1);
    leat_queue_batch *second = take_one(q);
    leat_bytes ours = leat_queue_batch_at(first, 0)->receipt;
    leat_bytes theirs = leat_queue_batch_at(second, 0)->receipt;
    assert_int_equal(done_again(ours, &outcome), 2);
    assert_int_equal(outcome, 0);
    assert_int_equal(done_again(theirs, &outcome), 1);
    assert_int_equal(done_again(theirs, &outcome), 1);
    assert_int_equal(done_again(ours, &outcome), 2);
    assert_int_equal(outcome, 0);
    assert_int_equal(stats(q).acked, 1);
    leat_queue_batch_free(first);
    leat_queue_batch_free(second);
    leat_queue_close(q);
}

/* In two lots of one call; the last receipt is none that was given. */
static void a_stale_receipt_hinders_no_other_of_its_call(void **state)
{
    (void)state;
    leat_queue *q = queue_of("a", NULL);
    send_many(q, 1, 3);
    leat_queue_batch *b = take(q, &(leat_receive_opts){ .max = 3 });
    char wrong[256];
    leat_bytes m[4], id[4];
    for (size_t i = 0; i < 4; i++) {
        leat__receipt r;
        m[i] = leat_queue_batch_at(b, i < 3 ? i : 0)->receipt;
        assert_true(leat__receipt_parse(m[i], false, &r));
        id[i] = r.id;
    }
    snprintf(wrong, sizeof wrong, "%.*s9", (int)m[3].n, (const char *)m[3].p);
    leat__key due;
    leat__key_shard(&due, "leat", leat__queue_shard("a"), "due");
    redisReply *r = redis_raw(
        server, "EVAL %s 1 %s 0 0 0 a %s 1 2 %b %b %b %b a %s 1 2 %b %s %b %b",
        leat__script_pool_done.body, due.p, "", m[0].p, m[0].n, m[1].p, m[1].n,
        id[0].p, id[0].n, id[1].p, id[1].n, "", m[2].p, m[2].n, wrong, id[2].p,
        id[2].n, id[3].p, id[3].n);
    assert_int_equal(r->elements, 5);
    for (size_t i = 1; i < 5; i++)
        assert_int_equal(r->element[i]->integer, i < 4);
    freeReplyObject(r);
    assert_int_equal(redis_int(server, "ZCARD %s", due.p), 0);
    assert_int_equal(stats(q).acked, 3);
    assert_int_equal(stats(q).in_flight, 0);
    leat_queue_batch_free(b);
    leat_queue_close(q);
}

/* A receipt of q, whose only message it gets, and its id. */
static leat_bytes only_receipt(leat_queue *q, leat_queue_batch **b,
                               leat_bytes *id)
{
    leat__receipt r;
    send_many(q, 1, 1);
    *b = take(q, NULL);
    leat_bytes m = leat_queue_batch_at(*b, 0)->receipt;
    assert_true(leat__receipt_parse(m, false, &r));
    *id = r.id;
    return m;
}

/* The other queue's is not done, and is still in flight. */
static void a_spoilt_queue_hinders_no_other_of_its_call(void **state)
{
    (void)state;
    char name[16];
    int i = 0;
    unsigned shard = leat__queue_shard("a");
    do
        snprintf(name, sizeof name, "b%d", i++);
    while (leat__queue_shard(name) != shard);
    leat_queue *q[] = { queue_of("a", NULL), queue_of(name, NULL) };
    leat_queue_batch *b[2];
    leat_bytes m[2], id[2];
    for (i = 0; i < 2; i++)
        m[i] = only_receipt(q[i], &b[i], &id[i]);
    leat__key due;
    leat__key_shard(&due, "leat", shard, "due");
    redis_do(server, "SET leat:{q/%u}:%s:body wrong", shard, name);
    redisReply *r = redis_raw(
        server, "EVAL %s 1 %s 0 0 0 a %s 1 1 %b %b %s %s 1 1 %b %b",
        leat__script_pool_done.body, due.p, "", m[0].p, m[0].n, id[0].p,
        id[0].n, name, "", m[1].p, m[1].n, id[1].p, id[1].n);
    assert_int_equal(r->elements, 3);
    assert_int_equal(r->element[1]->integer, 1);
    assert_int_equal(r->element[2]->integer, 0);
    freeReplyObject(r);
    assert_int_equal(redis_int(server, "ZCARD %s", due.p), 1);
    assert_int_equal(stats(q[0]).acked, 1);
    for (i = 0; i < 2; i++) {
        leat_queue_batch_free(b[i]);
        leat_queue_close(q[i]);
    }
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    const leat_pool_opts bad[] = {
        { .prefix = "a b{" },    { .workers = -1 },
        { .workers = 5000 },     { .min_workers = -1 },
        { .min_workers = 11 },   { .queue_workers = -2 },
        { .visibility_ms = -1 }, { .visibility_ms = INT64_C(90000000) },
        { .retry_ms = -5 },      { .max_processing_ms = -1 },
        { .drain_ms = -2 },      { .worker_idle_ms = -1 },
        { .queue_idle_ms = -1 }, { .poll_ms = -1 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_error e = { 0 };
        assert_null(leat_pool_start(client, note, NULL, &bad[i], &e));
        assert_int_equal(e.code, LEAT_EINVAL);
        assert_true(e.msg[0] != '\0');
    }
    must(leat_pool_stop(NULL, 0, err));
}

/* ---- events ----------------------------------------------------------- */

typedef struct heard {
    atomic_int sent, others;
} heard;

static void on_event(void *arg, const leat_queue_event *e, bool missed)
{
    heard *h = arg;
    (void)missed;
    atomic_fetch_add(strcmp(e->type, "sent") == 0 ? &h->sent : &h->others, 1);
}

/* Events come in the order of what they tell: behind the last that was sent
 * there is none of the others. */
static void a_pool_without_events_publishes_none(void **state)
{
    (void)state;
    for (int mute = 0; mute < 2; mute++) {
        heard h = { 0 };
        log_clear();
        leat_queue *q = queue_of("a", NULL);
        leat_queue_watch *w = leat_queue_watch_open(client, NULL, NULL, false,
                                                    on_event, &h, NULL);
        assert_non_null(w);
        leat_pool *p = pool_of(note, NULL,
                               &(leat_pool_opts){ .no_events = mute });
        send_many(q, 0, 3);
        wait_until(log_count() == 3, LONG_MS);
        stop(p);
        send_text(q, "the end");
        wait_until(h.sent == 4, LONG_MS);
        assert_int_equal(h.others, mute ? 0 : 6); /* received and acked */
        leat_queue_watch_close(w);
        leat_queue_batch *b = take_one(q);
        ack(q, b);
        leat_queue_batch_free(b);
        leat_queue_close(q);
    }
}

/* ---- pause ------------------------------------------------------------ */

static void a_pool_passes_over_a_paused_queue_until_it_is_resumed(void **state)
{
    (void)state;
    leat_queue *a = queue_of("a", NULL), *b = queue_of("b", NULL);
    log_clear();
    must(leat_queue_pause(a, err));
    send_many(a, 1, 2);
    leat_pool *p = pool_of(note, NULL, NULL);
    for (int i = 1; i <= 3; i++) {
        send_many(b, i, 1);
        wait_until(log_count() == i, LONG_MS);
        assert_int_equal(stats(a).received, 0);
    }
    send_many(a, 3, 1);
    must(leat_queue_resume(a, err));
    wait_until(log_count() == 6, LONG_MS);
    assert_string_equal(log_of("a"), "1 2 3");
    assert_string_equal(log_of("b"), "1 2 3");
    stop(p);
    leat_queue_close(a);
    leat_queue_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(a_backlog_from_before_the_start_is_done_within_a_second),
        queue_test(queues_made_later_by_others_are_found),
        queue_test(only_the_queues_of_its_prefix_are_served),
        queue_test(a_lost_hint_is_found_by_the_poll),
        queue_test(a_queue_waits_for_a_message_that_failed),
        queue_test(a_message_given_back_at_once_keeps_its_place),
        queue_test(a_queue_goes_on_if_that_is_wanted),
        queue_test(what_fails_too_often_dies_and_the_queue_goes_on),
        queue_test(what_is_rejected_is_dead_at_once),
        queue_test(queues_run_beside_each_other_but_not_a_queue_with_itself),
        queue_test(the_limit_of_a_queue_holds_over_all_pools),
        queue_test(no_queue_is_served_twice_while_another_waits),
        queue_test(a_long_queue_does_not_keep_out_a_short_one),
        queue_test(a_turn_is_as_long_as_handlers_are_quick),
        queue_test(a_heavier_queue_has_longer_turns),
        queue_test(what_did_not_begin_is_given_back_by_a_stop),
        queue_test(workers_come_with_the_work_and_go),
        queue_test(each_queue_is_counted),
        queue_test(slow_handlers_keep_what_they_have),
        queue_test(groups_of_a_fifo_queue_keep_their_order),
        queue_test(a_queue_that_cannot_be_served_hinders_no_other),
        queue_test(large_messages_are_taken_a_few_at_a_time),
        queue_test(what_is_taken_at_once_has_a_bound_of_bytes),
        queue_test(what_another_receipt_has_done_is_not_called_ours),
        queue_test(a_stale_receipt_hinders_no_other_of_its_call),
        queue_test(a_spoilt_queue_hinders_no_other_of_its_call),
        queue_test(a_pool_passes_over_a_paused_queue_until_it_is_resumed),
        queue_test(wrong_options_are_refused),
        queue_test(a_pool_without_events_publishes_none),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/*
 * topic_retry_cuts.c: connections that are cut while messages change their
 * place.
 *
 * The same few messages fail, wait, are rejected and become dead letters, each
 * time with one cut: before, inside and after every script that is sent, and
 * before and inside every answer.  Whatever was cut, each ends where it
 * belongs, once.  And so it does whichever allocation is refused.
 */
#include "support/allocfail.h"
#include "support/tcpfault.h"
#include "topic_help.h"

#include <pthread.h>

enum { CUTS_MAX = 150, ENOUGH = 3 }; /* cuts in a row that never came */

static tcpfault *proxy;

static int start_both(void **state)
{
    if (start_server(state) != 0)
        return -1;
    proxy = tcpfault_start(redis_socket(server), NULL);
    return proxy ? 0 : -1;
}

static int stop_both(void **state)
{
    tcpfault_stop(proxy);
    return stop_server(state);
}

/* What the handler does: 'd' fails always, 'r' is rejected, 'f' fails at first,
 * all else is acknowledged. */
static const char *const bodies[] = { "d1", "a1", "r1", "f1", "a2", "f2" };
static const char *const keys[] = { "k", "k", "", "", "k", "l" };
enum { BODIES = 6 };

static void settle(leat_delivery *d, int *done)
{
    leat_bytes b = leat_delivery_msg(d)->body;
    const char *p = b.p;
    uint32_t attempt = leat_delivery_attempt(d);
    for (int i = 0; i < BODIES; i++)
        if (leat_bytes_eq(b, leat_str(bodies[i])))
            done[i]++;
    if (p[0] == 'r')
        assert_int_equal(leat_delivery_reject(d, "no"), LEAT_OK);
    else if (p[0] == 'd' || (p[0] == 'f' && attempt == 1))
        assert_int_equal(leat_delivery_fail(d, "not yet"), LEAT_OK);
    else
        ack(d);
}

static bool all_is_settled(void)
{
    redisReply *last = redis_raw(server,
                                 "XREVRANGE leat:{orders/0}:log + - COUNT 1");
    redisReply *cursor = redis_raw(server, "HGET leat:{orders/0}:cur:g c");
    bool same = cursor->str &&
                strcmp(last->element[0]->element[0]->str, cursor->str) == 0;
    freeReplyObject(last);
    freeReplyObject(cursor);
    return same && redis_int(server, "HLEN leat:{orders/0}:kept:g") == 0;
}

/* What is to go wrong once the source is open, and whether it did. */
struct trouble {
    const tcpfault_rule *cut;
    long allocation; /* the n-th from then on; 0: none */
    bool came;
};

static void work(struct trouble *x, int *done)
{
    char through[64];
    leat_error e = { 0 };
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    leat_client *c = open_client(through,
                                 &(leat_client_opts){ .max_retry_ms = 5 });
    leat_topic *t = topic_of(c, "orders", 1);
    leat_topic_source_opts o = {
        .order = LEAT_ORDER_KEY,
        .block_ms = 20,
        .retry = { .max_attempts = 2, .delay_ms = 1, .jitter = LEAT_NO }
    };
    leat_source *s = source_of(t, "g", &o);
    int cut = x->cut ? tcpfault_rule_add(proxy, x->cut) : 0;
    int64_t end = wait_now_ms() + LONG_MS;
    assert_true(cut > 0 || !x->cut);
    if (x->allocation)
        atomic_store(&alloc_fail_state.at, alloc_fail_calls() + x->allocation);
    do {
        leat_delivery *d[8];
        int n = leat_source_receive(s, d, 8, 10, &e);
        for (int i = 0; i < n; i++)
            settle(d[i], done);
    } while (!all_is_settled() && wait_now_ms() < end);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
    x->came = cut ? tcpfault_fired(proxy, cut) > 0 : alloc_fail_count() > 0;
    tcpfault_clear(proxy);
}

/* Which of them is the i-th dead letter. */
static bool is_dead(const redisReply *letters, size_t i, const char *body)
{
    const redisReply *pairs = letters->element[i]->element[1];
    for (size_t k = 1; k < pairs->elements; k += 2)
        if (strcmp(pairs->element[k]->str, body) == 0)
            return true;
    return false;
}

/* True: it went wrong. */
static bool once(struct trouble x)
{
    int done[BODIES] = { 0 };
    assert_true(redis_flush(server));
    leat_topic_close(topic_of(client, "orders", 1));
    for (int i = 0; i < BODIES; i++)
        add_keyed("orders", 0, keys[i], bodies[i]);
    alloc_fail_install(ALLOC_FAIL_NEVER, false);
    work(&x, done);
    alloc_fail_remove();
    assert_int_equal(alloc_fail_live(), 0);
    assert_true(all_is_settled());
    for (int i = 0; i < BODIES; i++)
        assert_true(done[i] >= 1);
    assert_true(done[0] >= 2 && done[3] >= 2 && done[5] >= 2);
    redisReply *r = redis_raw(server, "XRANGE leat:{orders/0}:dlq - +");
    assert_int_equal(r->elements, 2);
    bool first = is_dead(r, 0, "d1");
    assert_true(first ? is_dead(r, 1, "r1")
                      : is_dead(r, 0, "r1") && is_dead(r, 1, "d1"));
    freeReplyObject(r);
    assert_int_equal(redis_int(server, "ZCARD leat:{orders/0}:lane:g"), 0);
    assert_int_equal(redis_int(server, "ZCARD leat:{orders/0}:due:g"), 0);
    return x.came;
}

/* Each n-th until there is none any more; the first answers are to what opens
 * the source. */
static void sweep(tcpfault_rule rule)
{
    int cuts = 0, missed = 0;
    rule.times = 1;
    rule.action = TCPFAULT_RESET;
    for (rule.n = 1; rule.n < CUTS_MAX && missed < ENOUGH; rule.n++) {
        bool came = once((struct trouble){ .cut = &rule });
        cuts += came;
        missed = came || cuts == 0 ? 0 : missed + 1;
    }
    print_message("# %d cuts\n", cuts);
    assert_true(cuts > 0);
}

static void before_a_script_has_come(void **state)
{
    (void)state;
    sweep((tcpfault_rule){
        .dir = TCPFAULT_UP, .when = TCPFAULT_COMMAND, .command = "EVALSHA" });
    for (uint64_t plus = 100; plus <= 300; plus += 200)
        sweep((tcpfault_rule){ .dir = TCPFAULT_UP,
                               .when = TCPFAULT_COMMAND,
                               .command = "EVALSHA",
                               .plus = plus });
    sweep((tcpfault_rule){ .dir = TCPFAULT_UP,
                           .when = TCPFAULT_COMMAND,
                           .command = "EVAL",
                           .plus = 3000 });
}

static void after_a_script_has_come(void **state)
{
    (void)state;
    sweep((tcpfault_rule){ .dir = TCPFAULT_UP,
                           .when = TCPFAULT_COMMAND,
                           .command = "EVALSHA",
                           .after = true });
    sweep((tcpfault_rule){ .dir = TCPFAULT_UP,
                           .when = TCPFAULT_COMMAND,
                           .command = "EVAL",
                           .after = true });
}

static void inside_an_answer(void **state)
{
    (void)state;
    sweep((tcpfault_rule){
        .dir = TCPFAULT_DOWN, .when = TCPFAULT_FRAME, .plus = 2 });
}

static void any_one_allocation_may_fail(void **state)
{
    int missed = 0;
    long n = 1;
    (void)state;
    for (; n < ALLOC_FAIL_MOST && missed < ENOUGH; n++)
        missed = once((struct trouble){ .allocation = n }) ? 0 : missed + 1;
    print_message("# %ld allocations\n", n - missed);
    assert_true(n > 10);
}

/* ---- taken, and never handed out -------------------------------------- */

static atomic_bool failing; /* the failure has been seen */

static int64_t at_once(void *arg, const leat_failure *f)
{
    (void)arg;
    (void)f;
    atomic_store(&failing, true);
    return 0;
}

static void *receive_one(void *source)
{
    leat_delivery *d = NULL;
    int64_t end = wait_now_ms() + LONG_MS;
    while (leat_source_receive(source, &d, 1, 1000, NULL) != 1 &&
           wait_now_ms() < end)
        ;
    return d;
}

/* Both were out before: a second attempt is told before it is begun. */
static leat_source *source_of_two(leat_topic *t, leat_order order)
{
    add_keyed("orders", 0, "k", "0");
    add_keyed("orders", 0, "k", "1");
    redisReply *r = redis_raw(server,
                              "XREVRANGE leat:{orders/0}:log + - COUNT 1");
    redis_do(server, "SADD leat:{orders}:groups g");
    redis_do(server, "HSET leat:{orders/0}:cur:g e 1 c 0-0 b 0-0 m %s",
             r->element[0]->element[0]->str);
    freeReplyObject(r);
    atomic_store(&failing, false);
    return source_of(t, "g",
                     &(leat_topic_source_opts){ .order = order,
                                                .retry = { .fn = at_once } });
}

/* While the second is about to be handed out the first fails, and then the
 * connection is lost: the second was not begun, and waits behind the first. */
static void undo_behind_a_failure(leat_order order)
{
    char through[64];
    pthread_t thread;
    leat_topic_source_stats st = { 0 };
    void *d;
    snprintf(through, sizeof through, "redis://127.0.0.1:%d",
             tcpfault_port(proxy));
    leat_client *c = open_client(through,
                                 &(leat_client_opts){ .max_retry_ms = 5 });
    leat_topic *t = topic_of(c, "orders", 1);
    leat_source *s = source_of_two(t, order);
    leat_delivery *first = next_of(s);
    assert_body(first, "0");
    tcpfault_rule hold = { .dir = TCPFAULT_UP,
                           .when = TCPFAULT_COMMAND,
                           .command = "EVALSHA",
                           .action = TCPFAULT_HOLD };
    assert_true(tcpfault_rule_add(proxy, &hold) > 0);
    pthread_create(&thread, NULL, receive_one, s);
    wait_until((leat_topic_source_stats_get(s, &st), st.received == 2),
               LONG_MS);
    assert_int_equal(leat_delivery_fail(first, "not yet"), LEAT_OK);
    wait_until(atomic_load(&failing), LONG_MS);
    tcpfault_clear(proxy);
    tcpfault_drop(proxy, 0, true);
    pthread_join(thread, &d);
    assert_non_null(d);
    for (int i = 0; i < 2; i++, d = i < 2 ? next_of(s) : NULL) {
        assert_body(d, i == 0 ? "0" : "1");
        assert_int_equal(leat_delivery_attempt(d), i == 0 ? 3 : 2);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
    assert_true(all_is_settled());
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(c);
}

static void what_was_not_begun_waits_behind_its_partition(void **state)
{
    (void)state;
    undo_behind_a_failure(LEAT_ORDER_PARTITION);
}

static void what_was_not_begun_waits_behind_its_key(void **state)
{
    (void)state;
    undo_behind_a_failure(LEAT_ORDER_KEY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(before_a_script_has_come),
        topic_test(after_a_script_has_come),
        topic_test(inside_an_answer),
        topic_test(any_one_allocation_may_fail),
        topic_test(what_was_not_begun_waits_behind_its_partition),
        topic_test(what_was_not_begun_waits_behind_its_key),
    };
    return cmocka_run_group_tests(tests, start_both, stop_both);
}

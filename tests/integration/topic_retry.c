/* topic_retry.c: messages that fail, their next try, and dead letters. */
#include "topic_help.h"

#include <stdatomic.h>
#include <stdlib.h>

static const leat_retry quick = { .max_attempts = 3,
                                  .backoff = LEAT_BACKOFF_FIXED,
                                  .delay_ms = 5,
                                  .jitter = LEAT_NO };

static leat_source *open_quick(leat_topic *t, const char *group)
{
    return source_of(
        t, group,
        &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE, .retry = quick });
}

/* The number that a command answers. */
static int64_t ask(const char *command, const char *key)
{
    leat_reply *r = NULL;
    must(leat_client_call(client, LEAT_ARGS(leat_str(command), leat_str(key)),
                          NULL, &r, err));
    int64_t n = leat_reply_int(r);
    leat_reply_free(r);
    return n;
}

/* The dead letters of a partition; free the reply. */
static leat_reply *dead_letters(const char *topic, int partition)
{
    leat_reply *r = NULL;
    char key[128];
    snprintf(key, sizeof key, "leat:{%s/%d}:dlq", topic, partition);
    must(leat_client_call(client,
                          LEAT_ARGS(leat_str("XRANGE"), leat_str(key),
                                    leat_str("-"), leat_str("+")),
                          NULL, &r, err));
    return r;
}

/* A field of the i-th. */
static leat_bytes field(const leat_reply *letters, size_t i, const char *name)
{
    const leat_reply *list = leat_reply_at(leat_reply_at(letters, i), 1);
    for (size_t k = 0; list && k + 1 < leat_reply_len(list); k += 2)
        if (leat_bytes_eq(leat_reply_bytes(leat_reply_at(list, k)),
                          leat_str(name)))
            return leat_reply_bytes(leat_reply_at(list, k + 1));
    fail_msg("letter %zu has no field %s", i, name);
    return leat_mem("", 0);
}

#define assert_field(r, i, name, text)                                         \
    do {                                                                       \
        leat_bytes f_ = field(r, i, name);                                     \
        if (!leat_bytes_eq(f_, leat_str(text)))                                \
            fail_msg("%s is '%.*s', not '%s'", name, (int)f_.n,                \
                     (const char *)f_.p, text);                                \
    } while (0)

static void fail_one(leat_delivery *d, const char *why)
{
    assert_int_equal(leat_delivery_fail(d, why), LEAT_OK);
}

static void nothing_is_left(leat_source *s)
{
    leat_topic_source_stats st;
    must(leat_source_flush(s, LONG_MS, err));
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(ask("HLEN", "leat:{orders/0}:kept:g"), 0);
    assert_int_equal(ask("ZCARD", "leat:{orders/0}:due:g"), 0);
    assert_int_equal(ask("ZCARD", "leat:{orders/0}:lane:g"), 0);
}

/* ---- retries ---------------------------------------------------------- */

static void what_fails_comes_again_with_its_attempts_counted(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    for (uint32_t i = 1; i <= 2; i++) {
        leat_delivery *d = next_of(s);
        assert_body(d, "x");
        assert_int_equal(leat_delivery_attempt(d), i);
        fail_one(d, "not yet");
    }
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 3);
    ack(d);
    nothing_is_left(s);
    assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), 0);
    leat_topic_source_stats st;
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(st.retries, 2);
    assert_int_equal(st.dead, 0);
    leat_source_close(s);
    leat_topic_close(t);
}

static void at_the_limit_it_is_a_dead_letter(void **state)
{
    static const char *const why[] = { "first", "second", "third" };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_keyed("orders", 0, "k", "x");
    leat_source *s = open_quick(t, "g");
    for (int i = 0; i < 3; i++)
        fail_one(next_of(s), why[i]);
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_int_equal(leat_reply_len(r), 1);
    assert_field(r, 0, "g", "g");
    assert_field(r, 0, "n", "3");
    assert_field(r, 0, "f", "3");
    assert_field(r, 0, "fe", "first");
    assert_field(r, 0, "le", "third");
    leat_reply_free(r);
    nothing_of(s, 50);
    leat_source_close(s);
    leat_topic_close(t);
}

/* The pairs of the log's entry stand behind the twelve of the letter's own. */
static void the_payload_is_the_logs(const leat_reply *letters, size_t i,
                                    const char *id)
{
    leat_reply *r = NULL;
    must(leat_client_call(client,
                          LEAT_ARGS(leat_str("XRANGE"),
                                    leat_str("leat:{orders/0}:log"),
                                    leat_str(id), leat_str(id)),
                          NULL, &r, err));
    const leat_reply *want = leat_reply_at(leat_reply_at(r, 0), 1);
    const leat_reply *got = leat_reply_at(leat_reply_at(letters, i), 1);
    size_t n = leat_reply_len(want), own = leat_reply_len(got) - n;
    assert_int_equal(own, 26);
    for (size_t k = 0; k < n; k++)
        assert_true(
            leat_bytes_eq(leat_reply_bytes(leat_reply_at(want, k)),
                          leat_reply_bytes(leat_reply_at(got, own + k))));
    leat_reply_free(r);
}

static void however_often_retried_its_bytes_stay(void **state)
{
    enum { TIMES = 40 };
    char body[256], id[64] = "";
    (void)state;
    for (int i = 0; i < 256; i++)
        body[i] = (char)i;
    leat_topic *t = topic_of(client, "orders", 1);
    must(leat_topic_publish(t,
                            &(leat_msg){ .key = leat_mem("\0k\xff", 3),
                                         .body = leat_mem(body, 256) },
                            NULL, NULL, err));
    must(leat_topic_flush(t, LONG_MS, err));
    leat_retry often = quick;
    often.max_attempts = TIMES;
    often.delay_ms = 1;
    leat_source *s = source_of(
        t, "g",
        &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE, .retry = often });
    for (uint32_t i = 1; i <= TIMES; i++) {
        leat_delivery *d = next_of(s);
        leat_bytes got = leat_delivery_msg(d)->body;
        leat_position at = leat_delivery_position(d);
        snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)at.ms,
                 (unsigned long long)at.seq);
        assert_int_equal(leat_delivery_attempt(d), i);
        assert_true(leat_bytes_eq(got, leat_mem(body, 256)));
        fail_one(d, "again");
    }
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_int_equal(leat_reply_len(r), 1);
    assert_field(r, 0, "i", id);
    the_payload_is_the_logs(r, 0, id);
    leat_reply_free(r);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_dead_letter_says_when_and_under_which_fence(void **state)
{
    char fence[32], id[64];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    leat_position at = leat_delivery_position(d);
    snprintf(fence, sizeof fence, "%llu",
             (unsigned long long)leat_delivery_fence(d));
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)at.ms,
             (unsigned long long)at.seq);
    for (int i = 0; i < 2; i++) {
        fail_one(d, "no");
        d = next_of(s);
    }
    fail_one(d, "no");
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_field(r, 0, "i", id);
    assert_field(r, 0, "e", fence);
    assert_field(r, 0, "r", "");
    int64_t first = strtoll(field(r, 0, "fm").p, NULL, 10);
    int64_t last = strtoll(field(r, 0, "lm").p, NULL, 10);
    assert_true(first >= (int64_t)at.ms);
    assert_true(last >= first + 2 * quick.delay_ms);
    leat_reply_free(r);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_delay_that_is_asked_for_goes_before_the_policy(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    int64_t before = wait_now_ms();
    assert_int_equal(leat_delivery_nack(d, 150), LEAT_OK);
    d = next_of(s);
    assert_true(wait_now_ms() - before >= 149);
    assert_int_equal(leat_delivery_attempt(d), 2);
    ack(d);
    nothing_is_left(s);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_rejected_one_is_a_dead_letter_at_once(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 3);
    leat_source *s = open_quick(t, "g");
    leat_delivery *d[3];
    take_n(s, d, 3);
    ack(d[0]);
    assert_int_equal(leat_delivery_reject(d[1], "no such account"), LEAT_OK);
    ack(d[2]);
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_int_equal(leat_reply_len(r), 1);
    assert_field(r, 0, "n", "1");
    assert_field(r, 0, "le", "no such account");
    leat_reply_free(r);
    leat_source_close(s);
    leat_topic_close(t);
}

static void what_is_no_message_is_a_dead_letter_with_the_reason(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    redis_do(server, "XADD leat:{orders/0}:log * strange thing");
    leat_source *s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    assert_non_null(leat_delivery_error(d));
    char why[256];
    snprintf(why, sizeof why, "%s", leat_delivery_error(d)->msg);
    assert_int_equal(leat_delivery_reject(d, why), LEAT_OK);
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_int_equal(leat_reply_len(r), 1);
    assert_field(r, 0, "le", why);
    assert_field(r, 0, "strange", "thing");
    leat_reply_free(r);
    leat_source_close(s);
    leat_topic_close(t);
}

/* More than a script can pass to a command. */
static void an_entry_of_very_many_fields_is_a_dead_letter(void **state)
{
    enum { PAIRS = 5000, ARGS = 3 + 2 * PAIRS };
    static leat_bytes argv[ARGS];
    static char names[PAIRS][8];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    argv[0] = leat_str("XADD");
    argv[1] = leat_str("leat:{orders/0}:log");
    argv[2] = leat_str("*");
    for (int i = 0; i < PAIRS; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        argv[3 + 2 * i] = argv[4 + 2 * i] = leat_str(names[i]);
    }
    must(leat_client_call(client, argv, ARGS, NULL, NULL, err));
    leat_source *s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_msg(d)->header_count, PAIRS);
    assert_int_equal(leat_delivery_reject(d, "no"), LEAT_OK);
    nothing_is_left(s);
    assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), 1);
    leat_dlq *q = leat_dlq_open(client, "orders", NULL, NULL);
    must(leat_dlq_replay_all(q, NULL, NULL, NULL, err));
    leat_dlq_close(q);
    d = next_of(s);
    assert_int_equal(leat_delivery_msg(d)->header_count, PAIRS);
    ack(d);
    nothing_is_left(s);
    leat_source_close(s);
    leat_topic_close(t);
}

/* It failed in one group: the other never hears of it. */
static void another_group_sees_each_message_once(void **state)
{
    enum { N = 50 };
    leat_delivery *d;
    int failing = 0, seen[N] = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, N);
    leat_source *bad = open_quick(t, "g"), *good = open_quick(t, "good");
    for (int i = 0; i < 3 * N; i++) {
        d = next_of(bad);
        failing += leat_delivery_attempt(d) == 3;
        fail_one(d, "always");
    }
    assert_int_equal(failing, N);
    for (int i = 0; i < N; i++) {
        d = next_of(good);
        assert_int_equal(leat_delivery_attempt(d), 1);
        seen[body_number(d)]++;
        ack(d);
    }
    nothing_of(good, 50);
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], 1);
    nothing_is_left(bad);
    assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), N);
    leat_source_close(bad);
    leat_source_close(good);
    leat_topic_close(t);
}

/* ---- policies --------------------------------------------------------- */

struct asked {
    atomic_int calls;
    uint32_t attempts;
    char reason[64], topic[32], group[32];
    bool rejected, died;
};

static void note(struct asked *a, const leat_failure *f)
{
    a->attempts = f->attempts;
    a->rejected = f->rejected;
    a->died = f->died;
    snprintf(a->reason, sizeof a->reason, "%s", f->reason);
    snprintf(a->topic, sizeof a->topic, "%s", f->topic);
    snprintf(a->group, sizeof a->group, "%s", f->group);
    atomic_fetch_add(&a->calls, 1);
}

static int64_t twice_then_dead(void *arg, const leat_failure *f)
{
    note(arg, f);
    return f->attempts < 3 ? 1 : -1;
}

static void an_own_function_decides(void **state)
{
    struct asked a = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_topic_source_opts o = {
        .order = LEAT_ORDER_NONE,
        .retry = { .max_attempts = 1, .fn = twice_then_dead, .arg = &a }
    };
    leat_source *s = source_of(t, "g", &o);
    for (uint32_t i = 1; i <= 3; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(leat_delivery_attempt(d), i);
        fail_one(d, i == 3 ? "enough" : "more");
    }
    nothing_is_left(s);
    assert_int_equal(atomic_load(&a.calls), 3);
    assert_int_equal(a.attempts, 3);
    assert_string_equal(a.reason, "enough");
    assert_string_equal(a.topic, "orders");
    assert_string_equal(a.group, "g");
    assert_false(a.rejected || a.died);
    assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), 1);
    leat_source_close(s);
    leat_topic_close(t);
}

static void normalise(void *arg, const leat_failure *f, leat_fields *extra)
{
    note(arg, f);
    must(leat_fields_add(extra, leat_str("host"), leat_str("a:1"), err));
    must(leat_fields_add(extra, leat_str("error"), leat_str("timeout"), err));
}

static void a_dead_letter_carries_what_the_policy_adds(void **state)
{
    struct asked a = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_topic_source_opts o = { .order = LEAT_ORDER_NONE,
                                 .retry = quick,
                                 .dead_fn = normalise,
                                 .dead_arg = &a };
    leat_source *s = source_of(t, "g", &o);
    assert_int_equal(leat_delivery_reject(next_of(s), "timeout after 3017 ms"),
                     LEAT_OK);
    nothing_is_left(s);
    assert_int_equal(atomic_load(&a.calls), 1);
    assert_true(a.rejected);
    assert_string_equal(a.reason, "timeout after 3017 ms");
    leat_reply *r = dead_letters("orders", 0);
    assert_field(r, 0, "le", "timeout");
    assert_field(r, 0, "x", "4:host3:a:15:error7:timeout");
    leat_reply_free(r);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_message_may_say_how_often_it_is_tried(void **state)
{
    static const char *const retries[] = { "0", "4", "nonsense" };
    static const uint32_t tries[] = { 1, 5, 3 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = open_quick(t, "g");
    for (int i = 0; i < 3; i++) {
        leat_header h = { leat_str("maxRetries"), leat_str(retries[i]) };
        must(leat_topic_publish(t,
                                &(leat_msg){ .body = leat_str("x"),
                                             .headers = &h,
                                             .header_count = 1 },
                                NULL, NULL, err));
        must(leat_topic_flush(t, LONG_MS, err));
        for (uint32_t k = 1; k <= tries[i]; k++) {
            leat_delivery *d = next_of(s);
            assert_int_equal(leat_delivery_attempt(d), k);
            fail_one(d, "no");
        }
        nothing_is_left(s);
        assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), i + 1);
    }
    leat_source_close(s);
    leat_topic_close(t);
}

static void without_a_limit_it_is_tried_for_ever(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_retry r = quick;
    r.max_attempts = -1;
    r.delay_ms = 1;
    leat_source *s = source_of(
        t, "g",
        &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE, .retry = r });
    for (uint32_t i = 1; i <= 30; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(leat_delivery_attempt(d), i);
        fail_one(d, "no");
    }
    ack(next_of(s));
    nothing_is_left(s);
    assert_int_equal(ask("XLEN", "leat:{orders/0}:dlq"), 0);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_policy_out_of_range_is_refused(void **state)
{
    static const leat_retry bad[] = {
        { .max_attempts = -2 },
        { .delay_ms = -1 },
        { .max_delay_ms = -1 },
        { .delay_ms = 100, .max_delay_ms = 99 },
        { .backoff = (leat_backoff_kind)7 },
    };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_error e = { 0 };
        assert_null(leat_topic_source(
            t, "g", &(leat_topic_source_opts){ .retry = bad[i] }, &e));
        assert_int_equal(e.code, LEAT_EINVAL);
        assert_non_null(strstr(e.msg, "retry."));
    }
    leat_topic_close(t);
}

/* ---- from member to member -------------------------------------------- */

static void what_waits_is_the_next_members(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    fail_one(next_of(s), "once");
    leat_source_close(s);
    s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 2);
    leat_source_close(s); /* released: it does not count */
    s = open_quick(t, "g");
    d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 2);
    fail_one(d, "twice");
    d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 3);
    fail_one(d, "three times");
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_field(r, 0, "fe", "once");
    assert_field(r, 0, "le", "three times");
    leat_reply_free(r);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Another program wrote it, and its time is the first. */
static void what_nobody_can_read_holds_up_nothing(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    redis_do(server, "HSET leat:{orders/0}:kept:g 1-0 odd 1-0m odd");
    redis_do(server, "ZADD leat:{orders/0}:due:g 1 1-0");
    fail_one(d, "once");
    d = next_of(s);
    assert_int_equal(leat_delivery_attempt(d), 2);
    ack(d);
    nothing_is_left(s);
    leat_reply *r = dead_letters("orders", 0);
    assert_int_equal(leat_reply_len(r), 1);
    assert_field(r, 0, "i", "1-0");
    assert_field(r, 0, "g", "g");
    assert_field(r, 0, "@packed", "odd");
    leat_reply_free(r);
    leat_topic_source_stats st;
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(st.dead, 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* More than are ever in hand, of which each fails once. */
static void many_wait_and_all_come(void **state)
{
    enum { N = 1500 };
    int seen[N] = { 0 }, done = 0;
    leat_delivery *d[64];
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, N);
    leat_source *s = open_quick(t, "g");
    int64_t end = wait_now_ms() + 2 * LONG_MS;
    while (done < N && wait_now_ms() < end) {
        int n = leat_source_receive(s, d, 64, 500, &e);
        for (int i = 0; i < n; i++) {
            int k = body_number(d[i]);
            seen[k]++;
            assert_int_equal(leat_delivery_attempt(d[i]), seen[k]);
            done += seen[k] == 2;
            if (seen[k] == 2)
                ack(d[i]);
            else
                fail_one(d[i], "first");
        }
    }
    assert_int_equal(done, N);
    nothing_is_left(s);
    leat_topic_source_stats st;
    leat_topic_source_stats_get(s, &st);
    assert_int_equal(st.retries, N);
    wait_until((leat_topic_source_stats_get(s, &st), st.waiting == 0), LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* A server that went back in time knows nothing of the steps: what it says is
 * settled is not to be believed, and nothing is lost. */
static void
a_server_that_forgot_steps_is_not_told_that_all_is_settled(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add("orders", 0, "x");
    leat_source *s = open_quick(t, "g");
    leat_delivery *d = next_of(s);
    assert_int_equal(leat_delivery_nack(d, 3600 * 1000), LEAT_OK);
    must(leat_source_flush(s, LONG_MS, err));
    redis_do(server, "DEL leat:{orders/0}:kept:g leat:{orders/0}:due:g");
    redis_do(server, "HSET leat:{orders/0}:cur:g k 0 q 0 c 0-0 m 0-0 n 0");
    add("orders", 0, "y");
    int x = 0, y = 0;
    while (!x || !y) { /* its lease is taken anew */
        d = next_of(s);
        bool first = *(const char *)leat_delivery_msg(d)->body.p == 'x';
        x += first;
        y += !first;
        ack(d);
        (void)leat_source_flush(s, LONG_MS, NULL);
    }
    assert_int_equal(x, 1);
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(what_fails_comes_again_with_its_attempts_counted),
        topic_test(at_the_limit_it_is_a_dead_letter),
        topic_test(however_often_retried_its_bytes_stay),
        topic_test(a_dead_letter_says_when_and_under_which_fence),
        topic_test(a_delay_that_is_asked_for_goes_before_the_policy),
        topic_test(a_rejected_one_is_a_dead_letter_at_once),
        topic_test(what_is_no_message_is_a_dead_letter_with_the_reason),
        topic_test(an_entry_of_very_many_fields_is_a_dead_letter),
        topic_test(another_group_sees_each_message_once),
        topic_test(an_own_function_decides),
        topic_test(a_dead_letter_carries_what_the_policy_adds),
        topic_test(a_message_may_say_how_often_it_is_tried),
        topic_test(without_a_limit_it_is_tried_for_ever),
        topic_test(a_policy_out_of_range_is_refused),
        topic_test(what_waits_is_the_next_members),
        topic_test(what_nobody_can_read_holds_up_nothing),
        topic_test(many_wait_and_all_come),
        topic_test(a_server_that_forgot_steps_is_not_told_that_all_is_settled),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

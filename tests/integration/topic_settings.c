/*
 * topic_settings.c: what the members of a group share, and how it is changed
 * while they live.
 */
#include "topic_help.h"
#include <leat/admin.h>

#include <stdatomic.h>

static void on_assign(void *arg, leat_assign what, uint32_t partition,
                      uint64_t epoch)
{
    (void)partition;
    (void)epoch;
    if (what == LEAT_LOST)
        atomic_fetch_add((atomic_int *)arg, 1);
}

static leat_group_settings settings(void)
{
    leat_error e = { 0 };
    leat_group_info *g = leat_group_describe(client, "orders", "g", NULL, &e);
    assert_non_null(g);
    leat_group_settings s = g->settings;
    leat_group_info_free(g);
    return s;
}

static void alter(const leat_group_settings *s)
{
    must(leat_group_alter(client, "orders", "g", NULL, s, err));
}

/* ---- members that differ ---------------------------------------------- */

static void refused(leat_topic *t, const leat_topic_source_opts *o,
                    const char *setting, const char *has, const char *asks)
{
    leat_error e = { 0 };
    assert_null(leat_topic_source(t, "g", o, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, setting));
    assert_non_null(strstr(e.msg, has));
    assert_non_null(strstr(e.msg, asks));
    assert_non_null(strstr(e.msg, "leat group alter orders g"));
}

static void a_member_that_asks_for_other_settings_is_refused(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .order = LEAT_ORDER_KEY });
    refused(t, &(leat_topic_source_opts){ .lease_ms = 1000 }, "lease", "15000",
            "1000");
    refused(t, &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE }, "order",
            "key", "none");
    refused(t, &(leat_topic_source_opts){ .retry.max_attempts = 9 }, "attempts",
            "5", "9");
    refused(t, &(leat_topic_source_opts){ .retry.delay_ms = 9000 }, "delay",
            "1000", "9000");
    leat_source *same = source_of(
        t, "g",
        &(leat_topic_source_opts){ .lease_ms = 15000,
                                   .order = LEAT_ORDER_KEY });
    leat_source *any = source_of(t, "g", NULL);
    leat_source_close(any);
    leat_source_close(same);
    leat_source_close(s);
    leat_topic_close(t);
}

/* As keys of the version before are: a name in the set, and a cursor. */
static void a_group_of_an_earlier_version_gets_its_first_members(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 3);
    redis_do(server, "SADD leat:{orders}:groups g");
    redis_do(server,
             "HSET leat:{orders/0}:cur:g e 7 c 0-0 m 0-0 n 0 s %b t %b q 0 k 0 "
             "b 0-0",
             "", (size_t)0, "", (size_t)0);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 2000 });
    for (int i = 0; i < 3; i++)
        ack(next_of(s));
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(settings().lease_ms, 2000);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:cur:g u"), 0);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- changes ---------------------------------------------------------- */

static int64_t all_beats(void)
{
    int64_t n = 0;
    redisReply *r = redis_raw(server, "HVALS leat:{orders}:members:g");
    for (size_t i = 0; r && i < r->elements; i++) {
        long long one = 0;
        (void)sscanf(r->element[i]->str, "1 %lld", &one);
        n += one;
    }
    freeReplyObject(r);
    return n;
}

/* A shorter lease, and a longer one: nobody is taken for dead. */
static void a_lease_that_is_altered_takes_from_nobody(void **state)
{
    static const int64_t leases[] = { 1500, 30000, 1500 };
    atomic_int lost = 0;
    (void)state;
    leat_topic *t = topic_of(client, "orders", 8);
    leat_topic_source_opts o = { .on_assign = on_assign, .assign_arg = &lost };
    leat_source *a = source_of(t, "g", &o), *b = source_of(t, "g", &o);
    wait_until(stats_of(a).partitions == 4 && stats_of(b).partitions == 4,
               LONG_MS);
    for (size_t i = 0; i < 3; i++) {
        leat_group_settings s = settings();
        s.lease_ms = leases[i];
        alter(&s);
        int64_t before = all_beats();
        leat_source *c = source_of(t, "g", &o); /* it knows only the new one */
        wait_until(all_beats() > before + 8, LONG_MS);
        leat_source_close(c);
        wait_until(stats_of(a).partitions == 4 && stats_of(b).partitions == 4,
                   LONG_MS);
    }
    assert_int_equal(settings().lease_ms, 1500);
    assert_int_equal(atomic_load(&lost), 0);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

/* The first of a key waits for its retry; what follows it does not pass, though
 * the order is that of keys by then. */
static void an_order_that_is_altered_lets_nothing_overtake(void **state)
{
    char order[16];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 1500 });
    for (int i = 0; i < 5; i++) {
        char body[8];
        snprintf(body, sizeof body, "%d", i);
        add_keyed("orders", 0, "same", body);
    }
    leat_delivery *d = next_of(s);
    assert_body(d, "0");
    assert_int_equal(leat_delivery_nack(d, 1500), LEAT_OK);
    wait_until(redis_int(server, "EXISTS leat:{orders/0}:kept:g") == 1,
               LONG_MS);
    leat_group_settings to = settings();
    to.order = LEAT_ORDER_KEY;
    alter(&to);
    leat_source_close(s); /* and a new owner, that knows only the new order */
    s = source_of(t, "g", NULL);
    for (int i = 0; i < 5; i++) {
        char body[8];
        snprintf(body, sizeof body, "%d", i);
        d = next_of(s);
        assert_body(d, body);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
    wait_until(strcmp(redis_text(server, order, sizeof order,
                                 "HGET leat:{orders/0}:cur:g o"),
                      "key") == 0,
               LONG_MS);
    add_keyed("orders", 0, "same", "5");
    d = next_of(s);
    assert_body(d, "5");
    ack(d);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- another of that name --------------------------------------------- */

static atomic_int told;

static void on_log(void *arg, leat_level level, const char *text)
{
    (void)arg;
    (void)level;
    if (strstr(text, "removed and made again"))
        atomic_fetch_add(&told, 1);
}

static void a_member_notices_a_new_incarnation_and_begins_anew(void **state)
{
    char u[32];
    (void)state;
    atomic_store(&told, 0);
    leat_topic *t = topic_of(client, "orders", 1);
    add_many("orders", 0, 0, 3);
    leat_source *s = source_of(
        t, "g",
        &(leat_topic_source_opts){ .lease_ms = 600, .log = { .fn = on_log } });
    for (int i = 0; i < 3; i++)
        ack(next_of(s));
    must(leat_source_flush(s, LONG_MS, err));
    /* As one does who removes it and makes it while this member is away. */
    redis_do(server, "HSET leat:{orders/0}:joined g 0123456789abcdef");
    redis_do(server, "HSET leat:{orders}:group:g u 0123456789abcdef");
    for (int i = 0; i < 3; i++) {
        leat_delivery *d = next_of(s);
        assert_int_equal(leat_delivery_attempt(d), 1);
        ack(d);
    }
    must(leat_source_flush(s, LONG_MS, err));
    assert_int_equal(atomic_load(&told), 1);
    assert_string_equal(
        redis_text(server, u, sizeof u, "HGET leat:{orders/0}:cur:g u"),
        "0123456789abcdef");
    leat_source_close(s);
    leat_topic_close(t);
}

/* The server lost it, or it was removed by force. */
static void a_member_that_lives_makes_its_group_again(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 600 });
    wait_until(stats_of(s).partitions == 1, LONG_MS);
    redis_do(server, "DEL leat:{orders}:groups leat:{orders}:group:g");
    wait_until(redis_int(server, "SISMEMBER leat:{orders}:groups g") == 1,
               LONG_MS);
    add_many("orders", 0, 0, 1);
    ack(next_of(s));
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_member_that_asks_for_other_settings_is_refused),
        topic_test(a_group_of_an_earlier_version_gets_its_first_members),
        topic_test(a_lease_that_is_altered_takes_from_nobody),
        topic_test(an_order_that_is_altered_lets_nothing_overtake),
        topic_test(a_member_notices_a_new_incarnation_and_begins_anew),
        topic_test(a_member_that_lives_makes_its_group_again),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

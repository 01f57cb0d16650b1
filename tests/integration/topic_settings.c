/*
 * topic_settings.c: what the members of a group share, and how it is changed
 * while they live.
 */
#include "topic_help.h"
#include <leat/admin.h>

#include <pthread.h>
#include <stdatomic.h>

#define SLOW "0a000000000000000000000000000000"

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

static void same(leat_group_settings a, leat_group_settings b)
{
    assert_int_equal(a.lease_ms, b.lease_ms);
    assert_int_equal(a.order, b.order);
    assert_int_equal(a.max_attempts, b.max_attempts);
    assert_int_equal(a.backoff, b.backoff);
    assert_int_equal(a.delay_ms, b.delay_ms);
    assert_int_equal(a.max_delay_ms, b.max_delay_ms);
    assert_int_equal(a.jitter, b.jitter);
    assert_int_equal(a.re_add, b.re_add);
}

static void alter(const leat_group_settings *s)
{
    must(leat_group_alter(client, "orders", "g", s, NULL, err));
}

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

/* ---- members that differ ---------------------------------------------- */

static void refused(leat_topic *t, const leat_topic_source_opts *o,
                    const char *differs, const char *todo)
{
    char command[128];
    leat_error e = { 0 };
    snprintf(command, sizeof command, ": leat group alter orders g %s", todo);
    assert_null(leat_topic_source(t, "g", o, &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "group 'g' has "));
    assert_non_null(strstr(e.msg, differs));
    assert_non_null(strstr(e.msg, command));
}

static void a_member_that_asks_for_other_settings_is_refused(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .order = LEAT_ORDER_KEY });
    refused(t, &(leat_topic_source_opts){ .lease_ms = 1500 },
            "lease 15s, this member asks for 1500ms", "--lease 1500ms");
    refused(t, &(leat_topic_source_opts){ .order = LEAT_ORDER_NONE },
            "order key, this member asks for none", "--order none");
    refused(t, &(leat_topic_source_opts){ .retry.max_attempts = 9 },
            "max-attempts 5, this member asks for 9", "--max-attempts 9");
    refused(t, &(leat_topic_source_opts){ .retry.max_attempts = -1 },
            "max-attempts 5, this member asks for no limit",
            "--max-attempts 0");
    refused(t, &(leat_topic_source_opts){ .retry.delay_ms = 90000 },
            "backoff exponential:1s..1m, this member asks for "
            "exponential:90s..90s",
            "--backoff exponential:90s..90s");
    refused(t, &(leat_topic_source_opts){ .retry.re_add = LEAT_YES },
            "re-add no, this member asks for yes", "--re-add yes");
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

/* What is the default of a new group is still another than what this one has.
 */
static void a_member_that_asks_for_a_default_by_name_is_refused(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(
        t, "g",
        &(leat_topic_source_opts){ .order = LEAT_ORDER_KEY,
                                   .retry = { .backoff = LEAT_BACKOFF_FIXED,
                                              .jitter = LEAT_NO,
                                              .re_add = LEAT_YES } });
    refused(t, &(leat_topic_source_opts){ .order = LEAT_ORDER_PARTITION },
            "order key, this member asks for partition", "--order partition");
    refused(
        t,
        &(leat_topic_source_opts){ .retry.backoff = LEAT_BACKOFF_EXPONENTIAL },
        "backoff fixed:1s,nojitter, this member asks for "
        "exponential:1s..1m,nojitter",
        "--backoff exponential:1s..1m,nojitter");
    refused(t, &(leat_topic_source_opts){ .retry.jitter = LEAT_YES },
            "backoff fixed:1s,nojitter, this member asks for fixed:1s:",
            "--backoff fixed:1s");
    refused(t, &(leat_topic_source_opts){ .retry.re_add = LEAT_NO },
            "re-add yes, this member asks for no", "--re-add no");
    leat_source *any = source_of(t, "g", NULL);
    leat_source_close(any);
    leat_source_close(s);
    leat_topic_close(t);
}

/* The facts go first; a command that would be cut is not shown. */
static void a_refusal_fits_however_long_the_names_are(void **state)
{
    char name[LEAT_NAME_MAX + 1];
    leat_error e = { 0 };
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    leat_topic *t = topic_of(client, name, 1);
    leat_source *s = source_of(t, name, NULL);
    assert_null(leat_topic_source(
        t, name,
        &(leat_topic_source_opts){ .retry = { .delay_ms = 1234567,
                                              .max_delay_ms = 7654321,
                                              .jitter = LEAT_NO } },
        &e));
    assert_int_equal(e.code, LEAT_EINVAL);
    assert_non_null(
        strstr(e.msg, "asks for exponential:1234567ms..7654321ms,nojitter: "));
    assert_string_equal(strstr(e.msg, "for all: "),
                        "for all: leat group alter");
    leat_source_close(s);
    leat_topic_close(t);
}

/* Who writes that is no member; it must not end those that are. */
static void settings_that_nobody_can_have_are_not_taken_over(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 600 });
    wait_until(stats_of(s).partitions == 1, LONG_MS);
    redis_do(server, "HSET leat:{orders}:group:g lease 0 attempts -7 delay 0 "
                     "max_delay -1 order many no_jitter 2 backoff x");
    int64_t before = all_beats();
    wait_until(all_beats() > before + 3, LONG_MS);
    add_many("orders", 0, 0, 1);
    ack(next_of(s));
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
        alter(&(leat_group_settings){ .lease_ms = leases[i] });
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
    alter(&(leat_group_settings){ .order = LEAT_ORDER_KEY });
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

static void an_alter_changes_only_what_is_set(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(
        t, "g", &(leat_topic_source_opts){ .order = LEAT_ORDER_KEY });
    leat_group_settings want = settings();
    alter(&(leat_group_settings){ 0 });
    alter(&(leat_group_settings){ .max_attempts = -1 });
    alter(&(leat_group_settings){ .re_add = LEAT_YES });
    alter(&(leat_group_settings){ .max_delay_ms = 5000 });
    want.max_attempts = -1;
    want.re_add = LEAT_YES;
    want.max_delay_ms = 5000;
    same(settings(), want);
    leat_source_close(s);
    leat_topic_close(t);
}

static void alter_fails(const leat_group_settings *s, const char *id,
                        leat_code code, const char *says)
{
    leat_error e = { 0 };
    leat_group_settings before = settings();
    assert_int_equal(leat_group_alter(client, "orders", "g", s,
                                      &(leat_alter_opts){ .id = id }, &e),
                     code);
    assert_non_null(strstr(e.msg, says));
    same(settings(), before);
}

/* Each is fine by itself; the server decides, by what the group has then. */
static void
an_alter_that_does_not_fit_what_the_group_has_is_refused(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    alter_fails(&(leat_group_settings){ .delay_ms = 60001 }, NULL, LEAT_EINVAL,
                "above the max_delay_ms of group 'g'");
    alter_fails(&(leat_group_settings){ .max_delay_ms = 999 }, NULL,
                LEAT_EINVAL, "below the delay_ms of group 'g'");
    alter(&(leat_group_settings){ .delay_ms = 60001, .max_delay_ms = 60001 });
    alter(&(leat_group_settings){ .delay_ms = 1 });
    alter(&(leat_group_settings){ .max_delay_ms = 1 });
    alter_fails(&(leat_group_settings){ .lease_ms = 299 }, NULL, LEAT_EINVAL,
                "299 ms is not between 300 and");
    alter_fails(&(leat_group_settings){ .jitter = (leat_choice)3 }, NULL,
                LEAT_EINVAL, "jitter");
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_alter_with_an_id_changes_no_other_group(void **state)
{
    char id[32];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    redis_text(server, id, sizeof id, "HGET leat:{orders}:group:g u");
    must(leat_group_alter(client, "orders", "g",
                          &(leat_group_settings){ .lease_ms = 9000 },
                          &(leat_alter_opts){ .id = id }, err));
    assert_int_equal(settings().lease_ms, 9000);
    alter_fails(&(leat_group_settings){ .lease_ms = 8000 }, "0123456789abcdef",
                LEAT_ESTALE, "group 'g'");
    leat_source_close(s);
    leat_topic_close(t);
}

/* Two operators, each with one setting in mind, again and again. */
typedef struct operator
{
    bool attempts;
    int times;
}
operator_of;

static void *operate(void *arg)
{
    const operator_of *o = arg;
    for (int i = 1; i <= o->times; i++) {
        leat_group_settings s = { 0 };
        leat_error e = { 0 };
        if (o->attempts)
            s.max_attempts = i;
        else
            s.delay_ms = i;
        if (leat_group_alter(client, "orders", "g", &s, NULL, &e) != LEAT_OK)
            return "failed";
    }
    return NULL;
}

static void of_two_alters_at_once_neither_undoes_the_other(void **state)
{
    enum { TIMES = 200 };
    operator_of one = { true, TIMES }, other = { false, TIMES };
    pthread_t a, b;
    void *said[2];
    (void)state;
    leat_topic *t = topic_of(client, "orders", 1);
    leat_source *s = source_of(t, "g", NULL);
    assert_int_equal(pthread_create(&a, NULL, operate, &one), 0);
    assert_int_equal(pthread_create(&b, NULL, operate, &other), 0);
    pthread_join(a, &said[0]);
    pthread_join(b, &said[1]);
    assert_null(said[0]);
    assert_null(said[1]);
    assert_int_equal(settings().max_attempts, TIMES);
    assert_int_equal(settings().delay_ms, TIMES);
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

/* One that has not learnt of a shorter lease yet beats as before, and lives. */
static void nobody_is_judged_by_a_lease_that_is_new(void **state)
{
    (void)state;
    leat_topic *t = topic_of(client, "orders", 2);
    redis_do(server, "HSET leat:{orders/0}:lease:g o %s e 5", SLOW);
    leat_source *s = source_of(t, "g",
                               &(leat_topic_source_opts){ .lease_ms = 600 });
    redis_do(server, "EVAL %s 1 leat:{orders}:group:g",
             "local now = redis.call('TIME') "
             "redis.call('HSET', KEYS[1], 'lease_before', '3600000', "
             "'lease_at', now[1] .. '000')");
    redis_do(server, "HSET leat:{orders}:members:g %s %s", SLOW,
             "1 9 5 0 - 0 slow");
    wait_until(stats_of(s).partitions == 1, LONG_MS);
    int64_t enough = all_beats() + 30;
    wait_until(all_beats() >= enough, LONG_MS);
    assert_int_equal(stats_of(s).partitions, 1);
    redis_do(server, "HSET leat:{orders}:group:g lease_at 1");
    wait_until(stats_of(s).partitions == 2, LONG_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_member_that_asks_for_other_settings_is_refused),
        topic_test(a_member_that_asks_for_a_default_by_name_is_refused),
        topic_test(a_refusal_fits_however_long_the_names_are),
        topic_test(settings_that_nobody_can_have_are_not_taken_over),
        topic_test(an_alter_changes_only_what_is_set),
        topic_test(an_alter_that_does_not_fit_what_the_group_has_is_refused),
        topic_test(an_alter_with_an_id_changes_no_other_group),
        topic_test(of_two_alters_at_once_neither_undoes_the_other),
        topic_test(a_group_of_an_earlier_version_gets_its_first_members),
        topic_test(a_lease_that_is_altered_takes_from_nobody),
        topic_test(an_order_that_is_altered_lets_nothing_overtake),
        topic_test(a_member_notices_a_new_incarnation_and_begins_anew),
        topic_test(a_member_that_lives_makes_its_group_again),
        topic_test(nobody_is_judged_by_a_lease_that_is_new),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

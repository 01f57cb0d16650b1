/*
 * topic_retention.c: what is kept of a topic, and what is not.  Owners trim on
 * a timer; what some group has not settled stays.
 */
#include "topic_retention_help.h"

/* ---- the policy ------------------------------------------------------- */

static void a_retention_is_kept_with_its_topic(void **state)
{
    const leat_retention r = { .max_age_ms = 1000,
                               .max_entries = 20,
                               .cap = 30,
                               .forget = LEAT_FORGET_ALL,
                               .abandoned = LEAT_ABANDONED_DETACH,
                               .abandoned_ms = 5000,
                               .large_body = -1 };
    char text[64];
    leat_error e = { 0 };
    (void)state;
    must(leat_topic_create(client, "orders",
                           &(leat_topic_spec){ .retention = r }, err));
    static const char *const fields[][2] = {
        { "max_age", "1000" },
        { "max_entries", "20" },
        { "cap", "30" },
        { "lossy_maxlen", "0" },
        { "forget", "all" },
        { "abandoned", "detach" },
        { "abandoned_ms", "5000" },
        { "large_body", "-1" },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        assert_string_equal(redis_text(server, text, sizeof text,
                                       "HGET leat:topic:orders %s",
                                       fields[i][0]),
                            fields[i][1]);
    leat_topic_info *info = leat_topic_describe(client, "orders", NULL, &e);
    assert_non_null(info);
    assert_memory_equal(&info->retention, &r, sizeof r);
    leat_topic_info_free(info);

    leat_retention seen;
    leat_topic *t = topic_of(client, "orders", 1);
    leat__topic_retention(t, &seen);
    assert_true(leat__retention_same(&seen, &r));
    leat_topic_close(t);
}

static void a_topic_of_before_keeps_everything(void **state)
{
    leat_retention seen;
    (void)state;
    redis_do(server, "HSET leat:topic:orders partitions 1 partitioner murmur2 "
                     "created 1 updated 1");
    leat_topic *t = topic_of(client, "orders", 1);
    leat__topic_retention(t, &seen);
    assert_true(leat__retention_same(&seen, &(leat_retention){ 0 }));
    leat_topic_close(t);
}

static void what_contradicts_itself_is_refused(void **state)
{
    static const leat_retention bad[] = {
        { .max_age_ms = -1 },
        { .max_entries = -1 },
        { .cap = -5 },
        { .lossy_maxlen = -1 },
        { .abandoned_ms = -1 },
        { .large_body = -2 },
        { .max_entries = INT64_MAX },
        { .forget = (leat_forget)3 },
        { .abandoned = (leat_abandoned)-1 },
        { .cap = 10, .max_entries = 11 },
        { .cap = 10, .lossy_maxlen = 10 },
        { .lossy_maxlen = 10, .max_entries = 11 },
    };
    (void)state;
    must(leat_topic_create(client, "orders", NULL, err));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        leat_error e = { 0 };
        assert_int_equal(
            leat_topic_create(client, "more",
                              &(leat_topic_spec){ .retention = bad[i] }, &e),
            LEAT_EINVAL);
        assert_true(strlen(e.msg) > 10);
        assert_int_equal(leat_topic_alter(client, "orders", NULL, &bad[i], &e),
                         LEAT_EINVAL);
        assert_null(leat_topic_open(
            client, "orders", &(leat_topic_opts){ .retention = bad[i] }, &e));
        assert_int_equal(e.code, LEAT_EINVAL);
    }
    assert_int_equal(redis_int(server, "EXISTS leat:topic:more"), 0);
}

static void only_a_topic_can_be_altered(void **state)
{
    leat_error e = { 0 };
    const leat_retention r = { .max_entries = 1 };
    (void)state;
    assert_int_equal(leat_topic_alter(client, "none", NULL, &r, &e),
                     LEAT_ENOENT);
    assert_int_equal(redis_int(server, "EXISTS leat:topic:none"), 0);
    assert_int_equal(leat_topic_alter(client, "no name", NULL, &r, &e),
                     LEAT_EINVAL);
    redis_do(server, "XADD bare * a b");
    assert_int_equal(leat_topic_alter(client, "bare", NULL, &r, &e),
                     LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "bare stream"));

    must(leat_topic_create(client, "orders", NULL, err));
    redis_do(server, "HSET leat:topic:orders updated 5");
    must(leat_topic_alter(client, "orders", NULL, &r, err));
    assert_int_equal(redis_int(server, "HGET leat:topic:orders max_entries"),
                     1);
    assert_true(redis_int(server, "HGET leat:topic:orders updated") >
                INT64_C(1500000000000));
}

static void a_policy_of_another_version_changes_nothing(void **state)
{
    leat_retention seen;
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .max_entries = 10 });
    redis_do(server, "HSET leat:topic:orders forget sometimes");
    leat__retention_wait(t);
    leat__topic_retention(t, &seen);
    assert_int_equal(seen.max_entries, 10);
    assert_null(leat_topic_open(client, "orders", NULL, &e));
    assert_int_equal(e.code, LEAT_EDECODE);
    assert_non_null(strstr(e.msg, "sometimes"));
    leat_topic_close(t);
}

/* ---- by number and age ------------------------------------------------ */

static void by_number_the_oldest_go(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .max_entries = 10 });
    leat_source *s = join(t, "g", NULL);
    add_many("orders", 0, 0, MANY);
    read_on(s, 0, MANY);
    wait_until(length() <= 10, SOON_MS);
    assert_int_equal(length(), 10);
    assert_int_equal(oldest(), MANY - 10);
    let_owners_trim();
    assert_int_equal(length(), 10);
    leat_source_close(s);
    leat_topic_close(t);
}

static void by_age_the_old_go(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .max_age_ms = 3600 * 1000 });
    leat_source *s = join(t, "g", NULL);
    redis_do(server, "XADD " LOG " 1000-1 b old");
    redis_do(server, "XADD " LOG " 2000-7 b older");
    add_many("orders", 0, 0, 5);
    leat_delivery *d[7];
    take_n(s, d, 7);
    for (int i = 0; i < 7; i++)
        ack(d[i]);
    wait_until(length() == 5, SOON_MS);
    assert_int_equal(oldest(), 0);
    let_owners_trim();
    assert_int_equal(length(), 5);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Either bound asks for nearly all to go; the group that is away has settled
 * four. */
static void a_group_that_is_away_loses_nothing(void **state)
{
    (void)state;
    leat_topic *t = orders(
        &(leat_retention){ .max_entries = 1, .max_age_ms = 1 });
    add_many("orders", 0, 0, MANY);
    leat_source *s = join(t, "fast", NULL); /* it counts from here on */
    read_and_leave(t, "slow", 0, 4);
    read_on(s, 0, MANY);
    wait_until(length() <= MANY - 4, SOON_MS);
    assert_int_equal(oldest(), 4);
    add_many("orders", 0, MANY, MANY);
    read_on(s, MANY, MANY);
    let_owners_trim();
    assert_int_equal(length(), 2 * MANY - 4);

    leat_source *slow = join(t, "slow", NULL);
    read_on(slow, 4, 2 * MANY - 4);
    wait_until(length() <= 1, SOON_MS);
    leat_source_close(slow);
    leat_source_close(s);
    leat_topic_close(t);
}

/* It is known, and nobody has read for it here. */
static void a_group_without_a_cursor_holds_everything(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .max_entries = 1 });
    redis_do(server, "SADD leat:{orders}:groups later");
    leat_source *s = join(t, "g", NULL);
    add_many("orders", 0, 0, MANY);
    read_on(s, 0, MANY);
    let_owners_trim();
    assert_int_equal(length(), MANY);
    read_and_leave(t, "later", 0, MANY);
    wait_until(length() == 1, SOON_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* Also what is settled behind one that is not: only the cursor counts. */
static void nothing_goes_from_the_first_that_is_out(void **state)
{
    leat_delivery *d[20];
    (void)state;
    leat_topic *t = orders(
        &(leat_retention){ .max_entries = 1, .forget = LEAT_FORGET_ALL });
    leat_source *s = join(t, "g", NULL);
    add_many("orders", 0, 0, 20);
    take_n(s, d, 20);
    for (int i = 0; i < 20; i++)
        if (i != 7)
            ack(d[i]);
    must(leat_source_flush(s, LONG_MS, err));
    wait_until(length() <= 13, SOON_MS);
    let_owners_trim();
    assert_int_equal(length(), 13);
    assert_int_equal(oldest(), 7);
    ack(d[7]);
    wait_until(length() <= 0, SOON_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- forgetting ------------------------------------------------------- */

static void by_default_nothing_goes(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    leat_source *s = join(t, "g", NULL);
    add_many("orders", 0, 0, MANY);
    read_on(s, 0, MANY);
    int64_t before = rounds();
    must(leat_topic_alter(client, "orders", NULL,
                          &(leat_retention){ .max_entries = MANY }, err));
    wait_until(rounds() > before, SOON_MS); /* until here nobody looked */
    assert_int_equal(length(), MANY);
    leat_source_close(s);
    leat_topic_close(t);
}

static void what_all_groups_have_settled_is_forgotten(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .forget = LEAT_FORGET_ALL });
    leat_source *a = join(t, "a", NULL), *b = join(t, "b", NULL);
    add_many("orders", 0, 0, MANY);
    read_on(a, 0, MANY);
    let_owners_trim();
    assert_int_equal(length(), MANY);
    read_on(b, 0, 100);
    wait_until(length() <= MANY - 100, SOON_MS);
    assert_int_equal(oldest(), 100);
    read_on(b, 100, MANY - 100);
    wait_until(length() == 0, SOON_MS);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

/* The other group is not told of each that it did not get: that is the
 * policy. */
static void what_one_group_has_settled_is_forgotten(void **state)
{
    struct heard h = { 0 };
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .forget = LEAT_FORGET_FIRST });
    add_many("orders", 0, 0, 10);
    read_and_leave(t, "b", 0, 2);
    leat_source *a = join(t, "a", NULL);
    for (int i = -1; i != 9;) { /* the first two may be gone by now */
        leat_delivery *d = next_of(a);
        i = body_number(d);
        ack(d);
    }
    wait_until(length() == 0, SOON_MS);
    leat_source *b = join(t, "b", &h);
    add_many("orders", 0, 10, 1);
    read_on(b, 10, 1);
    assert_int_equal(atomic_load(&h.losses), 0);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

/* It looks for what was acknowledged once a second, and after a reconnect. */
static void what_was_forgotten_is_no_loss_to_its_producer(void **state)
{
    struct heard h = { 0 };
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = leat_topic_open(
        client, "orders",
        &(leat_topic_opts){ .auto_create = true,
                            .retention.forget = LEAT_FORGET_ALL,
                            .on_loss = on_loss,
                            .loss_arg = &h },
        &e);
    assert_non_null(t);
    leat_source *s = join(t, "g", NULL);
    for (int i = 0; i < 40; i++) {
        char body[16];
        snprintf(body, sizeof body, "%d", i);
        must(leat_topic_publish(t, &(leat_msg){ .body = leat_str(body) }, NULL,
                                NULL, err));
        must(leat_topic_flush(t, LONG_MS, err));
        read_on(s, i, 1);
        if (i % 10 == 9) {
            wait_until(length() == 0, SOON_MS);
            redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
        }
    }
    assert_int_equal(atomic_load(&h.losses), 0);
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_alter_reaches_a_running_owner(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    leat_source *s = join(t, "g", NULL);
    add_many("orders", 0, 0, MANY);
    read_on(s, 0, MANY);
    must(leat_topic_alter(client, "orders", NULL,
                          &(leat_retention){ .max_entries = 7 }, err));
    wait_until(length() == 7, SOON_MS);
    must(leat_topic_alter(client, "orders", NULL,
                          &(leat_retention){ .forget = LEAT_FORGET_ALL }, err));
    wait_until(length() == 0, SOON_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- large bodies ----------------------------------------------------- */

static void large_bodies_go_with_their_entries(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .max_entries = 3 });
    leat_source *s = join(t, "g", NULL);
    for (int i = 1; i <= 9; i++) {
        redis_do(server, "XADD " LOG " 5-%d b %d", i, i);
        redis_do(server, "HSET leat:{orders/0}:bodies 5-%d body", i);
        redis_do(server, "ZADD leat:{orders/0}:large 5 5-%d", i);
    }
    leat_delivery *d[9];
    take_n(s, d, 9);
    for (int i = 0; i < 9; i++)
        ack(d[i]);
    wait_until(length() == 3, SOON_MS);
    assert_int_equal(redis_int(server, "HLEN leat:{orders/0}:bodies"), 3);
    assert_int_equal(redis_int(server, "ZCARD leat:{orders/0}:large"), 3);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:bodies 5-6"),
                     0);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:bodies 5-7"),
                     1);
    /* What somebody trims by hand leaves bodies, which go, too. */
    redis_do(server, "XTRIM " LOG " MAXLEN 0");
    wait_until(redis_int(server, "EXISTS leat:{orders/0}:large "
                                 "leat:{orders/0}:bodies") == 0,
               SOON_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- by hand ---------------------------------------------------------- */

static leat_trimmed trim(const leat_trim_opts *o)
{
    leat_trimmed out;
    must(leat_topic_trim(client, "orders", o, &out, err));
    return out;
}

/* Three that were read by both, ten by one alone. */
static leat_topic *read_by_two(const leat_retention *r)
{
    leat_topic *t = orders(r);
    add_many("orders", 0, 0, 20);
    read_and_leave(t, "slow", 0, 3);
    read_and_leave(t, "fast", 0, 13);
    return t;
}

static void trimming_by_hand_stops_at_the_slowest_group(void **state)
{
    (void)state;
    leat_topic *t = read_by_two(&(leat_retention){ 0 });
    leat_trimmed r = trim(
        &(leat_trim_opts){ .max_entries = 10, .dry_run = true });
    assert_int_equal(r.removed, 3);
    assert_int_equal(r.left, 17);
    assert_int_equal(r.held, 7);
    assert_int_equal(r.holder_held, 7);
    assert_string_equal(r.holder, "slow");
    assert_int_equal(length(), 20);

    r = trim(&(leat_trim_opts){ .max_entries = 18 });
    assert_int_equal(r.removed, 2);
    assert_int_equal(r.held, 0);
    assert_string_equal(r.holder, "");
    r = trim(&(leat_trim_opts){ .max_entries = 10 });
    assert_int_equal(r.removed, 1);
    assert_int_equal(r.left, 17);
    assert_int_equal(r.held, 7);
    assert_int_equal(length(), 17);
    leat_topic_close(t);
}

static void trimming_by_hand_by_age(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    for (int i = 1; i <= 8; i++)
        redis_do(server, "XADD " LOG " %d-1 b x", i);
    add_many("orders", 0, 0, 2);
    leat_source *s = join(t, "g", NULL);
    leat_delivery *d[10];
    take_n(s, d, 10);
    for (int i = 0; i < 6; i++)
        ack(d[i]);
    must(leat_source_flush(s, LONG_MS, err));
    const leat_trim_opts o = { .max_age_ms = 3600 * 1000 };
    leat_trim_opts dry = o;
    dry.dry_run = true;
    leat_trimmed r = trim(&dry);
    assert_int_equal(r.removed, 6);
    assert_int_equal(r.held, 2);
    r = trim(&o);
    assert_int_equal(r.removed, 6);
    assert_int_equal(r.held, 2);
    assert_string_equal(r.holder, "g");
    assert_int_equal(length(), 4);
    leat_source_close(s);
    leat_topic_close(t);
}

static void trimming_by_force_takes_what_was_not_settled(void **state)
{
    struct heard h = { 0 };
    (void)state;
    leat_topic *t = read_by_two(&(leat_retention){ 0 });
    leat_trim_opts o = { .max_entries = 5, .force = true, .dry_run = true };
    assert_int_equal(trim(&o).removed, 15);
    assert_int_equal(length(), 20);
    o.dry_run = false;
    leat_trimmed r = trim(&o);
    assert_int_equal(r.removed, 15);
    assert_int_equal(r.left, 5);
    leat_source *s = join(t, "slow", &h);
    read_on(s, 15, 5);
    assert_int_equal(h.last.count, 12);
    leat_source_close(s);
    r = trim(&(leat_trim_opts){ .max_entries = -1, .force = true });
    assert_int_equal(r.removed, 5);
    assert_int_equal(length(), 0);
    leat_topic_close(t);
}

static void trimming_by_hand_follows_the_policy(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_topic *t = read_by_two(&(leat_retention){ .max_entries = 1000 });
    assert_int_equal(trim(NULL).removed, 0);
    must(leat_topic_alter(client, "orders", NULL,
                          &(leat_retention){ .forget = LEAT_FORGET_ALL }, err));
    assert_int_equal(trim(NULL).removed, 3);
    must(leat_topic_alter(client, "orders", NULL,
                          &(leat_retention){ .cap = 1000 }, err));
    assert_int_equal(leat_topic_trim(client, "orders", NULL, NULL, &e),
                     LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "keeps everything"));
    assert_int_equal(leat_topic_trim(client, "orders",
                                     &(leat_trim_opts){ .max_age_ms = -3 },
                                     NULL, &e),
                     LEAT_EINVAL);
    assert_int_equal(leat_topic_trim(client, "none", NULL, NULL, &e),
                     LEAT_ENOENT);
    leat_topic_close(t);
}

/* Entries are read to be counted, and the server does nothing else then. */
static void large_entries_are_counted_a_few_at_a_time(void **state)
{
    enum { N = 200 };
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .large_body = -1 });
    redis_do(server, "EVAL %s 1 " LOG,
             "for i = 1, 200 do redis.call('XADD', KEYS[1], '*', 'b', "
             "string.rep('x', 10000)) end");
    int64_t before = calls("xrange");
    leat_trimmed r = trim(
        &(leat_trim_opts){ .max_entries = -1, .dry_run = true });
    assert_int_equal(r.removed, N);
    assert_true(calls("xrange") - before >= N / 5);
    assert_int_equal(length(), N);
    leat_topic_close(t);
}

/* Other programs read it by groups of the server's own. */
static void
a_bare_stream_is_trimmed_up_to_what_others_have_acknowledged(void **state)
{
    const leat_trim_opts all = { .max_entries = -1 };
    leat_trimmed r;
    (void)state;
    for (int i = 1; i <= 9; i++)
        redis_do(server, "XADD bare %d-1 b x", i);
    redis_do(server, "XGROUP CREATE bare theirs 0");
    redis_do(server, "XREADGROUP GROUP theirs me COUNT 5 STREAMS bare >");
    redis_do(server, "XACK bare theirs 1-1 2-1 5-1");
    must(leat_topic_trim(client, "bare", &all, &r, err));
    assert_int_equal(r.removed, 2);
    assert_int_equal(r.held, 7);
    assert_string_equal(r.holder, "theirs");
    redis_do(server, "XACK bare theirs 3-1 4-1");
    must(leat_topic_trim(client, "bare", &all, &r, err));
    assert_int_equal(r.removed, 3);
    assert_int_equal(redis_int(server, "XLEN bare"), 4);
}

/* A server that cuts by number only gives the same. */
static void an_older_server_is_trimmed_alike(void **state)
{
    leat_retention r = { .max_entries = 150 };
    (void)state;
    leat_client_close(client);
    client = open_client(url, &(leat_client_opts){ .as_redis_6_0 = true });
    leat_topic *t = orders(&r);
    add_many("orders", 0, 0, 2 * MANY);
    leat_source *s = join(t, "g", NULL);
    read_and_leave(t, "slow", 0, 333);
    read_on(s, 0, 2 * MANY);
    wait_until(length() <= 2 * MANY - 333, SOON_MS);
    let_owners_trim();
    assert_int_equal(oldest(), 333);
    read_and_leave(t, "slow", 333, 2 * MANY - 333);
    wait_until(length() == 150, SOON_MS);
    leat_source_close(s);
    leat_topic_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(a_retention_is_kept_with_its_topic),
        topic_test(a_topic_of_before_keeps_everything),
        topic_test(what_contradicts_itself_is_refused),
        topic_test(only_a_topic_can_be_altered),
        topic_test(a_policy_of_another_version_changes_nothing),
        topic_test(by_number_the_oldest_go),
        topic_test(by_age_the_old_go),
        topic_test(a_group_that_is_away_loses_nothing),
        topic_test(a_group_without_a_cursor_holds_everything),
        topic_test(nothing_goes_from_the_first_that_is_out),
        topic_test(by_default_nothing_goes),
        topic_test(what_all_groups_have_settled_is_forgotten),
        topic_test(what_one_group_has_settled_is_forgotten),
        topic_test(what_was_forgotten_is_no_loss_to_its_producer),
        topic_test(an_alter_reaches_a_running_owner),
        topic_test(large_bodies_go_with_their_entries),
        topic_test(trimming_by_hand_stops_at_the_slowest_group),
        topic_test(trimming_by_hand_by_age),
        topic_test(trimming_by_force_takes_what_was_not_settled),
        topic_test(trimming_by_hand_follows_the_policy),
        topic_test(large_entries_are_counted_a_few_at_a_time),
        topic_test(
            a_bare_stream_is_trimmed_up_to_what_others_have_acknowledged),
        topic_test(an_older_server_is_trimmed_alike),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/*
 * topic_abandoned.c: groups that are away, messages that went before they were
 * read, and trimming when things go wrong.
 */
#include "redis/resp.h"
#include "topic/trim.h"
#include "topic_retention_help.h"

/* ---- groups that nobody is in ----------------------------------------- */

static leat_retention abandoned(leat_abandoned how)
{
    return (leat_retention){ .max_entries = 1,
                             .abandoned = how,
                             .abandoned_ms = 2000 };
}

/* As if its members had left long ago; when an owner has seen so, as if that
 * had been long ago, too. */
static void let_time_pass(const char *group)
{
    char lease[64], cursor[64];
    snprintf(lease, sizeof lease, "leat:{orders/0}:lease:%s", group);
    snprintf(cursor, sizeof cursor, "leat:{orders/0}:cur:%s", group);
    redis_do(server, "PEXPIRE %s %lld", lease,
             (long long)redis_int(server, "PTTL %s", lease) - 2000);
    wait_until(redis_int(server, "HEXISTS %s i", cursor) == 1, SOON_MS);
    redis_do(server, "EVAL %s 1 %s", /* which a full server does, too */
             "redis.call('PERSIST', KEYS[1]) "
             "redis.call('HINCRBY', KEYS[1], 'i', -2000)",
             cursor);
}

static void an_abandoned_group_is_pinned_by_default(void **state)
{
    const leat_retention r = abandoned(LEAT_ABANDONED_PIN);
    (void)state;
    leat_topic *t = orders(&r);
    add_many("orders", 0, 0, 20);
    leat_source *s = join(t, "here", NULL); /* it counts from here on */
    read_and_leave(t, "gone", 0, 5);
    read_on(s, 0, 20);
    redis_do(server, "DEL leat:{orders/0}:lease:gone");
    let_owners_trim();
    assert_int_equal(length(), 15);
    leat_source_close(s);
    leat_topic_close(t);
}

static void an_abandoned_group_raises_an_alarm_once(void **state)
{
    const leat_retention r = abandoned(LEAT_ABANDONED_ALARM);
    struct heard h = { 0 };
    leat_error e = { 0 };
    (void)state;
    leat_metrics *m = leat_metrics_new(&e);
    leat_topic *t = orders(&r);
    add_many("orders", 0, 0, 20);
    leat_topic_source_opts o = quick(&h);
    o.metrics = m;
    leat_source *s = source_of(t, "here", &o);
    read_and_leave(t, "gone", 0, 5);
    leat_gauge *count = leat_metrics_gauge(
        m, "leat_topic_abandoned_groups", "",
        (const leat_label[]){ { "messaging_system", "leat" },
                              { "messaging_destination_name", "orders" } },
        2, &e);
    read_on(s, 0, 20);
    wait_until(leat_gauge_get(count) == 1, SOON_MS);
    let_owners_trim();
    assert_int_equal(atomic_load(&h.alarms), 1);
    assert_int_equal(length(), 15);
    leat_source *back = join(t, "gone", NULL);
    read_on(back, 5, 15);
    wait_until(leat_gauge_get(count) == 0, SOON_MS);
    leat_source_close(back);
    leat_source_close(s);
    leat_topic_close(t);
    leat_metrics_free(m);
}

static void a_group_with_members_is_never_abandoned(void **state)
{
    const leat_retention r = {
        .max_entries = 1,
        .abandoned = LEAT_ABANDONED_DETACH,
        .abandoned_ms = 20000,
    };
    (void)state;
    leat_topic *t = orders(&r);
    add_many("orders", 0, 0, 20);
    leat_source *idle = join(t, "idle", NULL);
    leat_delivery *first = next_of(idle);
    leat_source *s = join(t, "here", NULL);
    read_on(s, 0, 20);
    let_owners_trim();
    assert_int_equal(length(), 20);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:cur:idle x"),
                     0);
    ack(first);
    leat_source_close(idle);
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_detached_group_comes_back_and_is_told(void **state)
{
    const leat_retention r = abandoned(LEAT_ABANDONED_DETACH);
    struct heard h = { 0 }, owner = { 0 };
    (void)state;
    leat_topic *t = orders(&r);
    add_many("orders", 0, 0, 20);
    leat_source *s = join(t, "here", &owner);
    read_and_leave(t, "gone", 0, 5);
    read_on(s, 0, 20);
    let_time_pass("gone");
    wait_until(length() == 1, SOON_MS);
    wait_until(atomic_load(&owner.detached) == 1, SOON_MS);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:cur:gone x"),
                     1);

    leat_source *back = join(t, "gone", &h);
    read_on(back, 19, 1);
    assert_int_equal(atomic_load(&h.losses), 1);
    assert_string_equal(h.last.group, "gone");
    assert_true(h.last.trimmed);
    assert_true(h.last.exact);
    assert_int_equal(h.last.count, 14);
    assert_int_equal(redis_int(server, "HEXISTS leat:{orders/0}:cur:gone x"),
                     0);
    /* It counts again. */
    add_many("orders", 0, 20, 10);
    read_on(s, 20, 10);
    let_owners_trim();
    assert_true(length() >= 10);
    read_on(back, 20, 10);
    leat_source_close(back);
    back = join(t, "gone", &h); /* and it is told once */
    add_many("orders", 0, 30, 1);
    read_on(back, 30, 1);
    assert_int_equal(atomic_load(&h.losses), 1);
    leat_source_close(back);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- what was trimmed unread ------------------------------------------ */

/* The group is busy with the first eight while the others come and go. */
static void what_was_trimmed_unread_is_counted_and_told(void **state)
{
    struct heard h = { 0 };
    leat_error e = { 0 };
    leat_delivery *d[8];
    (void)state;
    leat_metrics *m = leat_metrics_new(&e);
    leat_topic *t = orders(&(leat_retention){ .lossy_maxlen = 10 });
    leat_topic_source_opts o = quick(&h);
    o.metrics = m;
    o.batch = o.max_in_flight = 8;
    leat_source *s = source_of(t, "g", &o);
    add_many("orders", 0, 0, 8);
    take_n(s, d, 8);
    for (int i = 8; i < 500; i++) {
        char body[16];
        snprintf(body, sizeof body, "%d", i);
        must(leat_topic_publish(t, &(leat_msg){ .body = leat_str(body) }, NULL,
                                NULL, err));
    }
    must(leat_topic_flush(t, LONG_MS, err));
    int64_t left = length();
    assert_in_range(left, 10, 250); /* whole nodes of the log go */
    wait_until(atomic_load(&h.lost) == (uint64_t)(492 - left), SOON_MS);
    assert_true(h.last.exact);
    assert_true(h.last.trimmed);
    for (int i = 0; i < 8; i++)
        ack(d[i]);
    read_on(s, 500 - (int)left, (int)left);
    let_beat("g");
    assert_int_equal(atomic_load(&h.lost), 492 - left);
    leat_counter *lost = leat_metrics_counter(
        m, "leat_topic_lost_total", "",
        (const leat_label[]){ { "messaging_system", "leat" },
                              { "messaging_destination_name", "orders" },
                              { "messaging_consumer_group_name", "g" },
                              { "reason", "trimmed" } },
        4, &e);
    assert_int_equal(leat_counter_get(lost), 492 - left);
    leat_source_close(s);
    leat_topic_close(t);
    leat_metrics_free(m);
}

/* Not silently: somebody deletes an entry that the group has not read. */
static void what_was_deleted_by_hand_is_told(void **state)
{
    struct heard h = { 0 };
    leat_delivery *d[4];
    char id[64];
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    leat_topic_source_opts o = quick(&h);
    o.batch = o.max_in_flight = 4;
    leat_source *s = source_of(t, "g", &o);
    add_many("orders", 0, 0, 10);
    take_n(s, d, 4);
    redisReply *r = redis_raw(server, "XRANGE " LOG " - +");
    assert_int_equal(r->elements, 10);
    snprintf(id, sizeof id, "%s", r->element[7]->element[0]->str);
    freeReplyObject(r);
    redis_do(server, "XDEL " LOG " %s", id);
    for (int i = 0; i < 4; i++)
        ack(d[i]);
    read_on(s, 4, 3);
    read_on(s, 8, 2);
    wait_until(atomic_load(&h.losses) == 1, SOON_MS);
    assert_int_equal(h.last.count, 1);
    assert_true(h.last.trimmed);
    /* What was settled is nobody's loss. */
    redis_do(server, "XTRIM " LOG " MAXLEN 2");
    redis_do(server, "XDEL " LOG " %s", id);
    add_many("orders", 0, 10, 5);
    read_on(s, 10, 5);
    let_beat("g");
    assert_int_equal(atomic_load(&h.losses), 1);
    leat_source_close(s);
    leat_topic_close(t);
}

static void what_went_while_nobody_was_there_is_told(void **state)
{
    struct heard h = { 0 };
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    add_many("orders", 0, 0, 10);
    read_and_leave(t, "g", 0, 3);
    add_many("orders", 0, 10, 10);
    redis_do(server, "XTRIM " LOG " MAXLEN 4");
    leat_source *s = join(t, "g", &h);
    read_on(s, 16, 4);
    assert_int_equal(atomic_load(&h.losses), 1);
    assert_int_equal(h.last.count, 13);
    let_beat("g");
    assert_int_equal(atomic_load(&h.losses), 1);
    leat_source_close(s);
    leat_topic_close(t);
}

/* ---- under hard conditions -------------------------------------------- */

static void a_full_server_is_trimmed(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .max_entries = 5 });
    leat_source *s = join(t, "g", NULL);
    add_many("orders", 0, 0, MANY);
    redis_do(server, "SADD leat:{orders}:groups later"); /* holds all */
    read_on(s, 0, MANY);
    let_owners_trim();
    redis_do(server, "SREM leat:{orders}:groups later");
    redis_do(server, "CONFIG SET maxmemory 1");
    wait_until(length() == 5, SOON_MS);
    redis_do(server, "CONFIG SET maxmemory 0");
    leat_source_close(s);
    leat_topic_close(t);
}

static void a_full_server_detaches(void **state)
{
    const leat_retention r = abandoned(LEAT_ABANDONED_DETACH);
    (void)state;
    leat_topic *t = orders(&r);
    add_many("orders", 0, 0, 20);
    leat_source *s = join(t, "here", NULL);
    read_and_leave(t, "gone", 0, 5);
    redis_do(server, "CONFIG SET maxmemory 1");
    read_on(s, 0, 20);
    let_time_pass("gone");
    wait_until(length() == 1, SOON_MS);
    redis_do(server, "CONFIG SET maxmemory 0");
    leat_source_close(s);
    leat_topic_close(t);
}

/* Two groups, each with its owner, trim one log, in turns and at once; the one
 * that is behind is never overtaken. */
static void owners_of_two_groups_trim_one_log(void **state)
{
    (void)state;
    leat_topic *t = orders(&(leat_retention){ .forget = LEAT_FORGET_ALL });
    leat_source *a = join(t, "a", NULL), *b = join(t, "b", NULL);
    for (int i = 0; i < 2 * MANY; i += 50) {
        add_many("orders", 0, i, 50);
        read_on(a, i, 50);
        if (i > 0)
            read_on(b, i - 50, 50);
        int first = oldest();
        assert_true(first >= 0 && first <= i);
    }
    read_on(b, 2 * MANY - 50, 50);
    wait_until(length() == 0, SOON_MS);
    leat_source_close(a);
    leat_source_close(b);
    leat_topic_close(t);
}

static void trim_answer(void *arg, const leat_reply *r, const leat_error *e)
{
    assert_null(e);
    *(leat_reply **)arg = leat__reply_copy(r, NULL);
}

static void trim_call(leat_conn *c, const leat__topic_at *at,
                      leat__trim_names *names, const leat__trim_how *how,
                      leat__trim_result *got)
{
    leat_reply *r = NULL;
    must(leat__trim_send(c, at, 0, names, how,
                         &(leat_send_opts){ .fn = trim_answer, .arg = &r },
                         err));
    must(leat_conn_drain(c, 0, err));
    must(leat__trim_read(r, names, got, err));
    leat_reply_free(r);
}

/* Whoever trims with names that are old by now is asked to read them again. */
static void a_group_that_just_came_is_not_overlooked(void **state)
{
    leat__topic_at at;
    leat__trim_names names = { 0 };
    leat__trim_result got;
    leat_error e = { 0 };
    const leat_reply *r;
    const leat__trim_how how = {
        .max_age_ms = -1, .max_entries = 0, .most = 100, .bulk = true
    };
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    add_many("orders", 0, 0, 10);
    read_and_leave(t, "old", 0, 10);
    must(leat__topic_at_init(&at, client, "orders", NULL, err));
    leat_conn *c = leat_client_lend(client, LONG_MS, &e);
    must(leat_conn_call(
        c, LEAT_ARGS(leat_str("SMEMBERS"), leat_str("leat:{orders}:groups")),
        NULL, &r, err));
    must(leat__trim_names_read(&names, r, err));
    assert_int_equal(names.groups, 1);

    read_and_leave(t, "new", 0, 4); /* after the names were read */
    trim_call(c, &at, &names, &how, &got);
    assert_true(got.asks);
    assert_int_equal(length(), 10);
    trim_call(c, &at, &names, &how, &got); /* not before they are read again */
    assert_true(got.asks);
    assert_int_equal(length(), 10);
    leat_client_return(client, c);
    leat__trim_names_release(&names);
    leat_topic_close(t);
}

/* To free them takes longer than to cut their entries from the log. */
static void large_bodies_go_some_at_a_time(void **state)
{
    leat__topic_at at;
    leat__trim_names names = { 0 };
    leat__trim_result got = { .again = true };
    leat_error e = { 0 };
    const leat__trim_how how = {
        .max_age_ms = -1, .max_entries = 0, .most = 5000, .bulk = true
    };
    (void)state;
    leat_topic *t = orders(&(leat_retention){ 0 });
    redis_do(server,
             "EVAL %s 3 " LOG " leat:{orders/0}:bodies leat:{orders/0}:large",
             "for i = 1, 1000 do local id = redis.call('XADD', KEYS[1], '*', "
             "'@large', 'b') redis.call('HSET', KEYS[2], id, 'x') "
             "redis.call('ZADD', KEYS[3], string.match(id, '%d+'), id) end");
    must(leat__topic_at_init(&at, client, "orders", NULL, err));
    leat_conn *c = leat_client_lend(client, LONG_MS, &e);
    int64_t left = 1000;
    while (got.again) {
        trim_call(c, &at, &names, &how, &got);
        int64_t now = redis_int(server, "HLEN leat:{orders/0}:bodies");
        assert_in_range(left - now, 0, 100);
        left = now;
    }
    assert_int_equal(left, 0);
    assert_int_equal(length(), 0);
    leat_client_return(client, c);
    leat__trim_names_release(&names);
    leat_topic_close(t);
}

/* The server dies between two pieces, or inside of one. */
static void a_trim_that_was_cut_short_is_finished(void **state)
{
    char own[256];
    leat_error e = { 0 };
    (void)state;
    redis_server *mine = redis_start(&(redis_opts){ .aof = REDIS_AOF_ALWAYS });
    redis_server *was = server;
    server = mine;
    leat_client *old = client;
    client = open_client(redis_url(mine, own, sizeof own),
                         &(leat_client_opts){ .as_redis_6_0 = true });
    leat_topic *t = orders(&(leat_retention){ .max_entries = 20 });
    redis_do(server, "SADD leat:{orders}:groups later");
    leat_source *s = join(t, "g", NULL);
    redis_do(
        server, "EVAL %s 1 " LOG,
        "for i = 1, 20000 do redis.call('XADD', KEYS[1], '*', 'b', i) end");
    for (int i = 0; i < 20000;) {
        leat_delivery *d[200];
        int n = leat_source_receive(s, d, 200, 1000, &e);
        for (int k = 0; k < n; k++)
            ack(d[k]);
        i += n > 0 ? n : 0;
    }
    must(leat_source_flush(s, LONG_MS, err));
    redis_do(server, "SREM leat:{orders}:groups later");
    wait_until(length() < 20000, SOON_MS);
    redis_kill(mine);
    assert_true(redis_restart(mine));
    wait_until(length() == 20, SOON_MS);
    redisReply *r = redis_raw(server, "XRANGE " LOG " - + COUNT 1");
    assert_string_equal(r->element[0]->element[1]->element[1]->str, "19981");
    freeReplyObject(r);
    leat_source_close(s);
    leat_topic_close(t);
    leat_client_close(client);
    client = old;
    server = was;
    redis_stop(mine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        topic_test(an_abandoned_group_is_pinned_by_default),
        topic_test(an_abandoned_group_raises_an_alarm_once),
        topic_test(a_group_with_members_is_never_abandoned),
        topic_test(a_detached_group_comes_back_and_is_told),
        topic_test(what_was_trimmed_unread_is_counted_and_told),
        topic_test(what_was_deleted_by_hand_is_told),
        topic_test(what_went_while_nobody_was_there_is_told),
        topic_test(a_full_server_is_trimmed),
        topic_test(a_full_server_detaches),
        topic_test(owners_of_two_groups_trim_one_log),
        topic_test(a_group_that_just_came_is_not_overlooked),
        topic_test(large_bodies_go_some_at_a_time),
        topic_test(a_trim_that_was_cut_short_is_finished),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/*
 * topic_describe.c: what is told of topics and groups is what the server has.
 *
 * Cursors, leases and records are written from the side, so that every way to
 * find a lag is met on purpose.
 */
#include "support/allocfail.h"
#include "support/server.h"

#include <stdlib.h>

#define LOG    "leat:{t/%d}:log"
#define CURSOR "leat:{t/%d}:cur:g"
#define LEASE  "leat:{t/%d}:lease:g"

static const char alice[] = "000102030405060708090a0b0c0d0e0f";
static const char bob[] = "f00102030405060708090a0b0c0d0e0f";

/* Each test begins with a topic "t" of three partitions with a group "g". */
static int begin(void **state)
{
    if (open_one(state) != 0)
        return -1;
    must(leat_topic_create(client, "t", &(leat_topic_spec){ .partitions = 3 },
                           err));
    redis_do(server, "SADD leat:{t}:groups g");
    return 0;
}

static void add(int partition, int id)
{
    redis_do(server, "XADD " LOG " %d-0 f v", partition, id);
}

/* Entries 1-0 to n-0. */
static void fill_log(int partition, int n)
{
    for (int i = 1; i <= n; i++)
        add(partition, i);
}

static void set_cursor(int partition, const char *c, const char *n,
                       const char *settled)
{
    redis_do(server, "HSET " CURSOR " e 1 c %s m %s n %s s %s t %s", partition,
             c, c, n, settled, "");
}

static leat_group_info *group(void)
{
    leat_error e = { 0 };
    leat_group_info *g = leat_group_describe(client, "t", "g", NULL, &e);
    if (!g)
        fail_msg("%s: %s", leat_code_name(e.code), e.msg);
    return g;
}

/* The lag of partition 0, and how much of it is settled. */
static void assert_lag(int64_t lag, int64_t settled)
{
    leat_group_info *g = group();
    assert_int_equal(g->partition[0].lag, lag);
    assert_int_equal(g->partition[0].settled, settled);
    leat_group_info_free(g);
}

/* ---- names and topics ------------------------------------------------- */

static void names_are_sorted_and_each_given_once(void **state)
{
    (void)state;
    for (int i = 0; i < 3000; i++)
        redis_do(server, "SADD leat:topics n%04d", 2999 - i);
    leat_names *n = leat_topic_names(client, NULL, NULL);
    assert_non_null(n);
    assert_int_equal(n->count, 3001);
    assert_string_equal(n->name[0], "n0000");
    assert_string_equal(n->name[2999], "n2999");
    assert_string_equal(n->name[3000], "t");
    leat_names_free(n);
    n = leat_group_names(client, "t", NULL, NULL);
    assert_int_equal(n->count, 1);
    assert_string_equal(n->name[0], "g");
    leat_names_free(n);
    n = leat_group_names(client, "none", NULL, NULL);
    assert_int_equal(n->count, 0);
    leat_names_free(n);
    leat_names_free(NULL);
}

static void a_topic_is_described_as_it_is(void **state)
{
    leat_error e = { 0 };
    (void)state;
    fill_log(1, 5);
    redis_do(server, "XDEL " LOG " 1-0 5-0", 1);
    leat_topic_info *t = leat_topic_describe(client, "t", NULL, &e);
    assert_non_null(t);
    assert_string_equal(t->name, "t");
    assert_string_equal(t->partitioner_name, "murmur2");
    assert_int_equal(t->partitions, 3);
    assert_int_equal(t->entries, 3);
    assert_int_equal(t->groups, 1);
    assert_false(t->legacy);
    assert_true(t->created_ms > 0 && t->updated_ms == t->created_ms);
    const leat_partition_info *p = &t->partition[1];
    assert_int_equal(p->entries, 3);
    assert_int_equal(p->added, 5);
    assert_int_equal(p->first.ms, 2);
    assert_int_equal(p->last.ms, 4);
    assert_int_equal(t->partition[0].entries, 0);
    assert_int_equal(t->partition[0].added, 0);
    assert_int_equal(t->partition[2].last.ms, 0);
    leat_topic_info_free(t);
}

/* Bodies beside the log count, others' keys do not. */
static void a_topic_tells_its_size_rate_and_what_waits(void **state)
{
    leat_error e = { 0 };
    (void)state;
    for (int i = 0; i < 30; i++)
        redis_do(server, "XADD " LOG " * f v", 1);
    redis_do(server, "XADD leat:{t/2}:dlq * g g");
    redis_do(server, "ZADD leat:{t/0}:later 9e12 a 9e12 b");
    leat_topic_info *t = leat_topic_describe(client, "t", NULL, &e);
    assert_non_null(t);
    int64_t bytes = t->bytes;
    assert_true(bytes > 30 && t->partition[0].bytes == 0);
    assert_true(t->rate > 0 && t->partition[1].rate == t->rate);
    assert_int_equal(t->dead, 1);
    assert_int_equal(t->partition[2].dead, 1);
    assert_int_equal(t->delayed, 2);
    leat_topic_info_free(t);
    redis_do(server, "EVAL %s 1 leat:{t/1}:bodies",
             "redis.call('HSET', KEYS[1], 'a', string.rep('x', 100000))");
    t = leat_topic_describe(client, "t", NULL, &e);
    assert_true(t->bytes >= bytes + 100000);
    leat_topic_info_free(t);
}

/* Ten entries since an hour ago are ten an hour; entries that are too large to
 * be looked at have an unknown rate, as has all of the topic. */
static void a_rate_is_told_by_the_newest_ids(void **state)
{
    leat_error e = { 0 };
    long long now = redis_int(server, "EVAL %s 0",
                              "return tonumber(redis.call('TIME')[1])");
    (void)state;
    redis_do(server, "XADD " LOG " 1-0 f v", 0);
    for (int i = 0; i < 10; i++)
        redis_do(server, "XADD " LOG " %lld-%d f v", 0, (now - 3600) * 1000, i);
    leat_topic_info *t = leat_topic_describe(client, "t", NULL, &e);
    assert_true(t->rate > 10.0 / 3600 * 0.5 && t->rate < 10.0 / 3600 * 1.01);
    leat_topic_info_free(t);
    redis_do(server, "EVAL %s 1 " LOG,
             "redis.call('XADD', KEYS[1], '*', 'f', string.rep('x', 100000))",
             1);
    t = leat_topic_describe(client, "t", NULL, &e);
    assert_true(t->partition[1].rate < 0 && t->rate < 0);
    assert_true(t->partition[0].rate > 0 && t->partition[2].rate == 0);
    leat_topic_info_free(t);
}

/* A user without the right to ask sees that it is not known. */
static void what_may_not_be_asked_is_unknown(void **state)
{
    leat_error e = { 0 };
    (void)state;
    fill_log(0, 5);
    redis_do(server, "ACL SETUSER guest on nopass ~* +@all -memory");
    leat_client *guest = open_client(
        url, &(leat_client_opts){ .user = "guest", .password = "x" });
    leat_topic_info *t = leat_topic_describe(guest, "t", NULL, &e);
    assert_non_null(t);
    assert_int_equal(t->bytes, -1);
    assert_true(t->rate < 0);
    assert_int_equal(t->entries, 5);
    leat_topic_info_free(t);
    leat_client_close(guest);
    redis_do(server, "ACL DELUSER guest");
}

static void what_is_not_there_is_said(void **state)
{
    leat_error e = { 0 };
    (void)state;
    assert_null(leat_topic_describe(client, "none", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_null(leat_topic_describe(client, "a b", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_topic_describe(client, "t", "a b", &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_group_describe(client, "t", "none", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_non_null(strstr(e.msg, "none"));
    assert_null(leat_group_describe(client, "none", "g", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_null(leat_group_describe(client, "t", "a b", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_browse_open(client, "none", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
}

static void a_key_of_another_kind_is_an_error(void **state)
{
    leat_error e = { 0 };
    (void)state;
    redis_do(server, "SET " LOG " x", 2);
    assert_null(leat_topic_describe(client, "t", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    redis_do(server, "DEL " LOG, 2);
    redis_do(server, "SET " LEASE " x", 2);
    assert_null(leat_group_describe(client, "t", "g", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
}

/* ---- lag -------------------------------------------------------------- */

static void before_the_first_read_all_is_lag(void **state)
{
    (void)state;
    fill_log(0, 7);
    fill_log(2, 1);
    leat_group_info *g = group();
    assert_int_equal(g->lag, 8);
    assert_false(g->partition[0].begun);
    assert_int_equal(g->partition[0].lag, 7);
    assert_int_equal(g->partition[1].lag, 0);
    assert_int_equal(g->partition[2].lag, 1);
    leat_group_info_free(g);
}

static void a_cursor_at_the_end_has_no_lag(void **state)
{
    (void)state;
    fill_log(0, 7);
    set_cursor(0, "7-0", "", "");
    assert_lag(0, 0);
    set_cursor(0, "9-0", "7", "");
    assert_lag(0, 0);
}

static void lag_is_what_was_added_less_what_is_settled(void **state)
{
    (void)state;
    fill_log(0, 20);
    set_cursor(0, "5-0", "5", "");
    assert_lag(15, 0);
    set_cursor(0, "5-0", "5", "7-0,9-0");
    assert_lag(13, 2);
    set_cursor(0, "5-0", "5", "7-0,9-0:12-0,15-0");
    assert_lag(9, 6);
}

static void without_a_count_entries_are_counted(void **state)
{
    (void)state;
    fill_log(0, 250);
    set_cursor(0, "5-0", "", "");
    assert_lag(245, 0);
    set_cursor(0, "5-0", "", "7-0,9-0:12-0,15-0,250-0");
    assert_lag(238, 7);
}

/* entries-added does not know of deletions. */
static void what_was_deleted_is_no_lag(void **state)
{
    (void)state;
    fill_log(0, 20);
    set_cursor(0, "5-0", "5", "8-0:10-0");
    redis_do(server, "XDEL " LOG " 9-0 15-0", 0);
    assert_lag(11, 2);
    redis_do(server, "XDEL " LOG " 16-0 17-0 18-0 19-0", 0);
    assert_lag(7, 2);
}

static void a_log_that_was_cut_beyond_the_cursor_is_all_lag(void **state)
{
    (void)state;
    fill_log(0, 20);
    set_cursor(0, "5-0", "5", "");
    redis_do(server, "XTRIM " LOG " MAXLEN 4", 0);
    assert_lag(4, 0);
}

/* Beyond the bound of counting, and never a guess. */
static void too_much_to_count_is_unknown(void **state)
{
    (void)state;
    redis_do(server, "EVAL %s 1 " LOG,
             "for i = 1, 10100 do redis.call('XADD', KEYS[1], i .. '-0', 'f', "
             "'v') end",
             0);
    add(1, 1);
    set_cursor(0, "5-0", "", "");
    set_cursor(1, "1-0", "1", "");
    leat_group_info *g = group();
    assert_int_equal(g->partition[0].lag, -1);
    assert_int_equal(g->partition[0].settled, -1);
    assert_int_equal(g->partition[1].lag, 0);
    assert_int_equal(g->lag, -1);
    leat_group_info_free(g);
    set_cursor(0, "5-0", "5", "");
    assert_lag(10095, 0);
    set_cursor(0, "500-0", "", "");
    assert_lag(9600, 0);
}

static void a_broken_cursor_is_an_answer_and_no_crash(void **state)
{
    (void)state;
    fill_log(0, 5);
    set_cursor(0, "nonsense", "x", "y:z,,:");
    leat_group_info *g = group();
    assert_false(g->partition[0].begun);
    leat_group_info_free(g);
    set_cursor(0, "2-0", "99", "");
    assert_lag(3, 0); /* counted, since 5 added cannot be less than 99 */
}

/* ---- members ---------------------------------------------------------- */

static void members_and_owners_are_named(void **state)
{
    (void)state;
    redis_do(server, "HSET leat:{t}:members:g %s %s %s %s", bob,
             "1 7 1700000000000000 0 l - bob", alice,
             "1 9 1800000000000000 0 s 0-1 alice");
    redis_do(server, "HSET leat:{t}:members:g %s %s",
             "ee0102030405060708090a0b0c0d0e0f", "9 another version");
    redis_do(server, "HSET " LEASE " o %s e 12", 0, alice);
    redis_do(server, "HSET " LEASE " o %s e 13", 1, alice);
    redis_do(server, "HSET " LEASE " o %s e 14 to %s", 2, "", bob);
    leat_group_info *g = group();
    assert_string_equal(g->topic, "t");
    assert_string_equal(g->group, "g");
    assert_int_equal(g->members, 3);
    assert_int_equal(g->owned, 2);
    assert_false(g->member[0].readable);
    assert_string_equal(g->member[0].name, "");
    assert_string_equal(g->member[1].name, "alice");
    assert_string_equal(g->member[1].nonce, alice);
    assert_true(g->member[1].born_ms == 1800000000000);
    assert_int_equal(g->member[1].partitions, 2);
    assert_false(g->member[1].leaving);
    assert_string_equal(g->member[2].name, "bob");
    assert_int_equal(g->member[2].partitions, 0);
    assert_true(g->member[2].leaving);
    assert_string_equal(g->partition[1].owner, "alice");
    assert_int_equal(g->partition[1].epoch, 13);
    assert_null(g->partition[2].owner);
    assert_null(g->partition[2].nonce);
    assert_int_equal(g->partition[2].epoch, 14);
    leat_group_info_free(g);
}

/* Since the last heartbeat, by the server's clock, against the own lease. */
static void
a_member_lives_while_its_beat_is_younger_than_its_lease(void **state)
{
    (void)state;
    redis_do(server, "HSET leat:{t}:members:g %s %s %s %s", bob,
             "1 7 1700000000000000 0 - - bob", alice,
             "1 9 1800000000000000 0 - 0 alice");
    redis_do(server, "EVAL %s 1 leat:{t}:beats:g %s %s",
             "local now = tonumber(redis.call('TIME')[1]) * 1000 "
             "redis.call('HSET', KEYS[1], ARGV[1], now - 100000 .. ' 99000', "
             "ARGV[2], now - 100000 .. ' 9999000', 'stray', 'x')",
             bob, alice);
    redis_do(server, "HSET " LEASE " o %s e 12 w dead v 1700000000123", 0,
             alice);
    redis_do(server, "HSET " LEASE " o %s e 12", 1, bob);
    redis_do(server, "HSET " CURSOR " c 1-0 x 1700000000456", 2);
    leat_group_info *g = group();
    assert_int_equal(g->members, 2);
    assert_int_equal(g->alive, 1);
    assert_true(g->member[0].alive && !g->member[1].alive);
    assert_true(g->member[0].beat_age_ms >= 100000);
    assert_true(g->partition[0].beat_age_ms == g->member[0].beat_age_ms);
    assert_string_equal(g->partition[0].reason, "dead");
    assert_true(g->partition[0].changed_ms == 1700000000123);
    assert_null(g->partition[1].reason);
    assert_true(g->partition[1].changed_ms == 0);
    assert_int_equal(g->partition[2].beat_age_ms, -1);
    assert_int_equal(g->detached, 1);
    assert_true(g->partition[2].detached_ms == 1700000000456);
    leat_group_info_free(g);
}

static void an_owner_without_a_record_is_told_by_its_nonce(void **state)
{
    (void)state;
    redis_do(server, "HSET " LEASE " o %s e 12", 0, alice);
    leat_group_info *g = group();
    assert_int_equal(g->owned, 1);
    assert_null(g->partition[0].owner);
    assert_string_equal(g->partition[0].nonce, alice);
    leat_group_info_free(g);
}

static void the_old_protocol_tells_the_same(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *old = open_client(url, &(leat_client_opts){ .resp2 = true });
    fill_log(0, 20);
    set_cursor(0, "5-0", "5", "7-0,9-0:12-0");
    redis_do(server, "HSET leat:{t}:members:g %s %s", alice,
             "1 9 1800000000000000 0 s 0-1 alice");
    leat_group_info *g = leat_group_describe(old, "t", "g", NULL, &e);
    assert_non_null(g);
    assert_int_equal(g->lag, 10);
    assert_string_equal(g->member[0].name, "alice");
    leat_group_info_free(g);
    leat_topic_info *t = leat_topic_describe(old, "t", NULL, &e);
    assert_int_equal(t->partition[0].last.ms, 20);
    leat_topic_info_free(t);
    leat_client_close(old);
}

/* ---- browsing --------------------------------------------------------- */

static leat_browse *browse(const leat_browse_opts *o)
{
    leat_error e = { 0 };
    leat_browse *b = leat_browse_open(client, "t", o, &e);
    if (!b)
        fail_msg("%s: %s", leat_code_name(e.code), e.msg);
    return b;
}

/* "2/17 0/18 ": partition and milliseconds of what comes until the end. */
static char *walk(leat_browse *b, char *out, size_t room)
{
    leat_seen s;
    leat_error e = { 0 };
    size_t n = 0;
    int got;
    out[0] = '\0';
    while ((got = leat_browse_next(b, &s, 0, &e)) == 1 && n + 40 < room)
        n += (size_t)snprintf(out + n, room - n, "%u/%llu ", s.partition,
                              (unsigned long long)s.position.ms);
    assert_int_equal(got, 0);
    return out;
}

static void assert_walk(const leat_browse_opts *o, const char *want)
{
    char text[4096];
    leat_browse *b = browse(o);
    assert_string_equal(walk(b, text, sizeof text), want);
    leat_browse_close(b);
}

static void partitions_are_merged_by_time(void **state)
{
    (void)state;
    add(0, 10);
    add(2, 11);
    add(2, 12);
    add(1, 13);
    add(0, 14);
    assert_walk(NULL, "0/10 2/11 2/12 1/13 0/14 ");
    assert_walk(&(leat_browse_opts){ .one = true, .partition = 2 },
                "2/11 2/12 ");
    assert_walk(&(leat_browse_opts){ .from = "12-0" }, "2/12 1/13 0/14 ");
    assert_walk(&(leat_browse_opts){ .from = "@13" }, "1/13 0/14 ");
    assert_walk(&(leat_browse_opts){ .from = "end" }, "");
    assert_walk(&(leat_browse_opts){ .last = 1 }, "0/14 ");
    assert_walk(&(leat_browse_opts){ .last = 3 }, "2/12 1/13 0/14 ");
    assert_walk(&(leat_browse_opts){ .last = 99 }, "0/10 2/11 2/12 1/13 0/14 ");
    leat_error e = { 0 };
    assert_null(leat_browse_open(
        client, "t", &(leat_browse_opts){ .one = true, .partition = 3 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_browse_open(client, "t",
                                 &(leat_browse_opts){ .from = "noon" }, &e));
    assert_code(e.code, LEAT_EINVAL);
}

/* Without follow, what comes after the open is not waited for. */
static void the_end_is_where_it_was_at_the_open(void **state)
{
    char text[64];
    (void)state;
    add(0, 1);
    leat_browse *still = browse(NULL);
    leat_browse *on = browse(&(leat_browse_opts){ .follow = true });
    add(0, 2);
    add(1, 3);
    assert_string_equal(walk(still, text, sizeof text), "0/1 ");
    assert_string_equal(walk(on, text, sizeof text), "0/1 0/2 1/3 ");
    add(2, 4);
    leat_seen s;
    must(leat_browse_next(on, &s, 20000, err) == 1 ? LEAT_OK : LEAT_ETIMEOUT);
    assert_int_equal(s.partition, 2);
    leat_browse_close(still);
    leat_browse_close(on);
}

/* More pages than one, in every partition. */
static void long_logs_are_read_whole(void **state)
{
    leat_seen s;
    int n = 0;
    uint64_t before = 0;
    (void)state;
    for (int i = 1; i <= 600; i++)
        add(i % 3, i);
    leat_browse *b = browse(NULL);
    while (leat_browse_next(b, &s, 0, NULL) == 1) {
        assert_true(s.position.ms == before + 1);
        before = s.position.ms;
        n++;
    }
    assert_int_equal(n, 600);
    leat_browse_close(b);
}

static void publish(const leat_codec *codec, const leat_msg *m, size_t n)
{
    leat_fields *f = leat_fields_new(NULL);
    leat_conn *conn = lend(client);
    const leat_reply *r = NULL;
    must(codec->encode(codec, m, n, f, err));
    leat_bytes argv[3 + 64] = { leat_str("XADD"), leat_str("leat:{t/0}:log"),
                                leat_str("*") };
    size_t pairs = leat_fields_count(f);
    assert_true(pairs <= 32);
    memcpy(argv + 3, leat_fields_pairs(f), 2 * pairs * sizeof *argv);
    must(leat_conn_call(conn, argv, 3 + 2 * pairs, NULL, &r, err));
    leat_client_return(client, conn);
    leat_fields_free(f);
}

static void messages_of_every_form_are_decoded(void **state)
{
    const leat_msg m[] = {
        { .id = leat_str("1"), .time_ms = 1, .body = leat_str("one") },
        { .id = leat_str("2"), .time_ms = 1, .body = leat_str("two") },
    };
    static const char *const want[] = { "one", "two", "one", "two" };
    static const uint32_t index[] = { 0, 1, 0, 0 };
    leat_seen s;
    (void)state;
    publish(&leat_codec_native, m, 2);
    publish(&leat_codec_ce_binary, m, 1);
    publish(&leat_codec_ce_json, m + 1, 1);
    leat_browse *b = browse(NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(leat_browse_next(b, &s, 0, NULL), 1);
        assert_null(s.error);
        assert_int_equal(s.msg->body.n, 3);
        assert_memory_equal(s.msg->body.p, want[i], 3);
        assert_int_equal(s.position.index, index[i]);
    }
    assert_int_equal(leat_browse_next(b, &s, 0, NULL), 0);
    leat_browse_close(b);
}

static void what_is_no_message_comes_with_its_fields(void **state)
{
    leat_seen s;
    (void)state;
    redis_do(server, "XADD " LOG " 1-0 name value other x", 0);
    leat_browse *b = browse(NULL);
    assert_int_equal(leat_browse_next(b, &s, 0, NULL), 1);
    assert_non_null(s.error);
    assert_code(s.error->code, LEAT_EDECODE);
    assert_int_equal(s.msg->header_count, 2);
    assert_int_equal(leat_msg_header(s.msg, "name").n, 5);
    assert_int_equal(s.msg->body.n, 0);
    leat_browse_close(b);
}

/* ---- without memory --------------------------------------------------- */

/* With a client of its own, whose connections break for lack of memory.  Its
 * time is short: calls that may be repeated are, until it is over. */
static void look_at_everything(void *arg)
{
    const leat_client_opts o = { .timeout_ms = 60, .connect_timeout_ms = 500 };
    leat_seen s;
    (void)arg;
    leat_client *c = leat_client_open(url, &o, NULL);
    if (!c)
        return;
    leat_names_free(leat_topic_names(c, NULL, NULL));
    leat_topic_info_free(leat_topic_describe(c, "t", NULL, NULL));
    leat_group_info_free(leat_group_describe(c, "t", "g", NULL, NULL));
    leat_browse *b = leat_browse_open(c, "t", NULL, NULL);
    for (int i = 0; b && i < 20; i++)
        if (leat_browse_next(b, &s, 0, NULL) != 1)
            break;
    leat_browse_close(b);
    leat_client_close(c);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fill_log(0, 3);
    add(1, 5);
    set_cursor(0, "1-0", "", "2-0");
    redis_do(server, "HSET leat:{t}:members:g %s %s", alice,
             "1 9 1800000000000000 0 s 0-1 alice");
    redis_do(server, "HSET " LEASE " o %s e 12", 0, alice);
    alloc_fail_sweep(look_at_everything, NULL);
    assert_lag(1, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, close_one)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(names_are_sorted_and_each_given_once),
        CASE(a_topic_is_described_as_it_is),
        CASE(a_topic_tells_its_size_rate_and_what_waits),
        CASE(a_rate_is_told_by_the_newest_ids),
        CASE(what_may_not_be_asked_is_unknown),
        CASE(what_is_not_there_is_said),
        CASE(a_key_of_another_kind_is_an_error),
        CASE(before_the_first_read_all_is_lag),
        CASE(a_cursor_at_the_end_has_no_lag),
        CASE(lag_is_what_was_added_less_what_is_settled),
        CASE(without_a_count_entries_are_counted),
        CASE(what_was_deleted_is_no_lag),
        CASE(a_log_that_was_cut_beyond_the_cursor_is_all_lag),
        CASE(too_much_to_count_is_unknown),
        CASE(a_broken_cursor_is_an_answer_and_no_crash),
        CASE(members_and_owners_are_named),
        CASE(a_member_lives_while_its_beat_is_younger_than_its_lease),
        CASE(an_owner_without_a_record_is_told_by_its_nonce),
        CASE(the_old_protocol_tells_the_same),
        CASE(partitions_are_merged_by_time),
        CASE(the_end_is_where_it_was_at_the_open),
        CASE(long_logs_are_read_whole),
        CASE(messages_of_every_form_are_decoded),
        CASE(what_is_no_message_comes_with_its_fields),
        CASE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

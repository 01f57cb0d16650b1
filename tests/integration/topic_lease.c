/*
 * topic_lease.c: the scripts of members and leases, called directly.
 */
#include "redis/script.h"
#include "support/server.h"
#include "topic/record.h"

#include <inttypes.h>
#include <stdlib.h>

#define A "0a000000000000000000000000000000"
#define B "0b000000000000000000000000000000"
#define C "0c000000000000000000000000000000"

#define MEMBERS "leat:{t}:members:g"
#define LEASE   "leat:{t/0}:lease:g"
#define CURSOR  "leat:{t/0}:cur:g"
#define LOG     "leat:{t/0}:log"
#define JOINED  "leat:{t/0}:joined"
#define KEPT    "leat:{t/0}:kept:g"
#define DUE     "leat:{t/0}:due:g"
#define LANE    "leat:{t/0}:lane:g"
#define ID      "leat:{t/0}:id"
#define KEEP    "600000"

static leat_conn *conn;

static int setup(void **state)
{
    redis_do(server, "CONFIG SET maxmemory 0");
    if (open_one(state) != 0)
        return -1;
    conn = lend(client);
    return 0;
}

static int teardown(void **state)
{
    leat_client_return(client, conn);
    return close_one(state);
}

/* ---- calling ---------------------------------------------------------- */

enum { WORDS = 40 };

static const leat_reply *call(const leat__script *s, size_t nkeys,
                              const char *const *words)
{
    leat_bytes b[WORDS];
    size_t n = 0;
    const leat_reply *r = NULL;
    for (; words[n]; n++)
        b[n] = leat_str(words[n]);
    must(leat__script_call(conn, s, b, nkeys, b + nkeys, n - nkeys, &r, err));
    return r;
}

#define CALL(script, nkeys, ...)                                               \
    call(&leat__script_topic_##script, nkeys,                                  \
         (const char *const[]){ __VA_ARGS__, NULL })

static const leat_reply *beat(const char *nonce, const char *record)
{
    return CALL(beat, 1, MEMBERS, nonce, record, KEEP);
}

static const leat_reply *take_from(const char *me, const char *dead,
                                   const char *start)
{
    return CALL(take, 8, LEASE, CURSOR, LOG, JOINED, KEPT, DUE, LANE, ID, me,
                dead, start, "g", KEEP, "");
}

static const leat_reply *take(const char *me)
{
    return take_from(me, "", "start");
}

static int64_t hand(const char *me, const char *epoch, const char *to)
{
    return leat_reply_int(CALL(hand, 1, LEASE, me, epoch, to, MEMBERS, KEEP));
}

static int64_t renew(const char *me, const char *epoch)
{
    return leat_reply_int(CALL(renew, 1, LEASE, me, epoch, KEEP));
}

/* The n-th text of a reply, which is gone with the next call. */
static const char *nth(const leat_reply *r, size_t i)
{
    static char room[8][200];
    static unsigned turn;
    char *out = room[turn++ % 8];
    leat_bytes b = leat_reply_bytes(leat_reply_at(r, i));
    assert_true(b.n < sizeof room[0]);
    if (b.n)
        memcpy(out, b.p, b.n);
    out[b.n] = '\0';
    return out;
}

static const char *taken(const leat_reply *r)
{
    assert_int_equal(leat_reply_len(r), 13);
    assert_string_equal(nth(r, 0), "1");
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(leat_reply_kind(leat_reply_at(r, i)),
                         LEAT_REPLY_STRING);
    return nth(r, 1);
}

static void refused_by(const leat_reply *r, const char *owner)
{
    assert_int_equal(leat_reply_len(r), 2);
    assert_string_equal(nth(r, 0), "0");
    assert_string_equal(nth(r, 1), owner);
}

static void keep(char out[32], const char *text)
{
    snprintf(out, 32, "%s", text);
}

static void field_is(const char *key, const char *field, const char *want)
{
    char text[200];
    redis_text(server, text, sizeof text, "HGET %s %s", key, field);
    assert_string_equal(text, want);
}

static void born_of(const char *nonce, uint64_t *born)
{
    char text[200];
    leat__record r;
    redis_text(server, text, sizeof text, "HGET %s %s", MEMBERS, nonce);
    assert_true(leat__record_parse(leat_str(text), &r));
    *born = r.born;
}

/* ---- members ---------------------------------------------------------- */

static void a_beat_writes_its_record_and_reads_all(void **state)
{
    uint64_t born;
    (void)state;
    assert_int_equal(leat_reply_len(beat(A, "1 1 0 0 - - a")), 2);
    const leat_reply *r = beat(B, "1 1 0 0 - 0-3 b");
    assert_int_equal(leat_reply_len(r), 4);
    born_of(A, &born);
    assert_true(born > 1000000000000000);
    assert_true(redis_int(server, "PTTL %s", MEMBERS) > 0);
}

static void born_is_set_once_and_rises_though_the_clock_may_not(void **state)
{
    uint64_t a, b, c;
    (void)state;
    beat(A, "1 1 0 0 - - a");
    born_of(A, &a);
    beat(A, "1 2 0 0 - - a"); /* the first answer was lost */
    born_of(A, &b);
    assert_int_equal(a, b);
    redis_do(server, "HSET %s %s %s", MEMBERS, B,
             "1 1 5000000000000000 0 - - b");
    beat(C, "1 1 0 0 - - c");
    born_of(C, &c);
    assert_int_equal(c, 5000000000000001);
}

static void a_late_beat_only_reads(void **state)
{
    (void)state;
    redis_do(server, "HSET %s %s %s", MEMBERS, A, "1 10 70 0 - 5 a");
    assert_int_equal(leat_reply_len(beat(A, "1 9 70 0 - 0-7 a")), 2);
    field_is(MEMBERS, A, "1 10 70 0 - 5 a");
    beat(A, "1 11 70 0 - 6 a");
    field_is(MEMBERS, A, "1 11 70 0 - 6 a");
}

static void only_a_beat_that_says_so_makes_a_lost_record_again(void **state)
{
    (void)state;
    assert_int_equal(leat_reply_len(beat(A, "1 9 70 0 - 0-7 a")), 0);
    assert_int_equal(redis_int(server, "EXISTS %s", MEMBERS), 0);
    assert_int_equal(leat_reply_len(beat(A, "1 10 +70 0 - 0-7 a")), 2);
    field_is(MEMBERS, A, "1 10 70 0 - 0-7 a");
    assert_true(redis_int(server, "PTTL %s", MEMBERS) > 0);
}

static void what_is_no_record_is_refused_and_not_written(void **state)
{
    const leat_reply *r;
    const leat_bytes b[] = { leat_str(MEMBERS), leat_str(A), leat_str("x"),
                             leat_str(KEEP) };
    (void)state;
    assert_int_not_equal(leat__script_call(conn, &leat__script_topic_beat, b, 1,
                                           b + 1, 3, &r, NULL),
                         LEAT_OK);
    assert_int_equal(redis_int(server, "EXISTS %s", MEMBERS), 0);
}

/* How many messages the channel got while fn ran. */
static int64_t told(void (*fn)(void))
{
    redisContext *side = redisConnectUnix(redis_socket(server));
    assert_non_null(side);
    freeReplyObject(redisCommand(side, "SUBSCRIBE %s", MEMBERS));
    fn();
    redis_do(server, "PUBLISH %s end", MEMBERS);
    int64_t n = 0;
    for (;; n++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(side, (void **)&r), REDIS_OK);
        bool end = strcmp(r->element[2]->str, "end") == 0;
        freeReplyObject(r);
        if (end)
            break;
    }
    redisFree(side);
    return n;
}

static void beat_alike(void)
{
    beat(A, "1 2 0 0 - - a");
    beat(A, "1 3 0 0 - - a");
}

static void beat_anew(void)
{
    beat(A, "1 4 0 0 - 1 a");
}

static void leave_and_hand(void)
{
    char e[32];
    keep(e, taken(take(A)));
    assert_int_equal(hand(A, e, ""), 1);
    assert_int_equal(leat_reply_int(CALL(leave, 1, MEMBERS, A)), 1);
}

static void changes_are_told_and_mere_beats_are_not(void **state)
{
    (void)state;
    beat(A, "1 1 0 0 - - a");
    assert_int_equal(told(beat_alike), 0);
    assert_int_equal(told(beat_anew), 1);
    assert_int_equal(told(leave_and_hand), 2);
}

static void a_record_is_buried_only_as_it_was_judged(void **state)
{
    (void)state;
    redis_do(server, "HSET %s %s %s", MEMBERS, A, "1 10 70 0 - 5 a");
    assert_int_equal(
        leat_reply_int(CALL(bury, 1, MEMBERS, A, "1 9 70 0 - 5 a")), 0);
    assert_int_equal(
        leat_reply_int(CALL(bury, 1, MEMBERS, A, "1 10 70 0 - 5 a")), 1);
    assert_int_equal(
        leat_reply_int(CALL(bury, 1, MEMBERS, A, "1 10 70 0 - 5 a")), 0);
}

static void a_thousand_members_are_read_at_once(void **state)
{
    char nonce[40];
    (void)state;
    for (int i = 0; i < 999; i++) {
        snprintf(nonce, sizeof nonce, "%032d", i);
        redis_do(server, "HSET %s %s %s", MEMBERS, nonce,
                 "1 10 70 0 - 0-9 host-123-0123456789abcdef");
    }
    int64_t from = wait_now_ns();
    for (int i = 0; i < 100; i++) {
        char record[64];
        snprintf(record, sizeof record, "1 %d 0 0 - - a", i + 1);
        assert_int_equal(leat_reply_len(beat(A, record)), 2000);
    }
    print_message("# a beat in a group of 1000: %lld us\n",
                  (long long)(wait_now_ns() - from) / 100000);
}

/* ---- leases ----------------------------------------------------------- */

static void a_free_lease_is_taken_and_then_refused_to_others(void **state)
{
    char e[32];
    (void)state;
    keep(e, taken(take(A)));
    refused_by(take(B), A);
    field_is(LEASE, "o", A);
    field_is(LEASE, "e", e);
    field_is(CURSOR, "e", e);
    field_is(CURSOR, "q", "0");
    assert_true(redis_int(server, "PTTL %s", LEASE) > 0);
    assert_int_equal(redis_int(server, "PTTL %s", CURSOR), -1);
}

static void taking_again_what_is_ours_gives_a_fresh_epoch(void **state)
{
    char first[32];
    (void)state;
    keep(first, taken(take(A)));
    redis_do(server, "HSET %s q 17", CURSOR);
    const char *second = taken(take(A));
    assert_true(strtoull(second, NULL, 10) > strtoull(first, NULL, 10));
    field_is(CURSOR, "q", "0");
    assert_int_equal(renew(A, first), 0);
    assert_int_equal(hand(A, first, ""), 0);
}

static void a_lease_is_taken_only_from_the_one_judged_dead(void **state)
{
    char first[32];
    (void)state;
    keep(first, taken(take(A)));
    refused_by(take_from(B, C, "start"), A);
    const char *second = taken(take_from(B, A, "start"));
    assert_true(strtoull(second, NULL, 10) > strtoull(first, NULL, 10));
    assert_int_equal(renew(A, first), 0);
    assert_int_equal(renew(B, second), 1);
    refused_by(take_from(A, "", "start"), B);
}

static void
a_lease_given_up_is_free_or_waits_for_whom_it_was_promised(void **state)
{
    char e[32];
    (void)state;
    keep(e, taken(take(A)));
    assert_int_equal(hand(B, e, ""), 0);
    assert_int_equal(hand(A, e, B), 1);
    assert_int_equal(hand(A, e, C), 0);
    refused_by(take(C), B);
    refused_by(take(A), B);
    keep(e, taken(take(B)));
    assert_int_equal(hand(B, e, C), 1);
    keep(e, taken(take_from(A, C, "start"))); /* C died before it took it */
    assert_int_equal(hand(A, e, ""), 1);
    taken(take(C));
    field_is(LEASE, "to", "");
}

static void epochs_rise_over_any_clock_and_any_loss(void **state)
{
    (void)state;
    redis_do(server, "HSET %s o %s e 8000000000000000 to %s", LEASE, "", "");
    assert_string_equal(taken(take(A)), "8000000000000001");
    redis_do(server, "HSET %s e 8000000000000100", CURSOR);
    assert_string_equal(taken(take(A)), "8000000000000101");
    redis_do(server, "DEL %s", LEASE);
    assert_string_equal(taken(take(B)), "8000000000000102");
    redis_do(server, "DEL %s %s", LEASE, CURSOR);
    assert_true(strtoull(taken(take(B)), NULL, 10) < 8000000000000000);
}

static void an_owner_whose_lease_was_deleted_is_fenced(void **state)
{
    char e[32];
    (void)state;
    keep(e, taken(take(A)));
    redis_do(server, "DEL %s", LEASE);
    assert_int_equal(renew(A, e), 0);
    assert_int_equal(hand(A, e, ""), 0);
    assert_int_equal(redis_int(server, "EXISTS %s", LEASE), 0);
}

static void a_renewal_prolongs_only_against_sweeping(void **state)
{
    char e[32];
    (void)state;
    keep(e, taken(take(A)));
    redis_do(server, "PEXPIRE %s 5000", LEASE);
    assert_int_equal(renew(A, e), 1);
    assert_true(redis_int(server, "PTTL %s", LEASE) > 5000);
    redis_do(server, "PEXPIRE %s 5000", LEASE);
    assert_int_equal(renew(B, e), 0);
    assert_true(redis_int(server, "PTTL %s", LEASE) <= 5000);
}

/* ---- where a group starts --------------------------------------------- */

static void starts(const char *spec, const char *c, const char *n)
{
    redis_do(server, "DEL %s %s", LEASE, CURSOR);
    const leat_reply *r = take_from(A, "", spec);
    taken(r);
    assert_string_equal(nth(r, 2), c);
    assert_string_equal(nth(r, 3), c);
    assert_string_equal(nth(r, 4), n);
    assert_string_equal(nth(r, 5), "");
    assert_string_equal(nth(r, 6), "");
    field_is(CURSOR, "c", c);
    field_is(CURSOR, "m", c);
    field_is(CURSOR, "n", n);
}

static void a_new_group_starts_where_it_was_told(void **state)
{
    (void)state;
    starts("start", "0-0", "0"); /* no stream yet */
    redis_do(server, "DEL %s", LOG);
    starts("end", "0-0", "0");
    for (int i = 1; i <= 5; i++)
        redis_do(server, "XADD %s %d-1 a b", LOG, i);
    redis_do(server, "XTRIM %s MAXLEN 3", LOG);
    starts("start", "0-0", "2");
    starts("end", "5-1", "5");
    starts("3-7", "3-7", "");
    starts("@4", "3-18446744073709551615", "");
    starts("@0", "0-0", "");
    starts("@1700000000000", "1699999999999-18446744073709551615", "");
}

static void a_position_that_is_none_is_refused_before_any_write(void **state)
{
    static const char *const bad[] = { "", "5", "a-b", "@", "@-1", "5-" };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const leat_bytes b[] = { leat_str(LEASE),  leat_str(CURSOR),
                                 leat_str(LOG),    leat_str(JOINED),
                                 leat_str(KEPT),   leat_str(DUE),
                                 leat_str(LANE),   leat_str(ID),
                                 leat_str(A),      leat_str(""),
                                 leat_str(bad[i]), leat_str("g"),
                                 leat_str(KEEP),   leat_str("") };
        const leat_reply *r;
        assert_int_not_equal(leat__script_call(conn, &leat__script_topic_take,
                                               b, 8, b + 8, 6, &r, NULL),
                             LEAT_OK);
        assert_int_equal(redis_int(server, "DBSIZE"), 0);
    }
}

static void a_known_group_goes_on_where_it_was(void **state)
{
    (void)state;
    redis_do(server, "XADD %s 7-0 f v", LOG);
    redis_do(server, "HSET %s c 5-1 m 7-0 n 12 s 6-0 t 5-2:1 q 9 e 4", CURSOR);
    const leat_reply *r = take_from(A, "", "end");
    taken(r);
    assert_string_equal(nth(r, 8), "");
    assert_string_equal(nth(r, 2), "5-1");
    assert_string_equal(nth(r, 3), "7-0");
    assert_string_equal(nth(r, 4), "12");
    assert_string_equal(nth(r, 5), "6-0");
    assert_string_equal(nth(r, 6), "5-2:1");
}

/* What was written since may be among the last entries that are left. */
static void a_group_goes_back_with_its_log(void **state)
{
    (void)state;
    redis_do(server, "XADD %s 20000-3 f v", LOG);
    redis_do(server, "HSET %s b 0-0 c 30000-1 m 30007-0 n 12 s 30006-0 q 9 e 4",
             CURSOR);
    const leat_reply *r = take_from(A, "", "end");
    taken(r);
    assert_string_equal(nth(r, 2), "10000-0");
    assert_string_equal(nth(r, 3), "10000-0");
    assert_string_equal(nth(r, 4), "");
    assert_string_equal(nth(r, 5), "");
    assert_string_equal(nth(r, 8), "20000-3");
    assert_string_equal(nth(r, 9), "30007-0");
    r = take_from(A, "", "end");
    taken(r);
    assert_string_equal(nth(r, 2), "10000-0");
    assert_string_equal(nth(r, 8), "");
}

/* Never before where it started. */
static void but_not_before_its_start(void **state)
{
    (void)state;
    redis_do(server, "XADD %s 20000-3 f v", LOG);
    redis_do(server, "HSET %s b 15000-7 c 30000-1 m 30007-0 q 9 e 4", CURSOR);
    const leat_reply *r = take_from(A, "", "end");
    taken(r);
    assert_string_equal(nth(r, 2), "15000-7");
    redis_do(server, "HSET %s b 25000-7 c 30000-1 m 30007-0 q 9 e 4", CURSOR);
    r = take_from(A, "", "end");
    taken(r);
    assert_string_equal(nth(r, 2), "20000-3");
}

static void the_group_is_shown_to_the_servers_own_tools(void **state)
{
    (void)state;
    taken(take(A));
    taken(take(A)); /* it is there: no failure */
    redisReply *r = redis_raw(server, "XINFO GROUPS %s", LOG);
    assert_int_equal(r->elements, 1);
    assert_string_equal(r->element[0]->element[1]->str, "g");
    freeReplyObject(r);
}

/* ---- a full server ---------------------------------------------------- */

static void everything_works_on_a_server_that_is_full(void **state)
{
    char e[32];
    (void)state;
    beat(A, "1 1 0 0 - - a");
    redis_do(server, "CONFIG SET maxmemory 1");
    char text[200];
    redis_text(server, text, sizeof text, "SET x y");
    assert_memory_equal(text, "OOM", 3);
    assert_int_equal(leat_reply_len(beat(A, "1 2 0 0 - 0 a")), 2);
    assert_int_equal(leat_reply_len(beat(B, "1 1 0 0 - - b")), 4);
    keep(e, taken(take(A)));
    assert_int_equal(renew(A, e), 1);
    assert_int_equal(hand(A, e, ""), 1);
    taken(take(B));
    assert_int_equal(leat_reply_int(CALL(leave, 1, MEMBERS, A)), 1);
    redis_text(server, text, sizeof text, "HGET %s %s", MEMBERS, B);
    assert_int_equal(leat_reply_int(CALL(bury, 1, MEMBERS, B, text)), 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* ---- for who looks from outside --------------------------------------- */

static void a_beat_notes_when_it_was_and_tells_of_a_pause(void **state)
{
    char note[64];
    (void)state;
    const leat_reply *r = CALL(beat, 3, MEMBERS, "leat:{t}:beats:g",
                               "leat:{t}:paused:g", A, "1 1 0 0 - - a", KEEP,
                               "15000");
    assert_int_equal(leat_reply_len(r), 2);
    redis_text(server, note, sizeof note, "HGET leat:{t}:beats:g " A);
    assert_non_null(strstr(note, " 15000"));
    assert_true(strtoll(note, NULL, 10) > 1600000000000);
    assert_true(redis_int(server, "PTTL leat:{t}:beats:g") > 0);

    redis_do(server, "SET leat:{t}:paused:g 77");
    r = CALL(beat, 3, MEMBERS, "leat:{t}:beats:g", "leat:{t}:paused:g", A,
             "1 2 0 0 - - a", KEEP, "15000");
    assert_int_equal(leat_reply_len(r), 4);
    assert_string_equal(nth(r, 2), "paused");
    assert_string_equal(nth(r, 3), "77");

    /* With its record the note goes. */
    (void)CALL(leave, 2, MEMBERS, "leat:{t}:beats:g", A);
    assert_int_equal(redis_int(server, "EXISTS leat:{t}:beats:g"), 0);
}

static void assert_why(const char *why)
{
    char text[32];
    assert_string_equal(
        redis_text(server, text, sizeof text, "HGET " LEASE " w"), why);
    assert_true(redis_int(server, "HGET " LEASE " v") > 1600000000000);
}

static void a_lease_keeps_why_its_owner_changed(void **state)
{
    char epoch[40];
    (void)state;
    snprintf(epoch, sizeof epoch, "%s", taken(take(A)));
    assert_why("start");
    (void)taken(take(A));
    assert_why("again");
    (void)taken(take_from(B, A, "start"));
    assert_why("dead");
    snprintf(epoch, sizeof epoch, "%s",
             taken(CALL(take, 8, LEASE, CURSOR, LOG, JOINED, KEPT, DUE, LANE,
                        ID, C, B, "start", "g", KEEP, "", "superseded", "")));
    assert_why("superseded");
    assert_int_equal(hand(C, epoch, ""), 1);
    assert_why("handed");
    (void)taken(take(A));
    assert_why("handed");
}

/* ---- our own earlier lease -------------------------------------------- */

/* A save that says everything up to 7-0 is settled, as our lease `epoch` would
 * send it. */
static int64_t save(const char *epoch)
{
    return leat_reply_int(CALL(save, 3, LEASE, CURSOR, LOG, A, epoch, "5",
                               "7-0", "7-0", "", "", "", "g", KEEP, "0"));
}

/* The same, with a step: 7-0 is a dead letter. */
static int64_t move(const char *epoch)
{
    const leat_reply *r = CALL(
        move, 11, LEASE, CURSOR, LOG, KEPT, DUE, LANE, "leat:{t/0}:dlq",
        "leat:{t/0}:bodies", "leat:{t/0}:later", "leat:{t/0}:laters",
        "leat:{t/0}:since", A, epoch, "5", "7-0", "7-0", "", "", "", "g", KEEP,
        "0", "255", "", "1", "dead", "7-0", "1", "1", "0", "bad", "");
    return leat_reply_int(leat_reply_at(r, 0));
}

/* It was held up on its way, and we have taken the partition once more: nothing
 * but the epoch tells. */
static void a_late_save_of_our_own_earlier_lease_does_nothing(void **state)
{
    char first[32], second[32];
    (void)state;
    redis_do(server, "XADD %s 7-0 a b", LOG);
    keep(first, taken(take(A)));
    keep(second, taken(take(A)));
    assert_string_not_equal(first, second);
    assert_int_equal(save(first), 0);
    field_is(CURSOR, "c", "0-0");
    field_is(CURSOR, "q", "0");
    assert_int_equal(move(first), 0);
    field_is(CURSOR, "c", "0-0");
    field_is(CURSOR, "k", "0");
    assert_int_equal(redis_int(server, "EXISTS leat:{t/0}:dlq"), 0);

    assert_int_equal(save(second), 1);
    field_is(CURSOR, "c", "7-0");
    keep(first, taken(take(A)));
    assert_int_equal(move(first), 1);
    assert_int_equal(redis_int(server, "XLEN leat:{t/0}:dlq"), 1);
}

static void an_epoch_is_above_all_that_we_know(void **state)
{
    (void)state;
    const char *epoch = taken(CALL(take, 8, LEASE, CURSOR, LOG, JOINED, KEPT,
                                   DUE, LANE, ID, A, "", "start", "g", KEEP, "",
                                   "dead", "", "7000000000000000", ""));
    assert_string_equal(epoch, "7000000000000001");
}

/* The cursor is gone, and the log that we were in, too: what is there now came
 * by a slower clock, some of it before where we were and some behind. */
static void a_new_log_is_read_from_before_where_we_were(void **state)
{
    char from[32];
    (void)state;
    redis_do(server, "XADD %s 96000-0 a b", LOG);
    redis_do(server, "XADD %s 130000-0 a b", LOG);
    const leat_reply *r = CALL(take, 8, LEASE, CURSOR, LOG, JOINED, KEPT, DUE,
                               LANE, ID, A, "", "end", "g", KEEP, "100000-0",
                               "dead", "", "0", "");
    keep(from, nth(r, 2));
    assert_string_equal(from, "90000-0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_beat_writes_its_record_and_reads_all),
        T(born_is_set_once_and_rises_though_the_clock_may_not),
        T(a_late_beat_only_reads),
        T(only_a_beat_that_says_so_makes_a_lost_record_again),
        T(what_is_no_record_is_refused_and_not_written),
        T(changes_are_told_and_mere_beats_are_not),
        T(a_record_is_buried_only_as_it_was_judged),
        T(a_thousand_members_are_read_at_once),
        T(a_free_lease_is_taken_and_then_refused_to_others),
        T(taking_again_what_is_ours_gives_a_fresh_epoch),
        T(a_lease_is_taken_only_from_the_one_judged_dead),
        T(a_lease_given_up_is_free_or_waits_for_whom_it_was_promised),
        T(epochs_rise_over_any_clock_and_any_loss),
        T(an_owner_whose_lease_was_deleted_is_fenced),
        T(a_renewal_prolongs_only_against_sweeping),
        T(a_new_group_starts_where_it_was_told),
        T(a_position_that_is_none_is_refused_before_any_write),
        T(a_known_group_goes_on_where_it_was),
        T(a_group_goes_back_with_its_log),
        T(but_not_before_its_start),
        T(the_group_is_shown_to_the_servers_own_tools),
        T(everything_works_on_a_server_that_is_full),
        T(a_beat_notes_when_it_was_and_tells_of_a_pause),
        T(a_lease_keeps_why_its_owner_changed),
        T(a_late_save_of_our_own_earlier_lease_does_nothing),
        T(an_epoch_is_above_all_that_we_know),
        T(a_new_log_is_read_from_before_where_we_were),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

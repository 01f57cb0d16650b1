/*
 * dlq.c: dead letters are found, shown, counted and edited.
 */
#include "dlq_help.h"
#include "support/allocfail.h"

#include <stdlib.h>

enum { PARTS = 3 };

/* Each test begins with a topic "t" of three partitions. */
static int begin(void **state)
{
    if (open_one(state) != 0)
        return -1;
    make_dlq(PARTS);
    return 0;
}

#define dlq_test(name) cmocka_unit_test_setup_teardown(name, begin, close_dlq)

/* ---- walking ---------------------------------------------------------- */

static leat_dlq_walk *walk(const leat_dlq_walk_opts *o)
{
    leat_error e = { 0 };
    leat_dlq_walk *w = leat_dlq_walk_open(dlq, o, &e);
    if (!w)
        fail_msg("cannot walk: %s", e.msg);
    return w;
}

static bool next(leat_dlq_walk *w, leat_dead *x)
{
    leat_error e = { 0 };
    int got = leat_dlq_walk_next(w, x, &e);
    if (got < 0)
        fail_msg("walk: %s", e.msg);
    return got == 1;
}

/* The bodies, all in a row, which are numbers. */
static int bodies(const leat_dlq_walk_opts *o, int *out, int room)
{
    leat_dlq_walk *w = walk(o);
    leat_dead x;
    int n = 0;
    while (next(w, &x)) {
        char text[32] = "";
        assert_in_range(n, 0, room - 1);
        if (x.msg->body.n > 0 && x.msg->body.n < sizeof text)
            memcpy(text, x.msg->body.p, x.msg->body.n);
        out[n++] = (int)strtol(text, NULL, 10);
    }
    assert_false(next(w, &x));
    leat_dlq_walk_close(w);
    return n;
}

static int count_of(leat_dead_filter f)
{
    static int out[20000];
    return bodies(&(leat_dlq_walk_opts){ .filter = f }, out, 20000);
}

/* Number i dies in partition i % PARTS. */
static void bury_spread(int n)
{
    char body[16];
    for (int i = 0; i < n; i++) {
        snprintf(body, sizeof body, "%d", i);
        bury((grave){ .partition = i % PARTS,
                      .group = i % 2 ? "g" : "h",
                      .key = i % 5 ? "k" : "other",
                      .body = body,
                      .error = i % 4 ? "Timeout after 30 s" : "no such user" },
             NULL);
    }
}

/* ---- looking ---------------------------------------------------------- */

static void a_dead_letter_tells_all_that_is_known(void **state)
{
    char id[LEAT_DEAD_ID];
    (void)state;
    bury((grave){ .partition = 2,
                  .group = "billing",
                  .key = "order-7",
                  .body = "hello",
                  .error = "no such user",
                  .extra = "6:reason4:gone4:host2:h1",
                  .attempts = 5,
                  .failures = 3 },
         id);
    leat_dead *x = dead_of(dlq, id);
    assert_string_equal(x->id, id);
    assert_string_equal(x->topic, "t");
    assert_string_equal(x->group, "billing");
    assert_int_equal(x->partition, 2);
    assert_true(x->position.ms > 0);
    assert_int_equal(x->attempts, 5);
    assert_int_equal(x->failures, 3);
    assert_bytes(x->error, "no such user");
    assert_bytes(x->first_error, "no such user");
    assert_bytes(x->last_error, "no such user");
    assert_true(x->first_ms > 0 && x->last_ms >= x->first_ms);
    assert_true(x->dead_ms >= x->last_ms);
    assert_int_equal(x->fence, 17);
    assert_string_equal(x->replayed_from, "");
    assert_int_equal(x->edited_ms, 0);
    assert_int_equal(x->extra_count, 2);
    assert_bytes(x->extra[0].name, "reason");
    assert_bytes(x->extra[0].value, "gone");
    assert_bytes(x->extra[1].value, "h1");
    assert_null(x->damaged);
    assert_int_equal(x->msg_count, 1);
    assert_bytes(x->msg->key, "order-7");
    assert_bytes(x->msg->body, "hello");
    leat_dead_free(x);
    leat_dead_free(NULL);
}

static void the_policy_may_show_another_error(void **state)
{
    char id[LEAT_DEAD_ID];
    (void)state;
    bury((grave){ .body = "x",
                  .error = "errno 110",
                  .extra = "5:error7:timeout" },
         id);
    leat_dead *x = dead_of(dlq, id);
    assert_bytes(x->error, "timeout");
    assert_bytes(x->last_error, "errno 110");
    assert_int_equal(count_of((leat_dead_filter){ .error = "timeout" }), 1);
    assert_int_equal(count_of((leat_dead_filter){ .error = "errno" }), 0);
    leat_dead_free(x);
}

/* What died in one millisecond is in the order of partitions. */
static void partitions_are_merged_in_the_order_of_death(void **state)
{
    (void)state;
    bury_spread(50);
    for (int back = 0; back < 2; back++) {
        uint64_t ms = 0, seq = 0, last = 0;
        unsigned part = 0, n = 0, seen[PARTS] = { 0 };
        leat_dead x;
        leat_dlq_walk *w = walk(&(leat_dlq_walk_opts){ .newest_first = back });
        for (; next(w, &x); n++) {
            unsigned before = part;
            uint64_t then = ms;
            char *at_seq = NULL;
            part = x.partition;
            ms = strtoull(strchr(x.id, ':') + 1, &at_seq, 10);
            seq = strtoull(at_seq + 1, NULL, 10);
            assert_true(n == 0 || (back ? ms <= then : ms >= then));
            if (n > 0 && ms == then && seq == last)
                assert_true(back ? part < before : part > before);
            last = seq;
            unsigned at = seen[part]++;
            unsigned of = (50 - part + PARTS - 1) / PARTS;
            char body[16];
            snprintf(body, sizeof body, "%u",
                     part + PARTS * (back ? of - 1 - at : at));
            assert_bytes(x.msg->body, body);
        }
        assert_int_equal(n, 50);
        leat_dlq_walk_close(w);
    }
}

/* Ids of the same millisecond and number in all partitions: each has a place
 * in the order all the same. */
static void bury_ties(void)
{
    for (int p = 0; p < PARTS; p++)
        for (int i = 1; i <= 4; i++)
            redis_do(server,
                     "XADD leat:{t/%d}:dlq %d-5 g g i 1-1 n 1 f 1 fm 1 lm 1 fe "
                     "e le e e 1 r %s x %s c 1 body %d",
                     p, i, "", "", i * 10 + p);
}

static void each_page_goes_on_behind_the_one_before(void **state)
{
    (void)state;
    bury_ties();
    for (int back = 0; back < 2; back++) {
        char after[LEAT_DEAD_ID] = "";
        leat_dead x;
        int n = 0;
        for (; n < 100; n++) {
            leat_dlq_walk *w = walk(&(leat_dlq_walk_opts){
                .after = n ? after : NULL, .newest_first = back });
            bool more = next(w, &x);
            if (more)
                memcpy(after, x.id, strlen(x.id) + 1);
            leat_dlq_walk_close(w);
            if (!more)
                break;
            char wanted[LEAT_DEAD_ID];
            int at = back ? 11 - n : n;
            snprintf(wanted, sizeof wanted, "%d:%d-5", at % 3, at / 3 + 1);
            assert_string_equal(after, wanted);
        }
        assert_int_equal(n, 12);
    }
}

static void a_page_may_begin_behind_what_is_gone(void **state)
{
    int out[8];
    (void)state;
    bury_ties();
    leat_dlq_walk_opts o = { .after = "1:3-7" };
    assert_int_equal(bodies(&o, out, 8), 3);
    o.after = "0:18446744073709551615-18446744073709551615";
    assert_int_equal(bodies(&o, out, 8), 0);
    o = (leat_dlq_walk_opts){ .after = "2:0-0", .newest_first = true };
    assert_int_equal(bodies(&o, out, 8), 0);
}

static void a_filter_chooses_among_them(void **state)
{
    (void)state;
    bury_spread(40);
    assert_int_equal(count_of((leat_dead_filter){ 0 }), 40);
    assert_int_equal(count_of((leat_dead_filter){ .group = "g" }), 20);
    assert_int_equal(count_of((leat_dead_filter){ .group = "none" }), 0);
    assert_int_equal(count_of((leat_dead_filter){ .error = "USER" }), 10);
    assert_int_equal(count_of((leat_dead_filter){ .error = "" }), 40);
    assert_int_equal(count_of((leat_dead_filter){ .key = leat_str("other") }),
                     8);
    assert_int_equal(count_of((leat_dead_filter){ .key = leat_str("") }), 0);
    assert_int_equal(count_of((leat_dead_filter){ .one = true }), 14);
    assert_int_equal(count_of((leat_dead_filter){ .group = "g",
                                                  .error = "timeout",
                                                  .key = leat_str("other") }),
                     4);
}

static void times_are_those_of_death(void **state)
{
    (void)state;
    bury_ties();
    assert_int_equal(count_of((leat_dead_filter){ .since_ms = 3 }), 6);
    assert_int_equal(count_of((leat_dead_filter){ .until_ms = 3 }), 6);
    assert_int_equal(
        count_of((leat_dead_filter){ .since_ms = 2, .until_ms = 3 }), 3);
    assert_int_equal(
        count_of((leat_dead_filter){ .since_ms = 3, .until_ms = 3 }), 0);
    assert_int_equal(
        count_of((leat_dead_filter){ .since_ms = 9, .until_ms = 3 }), 0);
}

static void what_dies_meanwhile_is_not_shown(void **state)
{
    leat_dead x;
    int n = 0;
    (void)state;
    bury_many((grave){ .key = "k", .error = "e" }, 0, 150);
    leat_dlq_walk *w = walk(NULL);
    for (; next(w, &x); n++)
        if (n < 150)
            bury((grave){ .key = "k", .body = "x", .error = "e" }, NULL);
    assert_int_equal(n, 150);
    leat_dlq_walk_close(w);
}

static void what_is_taken_away_meanwhile_does_not_stop_it(void **state)
{
    leat_dead x;
    int n = 0;
    (void)state;
    bury_many((grave){ .key = "k", .error = "e" }, 0, 300);
    leat_dlq_walk *w = walk(NULL);
    while (next(w, &x))
        if (n++ == 10)
            redis_do(server, "DEL leat:{t/0}:dlq");
    assert_in_range(n, 11, 300);
    leat_dlq_walk_close(w);
}

/* ---- what is damaged -------------------------------------------------- */

static void what_cannot_be_decoded_is_shown_raw(void **state)
{
    leat_dead x;
    (void)state;
    bury_ties();
    leat_dlq_walk *w = walk(NULL);
    assert_true(next(w, &x));
    assert_non_null(x.damaged);
    assert_code(x.damaged->code, LEAT_EDECODE);
    assert_int_equal(x.msg->header_count, 1);
    assert_bytes(x.msg->headers[0].name, "body");
    assert_bytes(x.msg->headers[0].value, "10");
    assert_string_equal(x.group, "g");
    leat_dlq_walk_close(w);
}

static void entries_of_others_are_shown_as_such(void **state)
{
    static const char *const tails[] = {
        "a b",               /* nothing of ours                   */
        "g g i 1-1 c 2 a b", /* fewer fields than it says         */
        "g g i 1-1 c 0 a b", /* and more                          */
        "g g i 1-1 c x a b", /* and not a number                  */
        "g g i 1-1",         /* cut                               */
    };
    leat_dead x;
    (void)state;
    for (int i = 0; i < 5; i++) {
        char line[200];
        snprintf(line, sizeof line, "XADD leat:{t/0}:dlq %d-0 %s", i + 1,
                 tails[i]);
        redis_do(server, line);
    }
    leat_dlq_walk *w = walk(NULL);
    for (int i = 0; i < 5; i++) {
        assert_true(next(w, &x));
        assert_non_null(x.damaged);
        assert_string_equal(x.group, "");
    }
    leat_dlq_walk_close(w);
}

static void numbers_that_are_none_are_zero(void **state)
{
    (void)state;
    redis_do(server, "XADD leat:{t/0}:dlq 1-0 g g i x n -1 f 1.5 fm zz lm "
                     "99999999999999999999999 x 5:ab e q c 0");
    leat_dead *x = dead_of(dlq, "0:1-0");
    assert_int_equal(x->attempts, 0);
    assert_int_equal(x->failures, 0);
    assert_int_equal(x->first_ms, 0);
    assert_int_equal(x->extra_count, 0);
    assert_int_equal(x->fence, 0);
    assert_int_equal(x->position.ms, 0);
    assert_int_equal(x->msg_count, 0);
    assert_int_equal(x->msg->body.n, 0);
    leat_dead_free(x);
}

/* ---- counting --------------------------------------------------------- */

static leat_dead_counts *counts(const leat_dead_filter *f)
{
    leat_error e = { 0 };
    leat_dead_counts *n = leat_dlq_count(dlq, f, &e);
    if (!n)
        fail_msg("count: %s", e.msg);
    return n;
}

static void they_are_counted_by_group_and_error(void **state)
{
    (void)state;
    bury_spread(40);
    char id[LEAT_DEAD_ID];
    bury((grave){ .body = "x", .error = "Timeout after 7 s" }, id);
    leat_dead_counts *n = counts(NULL);
    assert_int_equal(n->total, 41);
    assert_int_equal(n->groups, 2);
    assert_string_equal(n->group[0].group, "g");
    assert_int_equal(n->group[0].count, 21);
    assert_string_equal(n->group[1].group, "h");
    assert_true(n->group[1].first_ms <= n->group[1].last_ms);
    assert_int_equal(n->errors, 2);
    assert_string_equal(n->error[0].fingerprint, "Timeout after <n> s");
    assert_int_equal(n->error[0].count, 31);
    assert_string_equal(n->error[0].newest, id);
    assert_string_equal(n->error[1].fingerprint, "no such user");
    assert_int_equal(n->other, 0);
    leat_dead_counts_free(n);
    n = counts(&(leat_dead_filter){ .group = "none" });
    assert_int_equal(n->total + n->groups + n->errors, 0);
    leat_dead_counts_free(n);
    leat_dead_counts_free(NULL);
}

static void errors_without_end_are_counted_together(void **state)
{
    (void)state;
    leat_reply_free(ASK(
        leat_str("EVAL"),
        leat_str("for i = 1, 1200 do local w = '' for d in "
                 "string.gmatch(tostring(i), '%d') do w = w .. "
                 "string.char(103 + d) end redis.call('XADD', KEYS[1], i .. "
                 "'-0', 'g', 'g', 'i', '1-1', 'le', w, 'c', 0) end"),
        leat_str("1"), leat_str("leat:{t/0}:dlq")));
    leat_dead_counts *n = counts(NULL);
    assert_int_equal(n->total, 1200);
    assert_int_equal(n->errors, LEAT_DEAD_ERRORS);
    assert_int_equal(n->other, 200);
    leat_dead_counts_free(n);
}

/* ---- editing ---------------------------------------------------------- */

static void an_edited_one_keeps_all_but_its_message(void **state)
{
    char id[LEAT_DEAD_ID], now[LEAT_DEAD_ID] = "";
    const leat_header h[] = { { leat_str("a"), leat_str("1") } };
    (void)state;
    bury((grave){ .partition = 1,
                  .group = "billing",
                  .key = "k",
                  .body = "bad",
                  .error = "no",
                  .extra = "1:a1:b" },
         id);
    leat_dead *was = dead_of(dlq, id);
    must(leat_dlq_edit(dlq, id,
                       &(leat_dead_edit){ .body = leat_str("good"),
                                          .key = leat_str("q"),
                                          .headers = h,
                                          .header_count = 1 },
                       now, err));
    leat_error e = { 0 };
    assert_null(leat_dlq_get(dlq, id, &e));
    assert_code(e.code, LEAT_ENOENT);
    leat_dead *x = dead_of(dlq, now);
    assert_bytes(x->msg->body, "good");
    assert_bytes(x->msg->key, "q");
    assert_bytes(x->msg->id, "bad"); /* as it was */
    assert_bytes(leat_msg_header(x->msg, "a"), "1");
    assert_string_equal(x->group, "billing");
    assert_int_equal(x->position.ms, was->position.ms);
    assert_int_equal(x->position.seq, was->position.seq);
    assert_int_equal(x->attempts, was->attempts);
    assert_bytes(x->error, "no");
    assert_int_equal(x->fence, 17);
    assert_int_equal(x->extra_count, 1);
    assert_true(x->edited_ms >= was->dead_ms);
    assert_int_equal(length_of(1, "dlq"), 1);
    leat_dead_free(x);
    leat_dead_free(was);
    must(leat_dlq_edit(dlq, now, &(leat_dead_edit){ .body = leat_mem("", 0) },
                       id, err));
    x = dead_of(dlq, id);
    assert_int_equal(x->msg->body.n, 0);
    assert_bytes(x->msg->key, "q");
    assert_int_equal(x->msg->header_count, 1);
    leat_dead_free(x);
}

static void what_was_a_cloudevent_stays_one(void **state)
{
    char now[LEAT_DEAD_ID];
    (void)state;
    redis_do(server, "XADD leat:{t/0}:dlq 1-0 g g i 1-1 c 5 ce_specversion 1.0 "
                     "ce_id 7 ce_source /a ce_type b data old");
    must(leat_dlq_edit(dlq, "0:1-0",
                       &(leat_dead_edit){ .body = leat_str("new") }, now, err));
    leat_dlq *ce = dlq_of(&(leat_dlq_opts){ .codec = &leat_codec_ce_binary });
    leat_dead *x = dead_of(ce, now);
    assert_null(x->damaged);
    assert_bytes(x->msg->body, "new");
    assert_bytes(x->msg->source, "/a");
    assert_bytes(x->msg->id, "7");
    leat_dead_free(x);
    leat_dlq_close(ce);
}

static void what_was_no_message_becomes_one(void **state)
{
    char now[LEAT_DEAD_ID];
    leat_error e = { 0 };
    (void)state;
    bury_ties();
    assert_code(leat_dlq_edit(dlq, "0:1-5",
                              &(leat_dead_edit){ .key = leat_str("k") }, now,
                              &e),
                LEAT_EINVAL);
    must(leat_dlq_edit(dlq, "0:1-5", &(leat_dead_edit){ .body = leat_str("b") },
                       now, err));
    leat_dead *x = dead_of(dlq, now);
    assert_null(x->damaged);
    assert_bytes(x->msg->body, "b");
    assert_int_equal(x->msg->id.n, 36);
    leat_dead_free(x);
}

static void an_edit_that_is_too_large_changes_nothing(void **state)
{
    char id[LEAT_DEAD_ID];
    static char big[(1 << 20) + 1];
    leat_error e = { 0 };
    (void)state;
    bury((grave){ .key = "k", .body = "x", .error = "e" }, id);
    memset(big, 'x', sizeof big);
    leat_dead_edit edit = { .body = leat_mem(big, sizeof big) };
    assert_code(leat_dlq_edit(dlq, id, &edit, NULL, &e), LEAT_ETOOBIG);
    assert_non_null(strstr(e.msg, "1048576"));
    leat_dead *x = dead_of(dlq, id);
    assert_bytes(x->msg->body, "x");
    leat_dead_free(x);
    leat_dlq *wide = dlq_of(&(leat_dlq_opts){ .max_message = 2 << 20 });
    must(leat_dlq_edit(wide, id, &edit, NULL, err));
    leat_dlq_close(wide);
}

/* ---- bad input -------------------------------------------------------- */

static void what_is_no_id_is_refused(void **state)
{
    static const char *const bad[] = { "",
                                       "1",
                                       "1-1",
                                       "0:1",
                                       "0:1-",
                                       "0:-1",
                                       ":1-1",
                                       "x:1-1",
                                       "0:1-1 ",
                                       "0:a-b",
                                       "0:1-1-1",
                                       "0:99999999999999999999999-1",
                                       "9999999:1-1",
                                       "-1:1-1" };
    leat_error e;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(leat_dlq_get(dlq, bad[i], &e));
        assert_code(e.code, LEAT_EINVAL);
        assert_code(leat_dlq_remove(dlq, &bad[i], 1, NULL, NULL, &e),
                    LEAT_EINVAL);
        assert_code(leat_dlq_replay(dlq, &bad[i], 1, NULL, NULL, &e),
                    LEAT_EINVAL);
        assert_code(
            leat_dlq_edit(dlq, bad[i], &(leat_dead_edit){ 0 }, NULL, &e),
            LEAT_EINVAL);
        assert_null(leat_dlq_walk_open(
            dlq, &(leat_dlq_walk_opts){ .after = bad[i] }, &e));
    }
    assert_null(leat_dlq_get(dlq, "0:\x1b[31m", &e));
    assert_null(strchr(e.msg, '\x1b'));
}

static void what_is_not_there_is_said(void **state)
{
    leat_error e = { 0 };
    (void)state;
    assert_null(leat_dlq_open(client, "none", NULL, &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_null(leat_dlq_open(client, "a b", NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_dlq_get(dlq, "0:5-5", &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_null(leat_dlq_get(dlq, "3:5-5", &e));
    assert_code(e.code, LEAT_ENOENT);
    assert_code(leat_dlq_edit(dlq, "0:5-5", &(leat_dead_edit){ 0 }, NULL, &e),
                LEAT_ENOENT);
    assert_null(leat_dlq_count(dlq, &(leat_dead_filter){ .group = "a b" }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_dlq_count(
        dlq, &(leat_dead_filter){ .one = true, .partition = 3 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_null(leat_dlq_count(dlq, &(leat_dead_filter){ .since_ms = -1 }, &e));
    assert_code(e.code, LEAT_EINVAL);
    leat_dlq_walk_close(NULL);
    leat_dlq_close(NULL);
}

static void a_key_of_another_type_is_told(void **state)
{
    leat_error e = { 0 };
    const char *id = "1:1-1";
    (void)state;
    redis_do(server, "SET leat:{t/1}:dlq x");
    assert_null(leat_dlq_count(dlq, NULL, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_non_null(strstr(e.msg, "WRONGTYPE"));
    assert_null(leat_dlq_get(dlq, id, &e));
    assert_code(e.code, LEAT_EINVAL);
    assert_code(leat_dlq_remove(dlq, &id, 1, NULL, NULL, &e), LEAT_EINVAL);
    assert_code(leat_dlq_replay_all(dlq, NULL, NULL, NULL, &e), LEAT_EINVAL);
}

/* ---- bare streams, memory --------------------------------------------- */

static void a_bare_stream_has_dead_letters_too(void **state)
{
    (void)state;
    redis_do(server, "XADD bare 1-1 f v");
    redis_do(server, "XADD leat:{bare}:dlq 1-0 g g i 1-1 c 1 f v");
    leat_dlq *d = leat_dlq_open(client, "bare", NULL, NULL);
    assert_non_null(d);
    leat_dead *x = dead_of(d, "0:1-0");
    assert_bytes(x->msg->headers[0].value, "v");
    leat_dead_free(x);
    leat_dlq_close(d);
}

static void use_all(void *arg)
{
    leat_dead x;
    (void)arg;
    leat_dlq *d = leat_dlq_open(client, "t", NULL, NULL);
    leat_dlq_walk *w = d ? leat_dlq_walk_open(d, NULL, NULL) : NULL;
    while (w && leat_dlq_walk_next(w, &x, NULL) == 1)
        continue;
    leat_dlq_walk_close(w);
    if (d) {
        const char *ids[] = { "0:1-5", "1:1-5" };
        leat_dead_counts_free(leat_dlq_count(d, NULL, NULL));
        leat_dead_free(leat_dlq_get(d, ids[0], NULL));
        (void)leat_dlq_edit(
            d, ids[0], &(leat_dead_edit){ .body = leat_str("b") }, NULL, NULL);
        (void)leat_dlq_replay(d, ids, 2, NULL, NULL, NULL);
        (void)leat_dlq_replay_all(
            d, NULL, &(leat_dlq_move_opts){ .republish = true }, NULL, NULL);
        (void)leat_dlq_clear(d, NULL, NULL, NULL, NULL);
    }
    leat_dlq_close(d);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    for (long n = 1; n < ALLOC_FAIL_MOST; n++) {
        assert_true(redis_flush(server));
        must(leat_topic_create(client, "t",
                               &(leat_topic_spec){ .partitions = PARTS }, err));
        bury_ties();
        if (alloc_fail_run(use_all, NULL, n, false) == 0)
            return;
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dlq_test(a_dead_letter_tells_all_that_is_known),
        dlq_test(the_policy_may_show_another_error),
        dlq_test(partitions_are_merged_in_the_order_of_death),
        dlq_test(each_page_goes_on_behind_the_one_before),
        dlq_test(a_page_may_begin_behind_what_is_gone),
        dlq_test(a_filter_chooses_among_them),
        dlq_test(times_are_those_of_death),
        dlq_test(what_dies_meanwhile_is_not_shown),
        dlq_test(what_is_taken_away_meanwhile_does_not_stop_it),
        dlq_test(what_cannot_be_decoded_is_shown_raw),
        dlq_test(entries_of_others_are_shown_as_such),
        dlq_test(numbers_that_are_none_are_zero),
        dlq_test(they_are_counted_by_group_and_error),
        dlq_test(errors_without_end_are_counted_together),
        dlq_test(an_edited_one_keeps_all_but_its_message),
        dlq_test(what_was_a_cloudevent_stays_one),
        dlq_test(what_was_no_message_becomes_one),
        dlq_test(an_edit_that_is_too_large_changes_nothing),
        dlq_test(what_is_no_id_is_refused),
        dlq_test(what_is_not_there_is_said),
        dlq_test(a_key_of_another_type_is_told),
        dlq_test(a_bare_stream_has_dead_letters_too),
        dlq_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

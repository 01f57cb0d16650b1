/*
 * window.c: each rule of the window by itself.  How they play together is
 * window_model.c's.
 *
 * Entry n of the log has the id n-0 and the user &names[n].
 */
#include "topic/window.h"
#include "support/allocfail.h"

#include <string.h>

enum { CAP = 8 };

static char names[64];
static leat__buf text; /* of the last save */

static leat__id id(uint64_t n)
{
    return (leat__id){ n, 0 };
}

static leat__window *fresh_window(leat_order order)
{
    leat__window *w = leat__window_new(CAP, order, NULL);
    assert_non_null(w);
    return w;
}

static leat__entry *push(leat__window *w, uint64_t n, uint64_t lane)
{
    return leat__window_push(w, id(n), lane, &names[n]);
}

static void push_all(leat__window *w, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n <= to; n++)
        push(w, n, 0);
}

/* The number of what is handed out; 0: nothing is. */
static uint64_t take(leat__window *w, leat__entry **e)
{
    *e = leat__window_take(w);
    return *e ? (*e)->id.ms : 0;
}

#define assert_takes(w, e, n)   assert_int_equal(take(w, e), n)
#define assert_takes_nothing(w) assert_null(leat__window_take(w))

static void done(leat__window *w, leat__entry *e)
{
    leat__window_done(w, e);
}

static void nack(leat__window *w, leat__entry *e)
{
    leat__window_back(w, e, false);
}

/* How many leave; their users are in the order of the log. */
static int pop(leat__window *w)
{
    void *user;
    int n = 0;
    while (leat__window_pop(w, &user))
        n++;
    return n;
}

static leat__window_saved save(leat__window *w)
{
    leat__window_saved s;
    assert_int_equal(leat__window_save(w, &text, &s, NULL), LEAT_OK);
    return s;
}

#define assert_texts(s, settled_, attempts_)                                   \
    do {                                                                       \
        leat__window_saved s_ = (s);                                           \
        assert_text(s_.settled, settled_);                                     \
        assert_text(s_.attempts, attempts_);                                   \
    } while (0)

static void assert_text(leat_bytes got, const char *want)
{
    if (!leat_bytes_eq(got, leat_str(want)))
        fail_msg("'%.*s' instead of '%s'", (int)got.n, (const char *)got.p,
                 want);
}

static leat_code load(leat__window *w, uint64_t cursor, uint64_t mark,
                      const char *settled, const char *attempts)
{
    leat__window_saved s = { .cursor = id(cursor),
                             .mark = id(mark),
                             .settled = leat_str(settled),
                             .attempts = leat_str(attempts) };
    leat_error err = { 0 };
    leat_code rc = leat__window_load(w, &s, &err);
    assert_true(rc == LEAT_OK || (err.code == rc && err.msg[0] != '\0'));
    return rc;
}

static leat__window *loaded(leat_order order, uint64_t cursor, uint64_t mark,
                            const char *settled, const char *attempts)
{
    leat__window *w = fresh_window(order);
    assert_int_equal(load(w, cursor, mark, settled, attempts), LEAT_OK);
    return w;
}

/* ---- the ring --------------------------------------------------------- */

static void entries_are_handed_out_in_the_order_of_the_log(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_PARTITION);
    leat__entry *e;
    (void)state;
    push_all(w, 1, 3);
    for (uint64_t n = 1; n <= 3; n++) {
        assert_takes(w, &e, n);
        assert_int_equal(e->attempts, 1);
        assert_ptr_equal(e->user, &names[n]);
    }
    assert_takes_nothing(w);
    assert_false(leat__window_ready(w));
    assert_int_equal(leat__window_out(w), 3);
    leat__window_free(w);
}

static void the_ring_has_room_for_its_cap_and_no_more(void **state)
{
    (void)state;
    for (uint32_t cap = 1; cap < 6; cap++) {
        leat__window *w = leat__window_new(cap, LEAT_ORDER_NONE, NULL);
        leat__entry *e;
        assert_int_equal(leat__window_room(w), cap);
        for (uint64_t n = 1; n < 20; n++) {
            push(w, n, 0);
            assert_int_equal(leat__window_room(w), cap - (n < cap ? n : cap));
            if (n < cap)
                continue;
            assert_takes(w, &e, n - cap + 1);
            done(w, e);
            assert_int_equal(pop(w), 1);
            assert_int_equal(leat__window_room(w), 1);
        }
        leat__window_free(w);
    }
}

static void the_cursor_stops_before_what_is_not_settled(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *a, *b, *c;
    (void)state;
    push_all(w, 1, 3);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    assert_takes(w, &c, 3);
    done(w, c);
    done(w, b);
    assert_int_equal(pop(w), 0);
    assert_int_equal(leat__window_cursor(w).ms, 0);
    done(w, a);
    assert_int_equal(pop(w), 3);
    assert_int_equal(leat__window_cursor(w).ms, 3);
    assert_int_equal(save(w).count, 3);
    leat__window_free(w);
}

static void users_come_back_one_by_one(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *e, *out;
    void *user;
    (void)state;
    push_all(w, 1, 4);
    assert_takes(w, &e, 1);
    done(w, e);
    assert_takes(w, &e, 2);
    assert_takes(w, &out, 3);
    nack(w, e);
    assert_true(leat__window_pop(w, &user));
    assert_ptr_equal(user, &names[1]);
    assert_false(leat__window_pop(w, &user));
    for (int n = 2; n <= 4; n++) {
        assert_true(leat__window_clear(w, &user));
        assert_ptr_equal(user, &names[n]);
    }
    assert_false(leat__window_clear(w, &user));
    assert_int_equal(leat__window_count(w), 0);
    assert_int_equal(leat__window_out(w), 0);
    leat__window_free(w);
}

/* ---- handed back ------------------------------------------------------ */

static void a_partition_stands_still_until_all_is_back(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_PARTITION);
    leat__entry *a, *b, *c;
    (void)state;
    push_all(w, 1, 4);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    assert_takes(w, &c, 3);
    nack(w, b);
    assert_takes_nothing(w);
    assert_false(leat__window_ready(w));
    done(w, c);
    assert_takes_nothing(w);
    done(w, a);
    assert_true(leat__window_ready(w));
    assert_takes(w, &b, 2);
    assert_int_equal(b->attempts, 2);
    assert_takes(w, &c, 4);
    leat__window_free(w);
}

static void a_partition_goes_on_with_its_first(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_PARTITION);
    leat__entry *a, *b, *c;
    (void)state;
    push_all(w, 1, 3);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    assert_takes(w, &c, 3);
    nack(w, c);
    nack(w, a);
    nack(w, b);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    assert_takes(w, &c, 3);
    leat__window_free(w);
}

static void those_behind_follow_in_order(void **state)
{
    leat_order orders[] = { LEAT_ORDER_PARTITION, LEAT_ORDER_KEY };
    (void)state;
    for (int i = 0; i < 2; i++) {
        leat__window *w = fresh_window(orders[i]);
        leat__entry *a, *b;
        push(w, 1, 7);
        push(w, 2, 7);
        push(w, 3, 7);
        assert_takes(w, &a, 1);
        assert_takes(w, &b, 2);
        nack(w, b);
        nack(w, a);
        assert_takes(w, &a, 1);
        assert_takes(w, &b, 2);
        assert_takes(w, &a, 3);
        leat__window_free(w);
    }
}

static void other_keys_flow_while_one_stands_still(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *a, *b, *e;
    (void)state;
    push(w, 1, 7);
    push(w, 2, 7);
    push(w, 3, 8);
    push(w, 4, 7);
    push(w, 5, 0);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    nack(w, a);
    assert_takes(w, &e, 3);
    assert_takes(w, &e, 5);
    assert_takes_nothing(w);
    assert_false(leat__window_ready(w));
    done(w, b);
    assert_true(leat__window_ready(w));
    push(w, 6, 8);
    assert_takes(w, &e, 1);
    assert_takes(w, &e, 4);
    assert_takes(w, &e, 6);
    leat__window_free(w);
}

static void without_a_lane_only_the_entry_itself_waits(void **state)
{
    leat_order orders[] = { LEAT_ORDER_KEY, LEAT_ORDER_NONE };
    (void)state;
    for (int i = 0; i < 2; i++) {
        leat__window *w = fresh_window(orders[i]);
        uint64_t lane = orders[i] == LEAT_ORDER_NONE ? 7 : 0;
        leat__entry *a, *b, *e;
        push(w, 1, lane);
        push(w, 2, lane);
        push(w, 3, lane);
        assert_takes(w, &a, 1);
        assert_takes(w, &b, 2);
        nack(w, b);
        assert_takes(w, &b, 2);
        nack(w, b);
        nack(w, a);
        assert_takes(w, &a, 1);
        assert_takes(w, &b, 2);
        assert_takes(w, &e, 3);
        assert_takes_nothing(w);
        leat__window_free(w);
    }
}

static void what_came_back_goes_before_what_is_new(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e;
    (void)state;
    push_all(w, 1, 3);
    assert_takes(w, &e, 1);
    nack(w, e);
    assert_true(leat__window_ready(w));
    assert_takes(w, &e, 1);
    assert_takes(w, &e, 2);
    leat__window_free(w);
}

static void many_that_wait_come_in_the_order_of_the_log(void **state)
{
    leat__window *w = leat__window_new(50, LEAT_ORDER_NONE, NULL);
    leat__entry *e[54], *x;
    (void)state;
    push_all(w, 1, 50);
    for (uint64_t n = 1; n <= 50; n++)
        assert_takes(w, &e[n], n);
    for (int n = 1; n <= 52; n++)
        if (n * 37 % 53 <= 50)
            nack(w, e[n * 37 % 53]);
    for (uint64_t n = 1; n <= 50; n++)
        assert_takes(w, &x, n);
    assert_int_equal(leat__window_out(w), 50);
    leat__window_free(w);
}

/* Each of many lanes has two out and a third that waits; every other lane is
 * stopped again.  The rest comes in the order of the log. */
static void lanes_that_stop_again_leave_the_others_in_order(void **state)
{
    enum { N = 101 };
    leat__window *w = leat__window_new(3 * N, LEAT_ORDER_KEY, NULL);
    leat__entry *e[N][3];
    (void)state;
    for (uint64_t i = 0; i < (uint64_t)3 * N; i++)
        leat__window_push(w, id(i + 1), i / 3 + 1, NULL);
    for (int i = 0; i < 3 * N; i++)
        assert_non_null(e[i / 3][i % 3] = leat__window_take(w));
    for (int k = 0; k < N; k++) {
        int i = k * 37 % N;
        for (int j = 0; j < 3; j++)
            nack(w, e[i][j]);
    }
    for (int i = 0; i < N; i++) {
        assert_ptr_equal(leat__window_take(w), e[i][0]);
        assert_ptr_equal(leat__window_take(w), e[i][1]);
        if (i % 2 == 0)
            nack(w, e[i][0]);
        else
            assert_ptr_equal(leat__window_take(w), e[i][2]);
    }
    assert_takes_nothing(w);
    for (int i = 0; i < N; i += 2) {
        done(w, e[i][1]);
        assert_ptr_equal(leat__window_take(w), e[i][0]);
        assert_ptr_equal(leat__window_take(w), e[i][2]);
    }
    assert_takes_nothing(w);
    leat__window_free(w);
}

/* ---- claimed ---------------------------------------------------------- */

static void what_is_claimed_is_not_handed_out_nor_counted(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *a, *e;
    uint64_t at = 0;
    (void)state;
    push(w, 1, 7);
    push(w, 2, 7);
    push(w, 3, 8);
    push(w, 4, 7);
    assert_takes(w, &a, 1);
    assert_int_equal(leat__window_lane_out(w, 7), 1);
    for (uint64_t n = 2; n <= 4; n += 2) {
        e = leat__window_claim_lane(w, 7, &at);
        assert_int_equal(e->id.ms, n);
        assert_int_equal(e->attempts, 0);
    }
    assert_null(leat__window_claim_lane(w, 7, &at));
    assert_int_equal(leat__window_lane_out(w, 7), 1);
    assert_int_equal(leat__window_out(w), 3);
    assert_takes(w, &e, 3);
    assert_takes_nothing(w);
    done(w, e);
    done(w, a);
    assert_int_equal(pop(w), 1);
    leat__window_free(w);
}

/* Those before it that were never handed out are told to be so. */
static void what_is_claimed_and_done_is_settled_for_the_next_owner(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *e;
    uint64_t at = 0;
    (void)state;
    push(w, 1, 8);
    push(w, 2, 7);
    push(w, 3, 8);
    e = leat__window_claim_lane(w, 7, &at);
    assert_true(leat__window_dirty(w));
    done(w, e);
    leat__window_saved s = save(w);
    assert_int_equal(s.mark.ms, 2);
    assert_texts(s, "2-0", "1-0=0");
    leat__window_free(w);
}

static void a_lane_that_was_given_back_is_claimed_whole(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *a, *b, *e;
    uint64_t at = 0;
    (void)state;
    push(w, 1, 7);
    push(w, 2, 7);
    push(w, 3, 7);
    push(w, 4, 9);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    leat__window_back(w, a, true);
    assert_int_equal(leat__window_claim_lane(w, 7, &at)->id.ms, 1);
    assert_int_equal(leat__window_claim_lane(w, 7, &at)->id.ms, 3);
    assert_null(leat__window_claim_lane(w, 7, &at));
    assert_takes(w, &e, 4);
    done(w, b); /* nothing holds the lane any more */
    push(w, 5, 7);
    assert_takes(w, &e, 5);
    leat__window_free(w);
}

/* One of a lane leaves while another that was handed back waits. */
static void what_is_claimed_leaves_its_lane_as_it_was(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *a, *b;
    (void)state;
    push(w, 1, 7);
    assert_takes(w, &a, 1);
    nack(w, a);
    b = push(w, 2, 7);
    leat__window_claim(w, b);
    assert_takes_nothing(w);
    done(w, b);
    assert_takes(w, &a, 1);
    done(w, a);
    assert_int_equal(pop(w), 2);
    leat__window_free(w);
}

static void a_partition_is_claimed_up_to_one(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_PARTITION);
    leat__entry *e[4], *x;
    uint64_t at = 0;
    (void)state;
    push_all(w, 1, 6);
    for (uint64_t n = 0; n < 4; n++)
        assert_takes(w, &e[n], n + 1);
    done(w, e[0]);
    done(w, e[2]);
    leat__window_back(w, e[1], true);
    leat__window_back(w, e[3], true);
    assert_int_equal(leat__window_claim_upto(w, id(3), &at)->id.ms, 2);
    assert_null(leat__window_claim_upto(w, id(3), &at));
    done(w, e[1]);
    assert_int_equal(pop(w), 3);
    for (uint64_t n = 4; n <= 6; n++)
        assert_takes(w, &x, n);
    leat__window_free(w);
}

static void suspects_are_counted_until_they_are_done(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_NONE, 0, 3, "", "1-0=3,3-0=2");
    leat__entry *e;
    uint64_t at = 0;
    (void)state;
    push_all(w, 1, 4);
    assert_int_equal(leat__window_suspects(w), 2);
    assert_int_equal(leat__window_suspect(w, &at)->id.ms, 1);
    assert_int_equal(leat__window_suspect(w, &at)->id.ms, 3);
    assert_null(leat__window_suspect(w, &at));
    assert_int_equal(leat__window_peek(w)->id.ms, 1);
    assert_takes(w, &e, 1);
    assert_int_equal(leat__window_peek(w)->id.ms, 2);
    done(w, e);
    assert_int_equal(leat__window_suspects(w), 1);
    at = 0;
    leat__window_claim(w, leat__window_suspect(w, &at));
    assert_takes(w, &e, 2);
    assert_takes(w, &e, 4);
    assert_null(leat__window_peek(w));
    leat__window_free(w);
}

static void what_was_never_begun_does_not_count(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_PARTITION);
    leat__entry *e;
    (void)state;
    push(w, 1, 0);
    assert_takes(w, &e, 1);
    leat__window_back(w, e, true);
    assert_int_equal(e->attempts, 0);
    assert_takes(w, &e, 1);
    assert_int_equal(e->attempts, 1);
    nack(w, e);
    assert_takes(w, &e, 1);
    assert_int_equal(e->attempts, 2);
    leat__window_free(w);
}

/* ---- what is kept ----------------------------------------------------- */

static void settled_runs_are_kept_as_ranges(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e[9];
    (void)state;
    push_all(w, 1, 8);
    for (uint64_t n = 1; n <= 7; n++)
        assert_takes(w, &e[n], n);
    done(w, e[2]);
    done(w, e[4]);
    done(w, e[5]);
    done(w, e[7]);
    leat__window_saved s = save(w);
    assert_texts(s, "2-0,4-0:5-0,7-0", "");
    assert_int_equal(s.mark.ms, 7);
    assert_int_equal(s.cursor.ms, 0);
    leat__window_free(w);
}

static void attempts_are_kept_where_the_mark_is_wrong(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_KEY);
    leat__entry *a, *b, *e;
    (void)state;
    push(w, 1, 7);
    push(w, 2, 7);
    push(w, 3, 7);
    push(w, 4, 8);
    assert_takes(w, &a, 1);
    assert_takes(w, &b, 2);
    nack(w, a);
    assert_takes(w, &e, 4);
    leat__window_saved s = save(w);
    assert_texts(s, "", "3-0=0");
    assert_int_equal(s.mark.ms, 4);
    done(w, b);
    assert_takes(w, &a, 1);
    assert_takes(w, &e, 3);
    assert_texts(save(w), "2-0", "1-0=2");
    done(w, a);
    assert_texts(save(w), "1-0:2-0", "");
    leat__window_free(w);
}

static void a_new_owner_knows_what_was_settled(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_PARTITION, 1, 7, "3-0:4-0,6-0", "");
    leat__entry *e;
    (void)state;
    assert_int_equal(leat__window_read_from(w).ms, 1);
    for (uint64_t n = 2; n <= 8; n++)
        assert_int_equal(push(w, n, 0) == NULL, n == 3 || n == 4 || n == 6);
    assert_int_equal(leat__window_count(w), 7);
    assert_takes(w, &e, 2);
    done(w, e);
    assert_int_equal(pop(w), 3);
    assert_int_equal(leat__window_cursor(w).ms, 4);
    assert_takes(w, &e, 5);
    assert_takes(w, &e, 7);
    assert_takes(w, &e, 8);
    leat__window_free(w);
}

static void a_new_owner_counts_on(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_NONE, 0, 3, "", "2-0=0");
    static const uint32_t want[] = { 0, 2, 1, 2, 1 };
    leat__entry *e;
    (void)state;
    push_all(w, 1, 4);
    for (uint64_t n = 1; n <= 4; n++) {
        assert_takes(w, &e, n);
        assert_int_equal(e->attempts, want[n]);
    }
    assert_texts(save(w), "", "1-0=2,3-0=2");
    leat__window_free(w);
}

static void what_is_not_read_again_yet_is_kept_on(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_NONE, 0, 9, "2-0:5-0,8-0", "7-0=4");
    leat__entry *e;
    (void)state;
    assert_texts(save(w), "2-0:5-0,8-0", "7-0=4");
    push_all(w, 1, 3);
    assert_texts(save(w), "2-0:5-0,8-0", "7-0=4");
    assert_takes(w, &e, 1);
    done(w, e);
    assert_texts(save(w), "1-0:5-0,8-0", "7-0=4");
    assert_int_equal(pop(w), 3);
    assert_texts(save(w), "3-1:5-0,8-0", "7-0=4");
    push_all(w, 4, 6);
    assert_int_equal(pop(w), 2);
    assert_texts(save(w), "8-0", "7-0=4");
    leat__window_free(w);
}

static void what_was_deleted_from_the_log_disturbs_nobody(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_PARTITION, 0, 9, "2-0:3-0,5-0",
                             "1-0=9,6-0=0");
    leat__entry *e;
    (void)state;
    push(w, 4, 0);
    assert_texts(save(w), "5-0", "6-0=0");
    push(w, 7, 0);
    assert_texts(save(w), "", "");
    assert_takes(w, &e, 4);
    assert_int_equal(e->attempts, 2);
    assert_takes(w, &e, 7);
    assert_int_equal(e->attempts, 2);
    leat__window_free(w);
}

static void what_is_up_to_the_cursor_is_forgotten(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_NONE, 5, 3, "1-0,4-0:6-0",
                             "2-0=2,9-0=3");
    leat__window_saved s = save(w);
    (void)state;
    assert_texts(s, "5-1:6-0", "");
    assert_int_equal(s.mark.ms, 6);
    leat__window_free(w);
}

static void the_mark_is_never_below_the_cursor(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_NONE, 5, 3, "", "");
    (void)state;
    assert_int_equal(save(w).mark.ms, 5);
    leat__window_free(w);
}

static void a_range_goes_on_in_the_next_millisecond(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__window_saved s = { .cursor = { 3, UINT64_MAX },
                             .mark = { 9, 0 },
                             .settled = leat_str("2-0:5-0") };
    (void)state;
    assert_int_equal(leat__window_load(w, &s, NULL), LEAT_OK);
    assert_texts(save(w), "4-0:5-0", "");
    leat__window_free(w);
}

static void text_that_is_not_ours_is_refused(void **state)
{
    static const char *const settled[] = {
        ",",       "1-0,",    ",1-0",    "x",           "1-0:",       ":1-0",
        "2-0:1-0", "2-0,1-0", "1-0,1-0", "1-0:3-0,2-0", "1-0:2-0:3-0"
    };
    static const char *const attempts[] = {
        ",",      "1-0",     "1-0=",           "=1",
        "1-0=x",  "1-0=1-0", "1-0=2,",         "2-0=2,1-0=2",
        "1-0=-1", "1-0=1=1", "1-0=4294967296", "1-0=2,1-0=3"
    };
    leat__window *w = loaded(LEAT_ORDER_NONE, 0, 3, "2-0", "");
    (void)state;
    for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
        assert_int_equal(load(w, 0, 9, settled[i], ""), LEAT_EDECODE);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        assert_int_equal(load(w, 0, 9, "", attempts[i]), LEAT_EDECODE);
    assert_texts(save(w), "2-0", ""); /* as it was */
    leat__window_free(w);
}

static void a_count_that_is_not_known_stays_so(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__window_saved s = { .count = 40, .count_known = true };
    leat__entry *e;
    (void)state;
    assert_int_equal(leat__window_load(w, &s, NULL), LEAT_OK);
    push(w, 1, 0);
    assert_takes(w, &e, 1);
    done(w, e);
    assert_int_equal(pop(w), 1);
    s = save(w);
    assert_true(s.count_known && s.count == 41);
    s.count_known = false;
    assert_int_equal(leat__window_load(w, &s, NULL), LEAT_OK);
    assert_false(save(w).count_known);
    leat__window_free(w);
}

/* ---- alone ------------------------------------------------------------ */

static void a_suspect_is_handed_out_alone(void **state)
{
    (void)state;
    for (int order = LEAT_ORDER_PARTITION; order <= LEAT_ORDER_NONE; order++) {
        leat__window *w = loaded((leat_order)order, 0, 4, "", "2-0=2");
        leat__entry *a, *b, *c;
        assert_false(push(w, 1, 0)->alone);
        assert_true(push(w, 2, 0)->alone);
        assert_false(push(w, 3, 0)->alone);
        assert_takes(w, &a, 1);
        assert_takes_nothing(w);
        assert_false(leat__window_ready(w));
        done(w, a);
        assert_true(leat__window_ready(w));
        assert_takes(w, &b, 2);
        assert_int_equal(b->attempts, 3);
        assert_takes_nothing(w);
        assert_false(leat__window_ready(w));
        done(w, b);
        assert_takes(w, &c, 3);
        leat__window_free(w);
    }
}

static void a_suspect_that_came_back_is_alone_again(void **state)
{
    leat__window *w = loaded(LEAT_ORDER_NONE, 0, 4, "", "1-0=2");
    leat__entry *a, *b;
    (void)state;
    push_all(w, 1, 3);
    assert_takes(w, &a, 1);
    nack(w, a);
    assert_true(leat__window_ready(w));
    assert_takes(w, &a, 1);
    assert_takes_nothing(w);
    assert_false(leat__window_ready(w));
    done(w, a);
    assert_takes(w, &b, 2);
    assert_takes(w, &b, 3);
    leat__window_free(w);
}

static void retries_within_one_life_are_not_suspect(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e, *other;
    (void)state;
    push_all(w, 1, 2);
    for (uint32_t n = 1; n <= 5; n++) {
        assert_takes(w, &e, 1);
        assert_int_equal(e->attempts, n);
        if (n < 5)
            nack(w, e);
    }
    assert_takes(w, &other, 2);
    leat__window_free(w);
}

/* The story the rule is for: one message kills each of its owners. */
static void only_the_poison_is_blamed(void **state)
{
    enum { POISON = 3, LIVES = 8 };
    char settled[400] = "", attempts[400] = "";
    uint64_t cursor = 0, mark = 0;
    uint32_t most[6] = { 0 };
    (void)state;
    for (int life = 0; life < LIVES; life++) {
        leat__window *w = loaded(LEAT_ORDER_NONE, cursor, mark, settled,
                                 attempts);
        leat__entry *e, *out[6] = { NULL };
        push_all(w, cursor + 1, 5);
        for (bool dead = false; !dead;) {
            while ((e = leat__window_take(w)) != NULL) {
                out[e->id.ms] = e;
                most[e->id.ms] = e->attempts;
            }
            leat__window_saved s = save(w);
            memcpy(settled, s.settled.p, s.settled.n);
            settled[s.settled.n] = '\0';
            if (s.attempts.n > 0)
                memcpy(attempts, s.attempts.p, s.attempts.n);
            attempts[s.attempts.n] = '\0';
            cursor = s.cursor.ms;
            mark = s.mark.ms;
            dead = out[POISON] != NULL;
            for (uint64_t n = 1; n <= 5 && !dead; n++)
                if (out[n]) {
                    done(w, out[n]);
                    out[n] = NULL;
                }
            pop(w);
        }
        leat__window_free(w);
    }
    for (int n = 1; n <= 5; n++)
        assert_true(n == POISON ? most[n] == LIVES : most[n] <= 3);
}

/* ---- dirty and unmarked ----------------------------------------------- */

static void what_was_handed_out_is_unmarked_until_saved(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e;
    (void)state;
    push_all(w, 1, 2);
    assert_false(leat__window_dirty(w) || leat__window_unmarked(w));
    assert_takes(w, &e, 1);
    assert_true(leat__window_dirty(w) && leat__window_unmarked(w));
    save(w);
    assert_false(leat__window_dirty(w) || leat__window_unmarked(w));
    done(w, e);
    assert_true(leat__window_dirty(w));
    assert_false(leat__window_unmarked(w));
    save(w);
    assert_int_equal(pop(w), 1);
    assert_true(leat__window_dirty(w));
    leat__window_free(w);
}

static void a_second_attempt_must_be_saved_too(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e;
    (void)state;
    push_all(w, 1, 2);
    assert_takes(w, &e, 1);
    save(w);
    nack(w, e);
    assert_false(leat__window_dirty(w));
    assert_takes(w, &e, 1);
    assert_true(leat__window_unmarked(w));
    leat__window_free(w);
}

static void an_attempt_told_already_needs_no_save(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e;
    (void)state;
    push_all(w, 1, 2);
    assert_takes(w, &e, 1);
    save(w);
    leat__window_back(w, e, true);
    assert_true(leat__window_dirty(w));
    assert_takes(w, &e, 1);
    assert_false(leat__window_unmarked(w));
    leat__window_free(w);
}

static void a_save_that_was_not_taken_is_due_again(void **state)
{
    leat__window *w = fresh_window(LEAT_ORDER_NONE);
    leat__entry *e;
    (void)state;
    push_all(w, 1, 2);
    assert_takes(w, &e, 1);
    save(w);
    leat__window_unsaved(w);
    assert_true(leat__window_dirty(w) && leat__window_unmarked(w));
    save(w);
    assert_false(leat__window_dirty(w) || leat__window_unmarked(w));
    leat__window_free(w);
}

/* ---- memory ----------------------------------------------------------- */

static void use(leat__window *w)
{
    leat__window_saved s = { .mark = id(9),
                             .settled = leat_str("2-0,4-0"),
                             .attempts = leat_str("3-0=5") };
    leat__buf buf = { 0 };
    if (leat__window_load(w, &s, NULL) == LEAT_OK) {
        push_all(w, 1, 4);
        leat__window_done(w, leat__window_take(w));
        assert_true(leat__window_dirty(w));
        leat_code rc = leat__window_save(w, &buf, &s, NULL);
        assert_int_equal(leat__window_dirty(w), rc != LEAT_OK);
        assert_int_equal(leat__window_unmarked(w), rc != LEAT_OK);
    }
    leat__buf_release(&buf);
}

static void one_life(void *order)
{
    leat__window *w = leat__window_new(CAP, *(leat_order *)order, NULL);
    if (w)
        use(w);
    leat__window_free(w);
}

static void every_allocation_can_fail(void **state)
{
    (void)state;
    for (int i = LEAT_ORDER_PARTITION; i <= LEAT_ORDER_NONE; i++) {
        leat_order order = (leat_order)i;
        alloc_fail_sweep(one_life, &order);
    }
}

static int forget_text(void **state)
{
    (void)state;
    leat__buf_release(&text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_handed_out_in_the_order_of_the_log),
        cmocka_unit_test(the_ring_has_room_for_its_cap_and_no_more),
        cmocka_unit_test(the_cursor_stops_before_what_is_not_settled),
        cmocka_unit_test(users_come_back_one_by_one),
        cmocka_unit_test(a_partition_stands_still_until_all_is_back),
        cmocka_unit_test(a_partition_goes_on_with_its_first),
        cmocka_unit_test(those_behind_follow_in_order),
        cmocka_unit_test(other_keys_flow_while_one_stands_still),
        cmocka_unit_test(without_a_lane_only_the_entry_itself_waits),
        cmocka_unit_test(what_came_back_goes_before_what_is_new),
        cmocka_unit_test(many_that_wait_come_in_the_order_of_the_log),
        cmocka_unit_test(lanes_that_stop_again_leave_the_others_in_order),
        cmocka_unit_test(what_is_claimed_is_not_handed_out_nor_counted),
        cmocka_unit_test(
            what_is_claimed_and_done_is_settled_for_the_next_owner),
        cmocka_unit_test(a_lane_that_was_given_back_is_claimed_whole),
        cmocka_unit_test(what_is_claimed_leaves_its_lane_as_it_was),
        cmocka_unit_test(a_partition_is_claimed_up_to_one),
        cmocka_unit_test(suspects_are_counted_until_they_are_done),
        cmocka_unit_test(what_was_never_begun_does_not_count),
        cmocka_unit_test(settled_runs_are_kept_as_ranges),
        cmocka_unit_test(attempts_are_kept_where_the_mark_is_wrong),
        cmocka_unit_test(a_new_owner_knows_what_was_settled),
        cmocka_unit_test(a_new_owner_counts_on),
        cmocka_unit_test(what_is_not_read_again_yet_is_kept_on),
        cmocka_unit_test(what_was_deleted_from_the_log_disturbs_nobody),
        cmocka_unit_test(what_is_up_to_the_cursor_is_forgotten),
        cmocka_unit_test(the_mark_is_never_below_the_cursor),
        cmocka_unit_test(a_range_goes_on_in_the_next_millisecond),
        cmocka_unit_test(text_that_is_not_ours_is_refused),
        cmocka_unit_test(a_count_that_is_not_known_stays_so),
        cmocka_unit_test(a_suspect_is_handed_out_alone),
        cmocka_unit_test(a_suspect_that_came_back_is_alone_again),
        cmocka_unit_test(retries_within_one_life_are_not_suspect),
        cmocka_unit_test(only_the_poison_is_blamed),
        cmocka_unit_test(what_was_handed_out_is_unmarked_until_saved),
        cmocka_unit_test(a_second_attempt_must_be_saved_too),
        cmocka_unit_test(an_attempt_told_already_needs_no_save),
        cmocka_unit_test(a_save_that_was_not_taken_is_due_again),
        cmocka_unit_test(every_allocation_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, forget_text);
}

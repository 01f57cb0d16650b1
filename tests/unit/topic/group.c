/* group.c: one member, told by hand what happens. */
#include "topic/group.h"
#include "support/allocfail.h"
#include "support/leat.h"

#include <stdlib.h>

#define MS    ((int64_t)1000000)
#define LEASE (6000 * MS)

enum { P = 8 };

static leat__nonce nonce(uint8_t i)
{
    leat__nonce n = { { i } };
    return n;
}

static leat__group *member_with(leat__group_opts o)
{
    leat_error e = { 0 };
    o.self = nonce(5);
    o.name = o.name ? o.name : "me";
    o.partitions = o.partitions ? o.partitions : P;
    o.lease_ns = LEASE;
    o.drain_ns = 1000 * MS;
    leat__group *g = leat__group_new(&o, &e);
    assert_non_null(g);
    return g;
}

static leat__group *member(void)
{
    return member_with((leat__group_opts){ 0 });
}

static leat__group_action next_is(leat__group *g, int64_t now,
                                  leat__group_do what)
{
    leat__group_action a = leat__group_next(g, now);
    assert_int_equal(a.what, what);
    return a;
}

/* Other records; the text of ours is what we said, with a birth. */
struct others {
    size_t n;
    uint8_t who[8];
    const char *text[8];
};

static char ours[200];

static void say(leat_bytes record)
{
    unsigned long long beat = 0;
    int at = 0;
    char text[200];
    assert_true(record.n < sizeof text);
    memcpy(text, record.p, record.n);
    text[record.n] = '\0';
    assert_int_equal(sscanf(text, "1 %llu %n", &beat, &at), 1);
    at += (int)strcspn(text + at, " ");
    snprintf(ours, sizeof ours, "1 %llu 50%s", beat, text + at);
}

/* A beat that is answered at once with our record and these. */
static void look_sent(leat__group *g, int64_t now, const struct others *o,
                      bool with_ours)
{
    leat__group_record r[9];
    size_t n = 0;
    for (; o && n < o->n; n++) {
        r[n].nonce = nonce(o->who[n]);
        r[n].text = leat_str(o->text[n]);
    }
    if (with_ours) {
        r[n].nonce = nonce(5);
        r[n++].text = leat_str(ours);
    }
    must(leat__group_beat_done(g, now, now, r, n, err));
}

static void look(leat__group *g, int64_t now, const struct others *o)
{
    leat__group_beat_now(g);
    say(next_is(g, now, LEAT__GROUP_BEAT).record);
    look_sent(g, now, o, true);
}

static void take_all(leat__group *g, int64_t now, uint32_t n, uint64_t epoch)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = next_is(g, now, LEAT__GROUP_TAKE).partition;
        leat__group_taken(g, p, epoch, now);
    }
}

/* ---- joining ---------------------------------------------------------- */

static void a_member_alone_takes_everything(void **state)
{
    leat__group *g = member();
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    assert_int_equal(leat__group_owned(g), P);
    assert_int_equal(leat__group_members(g), 1);
    assert_true(leat__group_owns(g, 7));
    next_is(g, 0, LEAT__GROUP_NOTHING);
    assert_true(leat__group_due(g) > 0);
    look(g, leat__group_due(g), NULL);
    assert_non_null(strstr(ours, " 0-7 me"));
    leat__group_free(g);
}

static void before_the_first_answer_nothing_is_taken(void **state)
{
    leat__group *g = member();
    (void)state;
    leat__group_action a = next_is(g, 0, LEAT__GROUP_BEAT);
    assert_memory_equal(a.record.p, "1 1 0 0 - - me", a.record.n);
    next_is(g, 0, LEAT__GROUP_NOTHING);
    leat__group_beat_failed(g, 10);
    next_is(g, 10, LEAT__GROUP_NOTHING);
    assert_true(leat__group_due(g) > 10);
    a = next_is(g, leat__group_due(g), LEAT__GROUP_BEAT);
    assert_memory_equal(a.record.p, "1 2 0 0 - - me", a.record.n);
    assert_true(leat__group_safe_until(g) < 0);
    leat__group_free(g);
}

static void safety_counts_from_the_sending_of_an_answered_beat(void **state)
{
    leat__group *g = member();
    (void)state;
    say(next_is(g, 100, LEAT__GROUP_BEAT).record);
    leat__group_record r = { nonce(5), leat_str(ours) };
    must(leat__group_beat_done(g, 100, 700, &r, 1, err));
    assert_int_equal(leat__group_safe_until(g), 100 + LEASE);
    leat__group_free(g);
}

static void a_record_that_is_gone_is_made_again(void **state)
{
    leat__group *g = member();
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    leat__group_beat_now(g);
    next_is(g, 1000 * MS, LEAT__GROUP_BEAT);
    look_sent(g, 1000 * MS, NULL, false);
    assert_int_equal(leat__group_safe_until(g), LEASE);
    leat__group_action a = next_is(g, 2000 * MS, LEAT__GROUP_BEAT);
    assert_memory_equal(a.record.p, "1 3 +50 0 - 0-7 me", a.record.n);
    next_is(g, 2000 * MS, LEAT__GROUP_NOTHING);
    assert_int_equal(leat__group_owned(g), P);
    leat__group_free(g);
}

/* ---- sharing ---------------------------------------------------------- */

static void surplus_is_drained_and_handed_over_highest_first(void **state)
{
    leat__group *g = member();
    const struct others two = { 1, { 1 }, { "1 1 60 0 - - x" } };
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    look(g, 1 * MS, &two);
    for (uint32_t p = 4; p < P; p++)
        assert_int_equal(next_is(g, 1 * MS, LEAT__GROUP_DRAIN).partition, p);
    next_is(g, 1 * MS, LEAT__GROUP_NOTHING);
    leat__group_drained(g, 6, 2 * MS);
    leat__group_action a = next_is(g, 2 * MS, LEAT__GROUP_HAND);
    assert_int_equal(a.partition, 6);
    assert_int_equal(a.epoch, 9);
    leat__group_hand_done(g, 6, 3 * MS);
    assert_false(leat__group_owns(g, 6));
    look(g, 20 * MS, &two);
    assert_non_null(strstr(ours, " 0-5,7 "));
    leat__group_free(g);
}

static void
a_drain_that_lasts_too_long_is_handed_over_all_the_same(void **state)
{
    leat__group *g = member();
    const struct others two = { 1, { 1 }, { "1 1 60 0 - - x" } };
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    look(g, 1 * MS, &two);
    for (int i = 0; i < 4; i++)
        next_is(g, 1 * MS, LEAT__GROUP_DRAIN);
    look(g, 999 * MS, &two);
    next_is(g, 1000 * MS, LEAT__GROUP_NOTHING);
    assert_int_equal(leat__group_due(g), 1001 * MS);
    next_is(g, 1001 * MS, LEAT__GROUP_HAND);
    leat__group_free(g);
}

static void what_need_not_move_after_all_is_kept(void **state)
{
    leat__group *g = member();
    const struct others two = { 1, { 1 }, { "1 1 60 0 - - x" } };
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    look(g, 1 * MS, &two);
    for (int i = 0; i < 4; i++)
        next_is(g, 1 * MS, LEAT__GROUP_DRAIN);
    leat__group_drained(g, 4, 2 * MS);
    look(g, 3 * MS, NULL);
    for (uint32_t p = 4; p < P; p++)
        assert_int_equal(next_is(g, 3 * MS, LEAT__GROUP_KEEP).partition, p);
    next_is(g, 3 * MS, LEAT__GROUP_NOTHING);
    assert_int_equal(leat__group_owned(g), P);
    leat__group_free(g);
}

static void a_hand_over_without_an_answer_is_repeated(void **state)
{
    leat__group *g = member();
    const struct others two = { 1, { 1 }, { "1 1 60 7 - - x" } };
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    look(g, 1 * MS, &two);
    for (int i = 0; i < 4; i++)
        next_is(g, 1 * MS, LEAT__GROUP_DRAIN);
    leat__group_drained(g, 7, 2 * MS);
    next_is(g, 2 * MS, LEAT__GROUP_HAND);
    leat__group_hand_failed(g, 7, 3 * MS);
    assert_true(leat__group_owns(g, 7));
    look(g, 500 * MS, NULL); /* it would be ours again, but may be gone */
    leat__group_action a = { 0 };
    do
        a = leat__group_next(g, 500 * MS);
    while (a.what == LEAT__GROUP_KEEP);
    assert_int_equal(a.what, LEAT__GROUP_HAND);
    assert_int_equal(a.partition, 7);
    assert_int_equal(a.epoch, 9);
    leat__group_free(g);
}

/* ---- the dead --------------------------------------------------------- */

static void the_silent_are_dead_after_a_lease_and_a_sixth(void **state)
{
    leat__group *g = member();
    const struct others full = { 1, { 1 }, { "1 1 40 0 - 0-7 x" } };
    int64_t silence = LEASE + LEASE / 6, t = 0;
    (void)state;
    look(g, 0, &full);
    for (; t < silence - MS; t += LEASE / 6) {
        look(g, t, &full);
        next_is(g, t, LEAT__GROUP_NOTHING);
        assert_int_equal(leat__group_members(g), 2);
    }
    assert_int_equal(leat__group_due(g), silence);
    look(g, silence, &full);
    assert_int_equal(leat__group_members(g), 1);
    for (uint32_t p = 0; p < P; p++) {
        leat__group_action a = next_is(g, silence, LEAT__GROUP_TAKE);
        leat__nonce x = nonce(1);
        assert_true(a.from_dead);
        assert_memory_equal(&a.from, &x, sizeof x);
        leat__group_taken(g, p, 10, silence);
    }
    leat__group_free(g);
}

static void time_that_we_did_not_watch_does_not_count(void **state)
{
    leat__group *g = member();
    const struct others full = { 1, { 1 }, { "1 1 40 0 - 0-7 x" } };
    (void)state;
    look(g, 0, &full);
    look(g, 3 * LEASE, &full);
    look(g, 3 * LEASE + LEASE / 6, &full);
    assert_int_equal(leat__group_members(g), 2);
    next_is(g, 3 * LEASE + LEASE / 6, LEAT__GROUP_NOTHING);
    leat__group_free(g);
}

/* The look was sent in time and answered when the server was back. */
static void time_in_which_our_look_was_stuck_does_not_count(void **state)
{
    leat__group *g = member();
    const struct others full = { 1, { 1 }, { "1 1 40 0 - 0-7 x" } };
    (void)state;
    look(g, 0, &full);
    leat__group_record r[2] = { { nonce(1), leat_str("1 1 40 0 - 0-7 x") } };
    leat__group_beat_now(g);
    say(next_is(g, LEASE / 6, LEAT__GROUP_BEAT).record);
    r[1] = (leat__group_record){ nonce(5), leat_str(ours) };
    must(leat__group_beat_done(g, LEASE / 6, 3 * LEASE, r, 2, err));
    look(g, 3 * LEASE + MS, &full);
    assert_int_equal(leat__group_members(g), 2);
    leat__group_free(g);
}

static void a_judgement_is_not_acted_on_after_a_pause(void **state)
{
    leat__group *g = member();
    const struct others full = { 1, { 1 }, { "1 1 40 0 - 0-7 x" } };
    const struct others back = { 1, { 1 }, { "1 2 40 0 - 0-7 x" } };
    int64_t t = 0;
    (void)state;
    for (; t < LEASE + LEASE / 3; t += LEASE / 6)
        look(g, t, &full);
    assert_int_equal(leat__group_members(g), 1);
    leat__group_action a = next_is(g, t + LEASE, LEAT__GROUP_BEAT);
    say(a.record);
    next_is(g, t + LEASE, LEAT__GROUP_NOTHING);
    look_sent(g, t + LEASE, &back, true);
    next_is(g, t + LEASE, LEAT__GROUP_NOTHING);
    assert_int_equal(leat__group_members(g), 2);
    leat__group_free(g);
}

static void an_owner_without_a_record_is_watched_from_the_refusal(void **state)
{
    leat__group *g = member_with((leat__group_opts){ .partitions = 1 });
    leat__nonce ghost = nonce(9);
    int64_t t = 0, end = LEASE + LEASE / 6 + 1;
    (void)state;
    look(g, t, NULL);
    for (;; t = t + LEASE / 6 < end ? t + LEASE / 6 : end) {
        leat__group_action a = next_is(g, t, LEAT__GROUP_TAKE);
        if (t == end) {
            assert_true(a.from_dead);
            assert_memory_equal(&a.from, &ghost, sizeof ghost);
            break;
        }
        assert_false(a.from_dead);
        leat__group_take_refused(g, 0, &ghost, t + 1);
        look(g, t + LEASE / 6 < end ? t + LEASE / 6 : end, NULL);
    }
    leat__group_free(g);
}

static void the_long_dead_are_buried_by_the_first_of_the_living(void **state)
{
    for (uint8_t living = 1; living < 9; living += 7) {
        leat__group *g = member();
        char text[40];
        struct others o = { 2, { 2, living }, { "1 1 40 0 - - x", text } };
        leat__group_action a = { 0 };
        for (int i = 0; i < 40 && a.what != LEAT__GROUP_BURY; i++) {
            int64_t t = i * (LEASE / 6);
            snprintf(text, sizeof text, "1 %d 41 0 - 0-3 y", i + 1);
            look(g, t, &o);
            for (int n = 0; n < 20 && a.what != LEAT__GROUP_BURY; n++) {
                a = leat__group_next(g, t);
                if (a.what == LEAT__GROUP_TAKE)
                    leat__group_taken(g, a.partition, 5, t);
            }
        }
        (void)state;
        assert_int_equal(a.what == LEAT__GROUP_BURY, living > 5);
        if (living > 5)
            assert_true(leat_bytes_eq(a.record, leat_str("1 1 40 0 - - x")));
        leat__group_free(g);
    }
}

/* ---- names ------------------------------------------------------------ */

static void a_stable_name_takes_over_from_its_earlier_life(void **state)
{
    leat__group *g = member_with(
        (leat__group_opts){ .stable = true, .name = "a" });
    const struct others o = { 1, { 1 }, { "1 1 40 0 s 0-7 a" } };
    (void)state;
    look(g, 0, &o);
    for (int i = 0; i < P; i++)
        assert_true(next_is(g, 0, LEAT__GROUP_TAKE).from_dead);
    leat__group_free(g);
}

static void who_is_superseded_gives_up_all_and_leaves(void **state)
{
    leat__group *g = member_with(
        (leat__group_opts){ .stable = true, .name = "a" });
    const struct others o = { 1, { 1 }, { "1 1 60 0 s - a" } };
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    look(g, 1 * MS, &o);
    for (int i = 0; i < P; i++)
        next_is(g, 1 * MS, LEAT__GROUP_HAND);
    next_is(g, 1 * MS, LEAT__GROUP_NOTHING);
    leat__group_hand_failed(g, 0, 1 * MS);
    next_is(g, 1 * MS, LEAT__GROUP_NOTHING); /* not in a circle */
    look(g, 600 * MS, &o);
    next_is(g, 600 * MS, LEAT__GROUP_HAND);
    for (uint32_t p = 0; p < P; p++)
        leat__group_hand_done(g, p, 601 * MS);
    next_is(g, 601 * MS, LEAT__GROUP_LEAVE);
    next_is(g, 601 * MS, LEAT__GROUP_NOTHING);
    assert_int_equal(leat__group_due(g), INT64_MAX);
    leat__group_free(g);
}

static void who_is_superseded_goes_though_the_server_is_away(void **state)
{
    leat__group *g = member_with(
        (leat__group_opts){ .stable = true, .name = "a", .partitions = 1 });
    const struct others o = { 1, { 1 }, { "1 1 60 0 s - a" } };
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, 1, 9);
    look(g, 1 * MS, &o);
    next_is(g, 1 * MS, LEAT__GROUP_HAND);
    leat__group_hand_failed(g, 0, 2 * MS);
    next_is(g, LEASE, LEAT__GROUP_BEAT);
    leat__group_beat_failed(g, LEASE);
    assert_int_equal(leat__group_due(g), LEASE + MS);
    next_is(g, LEASE + MS, LEAT__GROUP_LEAVE);
    leat__group_free(g);
}

/* Join as a later life, take what is offered, and go. */
static leat__group *come_and_go(const struct others *o, uint32_t takes)
{
    leat__group *g = member_with(
        (leat__group_opts){ .stable = true, .name = "a" });
    look(g, 0, o);
    take_all(g, 0, takes, 9);
    leat__group_leave(g, 1 * MS);
    look(g, 1 * MS, o);
    for (uint32_t i = 0; i < takes; i++) {
        uint32_t p = next_is(g, 1 * MS, LEAT__GROUP_DRAIN).partition;
        leat__group_drained(g, p, 1 * MS);
        next_is(g, 1 * MS, LEAT__GROUP_HAND);
        leat__group_hand_done(g, p, 1 * MS);
    }
    return g;
}

static void who_leaves_buries_its_earlier_lives_first(void **state)
{
    static const char *const lives[] = { "1 1 40 0 s 0-3 a",
                                         "1 7 41 0 s 2-7 a" };
    const struct others o = { 5,
                              { 1, 2, 6, 7, 8 },
                              { lives[0], lives[1], "1 1 42 0 - 3-5 a",
                                "1 1 43 0 s 6-7 b", "2 what ever" } };
    (void)state;
    leat__group *g = come_and_go(&o, 3);
    for (uint8_t i = 0; i < 2; i++) {
        leat__group_action a = next_is(g, 2 * MS, LEAT__GROUP_BURY);
        leat__nonce who = nonce((uint8_t)(i + 1));
        assert_memory_equal(&a.other, &who, sizeof who);
        assert_true(leat_bytes_eq(a.record, leat_str(lives[i])));
    }
    next_is(g, 2 * MS, LEAT__GROUP_LEAVE);
    leat__group_free(g);
}

/* A later life takes those from it at once, by its record. */
static void an_earlier_life_that_may_have_leases_keeps_its_record(void **state)
{
    const struct others o = { 1, { 1 }, { "1 1 40 0 s 0-7 a" } };
    (void)state;
    leat__group *g = come_and_go(&o, 7);
    next_is(g, 2 * MS, LEAT__GROUP_LEAVE);
    leat__group_free(g);
}

static void a_record_of_a_newer_version_lives_without_a_share(void **state)
{
    leat__group *g = member();
    const struct others o = { 1, { 1 }, { "2 what ever" } };
    leat__nonce x = nonce(1);
    (void)state;
    look(g, 0, &o);
    assert_int_equal(leat__group_members(g), 2);
    for (uint32_t p = 0; p < P; p++) {
        leat__group_action a = next_is(g, 0, LEAT__GROUP_TAKE);
        assert_false(a.from_dead);
        if (p == 3)
            leat__group_take_refused(g, a.partition, &x, 0);
        else
            leat__group_taken(g, a.partition, 5, 0);
    }
    assert_int_equal(leat__group_owned(g), P - 1);
    leat__group_free(g);
}

/* ---- leaving ---------------------------------------------------------- */

static void leaving_drains_hands_over_and_goes(void **state)
{
    leat__group *g = member_with((leat__group_opts){ .partitions = 2 });
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, 2, 9);
    look(g, 100 * MS, NULL);
    leat__group_leave(g, 200 * MS);
    leat__group_action a = next_is(g, 200 * MS, LEAT__GROUP_BEAT);
    assert_memory_equal(a.record.p, "1 3 50 0 l 0-1 me", a.record.n);
    next_is(g, 200 * MS, LEAT__GROUP_DRAIN);
    next_is(g, 200 * MS, LEAT__GROUP_DRAIN);
    leat__group_drained(g, 0, 200 * MS);
    next_is(g, 200 * MS, LEAT__GROUP_HAND);
    leat__group_hand_done(g, 0, 201 * MS);
    leat__group_drained(g, 1, 202 * MS);
    next_is(g, 202 * MS, LEAT__GROUP_HAND);
    leat__group_hand_done(g, 1, 203 * MS);
    next_is(g, 203 * MS, LEAT__GROUP_NOTHING); /* the beat is under way */
    leat__group_beat_failed(g, 204 * MS);
    next_is(g, 204 * MS, LEAT__GROUP_LEAVE);
    leat__group_free(g);
}

static void leaving_ends_though_the_server_is_away(void **state)
{
    leat__group *g = member_with((leat__group_opts){ .partitions = 1 });
    leat__group_action a = { 0 };
    int64_t t = 200 * MS;
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, 1, 9);
    leat__group_leave(g, t);
    for (int i = 0; i < 1000 && a.what != LEAT__GROUP_LEAVE; i++) {
        a = leat__group_next(g, t);
        if (a.what == LEAT__GROUP_BEAT)
            leat__group_beat_failed(g, t);
        if (a.what == LEAT__GROUP_HAND)
            leat__group_hand_failed(g, 0, t);
        if (a.what == LEAT__GROUP_NOTHING)
            t = leat__group_due(g);
    }
    assert_int_equal(a.what, LEAT__GROUP_LEAVE);
    assert_true(t <= 200 * MS + 1000 * MS + LEASE);
    leat__group_free(g);
}

/* ---- the unknown ------------------------------------------------------ */

static void
a_lost_take_is_tried_again_though_the_plan_says_otherwise(void **state)
{
    leat__group *g = member_with((leat__group_opts){ .partitions = 2 });
    const struct others two = { 1, { 1 }, { "1 1 60 0 - - x" } };
    int64_t t = 0;
    leat__group_action a = { 0 };
    (void)state;
    look(g, 0, NULL);
    next_is(g, 0, LEAT__GROUP_TAKE);
    next_is(g, 0, LEAT__GROUP_TAKE);
    leat__group_taken(g, 1, 8, 0);
    leat__group_take_failed(g, 0, 0);
    for (int i = 0; i < 6 && a.what != LEAT__GROUP_TAKE; i++) {
        t += 100 * MS;
        look(g, t, &two);
        a = leat__group_next(g, t);
    }
    assert_int_equal(a.what, LEAT__GROUP_TAKE);
    assert_int_equal(a.partition, 0);
    leat__group_free(g);
}

static void what_was_fenced_is_forgotten_by_its_epoch(void **state)
{
    leat__group *g = member();
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    leat__group_fenced(g, 3, 8, 0);
    assert_true(leat__group_owns(g, 3));
    leat__group_fenced(g, 3, 9, 0);
    assert_false(leat__group_owns(g, 3));
    assert_int_equal(leat__group_owned(g), P - 1);
    leat__group_free(g);
}

static void a_hint_makes_it_look_soon(void **state)
{
    leat__group *g = member();
    (void)state;
    look(g, 0, NULL);
    take_all(g, 0, P, 9);
    look(g, 100 * MS, NULL);
    look(g, 200 * MS, NULL);
    assert_int_equal(leat__group_due(g), 200 * MS + LEASE / 6);
    leat__group_hint(g, 300 * MS);
    next_is(g, 300 * MS, LEAT__GROUP_BEAT);
    leat__group_free(g);
}

/* ---- memory ----------------------------------------------------------- */

static void join_and_lose(void *arg)
{
    leat__group_opts o = { .self = nonce(5),
                           .name = "me",
                           .partitions = P,
                           .lease_ns = LEASE,
                           .drain_ns = MS };
    leat__group_record r[2] = { { nonce(1), leat_str("1 1 40 0 s 4-7 x") } };
    leat__nonce ghost = nonce(9);
    leat__group *g = leat__group_new(&o, NULL);
    (void)arg;
    for (int64_t t = 0, i = 0; g && i < 60; i++) {
        leat__group_action a = leat__group_next(g, t);
        if (a.what == LEAT__GROUP_BEAT) {
            say(a.record);
            r[1] = (leat__group_record){ nonce(5), leat_str(ours) };
            if (leat__group_beat_done(g, t, t, r, 2, NULL) != LEAT_OK)
                leat__group_beat_failed(g, t);
        } else if (a.what == LEAT__GROUP_TAKE && a.partition == 0) {
            leat__group_take_refused(g, 0, &ghost, t);
        } else if (a.what == LEAT__GROUP_TAKE) {
            leat__group_taken(g, a.partition, 7, t);
        } else {
            t += 400 * MS;
        }
    }
    leat__group_free(g);
}

static void it_survives_every_failed_allocation(void **state)
{
    (void)state;
    alloc_fail_sweep(join_and_lose, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_alone_takes_everything),
        cmocka_unit_test(before_the_first_answer_nothing_is_taken),
        cmocka_unit_test(safety_counts_from_the_sending_of_an_answered_beat),
        cmocka_unit_test(a_record_that_is_gone_is_made_again),
        cmocka_unit_test(surplus_is_drained_and_handed_over_highest_first),
        cmocka_unit_test(
            a_drain_that_lasts_too_long_is_handed_over_all_the_same),
        cmocka_unit_test(what_need_not_move_after_all_is_kept),
        cmocka_unit_test(a_hand_over_without_an_answer_is_repeated),
        cmocka_unit_test(the_silent_are_dead_after_a_lease_and_a_sixth),
        cmocka_unit_test(time_that_we_did_not_watch_does_not_count),
        cmocka_unit_test(time_in_which_our_look_was_stuck_does_not_count),
        cmocka_unit_test(a_judgement_is_not_acted_on_after_a_pause),
        cmocka_unit_test(an_owner_without_a_record_is_watched_from_the_refusal),
        cmocka_unit_test(the_long_dead_are_buried_by_the_first_of_the_living),
        cmocka_unit_test(a_stable_name_takes_over_from_its_earlier_life),
        cmocka_unit_test(who_is_superseded_gives_up_all_and_leaves),
        cmocka_unit_test(who_is_superseded_goes_though_the_server_is_away),
        cmocka_unit_test(who_leaves_buries_its_earlier_lives_first),
        cmocka_unit_test(an_earlier_life_that_may_have_leases_keeps_its_record),
        cmocka_unit_test(a_record_of_a_newer_version_lives_without_a_share),
        cmocka_unit_test(leaving_drains_hands_over_and_goes),
        cmocka_unit_test(leaving_ends_though_the_server_is_away),
        cmocka_unit_test(
            a_lost_take_is_tried_again_though_the_plan_says_otherwise),
        cmocka_unit_test(what_was_fenced_is_forgotten_by_its_epoch),
        cmocka_unit_test(a_hint_makes_it_look_soon),
        cmocka_unit_test(it_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* moves.c: lanes that stand still, and the line of steps. */
#include "topic/moves.h"
#include "base/mem.h"
#include "support/allocfail.h"

#include <string.h>

/* ---- lanes ------------------------------------------------------------ */

static void a_lane_is_the_same_everywhere(void **state)
{
    char text[LEAT__LANE_TEXT];
    uint64_t lane = leat__lane_of(leat_str("order-1")), back;
    (void)state;
    /* Kept on servers: it must never change. */
    assert_true(leat_bytes_eq(leat__lane_format(lane, text),
                              leat_str("fbf3041374be718f")));
    assert_true(leat__lane_parse(leat_str("fbf3041374be718f"), &back));
    assert_true(back == lane);
    assert_int_equal(leat__lane_of(leat_mem("", 0)), 0);
    assert_int_equal(leat__lane_format(0, text).n, 0);
    assert_true(
        leat_bytes_eq(leat__lane_format(LEAT__LANE_STAR, text), leat_str("*")));
}

static void what_is_no_lane_is_refused(void **state)
{
    static const char *const bad[] = { "**",
                                       "1",
                                       "fbf3041374be718",
                                       "fbf3041374be718f1",
                                       "FBf3041374be718f",
                                       "fbf3041374be718e" };
    uint64_t lane;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(leat__lane_parse(leat_str(bad[i]), &lane));
    assert_true(leat__lane_parse(leat_str(""), &lane) && lane == 0);
    assert_true(leat__lane_parse(leat_str("*"), &lane) &&
                lane == LEAT__LANE_STAR);
}

/* Against an array of flags, in a small table that has to grow and close up. */
static void a_set_of_lanes_is_a_set(void **state)
{
    enum { LANES = 97, STEPS = 20000 };
    leat__blocks b = { 0 };
    bool in[LANES] = { 0 };
    uint64_t chance = 1;
    (void)state;
    for (int i = 0; i < STEPS; i++) {
        chance = chance * 6364136223846793005U + 1442695040888963407U;
        uint64_t k = (chance >> 33) % LANES;
        uint64_t lane = (k << 40) + 1;
        leat__blocked *one = leat__blocks_find(&b, lane);
        assert_int_equal(one != NULL, in[k]);
        if (one)
            leat__blocks_remove(&b, one);
        else
            assert_non_null(leat__blocks_add(&b, lane, NULL));
        in[k] = !in[k];
    }
    uint32_t n = 0, at = 0;
    for (int k = 0; k < LANES; k++)
        n += in[k];
    assert_int_equal(b.count, n);
    while (leat__blocks_next(&b, &at))
        n--;
    assert_int_equal(n, 0);
    leat__blocks_release(&b);
}

/* What could be added is found, whatever could not. */
static void fill_set(void *arg)
{
    leat__blocks b = { 0 };
    bool in[40] = { 0 };
    (void)arg;
    for (uint64_t i = 0; i < 40; i++)
        in[i] = leat__blocks_add(&b, 2 * i + 1, NULL) != NULL;
    for (uint64_t i = 0; i < 40; i++)
        assert_int_equal(leat__blocks_find(&b, 2 * i + 1) != NULL, in[i]);
    leat__blocks_release(&b);
}

static void without_memory_a_set_stays_as_it_was(void **state)
{
    (void)state;
    alloc_fail_sweep(fill_set, NULL);
}

/* ---- steps ------------------------------------------------------------ */

static leat__step *step(uint64_t id, leat__step_what what)
{
    leat__step *s = leat__zalloc(sizeof *s, NULL);
    s->id = (leat__id){ id, 0 };
    s->what = what;
    return s;
}

static void add_steps(leat__moves *m, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to; i++)
        leat__moves_add(m, step(i, LEAT__STEP_KEEP));
}

static void number_all(leat__moves *m)
{
    while (leat__moves_number(m))
        continue;
}

static int confirm(leat__moves *m, uint64_t upto)
{
    int n = 0;
    for (leat__step *s; (s = leat__moves_confirmed(m, upto)); n++)
        leat__step_free(s);
    return n;
}

static void drop_all(leat__moves *m)
{
    for (leat__step *s; (s = leat__moves_drop(m));)
        leat__step_free(s);
}

static void steps_are_numbered_in_line_without_gaps(void **state)
{
    leat__moves m = { 0 };
    (void)state;
    add_steps(&m, 1, 3);
    for (uint64_t i = 1; i <= 3; i++) {
        const leat__step *s = leat__moves_number(&m);
        assert_int_equal(s->id.ms, i);
        assert_int_equal(s->number, i);
    }
    assert_null(leat__moves_number(&m));
    assert_int_equal(confirm(&m, 2), 2);
    assert_int_equal(m.known, 2);
    add_steps(&m, 4, 4);
    assert_int_equal(leat__moves_number(&m)->number, 4);
    assert_int_equal(confirm(&m, 9), 2);
    assert_int_equal(m.known, 4);
    assert_null(m.first);
    assert_null(m.last);
    drop_all(&m);
}

static void a_save_carries_so_many_and_no_more(void **state)
{
    leat__moves m = { 0 };
    (void)state;
    add_steps(&m, 1, LEAT__MOVE_MAX + 5);
    number_all(&m);
    assert_int_equal(m.numbered, LEAT__MOVE_MAX);
    assert_int_equal(m.waiting, 5);
    assert_false(leat__moves_ready(&m));
    assert_int_equal(confirm(&m, 3), 3);
    assert_true(leat__moves_ready(&m));
    number_all(&m);
    assert_int_equal(m.waiting, 2);
    drop_all(&m);
    assert_int_equal(m.numbered + m.waiting, 0);
}

#define assert_arg(args, i, text)                                              \
    assert_true(leat_bytes_eq((args)[i], leat_str(text)))

static void steps_are_written_as_the_script_reads_them(void **state)
{
    static leat_bytes args[1 + LEAT__MOVE_MAX * LEAT__STEP_ARGS];
    leat__buf text = { 0 };
    leat__moves m = { 0 };
    leat__step *keep = step(7, LEAT__STEP_KEEP),
               *dead = step(8, LEAT__STEP_DEAD);
    (void)state;
    keep->n = 2;
    keep->f = 1;
    keep->delay_ms = 1500;
    keep->lane = 0x0123456789abcdefU;
    memcpy(keep->error, "no", 3);
    dead->lane = LEAT__LANE_STAR;
    assert_int_equal(leat__buf_str(&dead->extra, "1:a1:b", NULL), LEAT_OK);
    leat__moves_add(&m, keep);
    leat__moves_add(&m, dead);
    add_steps(&m, 9, 9);
    leat__moves_number(&m);
    leat__moves_number(&m); /* the third is for another save */
    assert_int_equal(leat__moves_write(&m, &text, args, NULL), 17);
    static const char *const want[] = { "0123456789abcdef * ",
                                        "1",
                                        "keep",
                                        "7-0",
                                        "2",
                                        "1",
                                        "1500",
                                        "no",
                                        "0123456789abcdef",
                                        "2",
                                        "dead",
                                        "8-0",
                                        "0",
                                        "0",
                                        "0",
                                        "",
                                        "1:a1:b" };
    for (int i = 0; i < 17; i++)
        assert_arg(args, i, want[i]);
    leat__buf_release(&text);
    drop_all(&m);
}

static void the_longest_steps_have_room(void **state)
{
    static leat_bytes args[1 + LEAT__MOVE_MAX * LEAT__STEP_ARGS];
    leat__buf text = { 0 };
    leat__moves m = { .number = UINT64_MAX / 4 };
    (void)state;
    for (uint64_t i = 0; i < LEAT__MOVE_MAX; i++) {
        leat__step *s = step(UINT64_MAX, LEAT__STEP_KEEP);
        s->id.seq = UINT64_MAX;
        s->n = s->f = UINT32_MAX;
        s->delay_ms = INT64_MAX;
        s->lane = UINT64_MAX - 2 * i;
        memset(s->error, 'e', LEAT__ERROR_MAX);
        leat__moves_add(&m, s);
    }
    number_all(&m);
    size_t n = leat__moves_write(&m, &text, args, NULL);
    assert_int_equal(n, 1 + LEAT__MOVE_MAX * LEAT__STEP_ARGS);
    assert_int_equal(args[0].n, LEAT__MOVE_MAX * 17);
    assert_int_equal(args[n - 2].n, LEAT__ERROR_MAX);
    leat__buf_release(&text);
    drop_all(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_is_the_same_everywhere),
        cmocka_unit_test(what_is_no_lane_is_refused),
        cmocka_unit_test(a_set_of_lanes_is_a_set),
        cmocka_unit_test(without_memory_a_set_stays_as_it_was),
        cmocka_unit_test(steps_are_numbered_in_line_without_gaps),
        cmocka_unit_test(a_save_carries_so_many_and_no_more),
        cmocka_unit_test(steps_are_written_as_the_script_reads_them),
        cmocka_unit_test(the_longest_steps_have_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

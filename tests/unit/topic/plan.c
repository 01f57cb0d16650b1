/* plan.c: quotas, the plan, and members' records. */
#include "topic/plan.h"
#include "support/allocfail.h"
#include "support/leat.h"
#include "topic/record.h"

#include <stdlib.h>

enum { MEMBERS = 40, PARTITIONS = 200 };

/* ---- quotas ----------------------------------------------------------- */

static void quota_is(uint32_t partitions, const uint32_t *have,
                     const uint32_t *cap, size_t n, const uint32_t *want)
{
    uint32_t quota[MEMBERS];
    leat__plan_quota(partitions, have, cap, n, quota);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(quota[i], want[i]);
}

#define L(...) ((const uint32_t[]){ __VA_ARGS__ })

static void everything_goes_to_a_single_member(void **state)
{
    (void)state;
    quota_is(7, L(0), L(0), 1, L(7));
    quota_is(7, L(7), L(3), 1, L(3));
}

static void the_odd_ones_stay_with_those_who_have_them(void **state)
{
    (void)state;
    quota_is(8, L(2, 3, 3), L(0, 0, 0), 3, L(2, 3, 3));
    quota_is(8, L(8, 0, 0), L(0, 0, 0), 3, L(3, 3, 2));
    quota_is(5, L(0, 0, 5), L(0, 0, 0), 3, L(2, 1, 2));
}

static void what_the_capped_leave_is_shared_by_the_others(void **state)
{
    (void)state;
    quota_is(12, L(0, 0, 0), L(2, 0, 0), 3, L(2, 5, 5));
    quota_is(12, L(0, 0, 0), L(2, 3, 4), 3, L(2, 3, 4));
    quota_is(3, L(0, 0, 0, 0, 0), L(0, 0, 0, 0, 0), 5, L(1, 1, 1, 0, 0));
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

/* All placed as far as caps allow; who is below its cap has the least of those
 * below theirs, or one more. */
static void check_quota(uint32_t partitions, const uint32_t *cap, size_t n,
                        const uint32_t *quota)
{
    uint64_t sum = 0, caps = 0;
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = 0; i < n; i++) {
        sum += quota[i];
        caps += cap[i] ? cap[i] : partitions;
        assert_true(cap[i] == 0 || quota[i] <= cap[i]);
        if (quota[i] > most)
            most = quota[i];
        if ((cap[i] == 0 || quota[i] < cap[i]) && quota[i] < least)
            least = quota[i];
    }
    assert_int_equal(sum, caps < partitions ? caps : partitions);
    assert_true(least == UINT32_MAX || most <= least + 1);
}

static void quotas_are_level_whatever_the_caps(void **state)
{
    uint32_t have[MEMBERS], cap[MEMBERS], quota[MEMBERS];
    (void)state;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t n = 1 + below(MEMBERS);
        uint32_t partitions = 1 + below(PARTITIONS);
        for (size_t i = 0; i < n; i++) {
            have[i] = below(12);
            cap[i] = below(3) ? 0 : 1 + below(10);
        }
        leat__plan_quota(partitions, have, cap, n, quota);
        check_quota(partitions, cap, n, quota);
    }
}

/* ---- plans ------------------------------------------------------------ */

struct world {
    uint32_t partitions;
    size_t n;
    uint32_t cap[MEMBERS];
    int32_t owner[PARTITIONS];
};

static void random_world(struct world *w)
{
    w->n = 1 + below(MEMBERS);
    w->partitions = 1 + below(PARTITIONS);
    for (size_t i = 0; i < w->n; i++)
        w->cap[i] = below(5) ? 0 : 1 + below(20);
    for (uint32_t p = 0; p < w->partitions; p++)
        w->owner[p] = (int32_t)below((uint32_t)w->n + 1) - 1;
}

/* The plan of one member; who[p] becomes me where the plan names me. */
static leat__plan plan_of(const struct world *w, size_t me, int32_t *owner,
                          int32_t *who)
{
    static uint32_t have[MEMBERS], quota[MEMBERS];
    memcpy(owner, w->owner, sizeof w->owner);
    leat__plan plan = { .partitions = w->partitions,
                        .owner = owner,
                        .members = w->n,
                        .me = me,
                        .cap = w->cap,
                        .have = have,
                        .quota = quota };
    leat__plan_make(&plan);
    uint64_t nth = 0;
    for (uint32_t p = 0; p < w->partitions; p++) {
        if (owner[p] >= 0)
            continue;
        if (nth >= plan.first && nth < plan.end) {
            assert_int_equal(who[p], -1);
            who[p] = (int32_t)me;
        }
        nth++;
    }
    return plan;
}

/* Who should have what, put together from all members' plans. */
static void target(const struct world *w, int32_t *who)
{
    int32_t owner[PARTITIONS], first[PARTITIONS];
    for (uint32_t p = 0; p < w->partitions; p++)
        who[p] = -1;
    for (size_t me = 0; me < w->n; me++) {
        plan_of(w, me, owner, who);
        for (uint32_t p = 0; p < w->partitions; p++) {
            int32_t seen = owner[p] == LEAT__PLAN_SPARE ? LEAT__PLAN_HELD
                                                        : owner[p];
            if (me == 0)
                first[p] = seen;
            assert_int_equal(seen, first[p]);
        }
    }
    for (uint32_t p = 0; p < w->partitions; p++)
        if (first[p] >= 0)
            who[p] = first[p];
}

static void
all_members_plan_the_same_and_each_partition_has_one_taker(void **state)
{
    struct world w;
    int32_t who[PARTITIONS];
    (void)state;
    srand(2);
    for (int round = 0; round < 1000; round++) {
        uint32_t count[MEMBERS] = { 0 };
        random_world(&w);
        target(&w, who);
        for (uint32_t p = 0; p < w.partitions; p++)
            if (who[p] >= 0)
                count[who[p]]++;
        check_quota(w.partitions, w.cap, w.n, count);
    }
}

/* Carry moves out one by one in random order: the target never changes. */
static void the_plan_does_not_change_by_being_carried_out(void **state)
{
    struct world w;
    int32_t who[PARTITIONS], now[PARTITIONS];
    (void)state;
    srand(3);
    for (int round = 0; round < 300; round++) {
        random_world(&w);
        target(&w, who);
        for (int step = 0; step < 10; step++) {
            for (uint32_t p = 0; p < w.partitions; p++) {
                if (w.owner[p] == who[p] || below(4))
                    continue;
                w.owner[p] = w.owner[p] >= 0 ? LEAT__PLAN_FREE : who[p];
            }
            target(&w, now);
            assert_memory_equal(now, who, w.partitions * sizeof *who);
        }
    }
}

/* ---- records ---------------------------------------------------------- */

static void a_record_reads_as_it_was_written(void **state)
{
    leat__buf b = { 0 };
    leat__record in = { .beat = 7,
                        .born = 1700000000000000,
                        .cap = 3,
                        .stable = true,
                        .claims = leat_str("0-3,7"),
                        .name = leat_str("a b") },
                 out;
    (void)state;
    must(leat__record_format(&b, &in, true, err));
    assert_int_equal(b.n, strlen("1 7 +1700000000000000 3 s 0-3,7 a b"));
    assert_memory_equal(b.p, "1 7 +1700000000000000 3 s 0-3,7 a b", b.n);
    assert_true(leat__record_parse(leat__buf_bytes(&b), &out));
    assert_int_equal(out.beat, 7);
    assert_int_equal(out.born, in.born);
    assert_int_equal(out.cap, 3);
    assert_true(out.stable && !out.leaving);
    assert_true(leat_bytes_eq(out.claims, in.claims));
    assert_true(leat_bytes_eq(out.name, in.name));
    leat__buf_release(&b);
}

static void claims_are_read_as_ranges(void **state)
{
    leat__record r;
    uint32_t lo, hi;
    (void)state;
    assert_true(leat__record_parse(leat_str("1 1 0 0 - 0-3,7,9-10 x"), &r));
    assert_true(leat__claims_next(&r.claims, &lo, &hi) && lo == 0 && hi == 3);
    assert_true(leat__claims_next(&r.claims, &lo, &hi) && lo == 7 && hi == 7);
    assert_true(leat__claims_next(&r.claims, &lo, &hi) && lo == 9 && hi == 10);
    assert_false(leat__claims_next(&r.claims, &lo, &hi));
}

static void what_is_no_record_of_this_version_is_not_read(void **state)
{
    static const char *const bad[] = {
        "",
        "1",
        "2 1 0 0 - - x",
        "1 x 0 0 - - x",
        "1 1 0 0 - -",
        "1 1 0 0 z - x",
        "1 1 0 0 - 3-1 x",
        "1 1 0 0 - a x",
        "1 1 0 0 - 1- x",
        "1 1 0 0 - 99999999999 x",
        "1 99999999999999999999 0 0 - - x",
    };
    leat__record r;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(leat__record_parse(leat_str(bad[i]), &r));
}

static void a_nonce_reads_as_it_was_written(void **state)
{
    leat__nonce n, m;
    char text[LEAT__NONCE_TEXT + 1];
    (void)state;
    for (size_t i = 0; i < sizeof n.b; i++)
        n.b[i] = (uint8_t)(i * 17);
    leat__nonce_format(&n, text);
    assert_string_equal(text, "00112233445566778899aabbccddeeff");
    assert_true(leat__nonce_parse(leat_str(text), &m));
    assert_memory_equal(&n, &m, sizeof n);
    assert_false(leat__nonce_parse(leat_str("00"), &m));
    text[3] = 'X';
    assert_false(leat__nonce_parse(leat_str(text), &m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_goes_to_a_single_member),
        cmocka_unit_test(the_odd_ones_stay_with_those_who_have_them),
        cmocka_unit_test(what_the_capped_leave_is_shared_by_the_others),
        cmocka_unit_test(quotas_are_level_whatever_the_caps),
        cmocka_unit_test(
            all_members_plan_the_same_and_each_partition_has_one_taker),
        cmocka_unit_test(the_plan_does_not_change_by_being_carried_out),
        cmocka_unit_test(a_record_reads_as_it_was_written),
        cmocka_unit_test(claims_are_read_as_ranges),
        cmocka_unit_test(what_is_no_record_of_this_version_is_not_read),
        cmocka_unit_test(a_nonce_reads_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

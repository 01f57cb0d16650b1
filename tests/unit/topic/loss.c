/*
 * loss.c: prints, trails, and the judgement over them, against a model of a
 * log that is written by several, trimmed, deleted from, and goes back in time.
 */
#include "topic/judge.h"

#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- trails ----------------------------------------------------------- */

static leat__print print_at(uint64_t ms)
{
    return (leat__print){ .id = { ms, 0 }, .mark = (uint32_t)ms * 7 };
}

static void add(leat__trail *t, uint64_t ms)
{
    leat__print p = print_at(ms), out;
    (void)leat__trail_add(t, &p, &out);
}

static uint32_t mark(const char *bulks)
{
    return leat__print_mark(leat_str(bulks));
}

static void a_mark_tells_entries_from_each_other(void **state)
{
    (void)state;
    assert_true(mark("$1\r\nb\r\n$2\r\nxy\r\n") ==
                mark("$1\r\nb\r\n$2\r\nxy\r\n"));
    assert_false(mark("$1\r\nb\r\n$2\r\nxy\r\n") ==
                 mark("$1\r\nb\r\n$2\r\nxz\r\n"));
}

/* The beginning decides: the server is asked for no more. */
static void what_stands_behind_the_beginning_does_not_count(void **state)
{
    char a[400], b[400];
    (void)state;
    memset(a, 'k', sizeof a);
    memset(b, 'k', sizeof b);
    b[LEAT__PRINT_BYTES] = 'x';
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    assert_true(mark(a) == mark(b));
    b[LEAT__PRINT_BYTES - 1] = 'x';
    assert_false(mark(a) == mark(b));
    assert_true(leat__print_mark(leat_mem(a, LEAT__PRINT_BYTES)) == mark(a));
}

static void a_trail_keeps_the_newest_and_knows_of_the_others(void **state)
{
    leat__trail t;
    leat__print out;
    (void)state;
    leat__trail_init(&t, 100); /* 128 */
    for (uint64_t i = 1; i <= 128; i++)
        add(&t, i);
    assert_int_equal(leat__trail_count(&t), 128);
    assert_false(leat__trail_at(&t, 0)->gap);
    leat__print p = print_at(129);
    assert_true(leat__trail_add(&t, &p, &out));
    assert_int_equal(out.id.ms, 1);
    assert_int_equal(leat__trail_at(&t, 0)->id.ms, 2);
    assert_true(leat__trail_at(&t, 0)->gap);
    assert_false(leat__trail_at(&t, 1)->gap);
    assert_int_equal(leat__trail_newest(&t)->id.ms, 129);
    leat__trail_release(&t);
}

static void a_trail_is_searched_by_id(void **state)
{
    leat__trail t;
    (void)state;
    leat__trail_init(&t, 64);
    for (uint64_t i = 1; i <= 200; i++)
        add(&t, 10 * i);
    for (uint64_t ms = 0; ms <= 2010; ms++) {
        uint32_t n = 0;
        while (n < leat__trail_count(&t) && leat__trail_at(&t, n)->id.ms <= ms)
            n++;
        assert_int_equal(leat__trail_upto(&t, (leat__id){ ms, 0 }), n);
    }
    leat__trail_release(&t);
}

static void what_is_dropped_leaves_its_gap_to_the_next(void **state)
{
    leat__trail t;
    bool flags[4] = { true, false, true, true };
    (void)state;
    leat__trail_init(&t, 4);
    for (uint64_t i = 1; i <= 5; i++)
        add(&t, i); /* 2 (gap) 3 4 5 */
    leat__trail_drop(&t, flags, 4);
    assert_int_equal(leat__trail_count(&t), 1);
    assert_int_equal(leat__trail_at(&t, 0)->id.ms, 3);
    assert_true(leat__trail_at(&t, 0)->gap);
    add(&t, 6);
    assert_false(leat__trail_at(&t, 1)->gap);
    leat__trail_release(&t);
}

static void an_emptied_trail_remembers_that_it_forgot(void **state)
{
    leat__trail t;
    bool flags[2] = { true, true };
    (void)state;
    leat__trail_init(&t, 2);
    for (uint64_t i = 1; i <= 3; i++)
        add(&t, i);
    leat__trail_drop(&t, flags, 2);
    assert_null(leat__trail_newest(&t));
    add(&t, 4);
    assert_true(leat__trail_newest(&t)->gap);
    leat__trail_release(&t);
}

/* ---- a model ---------------------------------------------------------- */

enum { LOG_MOST = 400, RUNS = 4000 };

/* A log, and what each entry is: mark 0 is a stranger's. */
typedef struct model {
    leat__id id[LOG_MOST];
    uint32_t mark[LOG_MOST];
    bool deleted[LOG_MOST];
    uint32_t n;
    uint64_t added;
    leat__id last, max_deleted;
    bool there;
} model;

static unsigned seed;

static uint32_t roll(uint32_t n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % n;
}

static void write_entry(model *m, uint32_t mark)
{
    leat__id id = { m->last.ms + roll(2), 0 };
    if (id.ms == m->last.ms)
        id.seq = m->last.seq + 1;
    m->there = true;
    m->id[m->n] = id;
    m->mark[m->n] = mark;
    m->deleted[m->n++] = false;
    m->last = id;
    m->added++;
}

static uint64_t length(const model *m)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < m->n; i++)
        n += !m->deleted[i];
    return n;
}

static leat__log_facts facts_of(const model *m, bool modern)
{
    leat__log_facts f = { .there = m->there,
                          .length = length(m),
                          .last = m->last,
                          .counted = modern && m->there,
                          .added = m->added,
                          .deleted = m->max_deleted };
    for (uint32_t i = m->n; i-- > 0;)
        if (!m->deleted[i])
            f.first = m->id[i];
    if (!modern)
        f.added = 0, f.deleted = (leat__id){ 0, 0 };
    return f;
}

static leat__seen find(const model *m, const leat__print *p)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (!m->deleted[i] && leat__id_cmp(m->id[i], p->id) == 0)
            return m->mark[i] == p->mark ? LEAT__SEEN_SAME : LEAT__SEEN_OTHER;
    return LEAT__SEEN_GONE;
}

static void trim(model *m, uint32_t k)
{
    for (uint32_t i = 0; i < k && i < m->n; i++)
        m->deleted[i] = true; /* unlike XDEL it is not noted as a deletion */
}

static void delete_one(model *m, uint32_t i)
{
    m->deleted[i] = true;
    if (leat__id_cmp(m->id[i], m->max_deleted) > 0)
        m->max_deleted = m->id[i];
}

/* Back to its first k entries, as a replica that lacked the others. */
static void go_back(model *m, uint32_t k, const bool *was_deleted)
{
    m->added -= m->n - k;
    m->n = k;
    m->last = k ? m->id[k - 1] : (leat__id){ 0, 0 };
    m->max_deleted = (leat__id){ 0, 0 };
    memcpy(m->deleted, was_deleted, k * sizeof *was_deleted);
    m->there = k > 0;
}

typedef struct trial {
    model m;
    leat__print p[LOG_MOST];
    const leat__print *list[LOG_MOST];
    leat__seen seen[LOG_MOST];
    bool lost[LOG_MOST], truth[LOG_MOST];
    uint32_t n;
} trial;

/* Ours and strangers' messages. */
static void fill(trial *t, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        bool ours = roll(3) > 0;
        write_entry(&t->m, ours ? 1000 + t->n : 0);
        if (!ours)
            continue;
        t->p[t->n] = (leat__print){ .id = t->m.last, .mark = 1000 + t->n };
        t->list[t->n] = &t->p[t->n];
        t->n++;
    }
}

static uint32_t judge(trial *t, bool modern, bool moved)
{
    leat__case c = { .facts = facts_of(&t->m, modern),
                     .moved = moved,
                     .verified = t->n,
                     .n = t->n,
                     .prints = t->list,
                     .seen = t->seen };
    for (uint32_t i = 0; i < t->n; i++)
        t->seen[i] = find(&t->m, t->list[i]);
    return leat__judge(&c, t->lost);
}

static void check(const trial *t, int run)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->lost[i] != t->truth[i])
            fail_msg("run %d: message %u of %u is %s and was called %s", run, i,
                     t->n, t->truth[i] ? "lost" : "not lost",
                     t->lost[i] ? "lost" : "not lost");
}

/* What stood behind the first k entries is lost, unless it was taken away. */
static void end_is_lost(trial *t, uint32_t k)
{
    bool deleted[LOG_MOST];
    leat__id last = k ? t->m.id[k - 1] : (leat__id){ 0, 0 };
    memcpy(deleted, t->m.deleted, sizeof deleted);
    for (uint32_t i = 0; i < t->n; i++)
        t->truth[i] = leat__id_cmp(t->p[i].id, last) > 0;
    go_back(&t->m, k, deleted);
}

static void lost_ends_are_found_to_the_message(void **state)
{
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        trial t = { .n = 0 };
        bool modern = roll(2), others = roll(2);
        seed = (unsigned)run;
        fill(&t, 2 + roll(100));
        /* On an old server something of ours must stand before it. */
        if (modern || !others)
            trim(&t.m, roll(t.m.n / 2 + 1));
        uint32_t first = 0;
        while (first < t.m.n && (t.m.deleted[first] || !t.m.mark[first]))
            first++;
        if (first == t.m.n)
            continue;
        end_is_lost(&t, first + 1 + roll(t.m.n - first));
        for (uint32_t k = others ? roll(60) : 0; k > 0; k--)
            write_entry(&t.m, 0); /* some get the ids of lost ones */
        (void)judge(&t, modern, true);
        check(&t, run);
    }
}

static void what_was_taken_away_is_never_called_lost(void **state)
{
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        trial t = { .n = 0 };
        bool modern = roll(2), moved = modern && roll(2);
        seed = (unsigned)run;
        fill(&t, 1 + roll(100));
        for (uint32_t k = roll(30); k > 0; k--)
            delete_one(&t.m, roll(t.m.n));
        trim(&t.m, roll(t.m.n + 1));
        for (uint32_t k = roll(20); k > 0; k--)
            write_entry(&t.m, 0);
        assert_int_equal(judge(&t, modern, moved), 0);
    }
}

static void a_log_that_begins_anew_has_lost_everything(void **state)
{
    (void)state;
    for (int run = 0; run < RUNS; run++) {
        trial t = { .n = 0 };
        seed = (unsigned)run;
        fill(&t, 1 + roll(100));
        leat__id last = t.m.last;
        t.m = (model){ .last = last }; /* later ids are higher: it is later */
        for (uint32_t k = roll(200); k > 0; k--)
            write_entry(&t.m, 0);
        if (!t.m.there)
            t.m.last = (leat__id){ 0, 0 };
        assert_int_equal(judge(&t, true, false), t.n);
    }
}

/* The count that was seen is higher than now: not even trimming by others
 * explains what was there. */
static void a_count_that_fell_gives_it_away(void **state)
{
    (void)state;
    trial t = { .n = 0 };
    fill(&t, 30);
    leat__case c = {
        .counted = true, .added = 30, .n = t.n, .prints = t.list, .seen = t.seen
    };
    for (uint32_t i = 0; i < t.n; i++)
        t.seen[i] = LEAT__SEEN_GONE;
    c.facts = (leat__log_facts){ .there = true,
                                 .counted = true,
                                 .length = 2,
                                 .added = 29,
                                 .first = { 10000, 0 },
                                 .last = { 10001, 0 } };
    c.verified = t.n;
    assert_int_equal(leat__judge(&c, t.lost), 0);
    c.verified = t.n - 1;
    assert_int_equal(leat__judge(&c, t.lost), 1);
    c.facts.added = 31;
    assert_int_equal(leat__judge(&c, t.lost), 0);
}

/* ---- runs ------------------------------------------------------------- */

static void runs_are_told_one_by_one(void **state)
{
    leat__print p[6] = { [0] = { .gap = true } };
    const leat__print *list[6];
    bool lost[6] = { true, true, false, true, false, true }, exact;
    uint32_t first, end;
    (void)state;
    for (int i = 0; i < 6; i++)
        list[i] = &p[i];
    leat__case c = { .n = 6, .prints = list };
    assert_true(leat__judge_run(&c, lost, 0, &first, &end, &exact));
    assert_true(first == 0 && end == 2 && !exact);
    assert_true(leat__judge_run(&c, lost, end, &first, &end, &exact));
    assert_true(first == 3 && end == 4 && exact);
    assert_true(leat__judge_run(&c, lost, end, &first, &end, &exact));
    assert_true(first == 5 && end == 6 && exact);
    assert_false(leat__judge_run(&c, lost, end, &first, &end, &exact));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_tells_entries_from_each_other),
        cmocka_unit_test(what_stands_behind_the_beginning_does_not_count),
        cmocka_unit_test(a_trail_keeps_the_newest_and_knows_of_the_others),
        cmocka_unit_test(a_trail_is_searched_by_id),
        cmocka_unit_test(what_is_dropped_leaves_its_gap_to_the_next),
        cmocka_unit_test(an_emptied_trail_remembers_that_it_forgot),
        cmocka_unit_test(lost_ends_are_found_to_the_message),
        cmocka_unit_test(what_was_taken_away_is_never_called_lost),
        cmocka_unit_test(a_log_that_begins_anew_has_lost_everything),
        cmocka_unit_test(a_count_that_fell_gives_it_away),
        cmocka_unit_test(runs_are_told_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

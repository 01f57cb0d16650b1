/*
 * sim.c: groups of members in virtual time, from seeds.
 *
 *   SIM_SEEDS=n    so many seeds for each test instead of its own number
 *   SIM_SEED=n     this one only
 *   SIM_VERBOSE=1  say what happens
 *
 * What is checked is said in sim_world.c.
 */
#include "sim_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Leases until all has to be well again: silence is judged after one and a
 * sixth, and then perhaps that of an owner without a record. */
enum { SETTLED_WITHIN = 8 };

/* All seeds, more than 2,000, with LEAT_LONG=1; else a part of them, and a
 * smaller one where sanitizers make it several times slower. */
#if defined(__SANITIZE_ADDRESS__)
#define SLOW 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW 1
#endif
#endif
#ifndef SLOW
#define SLOW 0
#endif

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void for_seeds(uint64_t from, uint64_t seeds, void (*run)(uint64_t seed))
{
    if (getenv("SIM_SEED")) {
        run(number("SIM_SEED", 0));
        return;
    }
    uint64_t part = number("LEAT_LONG", 0) == 1 ? 1 : SLOW ? 5 : 4;
    seeds = number("SIM_SEEDS", (seeds + part - 1) / part);
    sim_total = (sim_counts){ 0 };
    for (uint64_t i = 0; i < seeds; i++)
        run(from + i);
    print_message("# %" PRIu64 " seeds, %" PRIu64 " events, %" PRIu64
                  " beats, %" PRIu64 " takes, %" PRIu64 " hand-overs, %" PRIu64
                  " refused, %" PRIu64 " from the silent, %" PRIu64
                  " races, %" PRIu64 " fenced, %" PRIu64 " late\n",
                  seeds, sim_total.events, sim_total.beats, sim_total.takes,
                  sim_total.hands, sim_total.refused, sim_total.robbed,
                  sim_total.raced, sim_total.fenced, sim_total.late);
}

static sim_world *small_world(uint64_t seed)
{
    static const int64_t leases[] = { 1000, 3000, 15000 };
    sim_opts o = { .seed = seed, .rates = 0.01 };
    o.partitions = seed % 3 ? 1 + (uint32_t)(seed * 7 % 16)
                            : 1 + (uint32_t)(seed * 13 % 64);
    o.lease_ns = leases[seed % 3] * MS;
    o.drain_ns = seed % 5 ? o.lease_ns / 10 : o.lease_ns * 2;
    return sim_new(&o);
}

static uint32_t some_cap(sim_world *w)
{
    return sim_random(w, 6) ? 0 : 1 + (uint32_t)sim_random(w, 8);
}

static void join_some(sim_world *w, int n)
{
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "name-%d", i);
        sim_join(w, sim_random(w, 3) ? NULL : name, some_cap(w));
    }
}

/* ---- everything that can happen --------------------------------------- */

enum { MOST_MEMBERS = 12 };

static void mishap_of_one(sim_world *w, int who, uint64_t lease)
{
    int64_t long_or_short = (int64_t)sim_random(w, 3 * lease);
    char name[24];
    switch (sim_random(w, 6)) {
    case 0:
        sim_go(w, who);
        break;
    case 1:
        sim_crash(w, who);
        break;
    case 2:
        sim_cut(w, who, long_or_short);
        break;
    case 3: /* a second life, while the first one runs or not */
        snprintf(name, sizeof name, "%s", sim_name(w, who));
        if (sim_random(w, 2))
            sim_crash(w, who);
        sim_join(w, name[0] == 'n' ? name : NULL, some_cap(w));
        break;
    default:
        sim_pause(w, who, long_or_short);
    }
}

static void mishap(sim_world *w, uint64_t lease)
{
    int who = sim_anyone(w);
    uint64_t what = sim_random(w, 16);
    if (who == NOBODY || (what < 4 && sim_living(w) < MOST_MEMBERS))
        join_some(w, 1);
    else if (what == 4)
        sim_stall(w, (int64_t)sim_random(w, 5 * lease / 2),
                  sim_random(w, 2) == 0);
    else if (what == 5)
        sim_clock_jump(w, (int64_t)sim_random(w, 20000000) - 10000000);
    else
        mishap_of_one(w, who, lease);
}

static void storm(sim_world *w, uint64_t lease, int mishaps)
{
    for (int i = 0; i < mishaps; i++) {
        mishap(w, lease);
        sim_run(w, (int64_t)sim_random(w, lease));
    }
    if (sim_living(w) == 0)
        sim_join(w, NULL, 0);
}

static uint64_t lease_of(uint64_t seed)
{
    static const uint64_t leases[] = { 1000, 3000, 15000 };
    return leases[seed % 3] * (uint64_t)MS;
}

static void run_storm(uint64_t seed, sim_faults faults)
{
    sim_world *w = small_world(seed);
    join_some(w, 1 + (int)sim_random(w, 6));
    for (int round = 0; round < 2; round++) {
        sim_faults_set(w, faults);
        storm(w, lease_of(seed), 4 + (int)sim_random(w, 10));
        sim_settle(w, SETTLED_WITHIN);
    }
    sim_free(w);
}

static void with_a_good_network(uint64_t seed)
{
    run_storm(seed, (sim_faults){ 0 });
}

static void with_losses(uint64_t seed)
{
    run_storm(seed, (sim_faults){ .lost_request = 30, .lost_reply = 30 });
}

static void with_late_ones(uint64_t seed)
{
    run_storm(seed, (sim_faults){ 20, 20, 60 });
}

static void members_come_go_die_and_pause(void **state)
{
    (void)state;
    for_seeds(1, 800, with_a_good_network);
}

static void requests_and_answers_get_lost(void **state)
{
    (void)state;
    for_seeds(10001, 500, with_losses);
}

static void requests_arrive_when_their_sender_has_moved_on(void **state)
{
    (void)state;
    for_seeds(20001, 500, with_late_ones);
}

/* ---- single changes --------------------------------------------------- */

static void change(sim_world *w, uint64_t kind)
{
    int who = sim_anyone(w);
    if (kind == 0 || sim_living(w) < 2)
        sim_join(w, NULL, some_cap(w));
    else if (kind == 1)
        sim_go(w, who);
    else
        sim_crash(w, who);
}

static void fewest(uint64_t seed)
{
    sim_world *w = small_world(seed);
    join_some(w, 1 + (int)sim_random(w, 8));
    sim_settle(w, SETTLED_WITHIN);
    for (int i = 0; i < 4; i++) {
        change(w, sim_random(w, 3));
        unsigned need = sim_fewest_moves(w);
        unsigned moved = sim_settle(w, SETTLED_WITHIN);
        if (moved != need) {
            print_error("seed %" PRIu64 ": %u moves, %u are enough\n", seed,
                        moved, need);
            fail();
        }
    }
    sim_free(w);
}

static void no_more_moves_than_a_change_needs(void **state)
{
    (void)state;
    for_seeds(30001, 300, fewest);
}

/* ---- nothing to be done ----------------------------------------------- */

static void must_not_move(sim_world *w, uint64_t seed)
{
    unsigned moved = sim_settle(w, SETTLED_WITHIN);
    if (moved != 0) {
        print_error("seed %" PRIu64 ": %u leases moved for nothing\n", seed,
                    moved);
        fail();
    }
}

static sim_world *settled_world(uint64_t seed)
{
    sim_world *w = small_world(seed);
    join_some(w, 2 + (int)sim_random(w, 8));
    sim_settle(w, SETTLED_WITHIN);
    return w;
}

static void short_pauses(uint64_t seed)
{
    sim_world *w = settled_world(seed);
    uint64_t lease = lease_of(seed);
    for (int i = 0; i < 12; i++) {
        sim_pause(w, sim_anyone(w), (int64_t)(lease * 95 / 100));
        sim_run(w, (int64_t)(lease + sim_random(w, lease / 2)));
    }
    must_not_move(w, seed);
    sim_free(w);
}

static void outages(uint64_t seed)
{
    sim_world *w = settled_world(seed);
    uint64_t lease = lease_of(seed);
    for (int i = 0; i < 4; i++) {
        sim_stall(w, (int64_t)(sim_random(w, 3 * lease)), sim_random(w, 2));
        sim_run(w, (int64_t)(3 * lease + sim_random(w, lease)));
    }
    must_not_move(w, seed);
    sim_free(w);
}

static void a_pause_shorter_than_the_lease_moves_nothing(void **state)
{
    (void)state;
    for_seeds(40001, 100, short_pauses);
}

static void a_server_that_was_away_moves_nothing(void **state)
{
    (void)state;
    for_seeds(50001, 100, outages);
}

/* ---- large groups ----------------------------------------------------- */

static void crowd(uint64_t seed, int members, uint32_t partitions)
{
    sim_world *w = sim_new(&(sim_opts){ .seed = seed,
                                        .partitions = partitions,
                                        .lease_ns = 15000 * MS,
                                        .drain_ns = 1000 * MS,
                                        .rates = 0.01 });
    for (int i = 0; i < members; i++) {
        sim_join(w, NULL, 0);
        sim_run(w, (int64_t)sim_random(w, 2 * MS));
    }
    sim_settle(w, SETTLED_WITHIN);
    for (int i = 0; i < members / 50; i++) {
        sim_crash(w, sim_anyone(w));
        sim_go(w, sim_anyone(w));
        sim_join(w, NULL, 0);
    }
    sim_settle(w, SETTLED_WITHIN);
    sim_free(w);
}

static void a_hundred(uint64_t seed)
{
    crowd(seed, 100, 1000);
}

static void a_thousand(uint64_t seed)
{
    crowd(seed, SLOW ? 250 : 1000, 10000);
}

static void a_hundred_members_share_a_thousand_partitions(void **state)
{
    (void)state;
    for_seeds(60001, 4, a_hundred);
}

static void a_thousand_members_share_ten_thousand_partitions(void **state)
{
    (void)state;
    for_seeds(70001, 1, a_thousand);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_come_go_die_and_pause),
        cmocka_unit_test(requests_and_answers_get_lost),
        cmocka_unit_test(requests_arrive_when_their_sender_has_moved_on),
        cmocka_unit_test(no_more_moves_than_a_change_needs),
        cmocka_unit_test(a_pause_shorter_than_the_lease_moves_nothing),
        cmocka_unit_test(a_server_that_was_away_moves_nothing),
        cmocka_unit_test(a_hundred_members_share_a_thousand_partitions),
        cmocka_unit_test(a_thousand_members_share_ten_thousand_partitions),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

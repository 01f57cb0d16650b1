/*
 * sim_world.h: many members, one model of the server, and virtual time.
 *
 * Everything follows from the seed.  A fault that is found calls sim_fail,
 * which names the seed; `SIM_SEED=n SIM_VERBOSE=1` runs that one again aloud.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include "sim_server.h"

typedef struct sim_opts {
    uint64_t seed;
    uint32_t partitions;
    int64_t lease_ns, drain_ns;
    double rates; /* clocks differ in rate by up to so much */
} sim_opts;

/* What goes wrong, each out of a thousand requests. */
typedef struct sim_faults {
    int lost_request, lost_reply, late;
} sim_faults;

typedef struct sim_world sim_world;

sim_world *sim_new(const sim_opts *o);
void sim_free(sim_world *w);

uint64_t sim_random(sim_world *w, uint64_t below);
void sim_faults_set(sim_world *w, sim_faults f);

/* The index of the new member.  name: NULL for one that is not stable. */
int sim_join(sim_world *w, const char *name, uint32_t cap);
void sim_go(sim_world *w, int who); /* leave cleanly   */
void sim_crash(sim_world *w, int who);
void sim_pause(sim_world *w, int who, int64_t ns);
void sim_cut(sim_world *w, int who, int64_t ns);       /* off the network */
void sim_stall(sim_world *w, int64_t ns, bool refuse); /* the server      */
void sim_clock_jump(sim_world *w, int64_t us);

/* One of the living, at random, or NOBODY; and how many there are. */
int sim_anyone(sim_world *w);
int sim_living(const sim_world *w);
const char *sim_name(const sim_world *w, int who);

void sim_run(sim_world *w, int64_t ns);

/* No more new faults: time runs until those there are have ended, and then
 * until all is as it should be for a lease, within so many; then two leases
 * more, in which nothing may change.
 * Returns the number of leases taken on the way, by anybody. */
unsigned sim_settle(sim_world *w, int leases);

/* The fewest moves by which the living now can get their shares. */
unsigned sim_fewest_moves(const sim_world *w);

typedef struct sim_counts {
    uint64_t events, beats, takes, hands, refused, robbed, raced, fenced, late;
} sim_counts;

extern sim_counts sim_total;

#endif

/*
 * sim_server.h: the server as the simulator's members see it: records and
 * leases, with what the scripts of src/topic/lua do to them, at once and
 * whole, in the order of arrival.
 *
 * Members are known by their index, which is also in their nonce.
 */
#ifndef TESTS_SIM_SERVER_H
#define TESTS_SIM_SERVER_H

#include "topic/group.h"

#define MS ((int64_t)1000000)

enum { NOBODY = -1 };

/* Bytes shared by those who hold them. */
typedef struct sim_text {
    int refs;
    size_t n;
    char p[];
} sim_text;

sim_text *sim_text_new(const void *p, size_t n);
void sim_text_drop(sim_text *t);

typedef struct sim_record {
    int who;
    sim_text *text;
} sim_record;

/* All records, as one answer holds them. */
typedef struct sim_snapshot {
    size_t n;
    sim_record r[];
} sim_snapshot;

void sim_snapshot_free(sim_snapshot *s);

typedef struct sim_lease {
    int owner; /* or NOBODY */
    uint64_t epoch;
    uint64_t raced; /* beliefs up to this epoch were lost in a race */
} sim_lease;

typedef struct sim_server {
    sim_record *records;
    size_t n, cap;
    sim_lease *lease;
    uint32_t partitions;
    uint64_t clock_us; /* of epochs and births: may jump */
} sim_server;

void sim_server_init(sim_server *s, uint32_t partitions);
void sim_server_release(sim_server *s);

leat__nonce sim_nonce(uint64_t seed, int who);
int sim_who(const leat__nonce *n);

/* beat.lua; *told: it was published; *counted: it was written. */
sim_snapshot *sim_beat(sim_server *s, int who, const sim_text *record,
                       bool *told, bool *counted);

/* bury.lua and leave.lua. */
void sim_bury(sim_server *s, int who, const sim_text *record);
void sim_leave(sim_server *s, int who);

/* take.lua: true with *epoch, or false with *owner. */
bool sim_take(sim_server *s, uint32_t p, int who, int dead, uint64_t *epoch,
              int *owner);

/* hand.lua and renew.lua. */
bool sim_hand(sim_server *s, uint32_t p, int who, uint64_t epoch);
bool sim_renew(const sim_server *s, uint32_t p, int who, uint64_t epoch);

#endif

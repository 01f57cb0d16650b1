/*
 * crew.h: consumers in processes of their own.
 *
 * The processes share a page with this one and count there what they have
 * settled.  They live over many rounds, so joining a group is not measured, and
 * sleep in a blocking read while others are.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "topic.h"
#include <stdatomic.h>

enum { CREW_MOST = 8, CREW_SAMPLES = 1 << 14 };

typedef struct crew_page {
    _Atomic int64_t settled; /* by all, in all                            */
    _Atomic int64_t last_ns; /* when the last batch was                   */
    atomic_int ready;        /* processes that have what they are to have */
    atomic_bool stop;
    /* Bodies that begin by a time, "%020lld", give a sample each. */
    atomic_bool timed;
    atomic_int samples;
    double us[CREW_SAMPLES];
} crew_page;

typedef struct crew {
    crew_page *page;
    int n;
    int pid[CREW_MOST];
} crew;

/* n members of one group, each in a process, sharing the partitions alike. */
bool crew_start(crew *c, const work *w, const char *topic, int partitions,
                int n);

/* One bare XREADGROUP and XACK of a group of this stream. */
bool crew_start_raw(crew *c, const work *w, const char *key);

/* Wait until so many are settled in all; when the last was, or -1. */
int64_t crew_await(const crew *c, int64_t settled);

void crew_stop(crew *c);

#endif

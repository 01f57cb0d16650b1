/*
 * bench.h: paired measurements.
 *
 * The machine is noisy, so a figure that counts is a ratio of two programs run
 * in turn, many rounds, in one run: the median of the rounds' ratios, and `ok`
 * when the upper end of their 90 % interval reaches the target.  One JSON
 * object a line goes to stdout, everything else to stderr.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Do the work once; returns operations a second, or a negative number. */
typedef double bench_fn(void *arg);

typedef struct bench_pair {
    const char *name; /* "redis.xadd"                               */
    const char *unit; /* "cmd/s"                                    */
    int payload;      /* bytes; 0: left out                         */
    int in_flight;    /* 0: left out                                */
    bench_fn *ours;   /* leat                                       */
    bench_fn *raw;    /* what it is measured against                */
    void *arg;
    double target; /* ratio ours / raw to reach; 0: no target     */
    int rounds;    /* 0: 9                                       */
    bool less;     /* the ratio is to stay below the target      */
} bench_pair;

/* Run and print; false when it failed or the target is missed. */
bool bench_run(const bench_pair *p);

/* Print what n rounds, measured elsewhere, gave; both are sorted by it. */
bool bench_report(const bench_pair *p, double *ours, double *raw, int n);

/* Print one count that must not exceed its target, beside another's. */
bool bench_count(const char *name, const char *unit, double value,
                 const char *peer, double peer_value, double target);

/* Print a figure that has no target. */
void bench_figure(const char *name, int payload, const char *unit,
                  double value);

/* Only what begins by this, or is its beginning, is wanted; NULL: all. */
void bench_only(const char *prefix);
bool bench_wants(const char *name);

/* Instructions that `argv0 --work NAME N` takes per operation, by callgrind:
 * the difference of two runs of different length; negative on failure. */
double bench_instructions(const char *argv0, const char *work, int n);

/* The total that callgrind wrote to this file; negative on failure. */
double bench_callgrind_total(const char *path);

/* Give the server one core and this program another, where there are two:
 * otherwise the scheduler's choice is most of what is measured. */
void bench_pin(int server_pid);

int64_t bench_now_ns(void);
double bench_median(double *values, int n); /* sorts them */
double bench_quantile(double *values, int n, double q);

#endif

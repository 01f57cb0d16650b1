/*
 * bench.c: paired measurements and instruction counts.
 */
#include "bench.h"

#include <leat/json.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 9, MAX_ROUNDS = 101 };

/* ---- clock and cores -------------------------------------------------- */

int64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pin(int pid, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(pid, sizeof set, &set);
}

void bench_pin(int server_pid)
{
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    pin(server_pid, 0);
    pin(0, 1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *sorted, int n, double q)
{
    return sorted[(int)(q * (n - 1) + 0.5)];
}

double bench_quantile(double *values, int n, double q)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return at(values, n, q);
}

double bench_median(double *values, int n)
{
    return bench_quantile(values, n, 0.5);
}

/* ---- what is wanted --------------------------------------------------- */

static const char *only = "";

void bench_only(const char *prefix)
{
    only = prefix ? prefix : "";
}

bool bench_wants(const char *name)
{
    size_t n = strlen(name), k = strlen(only);
    return strncmp(only, name, n < k ? n : k) == 0;
}

/* ---- printing --------------------------------------------------------- */

static void print(leat_json *j)
{
    leat_json_end(j);
    const char *text = leat_json_done(j, NULL, NULL);
    printf("%s\n", text ? text : "{\"ok\":false}");
    fflush(stdout);
    leat_json_free(j);
}

/* Three digits behind the point are plenty, and none of a large number. */
static void put(leat_json *j, const char *key, double v)
{
    if (v >= 1000 || v == (double)(int64_t)v)
        leat_json_int(j, key, (int64_t)v);
    else
        leat_json_double(j, key, (double)(int64_t)(v * 1000) / 1000);
}

static leat_json *begin(const char *name, int payload, int in_flight,
                        const char *unit)
{
    leat_json *j = leat_json_new(NULL);
    leat_json_object(j, NULL);
    leat_json_str(j, "bench", name);
    if (payload)
        leat_json_int(j, "payload", payload);
    if (in_flight)
        leat_json_int(j, "in_flight", in_flight);
    leat_json_str(j, "unit", unit);
    return j;
}

static void put_verdict(leat_json *j, double target, bool ok)
{
    leat_json_double(j, "target", target);
    leat_json_bool(j, "ok", ok);
}

void bench_figure(const char *name, int payload, const char *unit, double value)
{
    leat_json *j = begin(name, payload, 0, unit);
    put(j, "value", value);
    print(j);
}

/* ---- pairs ------------------------------------------------------------ */

static bool positive(const double *v, int n)
{
    for (int i = 0; i < n; i++)
        if (!(v[i] > 0))
            return false;
    return n > 0;
}

/* The end of the interval that is nearer to the target decides. */
static bool reached(const bench_pair *p, const double *ratio, int n)
{
    if (p->target == 0)
        return true;
    return p->less ? at(ratio, n, 0.05) <= p->target
                   : at(ratio, n, 0.95) >= p->target;
}

bool bench_report(const bench_pair *p, double *ours, double *raw, int n)
{
    double ratio[MAX_ROUNDS];
    bool ran = n <= MAX_ROUNDS && positive(ours, n) && positive(raw, n);
    if (!ran) {
        fprintf(stderr, "%s: the work failed\n", p->name);
        n = n < 1 ? 1 : n;
    }
    for (int i = 0; i < n; i++)
        ratio[i] = ran ? ours[i] / raw[i] : 0;
    bench_median(ratio, n);
    bool ok = ran && reached(p, ratio, n);

    leat_json *j = begin(p->name, p->payload, p->in_flight, p->unit);
    put(j, "value", bench_median(ours, n));
    put(j, "raw", bench_median(raw, n));
    put(j, "ratio", at(ratio, n, 0.5));
    put(j, "low", at(ratio, n, 0.05));
    put(j, "high", at(ratio, n, 0.95));
    if (p->target != 0)
        put_verdict(j, p->target, ok);
    print(j);
    return ok;
}

/* Who goes first alternates, so that neither profits from the order. */
static void measure(const bench_pair *p, int rounds, double *ours, double *raw)
{
    for (int i = 0; i < rounds; i++) {
        bool swap = i % 2;
        if (swap)
            raw[i] = p->raw(p->arg);
        ours[i] = p->ours(p->arg);
        if (!swap)
            raw[i] = p->raw(p->arg);
        if (ours[i] <= 0 || raw[i] <= 0)
            return;
    }
}

bool bench_run(const bench_pair *p)
{
    double ours[MAX_ROUNDS] = { 0 }, raw[MAX_ROUNDS] = { 0 };
    int n = p->rounds ? p->rounds : ROUNDS;

    if (!bench_wants(p->name))
        return true;
    fprintf(stderr, "%s: %d rounds\n", p->name, n);
    p->ours(p->arg); /* warm both up */
    p->raw(p->arg);
    measure(p, n, ours, raw);
    return bench_report(p, ours, raw, n);
}

bool bench_count(const char *name, const char *unit, double value,
                 const char *peer, double peer_value, double target)
{
    bool ok = value > 0 && value <= target;
    leat_json *j = begin(name, 0, 0, unit);
    put(j, "value", value);
    if (peer)
        put(j, peer, peer_value);
    put_verdict(j, target, ok);
    print(j);
    return ok;
}

/* ---- instructions ----------------------------------------------------- */

/* The "summary:" line of callgrind's output file. */
double bench_callgrind_total(const char *path)
{
    char line[512];
    double total = -1;
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "summary: ", 9) == 0)
            total = strtod(line + 9, NULL);
    fclose(f);
    return total;
}

static double counted_run(const char *argv0, const char *work, int n)
{
    char out[] = "/tmp/leat-callgrind-XXXXXX", opt[64], count[16];
    int fd = mkstemp(out);
    if (fd < 0)
        return -1;
    close(fd);
    snprintf(opt, sizeof opt, "--callgrind-out-file=%s", out);
    snprintf(count, sizeof count, "%d", n);

    pid_t pid = fork();
    if (pid == 0) {
        execlp("valgrind", "valgrind", "-q", "--tool=callgrind", opt, argv0,
               "--work", work, count, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    bool ran = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    double total = ran ? bench_callgrind_total(out) : -1;
    if (getenv("BENCH_KEEP")) /* for callgrind_annotate */
        fprintf(stderr, "%s %d: %s\n", work, n, out);
    else
        unlink(out);
    return total;
}

double bench_instructions(const char *argv0, const char *work, int n)
{
    double one = counted_run(argv0, work, n);
    double three = counted_run(argv0, work, 3 * n);
    return one < 0 || three < 0 ? -1 : (three - one) / (2.0 * n);
}

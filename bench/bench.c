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

static void print(leat_json *j)
{
    leat_json_end(j);
    const char *text = leat_json_done(j, NULL, NULL);
    printf("%s\n", text ? text : "{\"ok\":false}");
    fflush(stdout);
    leat_json_free(j);
}

/* Who goes first alternates, so that neither profits from the order. */
static bool measure(const bench_pair *p, int rounds, double *ours, double *raw,
                    double *ratio)
{
    for (int i = 0; i < rounds; i++) {
        bool swap = i % 2;
        if (swap)
            raw[i] = p->raw(p->arg);
        ours[i] = p->ours(p->arg);
        if (!swap)
            raw[i] = p->raw(p->arg);
        if (ours[i] <= 0 || raw[i] <= 0)
            return false;
        ratio[i] = ours[i] / raw[i];
    }
    return true;
}

bool bench_run(const bench_pair *p)
{
    double ours[MAX_ROUNDS], raw[MAX_ROUNDS], ratio[MAX_ROUNDS];
    int n = p->rounds ? p->rounds : ROUNDS;

    fprintf(stderr, "%s: %d rounds\n", p->name, n);
    p->ours(p->arg); /* warm both up */
    p->raw(p->arg);
    bool ran = measure(p, n, ours, raw, ratio);
    if (!ran)
        fprintf(stderr, "%s: the work failed\n", p->name);
    qsort(ours, (size_t)n, sizeof *ours, by_value);
    qsort(raw, (size_t)n, sizeof *raw, by_value);
    qsort(ratio, (size_t)n, sizeof *ratio, by_value);
    bool ok = ran && at(ratio, n, 0.95) >= p->target;

    leat_json *j = leat_json_new(NULL);
    leat_json_object(j, NULL);
    leat_json_str(j, "bench", p->name);
    if (p->payload)
        leat_json_int(j, "payload", p->payload);
    if (p->in_flight)
        leat_json_int(j, "in_flight", p->in_flight);
    leat_json_str(j, "unit", p->unit);
    leat_json_int(j, "value", (int64_t)at(ours, n, 0.5));
    leat_json_int(j, "raw", (int64_t)at(raw, n, 0.5));
    leat_json_double(j, "ratio", (int)(at(ratio, n, 0.5) * 1000) / 1000.0);
    leat_json_double(j, "low", (int)(at(ratio, n, 0.05) * 1000) / 1000.0);
    leat_json_double(j, "high", (int)(at(ratio, n, 0.95) * 1000) / 1000.0);
    leat_json_double(j, "target", p->target);
    leat_json_bool(j, "ok", ok);
    print(j);
    return ok;
}

bool bench_count(const char *name, const char *unit, double value,
                 const char *peer, double peer_value, double target)
{
    bool ok = value > 0 && value <= target;
    leat_json *j = leat_json_new(NULL);
    leat_json_object(j, NULL);
    leat_json_str(j, "bench", name);
    leat_json_str(j, "unit", unit);
    leat_json_int(j, "value", (int64_t)value);
    if (peer)
        leat_json_int(j, peer, (int64_t)peer_value);
    leat_json_double(j, "target", target);
    leat_json_bool(j, "ok", ok);
    print(j);
    return ok;
}

/* The "summary:" line of callgrind's output file. */
static double summary(const char *path)
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
    double total = ran ? summary(out) : -1;
    unlink(out);
    return total;
}

double bench_instructions(const char *argv0, const char *work, int n)
{
    double one = counted_run(argv0, work, n);
    double three = counted_run(argv0, work, 3 * n);
    return one < 0 || three < 0 ? -1 : (three - one) / (2.0 * n);
}

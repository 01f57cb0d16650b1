/*
 * cmd_demo_ledger.c: the ledger of leat demo, and the count over it.
 */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char *path_of(const char *dir, int n)
{
    return format("%s/ledger.%d", dir, n);
}

int demo_ledger_create(const char *dir, int n)
{
    char *path = path_of(dir, n);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(EXIT_IO, NULL, "%s: %m", path);
    free(path);
    return fd;
}

bool demo_write(int fd, demo_record r)
{
    r.ns = now_ns();
    return write(fd, &r, sizeof r) == (ssize_t)sizeof r;
}

/* ---- reading ---------------------------------------------------------- */

bool demo_ledger_open(demo_ledger *l, const char *dir, int64_t count,
                      int64_t keys)
{
    *l = (demo_ledger){ .count = count, .keys = keys };
    l->seen = grab((size_t)count / 8 + 1);
    bool ok = true;
    for (int i = 0; i < DEMO_FILES; i++) {
        char *path = path_of(dir, i);
        l->fd[i] = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
        if (l->fd[i] < 0 && ok)
            ok = fail(EXIT_IO, NULL, "%s: %m", path) == 0;
        free(path);
    }
    return ok;
}

void demo_ledger_close(demo_ledger *l)
{
    for (int i = 0; i < DEMO_FILES; i++)
        if (l->fd[i] > 0)
            close(l->fd[i]);
    free(l->seen);
    free(l->r);
}

/* True the first time. */
static bool mark(unsigned char *bits, uint64_t i)
{
    unsigned char bit = (unsigned char)(1u << (i & 7));
    bool first = !(bits[i >> 3] & bit);
    bits[i >> 3] |= bit;
    return first;
}

static bool sensible(const demo_ledger *l, const demo_record *r)
{
    return r->worker < DEMO_WORKERS && r->partition < DEMO_PARTITIONS &&
           r->number < (uint64_t)l->count;
}

static bool handled(const demo_record *r)
{
    return r->kind == DEMO_HANDLED || r->kind == DEMO_REPLAYED;
}

static void take_in(demo_ledger *l, const demo_record *r)
{
    if (!sensible(l, r))
        return;
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 4096;
        l->r = regrab(l->r, l->room * sizeof *l->r);
    }
    l->r[l->n++] = *r;
    l->sent += r->kind == DEMO_SENT;
    l->outcomes += r->kind <= DEMO_FAILED;
    if (r->kind == DEMO_OWNED)
        l->ready[r->worker] = true;
    l->tried += r->kind == DEMO_TRIED;
    l->replayed += r->kind == DEMO_REPLAYED;
    if (!handled(r))
        return;
    l->by_worker[r->worker]++;
    l->handled += mark(l->seen, r->number);
}

static void read_file(demo_ledger *l, int fd)
{
    demo_record r[256];
    for (;;) {
        ssize_t got = read(fd, r, sizeof r);
        if (got <= 0)
            return;
        size_t n = (size_t)got / sizeof *r;
        /* What is half written is read whole the next time. */
        off_t rest = (off_t)((size_t)got % sizeof *r);
        if (rest)
            (void)lseek(fd, -rest, SEEK_CUR);
        for (size_t i = 0; i < n; i++)
            take_in(l, &r[i]);
        if (n == 0)
            return;
    }
}

void demo_ledger_read(demo_ledger *l)
{
    for (int i = 0; i < DEMO_FILES; i++)
        read_file(l, l->fd[i]);
}

/* ---- the count -------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const demo_record *x = a, *y = b;
    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The handled ones, as a fenced store would have taken them.  What was replayed
 * comes when somebody wants it, and is in no order. */
static void judge_handled(demo_ledger *l, demo_result *out)
{
    uint64_t fence[DEMO_PARTITIONS] = { 0 };
    int64_t *highest = grab((size_t)l->keys * sizeof *highest);
    memset(l->seen, 0, (size_t)l->count / 8 + 1);
    for (size_t i = 0; i < l->n; i++) {
        const demo_record *r = &l->r[i];
        if (!handled(r))
            continue;
        if (r->fence < fence[r->partition]) {
            out->fenced++;
            continue;
        }
        fence[r->partition] = r->fence;
        out->redelivered += r->attempt > 1;
        if (!mark(l->seen, r->number))
            continue;
        out->handled++;
        if (r->kind == DEMO_REPLAYED)
            continue;
        int64_t *last = &highest[r->number % (uint64_t)l->keys];
        if ((int64_t)r->number < *last)
            out->out_of_order++;
        else
            *last = (int64_t)r->number;
    }
    free(highest);
}

static void judge_sent(const demo_ledger *l, demo_result *out)
{
    for (size_t i = 0; i < l->n; i++) {
        const demo_record *r = &l->r[i];
        uint64_t k = r->number;
        out->unknown += r->kind == DEMO_UNKNOWN;
        if (r->kind != DEMO_SENT)
            continue;
        out->sent++;
        out->lost += !(l->seen[k >> 3] >> (k & 7) & 1);
    }
}

/* Records are in order of time. */
static void judge_takeover(const demo_ledger *l, demo_result *out)
{
    uint32_t owner[DEMO_PARTITIONS];
    memset(owner, 0xff, sizeof owner);
    int64_t killed = 0;
    uint32_t dead = DEMO_WORKERS;
    out->takeover_ms = -1;
    for (size_t i = 0; i < l->n; i++) {
        const demo_record *r = &l->r[i];
        if (r->kind == DEMO_KILLED) {
            killed = r->ns;
            dead = r->worker;
            out->takeover_ms = 0;
        } else if (r->kind == DEMO_OWNED) {
            if (killed && owner[r->partition] == dead)
                out->takeover_ms = (r->ns - killed) / 1000000;
            owner[r->partition] = r->worker;
        }
    }
    for (uint32_t i = 0; i < DEMO_PARTITIONS; i++)
        if (killed && owner[i] == dead)
            out->takeover_ms = -1;
}

void demo_judge(demo_ledger *l, demo_result *out)
{
    *out = (demo_result){ 0 };
    demo_ledger_read(l);
    if (l->n)
        qsort(l->r, l->n, sizeof *l->r, by_time);
    judge_handled(l, out);
    judge_sent(l, out);
    out->retried = l->tried > 0 ? l->tried - 1 : 0; /* the last was buried */
    out->replayed = l->replayed;
    judge_takeover(l, out);
}

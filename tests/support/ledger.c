/*
 * ledger.c: see ledger.h.  The judge sorts all records by message and then all
 * sightings by key and time; nothing is compared with everything.
 */
#include "support/ledger_again.h"
#include "support/wait.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC  0x6c656467u
#define SUFFIX ".ledger"

enum { AT_SEQ_BITS = 20 }; /* a million in one millisecond are told apart */

struct ledger {
    int fd;
};

uint64_t ledger_hash(const void *p, size_t n)
{
    const unsigned char *b = p;
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 1099511628211u;
    return h ? h : 1;
}

uint64_t ledger_at(uint64_t ms, uint64_t seq)
{
    const uint64_t most = (UINT64_C(1) << AT_SEQ_BITS) - 1;
    if (ms > UINT64_MAX >> AT_SEQ_BITS)
        return UINT64_MAX;
    return ms << AT_SEQ_BITS | (seq < most ? seq : most);
}

static uint64_t sum_of(const ledger_record *r)
{
    return ledger_hash(r, offsetof(ledger_record, sum));
}

ledger *ledger_open(const char *dir, const char *role)
{
    char path[4096];
    ledger *l = calloc(1, sizeof *l);
    snprintf(path, sizeof path, "%s/%s.%d" SUFFIX, dir, role, (int)getpid());
    if (l)
        l->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (l && l->fd >= 0)
        return l;
    fprintf(stderr, "ledger_open: %s: %s\n", path, strerror(errno));
    free(l);
    return NULL;
}

void ledger_close(ledger *l)
{
    if (l)
        close(l->fd);
    free(l);
}

bool ledger_write(ledger *l, ledger_kind kind, ledger_record r)
{
    r.magic = MAGIC;
    r.kind = kind;
    r.ns = wait_now_ns();
    r.sum = sum_of(&r);
    return write(l->fd, &r, sizeof r) == (ssize_t)sizeof r;
}

bool ledger_add(ledger *l, ledger_kind kind, uint64_t key, uint64_t seq,
                uint64_t id)
{
    return ledger_write(l, kind,
                        (ledger_record){ .key = key, .seq = seq, .id = id });
}

/* Reading */

typedef struct pile {
    ledger_record *r;
    size_t n, room;
    uint64_t *process; /* whose each file was */
} pile;

static bool push(pile *p, const ledger_record *r)
{
    if (p->n == p->room) {
        size_t room = p->room ? 2 * p->room : 4096;
        ledger_record *more = realloc(p->r, room * sizeof *more);
        if (!more)
            return false;
        p->r = more;
        p->room = room;
    }
    p->r[p->n++] = *r;
    return true;
}

static bool is_whole(const ledger_record *r)
{
    return r->magic == MAGIC && r->kind >= LEDGER_ATTEMPT &&
           r->kind < LEDGER_KINDS_ && r->sum == sum_of(r);
}

/* Processes may share a file, so a torn record can stand between whole ones:
 * after one the next whole record is looked for byte by byte. */
static bool read_bytes(const char *p, size_t n, pile *all, ledger_verdict *v)
{
    ledger_record r;
    bool lost = false;
    size_t at = 0;
    while (n - at >= sizeof r) {
        memcpy(&r, p + at, sizeof r);
        if (is_whole(&r)) {
            r.sum = all->n; /* from here on: where it stood ...  */
            r.magic = (uint32_t)v->files; /* ... and in which file */
            if (!push(all, &r))
                return false;
            at += sizeof r;
            lost = false;
            continue;
        }
        v->torn += !lost;
        lost = true;
        at++;
    }
    v->torn += at < n && !lost;
    return true;
}

/* The number before the suffix: role.pid.ledger. */
static bool note_process(const char *path, pile *all, uint64_t file)
{
    uint64_t *more = realloc(all->process, (file + 1) * sizeof *more);
    const char *dot = path + strlen(path) - strlen(SUFFIX);
    if (!more)
        return false;
    while (dot > path && dot[-1] != '.' && dot[-1] != '/')
        dot--;
    all->process = more;
    more[file] = strtoull(dot, NULL, 10);
    return true;
}

static bool read_file(const char *path, pile *all, ledger_verdict *v)
{
    bool ok = false;
    char *p = NULL;
    FILE *f = fopen(path, "re");
    if (f && fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        rewind(f);
        p = size >= 0 ? malloc((size_t)size + 1) : NULL;
        ok = p && note_process(path, all, v->files) &&
             fread(p, 1, (size_t)size, f) == (size_t)size &&
             read_bytes(p, (size_t)size, all, v);
    }
    if (!ok)
        fprintf(stderr, "ledger_judge: %s: %s\n", path, strerror(errno));
    if (f)
        (void)fclose(f);
    free(p);
    v->files++;
    return ok;
}

static bool is_ledger(const char *name)
{
    size_t n = strlen(name), s = strlen(SUFFIX);
    return n > s && strcmp(name + n - s, SUFFIX) == 0;
}

static bool read_dir(const char *dir, pile *all, ledger_verdict *v)
{
    bool ok = true;
    DIR *d = opendir(dir);
    if (!d) {
        fprintf(stderr, "ledger_judge: %s: %s\n", dir, strerror(errno));
        return false;
    }
    for (struct dirent *e; ok && (e = readdir(d)) != NULL;) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (is_ledger(e->d_name))
            ok = read_file(path, all, v);
    }
    closedir(d);
    return ok;
}

/* Judging */

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_time(const ledger_record *x, const ledger_record *y)
{
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return order(x->sum, y->sum);
}

static int by_id(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->id, y->id);
    return c ? c : by_time(x, y);
}

static int by_place(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->place, y->place);
    return c ? c : by_time(x, y);
}

static int by_fence(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->place, y->place);
    if (!c)
        c = order(x->fence, y->fence);
    return c ? c : order(x->magic, y->magic);
}

static int by_key(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->key, y->key);
    return c ? c : by_time(x, y);
}

/* The fenced store: what it refuses was delivered and had no effect. */
static void judge_fences(pile *all, ledger_verdict *v)
{
    uint64_t highest = 0;
    qsort(all->r, all->n, sizeof *all->r, by_place);
    for (size_t i = 0; i < all->n; i++) {
        ledger_record *r = &all->r[i];
        if (i == 0 || all->r[i - 1].place != r->place)
            highest = 0;
        if (r->kind != LEDGER_EFFECT || r->place == 0)
            continue;
        if (r->fence < highest) {
            r->kind = LEDGER_DELIVERY;
            v->fenced++;
        } else {
            highest = r->fence;
        }
    }
}

static void judge_owners(pile *all, ledger_verdict *v)
{
    qsort(all->r, all->n, sizeof *all->r, by_fence);
    for (size_t i = 1; i < all->n; i++) {
        const ledger_record *a = &all->r[i - 1], *b = &all->r[i];
        v->shared += b->place && a->place == b->place && a->fence == b->fence &&
                     a->magic != b->magic;
    }
}

/* One message: all its records. */
static void judge_id(const uint64_t count[LEDGER_KINDS_], bool effects,
                     ledger_verdict *v)
{
    uint64_t tried = count[LEDGER_ATTEMPT], failed = count[LEDGER_FAIL];
    uint64_t seen = count[LEDGER_DELIVERY] + count[LEDGER_EFFECT];
    bool removed = count[LEDGER_GONE] > 0;
    uint64_t times = effects ? count[LEDGER_EFFECT] : count[LEDGER_DELIVERY];
    bool acked = count[LEDGER_ACK] > 0;
    v->attempted += tried > 0;
    v->acked += acked;
    v->unknown += !acked && tried > failed;
    v->delivered += seen > 0;
    v->lost += acked && seen == 0 && !removed;
    v->duplicated += times > 1 ? times - 1 : 0;
    v->stuck += effects && seen > 0 && times == 0 && !removed;
    v->unexpected += seen > 0 && tried == 0;
    v->dishonest += seen > 0 && tried > 0 && !acked && failed >= tried;
}

/* Counts per message, and keeps the first sighting of each for the order. */
static void judge_messages(pile *all, bool effects, ledger_verdict *v)
{
    ledger_kind sighting = effects ? LEDGER_EFFECT : LEDGER_DELIVERY;
    size_t first = 0;
    for (size_t i = 0; i < all->n;) {
        uint64_t count[LEDGER_KINDS_] = { 0 };
        uint64_t id = all->r[i].id;
        for (; i < all->n && all->r[i].id == id; i++) {
            ledger_record r = all->r[i];
            if (r.kind == sighting && count[sighting] == 0)
                all->r[first++] = r;
            count[r.kind]++;
        }
        judge_id(count, effects, v);
    }
    all->n = first;
}

static void judge_order(const pile *first, const ledger_ids *late,
                        ledger_verdict *v)
{
    uint64_t last = 0;
    for (size_t i = 0; i < first->n; i++) {
        const ledger_record *r = &first->r[i];
        if (i == 0 || first->r[i - 1].key != r->key)
            last = 0;
        if (r->key == 0 || ledger_ids_have(late, r->id))
            continue;
        if (r->seq < last)
            v->reordered++;
        else
            last = r->seq;
    }
}

static bool judge_all(pile *all, bool expiring, ledger_verdict *v)
{
    bool effects = false;
    ledger_ids late = { 0 };
    ledger_all whole = { all->r, all->n, all->process, expiring };
    for (size_t i = 0; i < all->n && !effects; i++)
        effects = all->r[i].kind == LEDGER_EFFECT;
    judge_owners(all, v);
    judge_fences(all, v);
    bool ok = ledger_judge_again(&whole, v) &&
              ledger_judge_handouts(&whole, v) &&
              ledger_ids_of(&whole, LEDGER_LATE, &late);
    if (ok) {
        qsort(all->r, all->n, sizeof *all->r, by_id);
        judge_messages(all, effects, v);
        if (all->n)
            qsort(all->r, all->n, sizeof *all->r, by_key);
        judge_order(all, &late, v);
    }
    free(late.id);
    return ok;
}

bool ledger_judge(const char *dir, bool expiring, ledger_verdict *out)
{
    pile all = { 0 };
    *out = (ledger_verdict){ 0 };
    bool ok = read_dir(dir, &all, out);
    out->records = all.n;
    if (ok && all.n)
        ok = judge_all(&all, expiring, out);
    free(all.process);
    free(all.r);
    return ok;
}

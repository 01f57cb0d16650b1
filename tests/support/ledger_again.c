/*
 * ledger_again.c: see ledger_again.h.  Each effect is a time in flight, from
 * the delivery to the end that came first; the blows are compared with it.
 * What was struck may come again once a later owner has taken the place without
 * knowing it as settled.
 */
#include "support/ledger_again.h"

#include <leat/topic.h>
#include <stdlib.h>

typedef struct flight {
    uint64_t id, place, fence, turn, receipt;
    uint64_t at; /* in the log, as of ledger_at; 0: not from there */
    int64_t begin, effect, end; /* INT64_MAX: it has none */
    uint32_t file;
    bool saved, stale, unknown, revoked, struck;
} flight;

typedef struct blow {
    uint64_t process; /* 0: all */
    int64_t from, to;
    bool lossy; /* what was saved meanwhile may be gone */
} blow;

/* What is looked up while flights are judged. */
typedef struct facts {
    const ledger_all *all;
    ledger_record *left; /* OWNER, no more, and END: by file, place, fence */
    size_t lefts;
    blow *blows;
    size_t blow_count;
    flight *flights;
    size_t flight_count;
    ledger_record *again; /* by id and time */
    size_t agains;
    ledger_record *takes; /* by place and fence */
    size_t take_count;
    ledger_ids gone; /* in no log any more */
} facts;

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_ns(const ledger_record *x, const ledger_record *y)
{
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return order(x->sum, y->sum);
}

static int by_tenure(const ledger_record *x, const ledger_record *y)
{
    int c = order(x->magic, y->magic);
    if (!c)
        c = order(x->place, y->place);
    return c ? c : order(x->fence, y->fence);
}

static int by_left(const void *a, const void *b)
{
    int c = by_tenure(a, b);
    return c ? c : by_ns(a, b);
}

static int by_handout(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = by_tenure(x, y);
    if (!c)
        c = order(x->key, y->key);
    return c ? c : by_ns(x, y);
}

static int by_file_and_id(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->magic, y->magic);
    if (!c)
        c = order(x->id, y->id);
    return c ? c : by_ns(x, y);
}

static int by_id_and_time(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->id, y->id);
    return c ? c : by_ns(x, y);
}

static int by_key_and_time(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->key, y->key);
    return c ? c : by_ns(x, y);
}

static int by_place_and_fence(const void *a, const void *b)
{
    const ledger_record *x = a, *y = b;
    int c = order(x->place, y->place);
    return c ? c : order(x->fence, y->fence);
}

/* By the delivery: who was struck may do what it was about to much later.
 * Where nothing is owned the receives are numbered. */
static int by_begin(const void *a, const void *b)
{
    const flight *x = a, *y = b;
    int c = order(x->id, y->id);
    if (!c)
        c = order(x->turn, y->turn);
    return c ? c : (x->begin > y->begin) - (x->begin < y->begin);
}

static int by_number(const void *a, const void *b)
{
    return order(*(const uint64_t *)a, *(const uint64_t *)b);
}

static void sort(void *p, size_t n, size_t size,
                 int (*by)(const void *, const void *))
{
    if (n)
        qsort(p, n, size, by);
}

/* ---- collecting ------------------------------------------------------- */

static size_t count_of(const ledger_all *all, ledger_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        n += all->r[i].kind == kind;
    return n;
}

static ledger_record *copy_of(const ledger_all *all, ledger_kind kind,
                              size_t *n)
{
    ledger_record *r = calloc(count_of(all, kind) + 1, sizeof *r);
    *n = 0;
    for (size_t i = 0; r && i < all->n; i++)
        if (all->r[i].kind == kind)
            r[(*n)++] = all->r[i];
    return r;
}

bool ledger_ids_of(const ledger_all *all, ledger_kind kind, ledger_ids *out)
{
    out->n = 0;
    out->id = calloc(count_of(all, kind) + 1, sizeof *out->id);
    for (size_t i = 0; out->id && i < all->n; i++)
        if (all->r[i].kind == kind)
            out->id[out->n++] = all->r[i].id;
    if (out->id)
        sort(out->id, out->n, sizeof *out->id, by_number);
    return out->id != NULL;
}

bool ledger_ids_have(const ledger_ids *ids, uint64_t id)
{
    return ids->n && bsearch(&id, ids->id, ids->n, sizeof id, by_number);
}

static bool is_leave(const ledger_record *r)
{
    return r->kind == LEDGER_END ||
           (r->kind == LEDGER_OWNER && r->detail != LEAT_ASSIGNED);
}

/* An END has place and fence 0. */
static bool collect_lefts(facts *f)
{
    const ledger_all *all = f->all;
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        n += is_leave(&all->r[i]);
    f->left = calloc(n + 1, sizeof *f->left);
    for (size_t i = 0; f->left && i < all->n; i++)
        if (is_leave(&all->r[i]))
            f->left[f->lefts++] = all->r[i];
    if (f->left)
        sort(f->left, f->lefts, sizeof *f->left, by_left);
    return f->left != NULL;
}

static bool collect_blows(facts *f)
{
    size_t n = 0;
    ledger_record *r = copy_of(f->all, LEDGER_STRIKE, &n);
    f->blows = calloc(n + 1, sizeof *f->blows);
    for (size_t i = 0; r && f->blows && i < n; i++)
        f->blows[f->blow_count++] = (blow){ r[i].id, (int64_t)r[i].fence,
                                            r[i].detail ? (int64_t)r[i].detail
                                                        : INT64_MAX,
                                            r[i].seq != 0 };
    free(r);
    return r && f->blows;
}

/* Under the same fence, or by the same receipt, which stands above the code. */
static bool is_of(const ledger_record *settled, const flight *x)
{
    return settled->place ? settled->fence == x->fence
                          : settled->detail >> 16 == x->receipt;
}

/* One message in one file, in order of time. */
static void collect_message(facts *f, const ledger_record *r, size_t n)
{
    int64_t begin = 0;
    size_t first = f->flight_count;
    for (size_t i = 0; i < n; i++) {
        if (r[i].kind == LEDGER_DELIVERY)
            begin = r[i].ns;
        if (r[i].kind == LEDGER_EFFECT)
            f->flights[f->flight_count++] = (flight){
                .id = r[i].id,
                .place = r[i].place,
                .fence = r[i].fence,
                .turn = r[i].place ? 0 : r[i].detail & 0xffff,
                .receipt = r[i].place ? 0 : r[i].detail >> 16,
                .at = r[i].place ? r[i].detail : 0,
                .begin = begin ? begin : r[i].ns,
                .effect = r[i].ns,
                .end = INT64_MAX,
                .file = r[i].magic
            };
        uint64_t code = r[i].detail & 0xffff;
        if (r[i].kind != LEDGER_SETTLED)
            continue;
        for (size_t k = first; k < f->flight_count; k++)
            if (f->flights[k].end == INT64_MAX &&
                is_of(&r[i], &f->flights[k])) {
                f->flights[k].end = r[i].ns;
                f->flights[k].saved = code == LEAT_OK;
                f->flights[k].stale = code == LEAT_ESTALE;
                f->flights[k].unknown = code == LEAT_EUNKNOWN;
            }
    }
}

static bool collect_flights(facts *f)
{
    const ledger_all *all = f->all;
    f->flights = calloc(count_of(all, LEDGER_EFFECT) + 1, sizeof *f->flights);
    if (!f->flights)
        return false;
    sort(all->r, all->n, sizeof *all->r, by_file_and_id);
    for (size_t i = 0, end = 0; i < all->n; i = end) {
        while (end < all->n && all->r[end].magic == all->r[i].magic &&
               all->r[end].id == all->r[i].id)
            end++;
        collect_message(f, &all->r[i], end - i);
    }
    return true;
}

/* ---- judging ---------------------------------------------------------- */

/* When this file's process left the place; NULL: it did not. */
static const ledger_record *left_at(const facts *f, const flight *x, bool end)
{
    const ledger_record key = { .magic = x->file,
                                .place = end ? 0 : x->place,
                                .fence = end ? 0 : x->fence };
    size_t low = 0, high = f->lefts;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_tenure(&f->left[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < f->lefts && by_tenure(&f->left[low], &key) == 0 ? &f->left[low]
                                                                 : NULL;
}

/* Whoever gives a place up saves before it, however long the server is away;
 * only one that was stopped itself may be too late.  A save that could not be
 * proven, as replicas were away, is told as unknown first. */
static void land(const facts *f, flight *x)
{
    const ledger_record *ended = left_at(f, x, true);
    const ledger_record *left = x->place ? left_at(f, x, false) : NULL;
    if (!x->saved && left) { /* it may be told stale just before that */
        x->end = left->ns < x->end ? left->ns : x->end;
        x->struck = left->detail == LEAT_LOST;
        x->revoked = !x->struck && !x->unknown;
    }
    if (ended && ended->ns < x->end)
        x->end = ended->ns;
    if (f->all->expiring && x->stale)
        x->struck = true; /* it was had for longer than it could be */
    for (size_t i = 0; i < f->blow_count && !x->struck; i++) {
        const blow *b = &f->blows[i];
        x->struck = ((b->process == 0 && !x->revoked) ||
                     b->process == f->all->process[x->file]) &&
                    b->from <= x->end &&
                    (x->saved ? b->lossy && b->to >= x->end
                              : b->to >= x->begin);
    }
}

/* Did some owner with a fence above that of x, and up to `last`, take the place
 * without knowing x as settled?  One fence after the other; each has a TAKEN
 * for every range that is settled. */
static bool taken_without(const facts *f, const flight *x, uint64_t last)
{
    const ledger_record key = { .place = x->place, .fence = x->fence };
    size_t i = 0, high = f->take_count;
    while (i < high) {
        size_t middle = i + (high - i) / 2;
        if (by_place_and_fence(&f->takes[middle], &key) <= 0)
            i = middle + 1;
        else
            high = middle;
    }
    while (i < f->take_count && f->takes[i].place == x->place &&
           f->takes[i].fence <= last) {
        uint64_t fence = f->takes[i].fence;
        bool known = false;
        for (; i < f->take_count && f->takes[i].place == x->place &&
               f->takes[i].fence == fence;
             i++)
            known |= f->takes[i].key <= x->at && x->at <= f->takes[i].seq;
        if (!known)
            return true;
    }
    return false;
}

/* x was struck: may it come again, as y if it has?  One that is gone will not.
 * A message that has another position by now was written again; one that waited
 * beside the log is not what a take speaks of; and a run may write no takes. */
static bool may_come(const facts *f, const flight *x, const flight *y)
{
    if (!y && ledger_ids_have(&f->gone, x->id))
        return false;
    if (f->take_count == 0 || x->at == 0 || (y && y->at != x->at))
        return true;
    return taken_without(f, x, y ? y->fence : UINT64_MAX);
}

/* All flights of one message, as they began; from `at` on the AGAINs of it
 * and of those with higher ids. */
static void judge_flights(facts *f, const flight *x, size_t n, size_t *at,
                          ledger_verdict *v)
{
    uint64_t credit = 0;
    while (*at < f->agains && f->again[*at].id < x->id)
        ++*at;
    for (size_t i = 0; i < n; i++) {
        for (; *at < f->agains && f->again[*at].id == x->id &&
               f->again[*at].ns <= x[i].effect;
             ++*at)
            credit++;
        if (i > 0 && credit == 0)
            v->repeated++;
        else if (i > 0)
            credit--;
        bool may = x[i].struck &&
                   may_come(f, &x[i], i + 1 < n ? &x[i + 1] : NULL);
        credit += may;
        v->bound += may;
    }
}

bool ledger_judge_again(ledger_all *all, ledger_verdict *v)
{
    facts f = { .all = all };
    f.again = copy_of(all, LEDGER_AGAIN, &f.agains);
    f.takes = copy_of(all, LEDGER_TAKEN, &f.take_count);
    bool ok = f.again && f.takes && ledger_ids_of(all, LEDGER_GONE, &f.gone) &&
              collect_lefts(&f) && collect_blows(&f) && collect_flights(&f);
    for (size_t i = 0; ok && i < f.flight_count; i++)
        land(&f, &f.flights[i]);
    if (ok) {
        sort(f.flights, f.flight_count, sizeof *f.flights, by_begin);
        sort(f.again, f.agains, sizeof *f.again, by_id_and_time);
        sort(f.takes, f.take_count, sizeof *f.takes, by_place_and_fence);
        v->bound += f.agains;
    }
    size_t at = 0;
    for (size_t i = 0, end = 0; ok && i < f.flight_count; i = end) {
        while (end < f.flight_count && f.flights[end].id == f.flights[i].id)
            end++;
        judge_flights(&f, &f.flights[i], end - i, &at, v);
    }
    free(f.again);
    free(f.takes);
    free(f.gone.id);
    free(f.left);
    free(f.blows);
    free(f.flights);
    return ok;
}

/* Was one of this key sent once more, behind a and not behind b? */
static bool reset_between(const ledger_record *again, size_t n,
                          const ledger_record *a, const ledger_record *b)
{
    size_t low = 0, high = n;
    const ledger_record key = { .key = a->key, .ns = a->ns, .sum = a->sum };
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_key_and_time(&again[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && again[low].key == b->key && again[low].ns <= b->ns;
}

bool ledger_judge_handouts(ledger_all *all, ledger_verdict *v)
{
    ledger_ids late = { 0 };
    size_t agains = 0;
    ledger_record *again = copy_of(all, LEDGER_AGAIN, &agains);
    const ledger_record *last = NULL; /* handed out, the highest */
    bool ok = again && ledger_ids_of(all, LEDGER_LATE, &late);
    if (ok) {
        sort(again, agains, sizeof *again, by_key_and_time);
        sort(all->r, all->n, sizeof *all->r, by_handout);
    }
    for (size_t i = 0; ok && i < all->n; i++) {
        const ledger_record *r = &all->r[i];
        if (r->kind != LEDGER_DELIVERY || !r->place || !r->key ||
            ledger_ids_have(&late, r->id))
            continue;
        bool same = last && by_tenure(last, r) == 0 && last->key == r->key;
        if (same && r->seq < last->seq &&
            !reset_between(again, agains, last, r))
            v->reordered++;
        else
            last = r;
    }
    free(again);
    free(late.id);
    return ok;
}

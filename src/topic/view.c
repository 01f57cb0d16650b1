/*
 * view.c: who lives.
 *
 * A record changes with every beat of its member.  We judge it dead when it did
 * not change for the lease and a sixth, on our own monotonic clock, from the
 * answer that first showed it to the sending of the last look that still did.
 * A member knows itself safe for one lease after the sending of a beat that was
 * answered; nobody can have seen that beat earlier, so that nobody judges it
 * while it is safe, even if the clocks differ in rate by a seventh.
 *
 * Only time that we watched counts.  If two of our own answers are further
 * apart than half a lease, the server or we were away: then nothing is known of
 * that time, the others may not have been able to beat either, and every watch
 * starts anew.  A member that cannot reach a server that we can reach is dead
 * to us; a server that nobody reaches kills nobody.
 *
 * Before, after half a lease, it is silent: it keeps what it claims but has no
 * share in the plan.  That moves nothing by itself.  But one that joins after a
 * crash does not know yet who is dead, and would leave free what the others
 * give up for it, and to a dead one, too, until it has watched for so long.
 *
 * The owner of a lease whose record is in no look is watched in the same way,
 * from when it was first named, by the looks in which it does not appear.
 *
 * A later life of a stable name ends the earlier ones at once.
 */
#include "topic/view.h"

#include "base/mem.h"

#include <stdlib.h>

enum { FORGET_AFTER = 4 }; /* leases, for owners not named any more */

int leat__nonce_compare(const leat__nonce *a, const leat__nonce *b)
{
    return memcmp(a->b, b->b, sizeof a->b);
}

static int by_nonce(const void *a, const void *b)
{
    leat__peer *const *x = a, *const *y = b;
    return leat__nonce_compare(&(*x)->nonce, &(*y)->nonce);
}

static void peer_free(leat__peer *p)
{
    leat__buf_release(&p->text);
    leat__free(p);
}

void leat__view_release(leat__view *v)
{
    for (size_t i = 0; i < v->n + v->waiting; i++)
        peer_free(v->peers[i]);
    leat__free(v->peers);
    leat__free(v->last);
    leat__free(v->names);
}

size_t leat__view_find(const leat__view *v, const leat__nonce *nonce)
{
    size_t lo = 0, hi = v->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = leat__nonce_compare(&v->peers[mid]->nonce, nonce);
        if (c == 0)
            return mid;
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (size_t i = v->n; i < v->n + v->waiting; i++)
        if (leat__nonce_compare(&v->peers[i]->nonce, nonce) == 0)
            return i;
    return SIZE_MAX;
}

static leat_code grow(leat__peer ***p, size_t *cap, size_t need,
                      leat_error *err)
{
    if (need <= *cap)
        return LEAT_OK;
    size_t n = need + need / 2 + 8;
    leat__peer **grown = leat__realloc(*p, n * sizeof **p, err);
    if (!grown)
        return LEAT_ENOMEM;
    *p = grown;
    *cap = n;
    return LEAT_OK;
}

/* ---- a look, in two steps: what can fail first ------------------------ */

/* Append a new one behind all others; there is room. */
static leat__peer *append(leat__view *v, const leat__nonce *nonce,
                          leat_error *err)
{
    leat__peer *p = leat__zalloc(sizeof *p, err);
    if (!p)
        return NULL;
    p->nonce = *nonce;
    v->peers[v->n + v->waiting++] = p;
    return p;
}

/* The server gives the records mostly in the same order as last time. */
static leat__peer *known(const leat__view *v, size_t i,
                         const leat__nonce *nonce)
{
    if (i < v->last_n && leat__nonce_compare(&v->last[i]->nonce, nonce) == 0)
        return v->last[i];
    size_t at = leat__view_find(v, nonce);
    return at < SIZE_MAX ? v->peers[at] : NULL;
}

/* Room for another text; what is there may move, and is read again. */
static leat_code make_room(leat__peer *p, size_t n, leat_error *err)
{
    const char *was = p->text.p;
    leat_code rc = leat__buf_reserve(&p->text, n, err);
    if (rc == LEAT_OK && p->text.p != was && p->text.n > 0)
        p->readable = leat__record_parse(leat__buf_bytes(&p->text), &p->rec);
    return rc;
}

/* Known or new, with room for its text; NULL without memory. */
static leat__peer *peer_for(leat__view *v, size_t i,
                            const leat__group_record *r, leat_error *err)
{
    leat__peer *p = known(v, i, &r->nonce);
    if (!p)
        p = append(v, &r->nonce, err);
    if (!p || make_room(p, r->text.n, err) != LEAT_OK)
        return NULL;
    return p;
}

/* Everything a look allocates.  After a failure those who were new are
 * forgotten again; v->last, half written over, is not believed. */
static leat_code prepare(leat__view *v, const leat__group_record *records,
                         size_t n, leat_error *err)
{
    size_t waiting = v->waiting;
    if (grow(&v->peers, &v->cap, v->n + waiting + n, err) != LEAT_OK ||
        grow(&v->last, &v->last_cap, n, err) != LEAT_OK ||
        grow(&v->names, &v->names_cap, v->n + waiting + n, err) != LEAT_OK)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        leat__peer *p = peer_for(v, i, &records[i], err);
        if (!p) {
            while (v->waiting > waiting)
                peer_free(v->peers[v->n + --v->waiting]);
            v->last_n = 0;
            return LEAT_ENOMEM;
        }
        v->last[i] = p;
    }
    v->last_n = n;
    return LEAT_OK;
}

/* Those who wait behind go to their places; whether there were any. */
static bool merge(leat__view *v)
{
    if (v->waiting == 0)
        return false;
    v->n += v->waiting;
    v->waiting = 0;
    qsort(v->peers, v->n, sizeof *v->peers, by_nonce);
    return true;
}

/* The views into the old text, moved to where the same words stand now. */
static void rebase(leat__record *r, uint64_t beat, leat_bytes rest)
{
    const char *from = r->rest.p, *to = rest.p;
    r->claims.p = to + ((const char *)r->claims.p - from);
    r->name.p = to + ((const char *)r->name.p - from);
    r->rest = rest;
    r->beat = beat;
}

/* Take over a text that differs; whether it says anything else than before, but
 * for the counter.  Mostly it does not, and is not read again. */
static bool update(leat__peer *p, leat_bytes text, bool first, int64_t now_ns)
{
    uint64_t beat = 0;
    leat_bytes rest;
    bool same = p->text.n > 0 && p->readable &&
                leat__record_head(text, &beat, &rest) &&
                leat_bytes_eq(rest, p->rec.rest);
    bool news = !same || p->silent || !p->proven;
    size_t head = same ? text.n - rest.n : 0;
    p->text.n = 0;
    (void)leat__buf_add(&p->text, text.p, text.n, NULL); /* there is room */
    if (same)
        rebase(&p->rec, beat, leat_mem(p->text.p + head, rest.n));
    else
        p->readable = leat__record_parse(leat__buf_bytes(&p->text), &p->rec);
    p->proven = !first;
    p->seen_ns = now_ns;
    p->dead = p->silent = false;
    return news;
}

static bool apply(leat__view *v, const leat__group_record *records, size_t n,
                  int64_t now_ns)
{
    bool changed = false;
    for (size_t i = 0; i < v->n; i++)
        v->peers[i]->looked = false;
    for (size_t i = 0; i < n; i++) {
        leat__peer *p = v->last[i];
        p->looked = true;
        if (p->text.n == 0 ||
            !leat_bytes_eq(leat__buf_bytes(&p->text), records[i].text))
            changed |= update(p, records[i].text, !v->looked, now_ns);
    }
    return changed;
}

/* ---- judging ---------------------------------------------------------- */

static bool judge(leat__view *v, leat__peer *p, int64_t sent_ns, int64_t now_ns)
{
    int64_t due = p->seen_ns + leat__view_silence(v);
    bool was_silent = p->silent;
    if (p->dead || leat__nonce_compare(&p->nonce, &v->self) == 0)
        return false;
    p->silent = was_silent || sent_ns - p->seen_ns > v->lease_ns / 2;
    if (sent_ns < due) {
        if (p->silent && due < v->suspect_ns)
            v->suspect_ns = due;
        return p->silent != was_silent;
    }
    p->dead = true;
    if (!p->superseded)
        p->gone_ns = now_ns;
    return true;
}

/* A record that vanished: it left or was buried.  An owner without a record is
 * kept as long as it is named. */
static bool to_forget(const leat__view *v, const leat__peer *p, int64_t now_ns)
{
    if (p->looked)
        return false;
    return p->text.n > 0 || now_ns - p->named_ns > FORGET_AFTER * v->lease_ns;
}

static bool forget(leat__view *v, int64_t now_ns)
{
    size_t kept = 0, n = v->n;
    for (size_t i = 0; i < n; i++) {
        if (to_forget(v, v->peers[i], now_ns))
            peer_free(v->peers[i]);
        else
            v->peers[kept++] = v->peers[i];
    }
    v->n = kept;
    return kept < n;
}

static int by_life(const void *a, const void *b)
{
    leat__peer *const *x = a, *const *y = b;
    leat_bytes s = (*x)->rec.name, t = (*y)->rec.name;
    if (s.n != t.n)
        return s.n < t.n ? -1 : 1;
    int c = s.n ? memcmp(s.p, t.p, s.n) : 0;
    if (c != 0)
        return c;
    if ((*x)->rec.born != (*y)->rec.born)
        return (*x)->rec.born < (*y)->rec.born ? -1 : 1;
    return leat__nonce_compare(&(*x)->nonce, &(*y)->nonce);
}

static void supersede(leat__view *v, int64_t now_ns)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        if (v->peers[i]->readable && v->peers[i]->rec.stable)
            v->names[n++] = v->peers[i];
    if (n > 1)
        qsort(v->names, n, sizeof *v->names, by_life);
    for (size_t i = 0; i < n; i++) {
        leat__peer *p = v->names[i];
        bool over = i + 1 < n &&
                    leat_bytes_eq(p->rec.name, v->names[i + 1]->rec.name);
        if (over && !leat__peer_gone(p))
            p->gone_ns = now_ns;
        p->superseded = over;
    }
}

/* Nothing is known of the time since the last answer. */
static void restart(leat__view *v, int64_t now_ns)
{
    for (size_t i = 0; i < v->n; i++)
        v->peers[i]->seen_ns = now_ns;
}

leat_code leat__view_look(leat__view *v, int64_t sent_ns, int64_t now_ns,
                          const leat__group_record *records, size_t n,
                          bool *changed, leat_error *err)
{
    leat_code rc = prepare(v, records, n, err);
    if (rc != LEAT_OK)
        return rc;
    bool fresh = merge(v);
    if (v->looked && now_ns - v->answered_ns > v->lease_ns / 2)
        restart(v, now_ns);
    *changed = apply(v, records, n, now_ns) || fresh;
    if (forget(v, now_ns))
        *changed = true;
    v->suspect_ns = INT64_MAX;
    for (size_t i = 0; i < v->n; i++)
        *changed |= judge(v, v->peers[i], sent_ns, now_ns);
    if (*changed)
        supersede(v, now_ns);
    v->looked = true;
    v->sent_ns = sent_ns;
    v->answered_ns = now_ns;
    return LEAT_OK;
}

void leat__view_named(leat__view *v, const leat__nonce *owner, int64_t now_ns)
{
    size_t at = leat__view_find(v, owner);
    leat__peer *p = at < SIZE_MAX ? v->peers[at] : NULL;
    if (!p) {
        if (grow(&v->peers, &v->cap, v->n + v->waiting + 1, NULL) != LEAT_OK)
            return;
        p = append(v, owner, NULL);
        if (!p)
            return;
        p->seen_ns = now_ns;
    }
    p->named_ns = now_ns;
}

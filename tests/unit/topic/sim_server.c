/* sim_server.c: the scripts, in C. */
#include "sim_server.h"

#include "topic/record.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

sim_text *sim_text_new(const void *p, size_t n)
{
    sim_text *t = need(malloc(sizeof *t + n + 1));
    t->refs = 1;
    t->n = n;
    memcpy(t->p, p, n);
    t->p[n] = '\0';
    return t;
}

void sim_text_drop(sim_text *t)
{
    if (t && --t->refs == 0)
        free(t);
}

void sim_snapshot_free(sim_snapshot *s)
{
    for (size_t i = 0; s && i < s->n; i++)
        sim_text_drop(s->r[i].text);
    free(s);
}

void sim_server_init(sim_server *s, uint32_t partitions)
{
    *s = (sim_server){ .partitions = partitions, .clock_us = 1000000 };
    s->lease = need(calloc(partitions, sizeof *s->lease));
    for (uint32_t p = 0; p < partitions; p++)
        s->lease[p].owner = NOBODY;
}

void sim_server_release(sim_server *s)
{
    for (size_t i = 0; i < s->n; i++)
        sim_text_drop(s->records[i].text);
    free(s->records);
    free(s->lease);
}

leat__nonce sim_nonce(uint64_t seed, int who)
{
    leat__nonce n = { { 0 } };
    uint64_t x = (seed ^ (uint64_t)who) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 31;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    memcpy(n.b, &x, sizeof x);
    memcpy(n.b + 12, &who, sizeof who);
    n.b[8] = 1; /* never zero, which is nobody */
    return n;
}

int sim_who(const leat__nonce *n)
{
    int who;
    memcpy(&who, n->b + 12, sizeof who);
    return who;
}

/* ---- records ---------------------------------------------------------- */

static sim_record *find(sim_server *s, int who)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->records[i].who == who)
            return &s->records[i];
    return NULL;
}

static void erase(sim_server *s, sim_record *r)
{
    if (!r)
        return;
    sim_text_drop(r->text);
    *r = s->records[--s->n];
}

static sim_record *add(sim_server *s, int who)
{
    if (s->n == s->cap) {
        s->cap = s->cap * 2 + 8;
        s->records = need(realloc(s->records, s->cap * sizeof *s->records));
    }
    s->records[s->n] = (sim_record){ who, NULL };
    return &s->records[s->n++];
}

static uint64_t new_born(const sim_server *s)
{
    uint64_t born = s->clock_us;
    for (size_t i = 0; i < s->n; i++) {
        leat__record r;
        leat_bytes text = leat_mem(s->records[i].text->p,
                                   s->records[i].text->n);
        if (leat__record_parse(text, &r) && r.born >= born)
            born = r.born + 1;
    }
    return born;
}

static sim_snapshot *all(const sim_server *s)
{
    sim_snapshot *snap = need(malloc(sizeof *snap + s->n * sizeof *snap->r));
    snap->n = s->n;
    memcpy(snap->r, s->records, s->n * sizeof *snap->r);
    for (size_t i = 0; i < s->n; i++)
        s->records[i].text->refs++;
    return snap;
}

static void put(sim_record *at, leat__record r)
{
    leat__buf b = { 0 };
    if (leat__record_format(&b, &r, false, NULL) != LEAT_OK)
        abort();
    sim_text *t = sim_text_new(b.p, b.n);
    sim_text_drop(at->text);
    at->text = t;
    leat__buf_release(&b);
}

/* What was said after the birth. */
static leat_bytes saying(const leat__record *r)
{
    const char *space = memchr(r->rest.p, ' ', r->rest.n);
    return leat_mem(space,
                    r->rest.n - (size_t)(space - (const char *)r->rest.p));
}

sim_snapshot *sim_beat(sim_server *s, int who, const sim_text *record,
                       bool *told, bool *counted)
{
    leat__record in, old;
    bool ok = leat__record_parse(leat_mem(record->p, record->n), &in);
    assert(ok);
    (void)ok;
    bool again = *(const char *)in.rest.p == '+';
    sim_record *at = find(s, who);
    *told = *counted = false;
    if (at) {
        leat__record_parse(leat_mem(at->text->p, at->text->n), &old);
        *counted = old.beat < in.beat;
        *told = *counted && !leat_bytes_eq(saying(&old), saying(&in));
        if (in.born == 0)
            in.born = old.born;
    } else if (in.born == 0 || again) {
        if (in.born == 0)
            in.born = new_born(s);
        at = add(s, who);
        *told = *counted = true;
    }
    if (*counted)
        put(at, in);
    return all(s);
}

void sim_bury(sim_server *s, int who, const sim_text *record)
{
    sim_record *at = find(s, who);
    if (at && leat_bytes_eq(leat_mem(at->text->p, at->text->n),
                            leat_mem(record->p, record->n)))
        erase(s, at);
}

void sim_leave(sim_server *s, int who)
{
    erase(s, find(s, who));
}

/* ---- leases ----------------------------------------------------------- */

bool sim_take(sim_server *s, uint32_t p, int who, int dead, uint64_t *epoch,
              int *owner)
{
    sim_lease *l = &s->lease[p];
    if (l->owner != NOBODY && l->owner != who && l->owner != dead) {
        *owner = l->owner;
        return false;
    }
    l->owner = who;
    l->epoch = l->epoch + 1 > s->clock_us ? l->epoch + 1 : s->clock_us;
    *epoch = l->epoch;
    return true;
}

bool sim_hand(sim_server *s, uint32_t p, int who, uint64_t epoch)
{
    if (!sim_renew(s, p, who, epoch))
        return false;
    s->lease[p].owner = NOBODY;
    return true;
}

bool sim_renew(const sim_server *s, uint32_t p, int who, uint64_t epoch)
{
    return s->lease[p].owner == who && s->lease[p].epoch == epoch;
}

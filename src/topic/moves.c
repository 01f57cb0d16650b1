/*
 * moves.c: the steps by which messages of a partition change their place.
 *
 *     add        number        confirmed
 *  ->  waiting  ->  carried  ->  gone
 *
 * Numbers are given in the order of the line, without gaps, so that the server
 * tells by the highest one it has carried out which it has.  A save is the
 * whole state of the window and all steps that are carried and not confirmed:
 * it may be lost, repeated, or overtaken by the next, which says all that it
 * said.
 */
#include "topic/moves.h"
#include "base/mem.h"
#include "redis/script.h"

#include <assert.h>
#include <string.h>

void leat__step_free(leat__step *s)
{
    if (!s)
        return;
    leat__buf_release(&s->extra);
    leat__free(s);
}

void leat__moves_add(leat__moves *m, leat__step *s)
{
    s->next = NULL;
    s->number = 0;
    if (m->last)
        m->last->next = s;
    else
        m->first = s;
    m->last = s;
    if (!m->ready)
        m->ready = s;
    m->waiting++;
}

leat__step *leat__moves_number(leat__moves *m)
{
    leat__step *s = m->ready;
    if (!leat__moves_ready(m))
        return NULL;
    s->number = ++m->number;
    m->ready = s->next;
    m->numbered++;
    m->waiting--;
    return s;
}

static leat__step *take_first(leat__moves *m)
{
    leat__step *s = m->first;
    if (!s)
        return NULL;
    if (m->ready == s)
        m->ready = s->next;
    m->first = s->next;
    if (!m->first)
        m->last = NULL;
    if (s->number)
        m->numbered--;
    else
        m->waiting--;
    s->next = NULL;
    return s;
}

leat__step *leat__moves_confirmed(leat__moves *m, uint64_t upto)
{
    const leat__step *s = m->first;
    if (!s || s->number == 0 || s->number > upto)
        return NULL;
    m->known = s->number;
    return take_first(m);
}

leat__step *leat__moves_drop(leat__moves *m)
{
    return take_first(m);
}

/* ---- as arguments ----------------------------------------------------- */

enum { TEXT = 4 * LEAT__NUMBER + LEAT__ID_TEXT + LEAT__LANE_TEXT };

/* Where the next piece goes; there is room for it. */
static char *room(leat__buf *text, size_t n)
{
    char *p = text->p + text->n;
    assert(text->cap - text->n >= n);
    text->n += n;
    return p;
}

static leat_bytes put_number(leat__buf *text, uint64_t v)
{
    return leat__arg_int(room(text, LEAT__NUMBER), (int64_t)v);
}

static leat_bytes put_lane(leat__buf *text, uint64_t lane)
{
    return leat__lane_format(lane, room(text, LEAT__LANE_TEXT));
}

/* Of steps in the same lane that follow each other one is enough. */
static leat_bytes put_lanes(const leat__moves *m, leat__buf *text)
{
    char one[LEAT__LANE_TEXT];
    size_t from = text->n;
    uint64_t last = 0;
    for (const leat__step *s = m->first; s != m->ready; s = s->next) {
        if (s->lane == 0 || s->lane == last)
            continue;
        last = s->lane;
        leat_bytes lane = leat__lane_format(last, one);
        memcpy(room(text, lane.n), lane.p, lane.n);
        *room(text, 1) = ' ';
    }
    return leat_mem(text->p + from, text->n - from);
}

static void put_step(const leat__step *s, leat__buf *text, leat_bytes *to)
{
    static const char *const words[] = { "keep", "begin", "done", "dead",
                                         "again" };
    to[0] = put_number(text, s->number);
    to[1] = leat_str(words[s->what]);
    to[2] = leat__id_format(s->id, room(text, LEAT__ID_TEXT));
    to[3] = put_number(text, s->n);
    to[4] = put_number(text, s->f);
    to[5] = put_number(text, (uint64_t)s->delay_ms);
    to[6] = leat_str(s->error);
    to[7] = s->what == LEAT__STEP_KEEP ? put_lane(text, s->lane)
                                       : leat__buf_bytes(&s->extra);
}

size_t leat__moves_write(const leat__moves *m, leat__buf *text,
                         leat_bytes *args, leat_error *err)
{
    size_t n = 0;
    text->n = 0;
    if (leat__buf_reserve(text, (size_t)m->numbered * (TEXT + LEAT__LANE_TEXT),
                          err) != LEAT_OK)
        return 0;
    args[n++] = put_lanes(m, text);
    for (const leat__step *s = m->first; s != m->ready; s = s->next) {
        put_step(s, text, args + n);
        n += LEAT__STEP_ARGS;
    }
    return n;
}

/*
 * judge.c: lost, or taken away.
 *
 *   missing                                   is
 *   another entry has the id                  lost: ids are given once
 *   the log is gone, or never got that far    lost
 *   Redis 7 counts what it ever took in:
 *     behind the first entry, and above all
 *     that were deleted singly                lost
 *     others: more than were taken away       lost
 *     the count is below what it was when it
 *     was seen here                           lost
 *   older servers do not; another life of the
 *   server has some before it                 lost
 *   otherwise                                 taken away
 *
 * So a loss is overlooked where other programs delete entries singly, or, on
 * an older server, where a log that was deleted is filled again by others; it
 * is never imagined.
 */
#include "topic/judge.h"

static bool beyond(const leat__log_facts *f, leat__id id)
{
    return !f->there || leat__id_cmp(id, f->last) > 0;
}

/* Could trimming, which takes from the front, or XDEL have taken it? */
static bool takeable(const leat__log_facts *f, leat__id id)
{
    return f->length == 0 || leat__id_cmp(id, f->first) < 0 ||
           leat__id_cmp(id, f->deleted) <= 0;
}

/* Missing, though the log has given out higher ids. */
static bool doubtful(const leat__case *c, uint32_t i)
{
    return c->seen[i] == LEAT__SEEN_GONE &&
           !beyond(&c->facts, c->prints[i]->id);
}

static uint32_t count_takeable(const leat__case *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        n += doubtful(c, i) && takeable(&c->facts, c->prints[i]->id);
    return n;
}

static bool lost_by_count(const leat__case *c, uint32_t i, uint32_t missing)
{
    const leat__log_facts *f = &c->facts;
    uint64_t taken = f->added > f->length ? f->added - f->length : 0;
    bool rewound = c->counted && f->added < c->added;
    return !takeable(f, c->prints[i]->id) || taken < missing ||
           (rewound && i >= c->verified);
}

uint32_t leat__judge(const leat__case *c, bool *lost)
{
    uint32_t missing = count_takeable(c), n = 0;
    bool some_before = false;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->seen[i] == LEAT__SEEN_SAME)
            lost[i] = false;
        else if (!doubtful(c, i))
            lost[i] = true;
        else if (c->facts.counted)
            lost[i] = lost_by_count(c, i, missing);
        else
            lost[i] = c->moved && some_before;
        some_before |= c->seen[i] == LEAT__SEEN_SAME;
        n += lost[i];
    }
    return n;
}

bool leat__judge_run(const leat__case *c, const bool *lost, uint32_t from,
                     uint32_t *first, uint32_t *end, bool *exact)
{
    while (from < c->n && !lost[from])
        from++;
    if (from == c->n)
        return false;
    *first = from;
    *exact = true;
    for (; from < c->n && lost[from]; from++)
        *exact &= !c->prints[from]->gap;
    *end = from;
    return true;
}

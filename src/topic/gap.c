/*
 * gap.c: entries that were taken from a log before the group had read them.
 *
 * A server of 7.0 or later counts the entries that a log ever had, and the
 * window knows how many of these it has seen.  So what was trimmed by
 * lossy_maxlen, or deleted by hand, shows as a difference:
 *
 *   added  -  seen  -  those that are there behind what was read
 *
 * The last of these is known where we have read to the end of the log, or where
 * the oldest entry is newer than what we read: then it is all.  In the second
 * case what a read brings that is under way may be gone from the log and yet
 * not lost; so it counts only when none is.  With every beat the owner looks;
 * what it cannot tell now it tells when it has read on.  It is told once by an
 * owner: what is lost counts as seen from then on.
 *
 * A count may be wrong, and entries that are there are not gone: where nothing
 * was trimmed or deleted behind what was good before, it is the count that is
 * set right.
 *
 * An entry that came and went while the group had no owner shows when the lease
 * is taken, by the same sum (take.lua).
 */
#include "base/log.h"
#include "metrics/metrics.h"
#include "topic/tend.h"

#include <stdio.h>

enum {
    ASKED_MAX = 64, /* partitions, with one beat */
    LENGTH = 0,     /* in an answer of there.lua  */
    LAST = 1,
    FIRST = 2,
    ADDED = 3,
    DELETED = 4
};

static leat_position position(leat__id id)
{
    return (leat_position){ .ms = id.ms, .seq = id.seq };
}

static void log_gap(const part *p, const leat_loss *x, leat_level level)
{
    const consumer *c = p->c;
    char many[48] = "messages";
    if (x->count > 0)
        snprintf(many, sizeof many, "%llu messages",
                 (unsigned long long)x->count);
    leat__log(&c->log, level,
              "'%s' %u, group '%s': %s between %llu-%llu and %llu-%llu were "
              "taken away unread",
              c->topic->name, p->index, c->group, many,
              (unsigned long long)x->from.ms, (unsigned long long)x->from.seq,
              (unsigned long long)x->to.ms, (unsigned long long)x->to.seq);
}

/* Where a message goes as soon as any group has settled it, the others are not
 * told of each. */
void leat__gap_tell(part *p, leat__id from, leat__id to, uint64_t count,
                    bool exact)
{
    consumer *c = p->c;
    leat_retention r;
    leat_loss x = { .topic = c->topic->name,
                    .group = c->group,
                    .partition = p->index,
                    .from = position(from),
                    .to = position(to),
                    .count = count,
                    .exact = exact,
                    .trimmed = true };
    leat__topic_retention(c->topic, &r);
    if (r.forget == LEAT_FORGET_FIRST) {
        leat__counter_add(c->tend->forgotten, count);
        return;
    }
    log_gap(p, &x, LEAT_LOG_ERROR);
    leat__counter_add(c->tend->lost, count);
    if (c->opts.on_loss)
        c->opts.on_loss(c->opts.loss_arg, &x);
}

/* No read of it is under way. */
static bool quiet(const part *p)
{
    return !p->reading && !p->blocked && !(p->wait && p->wait->out);
}

static leat__id id_at(const leat_reply *r, size_t i)
{
    leat__id id = { 0, 0 };
    (void)leat__id_parse(leat_reply_bytes(leat_reply_at(r, i)), &id);
    return id;
}

/* How many entries there are behind what was read; false: it is not clear. */
static bool left_behind(const part *p, const leat_reply *r, int64_t *left)
{
    leat__id read = leat__window_read_from(p->window);
    leat__id last = id_at(r, LAST), first = id_at(r, FIRST);
    int64_t length = leat_reply_int(leat_reply_at(r, LENGTH));
    int end = leat__id_cmp(last, read);
    *left = end == 0 ? 0 : length;
    if (end <= 0)
        return end == 0;
    bool still = p->looked_quiet && quiet(p) &&
                 leat__id_cmp(read, p->looked_from) == 0;
    return still && (length == 0 || leat__id_cmp(first, read) > 0);
}

/* May anything be gone that we have not seen? */
static bool truly_gone(const part *p, const leat_reply *r, leat__id first)
{
    bool empty = leat_reply_int(leat_reply_at(r, LENGTH)) == 0;
    return empty || leat__id_cmp(first, p->looked_good) > 0 ||
           leat__id_cmp(id_at(r, DELETED), p->looked_good) > 0;
}

static void compare(part *p, const leat_reply *r)
{
    uint64_t passed;
    int64_t left;
    leat__id first = id_at(r, FIRST), last = id_at(r, LAST);
    leat__id read = leat__window_read_from(p->window);
    if (!leat__window_passed(p->window, &passed) || !left_behind(p, r, &left))
        return;
    int64_t seen = (int64_t)passed + leat__window_count(p->window);
    int64_t lost = leat_reply_int(leat_reply_at(r, ADDED)) - seen - left;
    if (lost <= 0) {
        p->looked_good = read;
        return;
    }
    leat__window_skip(p->window, (uint64_t)lost);
    if (truly_gone(p, r, first))
        leat__gap_tell(p, p->looked_good,
                       left > 0 && leat__id_cmp(first, read) > 0 ? first : last,
                       (uint64_t)lost, true);
    p->looked_good = read;
}

static void on_look(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    leat_error odd;
    p->looking = false;
    e = leat__reply_odd(r, e, LEAT__SHAPE_THERE, "a look at a log", &odd);
    if (e == &odd)
        leat__drive_failed(p->c, e, "looking for gaps");
    if (e || leat_reply_len(r) <= DELETED || !leat__part_owned(p) ||
        leat__part_epoch(p) != p->looked_epoch || p->doubtful)
        return;
    if (leat_reply_bytes(leat_reply_at(r, ADDED)).n == 0)
        p->c->tend->blind = true;
    else
        compare(p, r);
}

void leat__gap_begin(part *p)
{
    p->looking = false;
    p->looked_good = leat__window_cursor(p->window);
}

static void look(part *p)
{
    consumer *c = p->c;
    const leat_bytes key = leat__key_bytes(&p->log), none = leat_mem("1", 1);
    p->looking = true; /* before: the answer may be there at once */
    p->looked_epoch = leat__part_epoch(p);
    p->looked_quiet = quiet(p);
    p->looked_from = leat__window_read_from(p->window);
    if (leat__script_send(c->cmd, &leat__script_topic_there, &key, 1, &none, 1,
                          &(leat_send_opts){ .fn = on_look, .arg = p },
                          NULL) != LEAT_OK)
        p->looking = false;
}

void leat__gap_step(consumer *c)
{
    leat__tend *t = c->tend;
    uint32_t n = c->owned_count < ASKED_MAX ? c->owned_count : ASKED_MAX;
    for (uint32_t i = 0; i < n && !t->blind && c->cmd; i++) {
        part *p = c->owned[t->look_turn++ % c->owned_count];
        if (!p->gone && !p->looking && !p->doubtful)
            look(p);
    }
}

void leat__gap_reconnected(consumer *c)
{
    c->tend->blind = false;
}

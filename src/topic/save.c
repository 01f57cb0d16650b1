/*
 * save.c: telling the server what was handed out and settled.
 *
 * A save carries the whole state of a partition's window, so it is one script
 * however much has changed, may be repeated, and the last one counts.  Several
 * may be under way; answers come in order.  What was settled gets its outcome
 * from the save that was first to carry it.
 *
 * Hand-outs are saved at once, settlements with them, or else soon.  Where the
 * durability asks for it the outcome waits for a proof (prove.c).
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "topic/consumer.h"

#include <assert.h>
#include <string.h>

#define RETRY_NS INT64_C(50000000)

bool leat__save_clean(const part *p)
{
    return p->saves == 0 && p->settled.count == 0 && p->unproven.count == 0 &&
           leat__window_out(p->window) == 0 && !leat__window_dirty(p->window);
}

static saving *get_saving(consumer *c)
{
    saving *s = c->savings;
    if (s)
        c->savings = s->next;
    else
        s = leat__zalloc(sizeof *s, NULL);
    return s;
}

static void put_saving(consumer *c, saving *s)
{
    s->next = c->savings;
    c->savings = s;
}

/* Nobody knows, or it was refused: carried by the next save instead, before
 * what was settled since. */
static void put_back(part *p, settled_line *line)
{
    if (line->count == 0)
        return;
    line->last->next = p->settled.first;
    if (!p->settled.first)
        p->settled.last = line->last;
    p->settled.first = line->first;
    p->settled.count += line->count;
    *line = (settled_line){ 0 };
}

static void tell_stale(consumer *c, settled_line *line)
{
    leat_error e;
    leat__fail(&e, LEAT_ESTALE, "the partition of '%s' is another's by now",
               c->topic->name);
    leat__line_tell(c, line, &e);
}

void leat__save_again(part *p, settled_line *line)
{
    leat__window_unsaved(p->window);
    put_back(p, line);
    p->save_at_ns = leat__now_ns() + RETRY_NS;
}

static void failed(saving *s, const leat_error *e)
{
    part *p = s->part;
    consumer *c = p->c;
    leat__drive_failed(c, e, "settling");
    p->taught = false; /* it may be on another node by now */
    if (leat__part_epoch(p) != s->epoch) {
        tell_stale(c, &s->line);
        return;
    }
    leat__save_again(p, &s->line);
    p->retry_ns = p->save_at_ns;
}

static void on_saved(void *arg, const leat_reply *r, const leat_error *e)
{
    saving *s = arg;
    part *p = s->part;
    consumer *c = p->c;

    p->saves--;
    if (e) {
        failed(s, e);
    } else if (leat_reply_int(r) == 0) {
        leat__member_lost(p, s->epoch);
        tell_stale(c, &s->line);
    } else if (leat__prove_needed(c) && leat__part_epoch(p) == s->epoch) {
        leat__prove_saved(p, &s->line);
    } else {
        leat__line_tell(c, &s->line, NULL);
    }
    put_saving(c, s);
}

/* What leaves the window is nobody's any more, but for the users. */
static void pop(consumer *c, part *p)
{
    void *held;
    while (leat__window_pop(p->window, &held)) {
        c->in_rings--;
        if (held)
            leat__held_drop(held);
    }
}

/* With the body: one try must do, see teach in drive.c, and which of a
 * cluster's nodes have the script nobody knows. */
static leat_code send_whole(part *p, const leat_bytes *keys,
                            const leat_bytes *args, size_t n,
                            const leat_send_opts *o, leat_error *err)
{
    enum { KEYS = 3, ARGS = 10 };
    const leat__script *s = &leat__script_topic_save;
    leat_bytes argv[3 + KEYS + ARGS] = { leat_mem("EVAL", 4),
                                         leat_mem(s->body, s->body_size),
                                         leat_mem("3", 1) };
    assert(n <= ARGS);
    memcpy(argv + 3, keys, KEYS * sizeof *keys);
    memcpy(argv + 3 + KEYS, args, n * sizeof *args);
    leat_code rc = leat_conn_send(p->c->cmd, argv, 3 + KEYS + n, o, err);
    p->taught = rc == LEAT_OK;
    return rc;
}

static leat_code send_state(part *p, const leat__window_saved *w, saving *s,
                            leat_error *err)
{
    consumer *c = p->c;
    char epoch[LEAT__NUMBER], seq[LEAT__NUMBER], count[LEAT__NUMBER];
    char cursor[LEAT__ID_TEXT], mark[LEAT__ID_TEXT];
    const leat_bytes keys[] = { leat__key_bytes(&p->lease),
                                leat__key_bytes(&p->cursor),
                                leat__key_bytes(&p->log) };
    const leat_bytes args[] = {
        leat_mem(c->nonce, LEAT__NONCE_TEXT),
        leat__arg_int(epoch, (int64_t)s->epoch),
        leat__arg_int(seq, (int64_t)++p->seq),
        leat__id_format(w->cursor, cursor),
        leat__id_format(w->mark, mark),
        w->count_known ? leat__arg_int(count, (int64_t)w->count)
                       : leat_mem("", 0),
        w->settled,
        w->attempts,
        leat_str(c->group),
        leat_str(LEAT__LEASE_KEEP),
    };
    leat_send_opts o = { .fn = on_saved, .arg = s };
    size_t n = sizeof args / sizeof *args;
    if (c->clustered && !p->taught)
        return send_whole(p, keys, args, n, &o, err);
    return leat__script_send(c->cmd, &leat__script_topic_save, keys, 3, args, n,
                             &o, err);
}

static bool send_save(part *p)
{
    consumer *c = p->c;
    leat__window_saved w;
    leat_error e;
    saving *s = get_saving(c);
    if (!s)
        return false;
    *s = (saving){ .part = p, .epoch = leat__part_epoch(p) };
    pop(c, p);
    if (leat__window_save(p->window, &c->text, &w, &e) != LEAT_OK) {
        put_saving(c, s);
        return false;
    }
    s->line = p->settled;
    p->settled = (settled_line){ 0 };
    p->save_at_ns = INT64_MAX;
    p->saves++; /* before: the answer may be there at once */
    if (send_state(p, &w, s, &e) == LEAT_OK)
        return true;
    p->saves--;
    failed(s, &e);
    put_saving(c, s);
    return false;
}

/* When its next save is due; INT64_MAX: there is nothing to save. */
static int64_t save_at(const part *p)
{
    if (p->gone)
        return INT64_MAX;
    /* What a read brings is handed out soon, and saved then: many settlements
     * go with that rather than by themselves just before. */
    bool now = leat__window_unmarked(p->window) ||
               (p->settled.count >= LEAT__SAVE_SOON && !p->reading) ||
               (p->draining && leat__window_dirty(p->window));
    if (p->saves >= LEAT__SAVES_MAX || (!now && p->settled.count == 0))
        return INT64_MAX;
    return now || p->save_at_ns < p->retry_ns ? p->retry_ns : p->save_at_ns;
}

void leat__save_step(consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; c->cmd && i < c->owned_count; i++)
        if (save_at(c->owned[i]) <= now_ns && !send_save(c->owned[i]) &&
            !c->clustered)
            break; /* it is the same for all */
}

int64_t leat__save_due(const consumer *c)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        int64_t at = save_at(c->owned[i]);
        if (at < due)
            due = at;
    }
    return due;
}

/*
 * save.c: telling the server what was handed out and settled.
 *
 * A save carries the whole state of a partition's window, so it is one script
 * however much has changed, may be repeated, and the last one counts.  Several
 * may be under way; answers come in order.  What was settled gets its outcome
 * from the save that was first to carry it.
 *
 * Where messages change their place, the save carries the steps of that
 * (moves.h), and so does each one after it until one of them is answered.  The
 * number of the last step known to be carried out goes with every save: a
 * server that has lost some refuses it, and the partition is taken anew.
 *
 * Hand-outs are saved at once, settlements with them, or else soon.  Where the
 * durability asks for it the outcome waits for a proof (prove.c).
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle.h"
#include "topic/consumer.h"

#include <assert.h>
#include <string.h>

#define RETRY_NS INT64_C(50000000)

bool leat__save_told(const part *p)
{
    return p->saves == 0 && p->settled.count == 0 && !p->moves.first &&
           !leat__window_dirty(p->window);
}

bool leat__save_clean(const part *p)
{
    return leat__save_told(p) && p->unproven.count == 0 &&
           leat__window_out(p->window) == 0 && p->kept.waits == p->kept.count;
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
    p->taught = p->move_taught = false; /* it may be on another node by now */
    if (leat__part_epoch(p) != s->epoch) {
        tell_stale(c, &s->line);
        return;
    }
    leat__save_again(p, &s->line);
    p->retry_ns = p->save_at_ns;
}

/* A save with steps tells more. */
static const leat_reply *verdict_of(const leat_reply *r)
{
    return leat_reply_kind(r) == LEAT_REPLY_ARRAY ? leat_reply_at(r, 0) : r;
}

/* What an answer says of lanes is old news if a later save was answered. */
static void moved(const saving *s, const leat_reply *r)
{
    part *p = s->part;
    bool news = s->upto >= p->moves.known;
    leat__settle_carried(p, s->upto);
    leat_reply_iter it = leat_reply_each(news ? r : NULL);
    (void)leat_reply_step(&it);
    for (const leat_reply *at; (at = leat_reply_step(&it));) {
        uint64_t lane;
        if (leat__lane_parse(leat_reply_bytes(at), &lane))
            leat__park_empty(p, lane);
    }
}

static void saved(saving *s, const leat_reply *r)
{
    part *p = s->part;
    consumer *c = p->c;
    bool ours = leat__part_epoch(p) == s->epoch;
    if (leat_reply_int(verdict_of(r)) == 0) {
        leat__member_lost(p, s->epoch);
        tell_stale(c, &s->line);
        return;
    }
    if (s->upto && ours)
        moved(s, r);
    if (ours && leat__prove_needed(c))
        leat__prove_saved(p, &s->line);
    else
        leat__line_tell(c, &s->line, NULL);
}

static void on_saved(void *arg, const leat_reply *r, const leat_error *e)
{
    saving *s = arg;
    leat_error odd;
    s->part->saves--;
    e = leat__reply_odd(r, e, "i|[i(t)]", "a save", &odd);
    if (e)
        failed(s, e);
    else
        saved(s, r);
    put_saving(s->part->c, s);
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

enum {
    STATE_ARGS = 11,
    MOVE_KEYS = 11,
    ARGS_MAX = STATE_ARGS + 2 + LEAT__MOVE_MAX * LEAT__STEP_ARGS
};

/* One call of a script with its keys and arguments. */
typedef struct call {
    const leat__script *script;
    const leat_bytes *keys;
    size_t nkeys;
    const leat_bytes *args;
    size_t nargs;
} call;

/* With the body: one try must do, see teach in drive.c, and which of a
 * cluster's nodes have the script nobody knows. */
static leat_code send_whole(consumer *c, const call *k, const leat_send_opts *o,
                            leat_error *err)
{
    char count[LEAT__NUMBER];
    leat_bytes argv[3 + MOVE_KEYS + ARGS_MAX] = {
        leat_mem("EVAL", 4), leat_mem(k->script->body, k->script->body_size),
        leat__arg_int(count, (int64_t)k->nkeys)
    };
    memcpy(argv + 3, k->keys, k->nkeys * sizeof *argv);
    memcpy(argv + 3 + k->nkeys, k->args, k->nargs * sizeof *argv);
    return leat_conn_send(c->cmd, argv, 3 + k->nkeys + k->nargs, o, err);
}

static leat_code send_call(consumer *c, const call *k, bool *taught, saving *s,
                           leat_error *err)
{
    leat_send_opts o = { .fn = on_saved, .arg = s };
    if (*taught)
        return leat__script_send(c->cmd, k->script, k->keys, k->nkeys, k->args,
                                 k->nargs, &o, err);
    *taught = true; /* before: the answer may be there at once */
    return send_whole(c, k, &o, err);
}

/* The steps that are carried, behind the state. */
static leat_code send_move(part *p, const leat_bytes *state, saving *s,
                           leat_error *err)
{
    consumer *c = p->c;
    char most[LEAT__NUMBER];
    const leat_bytes keys[MOVE_KEYS] = {
        leat__key_bytes(&p->lease),     leat__key_bytes(&p->cursor),
        leat__key_bytes(&p->log),       leat__key_bytes(&p->kept_key),
        leat__key_bytes(&p->due_key),   leat__key_bytes(&p->lane_key),
        leat__key_bytes(&p->dlq_key),   leat__key_bytes(&p->bodies_key),
        leat__key_bytes(&p->later_key), leat__key_bytes(&p->laters_key),
        leat__key_bytes(&p->since_key)
    };
    if (!c->args)
        c->args = leat__calloc(ARGS_MAX, sizeof *c->args, err);
    if (!c->args)
        return LEAT_ENOMEM;
    memcpy(c->args, state, STATE_ARGS * sizeof *state);
    c->args[STATE_ARGS] = leat__arg_int(most, LEAT__ERROR_MAX);
    size_t n = leat__moves_write(&p->moves, &c->steps, c->args + STATE_ARGS + 1,
                                 err);
    if (n == 0)
        return LEAT_ENOMEM;
    call k = { &leat__script_topic_move, keys, MOVE_KEYS, c->args,
               STATE_ARGS + 1 + n };
    return send_call(c, &k, &p->move_taught, s, err);
}

static leat_code send_state(part *p, const leat__window_saved *w, saving *s,
                            leat_error *err)
{
    consumer *c = p->c;
    char epoch[LEAT__NUMBER], seq[LEAT__NUMBER], count[LEAT__NUMBER];
    char cursor[LEAT__ID_TEXT], mark[LEAT__ID_TEXT], known[LEAT__NUMBER];
    const leat_bytes keys[] = { leat__key_bytes(&p->lease),
                                leat__key_bytes(&p->cursor),
                                leat__key_bytes(&p->log) };
    const leat_bytes args[STATE_ARGS] = {
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
        p->moves.known ? leat__arg_int(known, (int64_t)p->moves.known)
                       : leat_mem("0", 1),
    };
    if (s->upto)
        return send_move(p, args, s, err);
    call k = { &leat__script_topic_save, keys, 3, args, STATE_ARGS };
    bool known_there = true; /* by teach */
    return send_call(c, &k, c->clustered ? &p->taught : &known_there, s, err);
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
    if (p->moves.first) {
        leat__settle_carry(p);
        s->upto = p->moves.number;
    }
    pop(c, p);
    if (leat__window_save(p->window, &c->text, &w, &e) != LEAT_OK) {
        leat__window_unsaved(p->window);
        put_saving(c, s);
        return false;
    }
    s->line = p->settled;
    p->settled = (settled_line){ 0 };
    p->save_at_ns = p->moves.ready ? 0 : INT64_MAX; /* those that had no room */
    p->passed = false;
    p->saves++; /* before: the answer may be there at once */
    leat__conn_confine(c->cmd, p->route);
    leat_code rc = send_state(p, &w, s, &e);
    if (c->cmd)
        leat__conn_confine(c->cmd, 0);
    if (rc == LEAT_OK)
        return true;
    p->saves--;
    failed(s, &e);
    put_saving(c, s);
    return false;
}

void leat__save_soon(part *p, int64_t since_ns)
{
    if (p->save_at_ns > since_ns + LEAT__LINGER_NS)
        p->save_at_ns = since_ns + LEAT__LINGER_NS;
}

/* When its next save is due; INT64_MAX: there is nothing to save. */
static int64_t save_at(const part *p)
{
    if (p->gone || p->doubtful)
        return INT64_MAX;
    /* What a read brings is handed out soon, and saved then: many settlements
     * go with that rather than by themselves just before. */
    bool now = leat__window_unmarked(p->window) ||
               (p->settled.count >= LEAT__SAVE_SOON && !p->reading) ||
               ((p->draining || p->c->careful) &&
                leat__window_dirty(p->window));
    if (p->saves >= LEAT__SAVES_MAX ||
        (!now && p->settled.count == 0 && !p->passed &&
         !leat__moves_ready(&p->moves)))
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

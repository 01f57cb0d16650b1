/*
 * member.c: the group's decisions, carried out.
 *
 * The state machine (group.c) says what to do; here it becomes scripts, and
 * their answers go back to it.  With every beat the leases of owned partitions
 * are looked at, before it on the same connection: once a beat is answered, a
 * lease that was taken from us meanwhile is known.  On a cluster answers come
 * in any order, so there, after a silence in which we may have been judged,
 * each partition waits for its own.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "topic/consumer.h"

#include <assert.h>
#include <string.h>

#define MEMBERS_KEEP "86400000" /* a day without beats: garbage */
#define ASLEEP_NS    INT64_C(100000000)

/* ---- partitions that come and go -------------------------------------- */

static void tell(part *p, leat_assign what, uint64_t epoch)
{
    static const char *const words[] = { "is ours", "is handed over",
                                         "is lost" };
    consumer *c = p->c;
    leat__count_add(&c->counts.rebalances, 1);
    leat__counter_add(c->meters.rebalances, 1);
    leat__gauge_set(c->meters.owned, c->owned_count);
    atomic_store_explicit(&c->counts.owned, c->owned_count,
                          memory_order_relaxed);
    leat__log(&c->log, LEAT_LOG_INFO, "'%s' %u %s, group '%s', epoch %llu",
              c->topic->name, p->index, words[what], c->group,
              (unsigned long long)epoch);
    if (c->opts.on_assign)
        c->opts.on_assign(c->opts.assign_arg, what, p->index, epoch);
}

static void stale(consumer *c, settled_line *line)
{
    leat_error e;
    leat__fail(&e, LEAT_ESTALE, "the partition of '%s' is another's by now",
               c->topic->name);
    leat__line_tell(c, line, &e);
}

/* Forget all of it; what users still hold is stale from now on. */
static void forget(part *p)
{
    consumer *c = p->c;
    void *held;
    part *last = c->owned[--c->owned_count];
    c->owned[p->owned_at] = last;
    last->owned_at = p->owned_at;
    p->reached = leat__window_cursor(p->window);
    p->was_ours = !p->anew;
    p->anew = false;
    while (leat__window_clear(p->window, &held)) {
        c->in_rings--;
        if (held)
            leat__held_drop(held);
    }
    leat__window_free(p->window);
    p->window = NULL;
    p->draining = p->drained = p->gone = false;
    leat__settle_forget(p, &p->settled);
    stale(c, &p->settled);
    leat__prove_forget(p);
    leat__sample_forget(p);
    tell(p, p->gone_how, p->gone_epoch);
}

/* From here on nothing of it is accepted.  Its memory is given up by the sweep:
 * answers may come while something walks over the partitions. */
static void end(part *p, leat_assign how)
{
    p->gone = true;
    p->gone_how = how;
    p->gone_epoch = leat__part_epoch(p);
    p->c->any_gone = true;
    atomic_store(&p->epoch, 0);
}

void leat__member_sweep(consumer *c)
{
    if (!c->any_gone)
        return;
    c->any_gone = false;
    for (uint32_t i = c->owned_count; i-- > 0;)
        if (c->owned[i]->gone)
            forget(c->owned[i]);
}

void leat__member_lost(part *p, uint64_t epoch)
{
    if (leat__part_epoch(p) != epoch)
        return;
    end(p, LEAT_LOST);
    leat__group_fenced(p->c->machine, p->index, epoch, leat__now_ns());
}

static void other_key(const part *p, leat__key *k, const char *word,
                      const char *group)
{
    const leat_topic *t = p->c->topic;
    leat__key_part(k, t->prefix, t->name, t->meta.legacy, p->index, word,
                   group);
}

static part *part_of(consumer *c, uint32_t index)
{
    part *p = c->parts[index];
    if (p)
        return p;
    p = leat__zalloc(sizeof *p, NULL);
    if (!p)
        return NULL;
    const leat_topic *t = c->topic;
    p->c = c;
    p->index = index;
    leat__key_log(&p->log, t->prefix, t->name, t->meta.legacy, index);
    leat__key_cursor(&p->cursor, t->prefix, t->name, t->meta.legacy, index,
                     c->group);
    leat__key_lease(&p->lease, t->prefix, t->name, t->meta.legacy, index,
                    c->group);
    other_key(p, &p->kept_key, "kept", c->group);
    other_key(p, &p->due_key, "due", c->group);
    other_key(p, &p->lane_key, "lane", c->group);
    other_key(p, &p->dlq_key, "dlq", NULL);
    other_key(p, &p->bodies_key, "bodies", NULL);
    other_key(p, &p->later_key, "later", NULL);
    other_key(p, &p->laters_key, "laters", NULL);
    other_key(p, &p->since_key, "since", NULL);
    other_key(p, &p->joined_key, "joined", NULL);
    other_key(p, &p->id_key, "id", NULL);
    p->slot = (int)leat__crc16_slot(leat__key_bytes(&p->log));
    leat__part_meters_init(p);
    return c->parts[index] = p;
}

/* ---- taking ----------------------------------------------------------- */

static uint32_t window_size(const consumer *c)
{
    uint32_t most = (uint32_t)c->opts.max_in_flight;
    uint32_t want = (uint32_t)c->opts.batch * 4;
    if (want < 256)
        want = 256;
    return want < most ? want : most;
}

static leat_bytes nth(const leat_reply *r, size_t i)
{
    const leat_reply *at = leat_reply_at(r, i);
    return at ? leat_reply_bytes(at) : leat_mem("", 0);
}

static bool number(leat_bytes text, uint64_t *out)
{
    uint64_t v = 0;
    const char *p = text.p;
    for (size_t i = 0; i < text.n; i++) {
        if (p[i] < '0' || p[i] > '9' || v > UINT64_MAX / 10 - 1)
            return false;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    *out = v;
    return text.n > 0;
}

static leat_position position(leat__id id)
{
    return (leat_position){ .ms = id.ms, .seq = id.seq };
}

/* The log has not got what the group had read: what was lost it will not read,
 * and what comes now it will. */
void leat__member_tell_loss(part *p, leat__id from, leat__id to)
{
    consumer *c = p->c;
    char last[LEAT__ID_TEXT], read[LEAT__ID_TEXT];
    leat_bytes a = leat__id_format(from, last), b = leat__id_format(to, read);
    leat_loss x = { .topic = c->topic->name,
                    .group = c->group,
                    .partition = p->index,
                    .from = position(from),
                    .to = position(to) };
    leat__log(
        &c->log, LEAT_LOG_ERROR,
        "'%s' %u, group '%s': the group had read up to %.*s, and this log has "
        "not got that: messages behind %.*s are lost, and the last ones are "
        "read again",
        c->topic->name, p->index, c->group, (int)b.n, (const char *)b.p,
        (int)a.n, (const char *)a.p);
    p->told_loss = true;
    leat__counter_add(p->meters->losses, 1);
    if (c->opts.on_loss)
        c->opts.on_loss(c->opts.loss_arg, &x);
}

/* The cursor was ahead of the log. */
static void tell_fallen(part *p, leat_bytes last, leat_bytes was)
{
    leat__id from, to;
    if (!p->told_loss && leat__id_parse(last, &from) &&
        leat__id_parse(was, &to))
        leat__member_tell_loss(p, from, to);
    p->told_loss = false;
}

/* What was trimmed while the group was detached, or had no owner. */
static void tell_gone(part *p, const leat_reply *r, const leat__window_saved *s)
{
    uint64_t count;
    leat__id first;
    if (!number(nth(r, 10), &count) || !leat__id_parse(nth(r, 11), &first))
        return;
    leat__window_skip(p->window, count);
    leat__gap_tell(p, s->cursor, first, count, count > 0 && s->settled.n == 0);
}

/* {1, epoch, c, m, n, s, t, b, f, w, g, h} */
static leat_code load(part *p, const leat_reply *r, uint64_t *epoch,
                      leat_error *err)
{
    leat__window_saved s = { .settled = nth(r, 5), .attempts = nth(r, 6) };
    if (!number(nth(r, 1), epoch) || !leat__id_parse(nth(r, 2), &s.cursor) ||
        !leat__id_parse(nth(r, 3), &s.mark))
        return leat__fail(err, LEAT_EDECODE,
                          "the cursor of group '%s' on '%s' %u is damaged",
                          p->c->group, p->c->topic->name, p->index);
    s.count_known = number(nth(r, 4), &s.count);
    if (!leat__id_parse(nth(r, 7), &p->begin))
        p->begin = (leat__id){ 0, 0 };
    if (*epoch > p->c->highest)
        p->c->highest = *epoch;
    tell_fallen(p, nth(r, 8), nth(r, 9));
    leat_group_settings in_force = { .order = p->c->opts.order };
    (void)leat__settings_read(&in_force, "order", nth(r, 12));
    p->order = in_force.order;
    p->window = leat__window_new(window_size(p->c), p->order, err);
    if (!p->window)
        return LEAT_ENOMEM;
    leat_code rc = leat__window_load(p->window, &s, err);
    if (rc != LEAT_OK) {
        leat__window_free(p->window);
        p->window = NULL;
        return rc;
    }
    tell_gone(p, r, &s);
    return LEAT_OK;
}

static void begin(part *p, uint64_t epoch)
{
    consumer *c = p->c;
    p->owned_at = c->owned_count;
    c->owned[c->owned_count++] = p;
    p->seq = 0;
    memset(p->sampled, 0xff, sizeof p->sampled); /* -1: nobody knows */
    p->save_at_ns = INT64_MAX;
    p->retry_ns = 0;
    p->draining = p->drained = p->caught_up = p->unsure = false;
    p->reordering = false;
    p->taught = p->move_taught = false;
    p->lanes_known = p->order == LEAT_ORDER_NONE;
    p->lane_last = 0;
    p->lanes_at_ns = p->kept.at_ns = 0;
    leat__tend_begin(p);
    leat__gap_begin(p);
    leat__verify_begin(p);
    atomic_store(&p->epoch, epoch);
    tell(p, LEAT_ASSIGNED, epoch);
}

void leat__member_gained(part *p, uint64_t epoch)
{
    begin(p, epoch);
    leat__group_taken(p->c->machine, p->index, epoch, leat__now_ns());
}

void leat__member_not_gained(part *p)
{
    leat__window_free(p->window);
    p->window = NULL;
    leat__group_take_failed(p->c->machine, p->index, leat__now_ns());
}

/* Of a partition that is being forgotten just now the lease is ours again too
 * early: it is taken once more, with a higher epoch. */
static void taken(part *p, const leat_reply *r)
{
    consumer *c = p->c;
    uint64_t epoch = 0;
    leat_error e;
    if (leat__part_owned(p))
        end(p, LEAT_LOST);
    if (p->window) {
        leat__group_take_failed(c->machine, p->index, leat__now_ns());
        return;
    }
    if (load(p, r, &epoch, &e) != LEAT_OK) {
        leat__drive_failed(c, &e, "taking a partition");
        leat__group_take_failed(c->machine, p->index, leat__now_ns());
        return;
    }
    if (leat__prove_needed(c))
        leat__prove_taken(p, epoch);
    else
        leat__member_gained(p, epoch);
}

static void on_taken(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    consumer *c = p->c;
    leat__nonce owner;
    leat_error odd;
    e = leat__reply_odd(r, e, "[it(t)]", "a take", &odd);
    if (e) {
        if (e->code == LEAT_ESTALE)
            leat__heard_stale(p);
        else
            leat__drive_failed(c, e, "taking a partition");
        leat__group_take_failed(c->machine, p->index, leat__now_ns());
    } else if (leat_reply_int(leat_reply_at(r, 0)) == 1) {
        taken(p, r);
    } else if (leat__nonce_parse(nth(r, 1), &owner)) {
        leat__group_take_refused(c->machine, p->index, &owner, leat__now_ns());
    } else {
        leat__group_take_failed(c->machine, p->index, leat__now_ns());
    }
}

static leat_code send_take(consumer *c, const leat__group_action *a,
                           leat_error *err)
{
    char from[LEAT__NONCE_TEXT + 1] = "", reached[LEAT__ID_TEXT];
    char highest[LEAT__NUMBER];
    part *p = part_of(c, a->partition);
    if (c->rejoining) { /* the group is not known yet */
        leat__group_take_failed(c->machine, a->partition, leat__now_ns());
        return LEAT_OK;
    }
    if (!p)
        return leat__fail(err, LEAT_ENOMEM, "no memory for a partition");
    if (a->from_dead)
        leat__nonce_format(&a->from, from);
    const leat_bytes keys[] = {
        leat__key_bytes(&p->lease),    leat__key_bytes(&p->cursor),
        leat__key_bytes(&p->log),      leat__key_bytes(&p->joined_key),
        leat__key_bytes(&p->kept_key), leat__key_bytes(&p->due_key),
        leat__key_bytes(&p->lane_key), leat__key_bytes(&p->id_key)
    };
    const leat_bytes args[] = { leat_str(c->nonce),
                                leat_str(from),
                                leat_str(c->start),
                                leat_str(c->group),
                                leat_str(LEAT__LEASE_KEEP),
                                p->was_ours
                                    ? leat__id_format(p->reached, reached)
                                    : leat_mem("", 0),
                                leat_str(a->superseded ? "superseded" : "dead"),
                                leat_str(c->facts.u),
                                leat__arg_int(highest, (int64_t)c->highest),
                                leat_str(leat__order_name(c->opts.order)),
                                leat_str(c->topic_u) };
    return leat__script_send(c->cmd, &leat__script_topic_take, keys, 8, args,
                             11, &(leat_send_opts){ .fn = on_taken, .arg = p },
                             err);
}

/* ---- giving ----------------------------------------------------------- */

static void on_handed(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    consumer *c = p->c;
    leat_error odd;
    e = leat__reply_odd(r, e, "i", "a hand-over", &odd);
    if (e) {
        leat__drive_failed(c, e, "handing over a partition");
        leat__group_hand_failed(c->machine, p->index, leat__now_ns());
        return;
    }
    bool ours = leat_reply_int(r) == 1;
    if (leat__part_owned(p))
        end(p, ours && leat__window_out(p->window) == 0 ? LEAT_REVOKED
                                                        : LEAT_LOST);
    leat__group_hand_done(c->machine, p->index, leat__now_ns());
}

static leat_code send_hand(consumer *c, const leat__group_action *a,
                           leat_error *err)
{
    static const leat__nonce nobody;
    char epoch[LEAT__NUMBER], to[LEAT__NONCE_TEXT + 1] = "";
    part *p = c->parts[a->partition];
    p->draining = true; /* it may come without: nothing more is handed out */
    if (memcmp(&a->to, &nobody, sizeof nobody) != 0)
        leat__nonce_format(&a->to, to);
    const leat_bytes key = leat__key_bytes(&p->lease);
    const leat_bytes args[] = { leat_str(c->nonce),
                                leat__arg_int(epoch, (int64_t)a->epoch),
                                leat_str(to), leat__key_bytes(&c->members),
                                leat_str(LEAT__LEASE_KEEP) };
    return leat__script_send(c->cmd, &leat__script_topic_hand, &key, 1, args, 5,
                             &(leat_send_opts){ .fn = on_handed, .arg = p },
                             err);
}

static void drain(consumer *c, uint32_t index, bool yes)
{
    part *p = c->parts[index];
    if (!p || !leat__part_owned(p))
        return;
    p->draining = yes;
    p->drained = p->reordering = false;
}

/* Nothing of it is out: it is taken anew, in the order of the group. */
static void reordered(part *p)
{
    uint64_t epoch = leat__part_epoch(p);
    end(p, LEAT_REVOKED);
    leat__group_fenced(p->c->machine, p->index, epoch, leat__now_ns());
}

static void look_for_drained(consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; i < c->owned_count; i++) {
        part *p = c->owned[i];
        if (!p->draining || p->drained || p->gone || !leat__save_clean(p))
            continue;
        if (p->reordering) {
            reordered(p);
            continue;
        }
        p->drained = true;
        leat__group_drained(c->machine, p->index, now_ns);
    }
}

/* ---- beating ---------------------------------------------------------- */

static leat_code grow_records(consumer *c, size_t n, leat_error *err)
{
    if (n <= c->records_cap)
        return LEAT_OK;
    leat__group_record *p = leat__realloc(c->records, n * sizeof *p, err);
    if (!p)
        return LEAT_ENOMEM;
    c->records = p;
    c->records_cap = n;
    return LEAT_OK;
}

static void pause_group(consumer *c, bool paused)
{
    if (paused != c->paused)
        leat__log(&c->log, LEAT_LOG_INFO, "'%s', group '%s' is %s",
                  c->topic->name, c->group,
                  paused ? "paused: nothing is handed out" : "resumed");
    c->paused = paused;
}

static leat_code read_records(consumer *c, const leat_reply *r, size_t *count,
                              leat_error *err)
{
    size_t n = leat_reply_len(r) / 2;
    bool paused = false;
    leat__heard heard = { .facts = c->facts };
    *count = 0;
    leat_code rc = grow_records(c, n, err);
    if (rc != LEAT_OK)
        return rc;
    leat_reply_iter it = leat_reply_each(r);
    for (size_t i = 0; i < n; i++) {
        leat__group_record *to = &c->records[*count];
        const leat_reply *at = leat_reply_step(&it);
        const leat_reply *text = leat_reply_step(&it);
        if (leat__nonce_parse(leat_reply_bytes(at), &to->nonce)) {
            to->text = leat_reply_bytes(text);
            ++*count;
        } else if (leat_bytes_eq(leat_reply_bytes(at), leat_str("paused"))) {
            paused = true;
        } else {
            leat__heard_field(&heard, leat_reply_bytes(at),
                              leat_reply_bytes(text));
        }
    }
    pause_group(c, paused);
    leat__heard_take(c, &heard);
    return LEAT_OK;
}

/* Others count the time in which this machine slept. */
static void be_safe(consumer *c)
{
    int64_t until = leat__group_safe_until(c->machine);
    if (until == atomic_load(&c->safe_until_ns))
        return;
    atomic_store(&c->safe_until_ns, until);
    atomic_store(&c->safe_until_boot_ns,
                 c->beat_sent_boot_ns + (until - c->beat_sent_ns));
}

static void beaten(consumer *c)
{
    be_safe(c);
    atomic_store_explicit(&c->counts.members, leat__group_members(c->machine),
                          memory_order_relaxed);
    pthread_mutex_lock(&c->lock);
    c->beats++;
    pthread_cond_broadcast(&c->beaten);
    pthread_mutex_unlock(&c->lock);
}

static void on_beat(void *arg, const leat_reply *r, const leat_error *e)
{
    consumer *c = arg;
    leat_error why;
    size_t n;
    e = leat__reply_odd(r, e, "[(tt)]", "a heartbeat", &why);
    if (e) {
        leat__drive_failed(c, e, "the heartbeat");
        if (e->code == LEAT_EAUTH)
            leat__drive_refused(c, e);
        leat__group_beat_failed(c->machine, leat__now_ns());
        return;
    }
    if (read_records(c, r, &n, &why) != LEAT_OK ||
        leat__group_beat_done(c->machine, c->beat_sent_ns, leat__now_ns(),
                              c->records, n, &why) != LEAT_OK) {
        leat__drive_failed(c, &why, "the heartbeat");
        leat__group_beat_failed(c->machine, leat__now_ns());
        return;
    }
    c->said = LEAT_OK;
    beaten(c);
}

static void on_renewed(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    leat_error odd;
    if (leat__reply_odd(r, e, "i", "a renewal", &odd))
        return;
    if (leat_reply_int(r) == 0)
        leat__member_lost(p, p->renew_epoch);
    else if (leat__part_epoch(p) == p->renew_epoch)
        p->unsure = false;
}

/* Nothing was handed out for a while, and others may have thought us dead. */
static void doubt_leases(consumer *c)
{
    if (!c->clustered ||
        leat__lease_left_ns(c) > c->opts.lease_ms * 1000000 / 3)
        return;
    for (uint32_t i = 0; i < c->owned_count; i++)
        c->owned[i]->unsure = true;
}

void leat__member_reconnected(consumer *c)
{
    leat__verify_all(c);
    leat__gap_reconnected(c);
    if (c->owned_count > 0)
        leat__group_beat_now(c->machine);
}

static void renew(consumer *c)
{
    char epoch[LEAT__NUMBER];
    uint32_t n = c->owned_count < LEAT__RENEW_MAX ? c->owned_count
                                                  : LEAT__RENEW_MAX;
    for (uint32_t i = 0; i < n; i++) {
        part *p = c->owned[c->renew_turn++ % c->owned_count];
        if (p->gone)
            continue;
        const leat_bytes key = leat__key_bytes(&p->lease);
        p->renew_epoch = leat__part_epoch(p);
        const leat_bytes args[] = {
            leat_str(c->nonce), leat__arg_int(epoch, (int64_t)p->renew_epoch),
            leat_str(LEAT__LEASE_KEEP)
        };
        if (leat__script_send(c->cmd, &leat__script_topic_renew, &key, 1, args,
                              3,
                              &(leat_send_opts){ .fn = on_renewed, .arg = p },
                              NULL) != LEAT_OK &&
            !c->clustered)
            return;
    }
}

static leat_code send_beat(consumer *c, const leat__group_action *a,
                           int64_t now_ns, leat_error *err)
{
    char lease[LEAT__NUMBER];
    const leat_bytes keys[] = { leat__key_bytes(&c->members),
                                leat__key_bytes(&c->beats_key),
                                leat__key_bytes(&c->paused_key),
                                leat__key_bytes(&c->group_key) };
    const leat_bytes args[] = { leat_str(c->nonce), a->record,
                                leat_str(MEMBERS_KEEP),
                                leat__arg_int(lease, c->opts.lease_ms) };
    doubt_leases(c);
    renew(c);
    leat__sample_step(c, now_ns);
    leat__gap_step(c);
    c->beat_sent_ns = now_ns;
    c->beat_sent_boot_ns = leat__boot_ns();
    return leat__script_send(c->cmd, &leat__script_topic_beat, keys, 4, args, 4,
                             &(leat_send_opts){ .fn = on_beat, .arg = c }, err);
}

/* ---- leaving ---------------------------------------------------------- */

static void on_left(void *arg, const leat_reply *r, const leat_error *e)
{
    consumer *c = arg;
    (void)r;
    (void)e; /* a record that stays is buried by others */
    c->left = true;
}

static leat_code send_leave(consumer *c, leat_error *err)
{
    const leat_bytes keys[] = { leat__key_bytes(&c->members),
                                leat__key_bytes(&c->beats_key) };
    const leat_bytes arg = leat_str(c->nonce);
    return leat__script_send(c->cmd, &leat__script_topic_leave, keys, 2, &arg,
                             1, &(leat_send_opts){ .fn = on_left, .arg = c },
                             err);
}

static void on_buried(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

static leat_code send_bury(consumer *c, const leat__group_action *a,
                           leat_error *err)
{
    char other[LEAT__NONCE_TEXT + 1];
    const leat_bytes keys[] = { leat__key_bytes(&c->members),
                                leat__key_bytes(&c->beats_key) };
    leat__nonce_format(&a->other, other);
    const leat_bytes args[] = { leat_str(other), a->record };
    return leat__script_send(c->cmd, &leat__script_topic_bury, keys, 2, args, 2,
                             &(leat_send_opts){ .fn = on_buried }, err);
}

/* ---- the step --------------------------------------------------------- */

static leat_code carry_out(consumer *c, const leat__group_action *a,
                           int64_t now_ns, leat_error *err)
{
    part *p;
    switch (a->what) {
    case LEAT__GROUP_BEAT:
        return send_beat(c, a, now_ns, err);
    case LEAT__GROUP_TAKE:
        return send_take(c, a, err);
    case LEAT__GROUP_HAND:
        return send_hand(c, a, err);
    case LEAT__GROUP_LEAVE:
        return send_leave(c, err);
    case LEAT__GROUP_BURY:
        return send_bury(c, a, err);
    case LEAT__GROUP_DRAIN:
    case LEAT__GROUP_KEEP:
        drain(c, a->partition, a->what == LEAT__GROUP_DRAIN);
        return LEAT_OK;
    case LEAT__GROUP_DROP:
        p = c->parts[a->partition];
        if (p && leat__part_owned(p))
            end(p, LEAT_LOST);
        return LEAT_OK;
    case LEAT__GROUP_NOTHING:
        break;
    }
    return LEAT_OK;
}

/* It could not even be queued: the machine has to know. */
static void not_sent(consumer *c, const leat__group_action *a, int64_t now_ns)
{
    switch (a->what) {
    case LEAT__GROUP_BEAT:
        leat__group_beat_failed(c->machine, now_ns);
        break;
    case LEAT__GROUP_TAKE:
        leat__group_take_failed(c->machine, a->partition, now_ns);
        break;
    case LEAT__GROUP_HAND:
        leat__group_hand_failed(c->machine, a->partition, now_ns);
        break;
    case LEAT__GROUP_LEAVE:
        c->left = true;
        break;
    default:
        break;
    }
}

/* The machine slept: the others may have thought us gone, and only an answered
 * beat says that they did not. */
static void look_for_sleep(consumer *c, int64_t now_ns)
{
    int64_t asleep = leat__boot_ns() - now_ns;
    if (asleep > c->asleep_ns + ASLEEP_NS)
        leat__group_beat_now(c->machine);
    c->asleep_ns = asleep;
}

void leat__member_step(consumer *c, int64_t now_ns)
{
    leat_error e;
    look_for_sleep(c, now_ns);
    leat__heard_topic(c);
    if (c->waiter && leat__waiter_wait(c->waiter, 0)) {
        leat__group_hint(c->machine, now_ns);
        leat__kept_hint(c, now_ns);
    }
    if (atomic_exchange(&c->beat_wanted, false))
        leat__group_beat_now(c->machine);
    look_for_drained(c, now_ns);
    while (c->cmd && !c->left) {
        leat__group_action a = leat__group_next(c->machine, now_ns);
        if (a.what == LEAT__GROUP_NOTHING)
            break;
        if (carry_out(c, &a, now_ns, &e) == LEAT_OK)
            continue;
        leat__drive_failed(c, &e, "the group");
        not_sent(c, &a, now_ns);
        if (!c->clustered || a.what == LEAT__GROUP_BEAT)
            break;
    }
}

/*
 * heard.c: what a beat says of the group.
 *
 * The group's hash comes with every beat (beat.lua), before anybody is judged
 * by it.  Three things can have happened to it:
 *
 *   it is gone      the server lost it, or somebody removed it by force while
 *                   we live: we make it again, as it was, once a look at the
 *                   topic has shown that it is still there
 *   another one     it was removed and made again while we were away: what we
 *                   have in hand is the old one's and stale, and we go on as a
 *                   member of the new one
 *   other settings  a lease holds from the next beat on; a retry policy at
 *                   once; an order for a partition when nothing of it is out or
 *                   waits for a retry: then it is taken anew (take.lua)
 *
 * The topic is looked at by tend.c and by producers (standing.c).  If it is
 * another, positions and leases are those of logs that are gone: we are a new
 * group's member in it, and take nothing before a beat has said which group
 * that is: another member may have made it.  A take that finds another id
 * beside the log asks for a look; if that says that the topic is the same, the
 * id was lost, or is a late write's, and is set right (identity.c).
 */
#include "base/log.h"
#include "base/system.h"
#include "topic/consumer.h"
#include "topic/identity.h"
#include "topic/standing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS INT64_C(1000000)

void leat__heard_field(leat__heard *h, leat_bytes name, leat_bytes value)
{
    char text[32], number[LEAT__NUMBER];
    const char *p = name.p, *v = value.n ? value.p : "";
    if (name.n < 2 || name.n >= sizeof text || p[0] != '.' ||
        value.n >= sizeof number)
        return;
    snprintf(text, sizeof text, "%.*s", (int)name.n - 1, p + 1);
    snprintf(number, sizeof number, "%.*s", (int)value.n, v);
    h->any = true;
    if (strcmp(text, "judge") == 0)
        h->judge_ms = strtoll(number, NULL, 10);
    else if (strcmp(text, "u") == 0)
        snprintf(h->facts.u, sizeof h->facts.u, "%.*s", LEAT__INCARNATION,
                 number);
    else
        (void)leat__settings_read(&h->facts.set, text, value);
}

/* The next beat sees whether it was made. */
static void make_again(consumer *c)
{
    const leat_topic *t = c->topic;
    char text[LEAT__SETTINGS][LEAT__SETTING_TEXT];
    leat__key groups;
    leat__key_groups(&groups, t->prefix, t->name);
    const leat_bytes keys[] = { leat__key_bytes(&groups),
                                leat__key_bytes(&c->group_key) };
    leat_bytes args[2 + 2 * LEAT__SETTINGS] = { leat_str(c->group),
                                                leat_str(c->facts.u) };
    leat__settings_pairs(&c->facts.set, args + 2, text);
    leat__log(&c->log, LEAT_LOG_WARN,
              "'%s': group '%s' is gone, though we live: it is made again",
              t->name, c->group);
    (void)!leat__script_send(c->cmd, &leat__script_topic_enter, keys, 2, args,
                             2 + 2 * LEAT__SETTINGS,
                             &(leat_send_opts){ .fn = leat__reply_ignore },
                             NULL);
}

/* What is in hand is not ours any more, and what is known is of no use. */
static void begin_anew(consumer *c, const char *what)
{
    leat__log(&c->log, LEAT_LOG_WARN,
              "'%s': %s '%s' was removed and made again: what is in hand is "
              "stale, and the group begins where a new one does",
              c->topic->name, what, what[0] == 'g' ? c->group : c->topic->name);
    for (uint32_t i = 0; i < c->partitions; i++)
        if (c->parts[i]) {
            c->parts[i]->was_ours = false;
            c->parts[i]->anew = c->parts[i]->window;
        }
    for (uint32_t i = 0; i < c->owned_count; i++)
        if (!c->owned[i]->gone)
            leat__member_lost(c->owned[i], leat__part_epoch(c->owned[i]));
}

static void reorder(consumer *c)
{
    for (uint32_t i = 0; i < c->owned_count; i++) {
        part *p = c->owned[i];
        if (p->order == c->opts.order || p->draining || p->gone ||
            p->kept.total > 0)
            continue;
        p->draining = p->reordering = true;
    }
}

static void set(consumer *c, const leat_group_settings *s)
{
    if (leat__settings_same(s, &c->facts.set))
        return;
    leat__log(&c->log, LEAT_LOG_INFO,
              "'%s': group '%s' has other settings: lease %lld ms, order %s, "
              "%d attempts",
              c->topic->name, c->group, (long long)s->lease_ms,
              leat__order_name(s->order), s->max_attempts);
    c->facts.set = *s;
    leat__settings_apply(s, &c->opts);
    atomic_store(&c->lease_ms, s->lease_ms);
}

/* Not in a topic that is being removed, or was: that would leave a group that
 * nobody lists. */
static bool may_make(consumer *c)
{
    const leat_topic *t = c->topic;
    unsigned looks = atomic_load(&t->looks);
    if (t->meta.legacy)
        return true;
    if (!c->group_lost) {
        c->group_lost = true;
        c->group_lost_at = looks;
    }
    if (looks != c->group_lost_at &&
        leat__standing_of(t) == LEAT__TOPIC_THERE &&
        atomic_load(&t->incarnations) == c->incarnations) {
        c->group_lost = false;
        return true;
    }
    leat__tend_hurry(c);
    return false;
}

void leat__heard_take(consumer *c, const leat__heard *h)
{
    if (!h->any) {
        if (may_make(c))
            make_again(c);
        return;
    }
    c->group_lost = false;
    if (strcmp(h->facts.u, c->facts.u) != 0) {
        if (!c->rejoining)
            begin_anew(c, "group");
        memcpy(c->facts.u, h->facts.u, sizeof c->facts.u);
    }
    c->rejoining = false;
    set(c, &h->facts.set);
    int64_t lease = c->opts.lease_ms;
    leat__group_lease(c->machine, lease * MS_NS,
                      (h->judge_ms > lease ? h->judge_ms : lease) * MS_NS);
    reorder(c);
}

/* ---- the topic -------------------------------------------------------- */

static void enter_another(consumer *c)
{
    c->incarnations = atomic_load(&c->topic->incarnations);
    leat__standing_u(c->topic, c->topic_u);
    begin_anew(c, "topic");
    (void)!leat__incarnation_new(c->facts.u, NULL);
    c->rejoining = true;
    leat__tend_anew(c);
    leat__group_beat_now(c->machine);
}

/* It has other partitions than the group was joined with. */
static void end_reshaped(consumer *c)
{
    if (c->final.code == LEAT_OK)
        (void)!leat__standing_refuse(c->topic, &c->final);
}

static void on_identified(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    leat_bytes here = leat_reply_bytes(r);
    if (e || leat_bytes_eq(here, leat_str(p->c->topic_u)))
        return;
    snprintf(p->found, sizeof p->found, "%.*s", (int)here.n,
             here.n ? (const char *)here.p : "");
    leat__heard_stale(p); /* another look, before this one is replaced */
}

static void identify(part *p)
{
    consumer *c = p->c;
    const leat_bytes key = leat__key_bytes(&p->id_key);
    const leat_bytes args[] = { leat_str(p->found), leat_str(c->topic_u) };
    p->strange = false;
    c->strangers--;
    (void)!leat__script_send(
        c->cmd, &leat__script_topic_identify, &key, 1, args, 2,
        &(leat_send_opts){ .fn = on_identified, .arg = p }, NULL);
}

static void set_right(consumer *c)
{
    unsigned looks = atomic_load(&c->topic->looks);
    if (c->strangers == 0 || !c->cmd ||
        leat__standing_of(c->topic) != LEAT__TOPIC_THERE)
        return;
    for (uint32_t i = 0; i < c->partitions; i++) {
        part *p = c->parts[i];
        if (p && p->strange && looks != p->strange_at)
            identify(p);
    }
}

void leat__heard_stale(part *p)
{
    consumer *c = p->c;
    if (!p->strange)
        c->strangers++;
    p->strange = true;
    p->strange_at = atomic_load(&c->topic->looks);
    leat__tend_hurry(c);
}

void leat__heard_topic(consumer *c)
{
    leat_topic *t = c->topic;
    unsigned looks = atomic_load(&t->looks);
    leat__standing now = leat__standing_of(t);
    if (atomic_load(&t->incarnations) != c->incarnations)
        enter_another(c);
    if (now == LEAT__TOPIC_RESHAPED)
        end_reshaped(c);
    if (c->cmd && leat__standing_lost(t) && looks != c->lost_looks) {
        c->lost_looks = looks;
        leat__standing_restore(t, c->cmd);
    }
    set_right(c);
}

/*
 * heard.c: what a beat says of the group.
 *
 * The group's hash comes with every beat (beat.lua), before anybody is judged
 * by it.  Three things can have happened to it:
 *
 *   it is gone      the server lost it, or somebody removed it by force while
 *                   we live: we make it again, as it was
 *   another one     it was removed and made again while we were away: what we
 *                   have in hand is the old one's and stale, and we go on as a
 *                   member of the new one
 *   other settings  a lease holds from the next beat on; a retry policy at
 *                   once; an order for a partition when nothing of it is out or
 *                   waits for a retry: then it is taken anew (take.lua)
 */
#include "base/log.h"
#include "base/system.h"
#include "topic/consumer.h"

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

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
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
                             &(leat_send_opts){ .fn = ignore }, NULL);
}

static void begin_anew(consumer *c, const char *u)
{
    leat__log(&c->log, LEAT_LOG_WARN,
              "'%s': group '%s' was removed and made again: what is in hand is "
              "stale, and the new one begins where a new group does",
              c->topic->name, c->group);
    memcpy(c->facts.u, u, sizeof c->facts.u);
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

void leat__heard_take(consumer *c, const leat__heard *h)
{
    if (!h->any) {
        make_again(c);
        return;
    }
    if (strcmp(h->facts.u, c->facts.u) != 0)
        begin_anew(c, h->facts.u);
    set(c, &h->facts.set);
    int64_t lease = c->opts.lease_ms;
    leat__group_lease(c->machine, lease * MS_NS,
                      (h->judge_ms > lease ? h->judge_ms : lease) * MS_NS);
    reorder(c);
}

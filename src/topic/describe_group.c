/*
 * describe_group.c: how far a group is, and who its members are.
 *
 * Lag is a count of entries that are not settled, see tally.c.
 */
#include "base/mem.h"
#include "redis/shape.h"
#include "topic/look.h"
#include "topic/members.h"
#include "topic/settings.h"
#include "topic/tally.h"

#include <stdlib.h>

enum { LEND_MS = 5000 };

typedef struct group_info {
    leat_group_info pub;
    leat_group_partition *list;
    leat__members members;
    leat__look *looks;
    leat__arena arena;
    char u[LEAT__INCARNATION + 1];
} group_info;

typedef struct look {
    leat__topic_at t;
    const char *group;
    group_info *x;
    leat_conn *conn;
    leat__tallies tallies;
} look;

/* ---- lag -------------------------------------------------------------- */

static leat_code count_behind(look *l, uint32_t i, leat_group_partition *p,
                              leat_error *err)
{
    leat__tally y;
    const leat__look *s = &l->x->looks[i];
    leat_code code = leat__tally_count(&l->tallies, i, s->settled, s->cursor,
                                       s->log.last, &y, err);
    p->lag = y.known ? y.all - y.settled : -1;
    p->settled = y.known ? y.settled : -1;
    return code;
}

static leat_code find_lag(look *l, uint32_t i, leat_group_partition *p,
                          leat_error *err)
{
    const leat__look *s = &l->x->looks[i];
    int64_t behind = leat__tally_behind(s);
    if (behind == 0)
        return LEAT_OK;
    if (behind < 0)
        return count_behind(l, i, p, err);
    leat_position all = { 0 };
    leat_code code = leat__tally_settled(&l->tallies, i, s->settled, all,
                                         &p->settled, err);
    p->lag = p->settled < 0 || p->settled > behind ? -1 : behind - p->settled;
    return code;
}

/* Between cursor and mark, if somebody owns it: what a member gave back is
 * nobody's.  Where the mark is at the end, that is the lag. */
static leat_code find_in_flight(look *l, uint32_t i, leat_group_partition *p,
                                leat_error *err)
{
    const leat__look *s = &l->x->looks[i];
    leat__tally y;
    p->in_flight = 0;
    if (!s->nonce || p->lag == 0 || leat__position_cmp(s->mark, s->cursor) <= 0)
        return LEAT_OK;
    if (leat__position_cmp(s->mark, s->log.last) >= 0) {
        p->in_flight = p->lag;
        return LEAT_OK;
    }
    leat_code code = leat__tally_count(&l->tallies, i, s->settled, s->cursor,
                                       s->mark, &y, err);
    p->in_flight = y.known ? y.all - y.settled : -1;
    return code;
}

/* ---- the whole -------------------------------------------------------- */

void leat_group_info_free(leat_group_info *g)
{
    group_info *x = (group_info *)g;
    if (!x)
        return;
    leat__arena_release(&x->arena);
    leat__free(x->list);
    leat__free(x->members.list);
    leat__free(x->looks);
    leat__free(x);
}

/* -1 stays -1. */
static void add_up(int64_t *sum, int64_t n)
{
    *sum = *sum < 0 || n < 0 ? -1 : *sum + n;
}

static void sum_up(leat_group_info *g, const leat_group_partition *p)
{
    g->owned += p->nonce != NULL;
    g->detached += p->detached_ms > 0;
    add_up(&g->lag, p->lag);
    add_up(&g->in_flight, p->in_flight);
    add_up(&g->retries, p->retries);
    add_up(&g->due, p->due);
    add_up(&g->lanes, p->lanes);
    add_up(&g->parked, p->parked);
}

static leat_code fill_partition(look *l, uint32_t i, leat_error *err)
{
    group_info *x = l->x;
    const leat__look *s = &x->looks[i];
    leat_group_partition *p = &x->list[i];
    leat_group_member *m = leat__members_find(&x->members, s->nonce);
    int64_t parked = s->kept > s->waiting ? s->kept - s->waiting : 0;
    *p = (leat_group_partition){ .partition = i,
                                 .begun = s->begun,
                                 .cursor = s->cursor,
                                 .mark = s->mark,
                                 .last = s->log.last,
                                 .nonce = s->nonce,
                                 .owner = m ? m->name : NULL,
                                 .epoch = s->epoch,
                                 .detached_ms = s->detached_ms,
                                 .retries = s->waiting,
                                 .due = s->due,
                                 .lanes = s->laned - parked,
                                 .parked = parked,
                                 .beat_age_ms = m ? m->beat_age_ms : -1,
                                 .reason = s->why,
                                 .changed_ms = s->when_ms > 0 ? s->when_ms
                                                              : 0 };
    if (m)
        m->partitions++;
    leat_code code = find_lag(l, i, p, err);
    if (code == LEAT_OK)
        code = find_in_flight(l, i, p, err);
    sum_up(&x->pub, p);
    return code;
}

static int by_name(const void *a, const void *b)
{
    const leat_group_member *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->nonce, y->nonce);
}

static leat_code fill(look *l, leat_error *err)
{
    group_info *x = l->x;
    leat_code code = LEAT_OK;
    x->pub.topic = leat__arena_text(&x->arena, leat_str(l->t.name), err);
    x->pub.id = x->u;
    x->pub.group = leat__arena_text(&x->arena, leat_str(l->group), err);
    if (!x->pub.topic || !x->pub.group)
        return LEAT_ENOMEM;
    x->pub.partitions = l->t.meta.partitions;
    for (uint32_t i = 0; i < x->pub.partitions && code == LEAT_OK; i++)
        code = fill_partition(l, i, err);
    const leat__members *m = &x->members;
    if (m->n)
        qsort(m->list, m->n, sizeof *m->list, by_name);
    x->pub.partition = x->list;
    x->pub.member = m->list;
    x->pub.members = m->n;
    x->pub.alive = m->alive;
    x->pub.paused_ms = m->paused_ms;
    return code;
}

static leat_code read_settings(look *l, leat_error *err)
{
    leat__key key;
    const leat_reply *r = NULL;
    leat_bytes argv[2 + LEAT__SETTINGS] = { leat_str("HMGET") };
    leat__key_group(&key, l->t.prefix, l->t.name, l->group);
    argv[1] = leat__key_bytes(&key);
    for (size_t i = 0; i < LEAT__SETTINGS; i++)
        argv[2 + i] = leat_str(leat__settings_name(i));
    leat_code code = leat_conn_call(l->conn, argv, 2 + LEAT__SETTINGS, NULL, &r,
                                    err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "[(o)]", LEAT_EPROTO, "HMGET", err);
    if (code != LEAT_OK)
        return code;
    for (size_t i = 0; i < LEAT__SETTINGS && i < leat_reply_len(r); i++)
        (void)leat__settings_read(&l->x->pub.settings, leat__settings_name(i),
                                  leat_reply_bytes(leat_reply_at(r, i)));
    return LEAT_OK;
}

static leat_code read_group(look *l, leat_error *err)
{
    l->conn = leat_client_lend(l->t.client, LEND_MS, err);
    if (!l->conn)
        return LEAT_ECONN;
    group_info *x = l->x;
    l->tallies = (leat__tallies){ .topic = &l->t, .conn = l->conn };
    leat_code code = leat__group_there(&l->t, l->conn, l->group, l->x->u, err);
    if (code == LEAT_OK)
        code = read_settings(l, err);
    if (code == LEAT_OK)
        code = leat__look_all(&l->t, l->conn, l->group, &x->arena, x->looks,
                              err);
    if (code == LEAT_OK)
        code = leat__members_read(&l->t, l->conn, l->group, &x->arena,
                                  &x->members, err);
    if (code == LEAT_OK)
        code = fill(l, err);
    leat_client_return(l->t.client, l->conn);
    return code;
}

leat_group_info *leat_group_describe(leat_client *c, const char *topic,
                                     const char *group, const char *prefix,
                                     leat_error *err)
{
    look l = { .group = group };
    if (leat__name_check("group", group, err) != LEAT_OK ||
        leat__topic_at_init(&l.t, c, topic, prefix, err) != LEAT_OK)
        return NULL;
    group_info *x = l.x = leat__zalloc(sizeof *x, err);
    if (!x)
        return NULL;
    size_t n = l.t.meta.partitions;
    x->list = leat__calloc(n, sizeof *x->list, err);
    x->looks = x->list ? leat__calloc(n, sizeof *x->looks, err) : NULL;
    if (!x->looks || read_group(&l, err) != LEAT_OK) {
        leat_group_info_free(&x->pub);
        return NULL;
    }
    return &x->pub;
}

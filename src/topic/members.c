/*
 * members.c: the members of a group, as one sees them who is none.
 *
 * Members judge each other by watching records change for a lease, on their own
 * clocks (view.c).  Somebody who comes to look once has not watched.  So each
 * beat also notes when it was, by the server's clock, and for how long it is
 * good: a member lives if its last beat is younger than its own lease.  That is
 * a word of the server's clock only: if it jumps, a live member may look dead
 * until its next beat, a sixth of its lease, or a dead one alive.  Whoever acts
 * on it must fence, so that a mistake costs a redelivery and no message.
 */
#include "topic/members.h"
#include "base/mem.h"
#include "redis/conn.h"
#include "redis/scan.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/record.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- records ---------------------------------------------------------- */

typedef struct reading {
    leat__members *to;
    leat__arena *arena;
    int64_t now_ms;
} reading;

/* A record that cannot be read is a newer version's member. */
static leat_code read_record(leat__arena *arena, leat_bytes text,
                             leat_group_member *m, leat_error *err)
{
    leat__record r = { 0 };
    m->readable = leat__record_parse(text, &r);
    m->born_ms = (int64_t)(r.born / 1000);
    m->leaving = r.leaving;
    m->beat_age_ms = -1;
    m->name = leat__arena_text(arena, r.name, err);
    return m->name ? LEAT_OK : LEAT_ENOMEM;
}

static leat_code add_member(reading *x, leat_bytes nonce, leat_bytes text,
                            leat_error *err)
{
    leat__members *to = x->to;
    if (to->n == LEAT__MEMBERS_MAX)
        return leat__fail(err, LEAT_ETOOBIG, "more than %d members",
                          LEAT__MEMBERS_MAX);
    if (to->n == to->room) {
        size_t room = to->room ? to->room * 2 : 16;
        leat_group_member *m = leat__realloc(to->list, room * sizeof *m, err);
        if (!m)
            return LEAT_ENOMEM;
        to->list = m;
        to->room = room;
    }
    leat_group_member m = { 0 };
    leat_code code = read_record(x->arena, text, &m, err);
    m.nonce = leat__arena_text(x->arena, nonce, err);
    if (code != LEAT_OK || !m.nonce)
        return LEAT_ENOMEM;
    to->list[to->n++] = m;
    return LEAT_OK;
}

static leat_code add_members(reading *x, const leat_reply *page,
                             leat_error *err)
{
    leat__pairs p = leat__pairs_of(page);
    leat_bytes nonce;
    const leat_reply *text = NULL;
    leat_code code = LEAT_OK;
    while (code == LEAT_OK && leat__pairs_next(&p, &nonce, &text))
        code = add_member(x, nonce, leat_reply_bytes(text), err);
    return code;
}

static int by_nonce(const void *a, const void *b)
{
    return strcmp(((const leat_group_member *)a)->nonce,
                  ((const leat_group_member *)b)->nonce);
}

/* A scan may give a field twice; afterwards they are sorted by nonce. */
static void drop_twins(leat__members *m)
{
    uint32_t kept = 0;
    if (m->n)
        qsort(m->list, m->n, sizeof *m->list, by_nonce);
    for (uint32_t i = 0; i < m->n; i++)
        if (kept == 0 || by_nonce(&m->list[kept - 1], &m->list[i]) != 0)
            m->list[kept++] = m->list[i];
    m->n = kept;
}

leat_group_member *leat__members_find(const leat__members *m, const char *nonce)
{
    const leat_group_member key = { .nonce = nonce };
    return nonce && m->n ? bsearch(&key, m->list, m->n, sizeof key, by_nonce)
                         : NULL;
}

/* ---- beats ------------------------------------------------------------ */

/* "<ms> <lease ms>" */
static void note_beat(const reading *x, leat_group_member *m, leat_bytes text)
{
    char copy[64], *end = copy;
    snprintf(copy, sizeof copy, "%.*s", (int)text.n,
             text.p ? (const char *)text.p : "");
    long long at = strtoll(copy, &end, 10);
    if (end == copy || *end != ' ')
        return;
    long long lease = strtoll(end, NULL, 10);
    m->beat_age_ms = x->now_ms > at ? x->now_ms - at : 0;
    m->alive = m->beat_age_ms < lease;
}

/* {now, paused, nonce, beat, ...} */
static void note_beats(reading *x, const leat_reply *r)
{
    leat__pairs p = leat__pairs_of(r);
    leat_bytes nonce;
    const leat_reply *text = NULL;
    if (leat__pairs_next(&p, &nonce, &text)) {
        x->now_ms = leat_reply_int(leat_reply_at(r, 0));
        x->to->paused_ms = leat_reply_int(text);
    }
    while (leat__pairs_next(&p, &nonce, &text)) {
        char name[LEAT__NONCE_TEXT + 1] = "";
        if (nonce.n != LEAT__NONCE_TEXT)
            continue;
        memcpy(name, nonce.p, nonce.n);
        leat_group_member *m = leat__members_find(x->to, name);
        if (m)
            note_beat(x, m, leat_reply_bytes(text));
    }
}

static leat_code read_records(reading *x, leat_conn *conn, const leat__key *key,
                              leat_error *err)
{
    leat__scan s;
    leat_code code;
    leat__scan_begin(&s, "the members", conn->timeout_ms);
    do {
        const leat_reply *r = NULL, *page;
        code = leat_conn_call(conn,
                              LEAT_ARGS(leat_str("HSCAN"), leat__key_bytes(key),
                                        leat_str(s.cursor), leat_str("COUNT"),
                                        leat_str("200")),
                              NULL, &r, err);
        if (code == LEAT_OK)
            code = leat__reply_want(r, "[t[(tt)]]", LEAT_EPROTO, "HSCAN", err);
        if (code == LEAT_OK)
            code = leat__scan_page(&s, r, &page, err);
        if (code == LEAT_OK)
            code = add_members(x, page, err);
    } while (code == LEAT_OK && !s.over);
    drop_twins(x->to);
    return code;
}

leat_code leat__members_read(const leat__topic_at *t, leat_conn *conn,
                             const char *group, leat__arena *arena,
                             leat__members *out, leat_error *err)
{
    leat__key members, beats, paused;
    reading x = { .to = out, .arena = arena };
    const leat_reply *r = NULL;
    leat__key_members(&members, t->prefix, t->name, group);
    leat__key_beats(&beats, t->prefix, t->name, group);
    leat__key_paused(&paused, t->prefix, t->name, group);
    leat_code code = read_records(&x, conn, &members, err);
    const leat_bytes keys[] = { leat__key_bytes(&beats),
                                leat__key_bytes(&paused) };
    if (code == LEAT_OK)
        code = leat__script_call(conn, &leat__script_topic_alive, keys, 2, NULL,
                                 0, &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, "[in(tt)]", LEAT_EPROTO, "the members", err);
    if (code == LEAT_OK)
        note_beats(&x, r);
    for (uint32_t i = 0; i < out->n; i++)
        out->alive += out->list[i].alive;
    return code;
}

/*
 * verify.c: a position is an id and whose log it was.
 *
 * After a failover the commands go to another server, whose log may lack the
 * end of what we read and have other entries instead, with ids before or behind
 * our position.  The cursor there is of the same history as the log there, what
 * we have read is not.  So we remember how the last entry that we read begins,
 * as a print, and whenever a partition's commands go over another connection it
 * is in doubt:
 *
 *   in doubt --asked--> the same entry is at the position  -->  go on
 *                       all up to there was trimmed        -->  go on
 *                       nothing was read by this lease     -->  go on
 *                       else: it is another log            -->  given up, taken
 *                                                               anew
 *
 * While it is in doubt nothing of it is read, handed out or saved.  One script
 * for each partition, all in one go.  With a lease that has read nothing the
 * position is the cursor, and a server that knows the lease knows the log it
 * was taken with.
 *
 * Reads count only where they come from the server that the commands go to:
 * whatever reads is dropped before the commands go elsewhere, and made anew
 * after them.  A master that was paused, and replaced meanwhile, answers the
 * reads that waited with entries of its own.
 *
 * What a crash leaves behind is the cursor: there is nothing to keep.
 */
#include "base/log.h"
#include "base/system.h"
#include "metrics/metrics.h"
#include "redis/bundle.h"
#include "topic/consumer.h"
#include "topic/print.h"

#include <stdio.h>
#include <string.h>

#define RETRY_NS INT64_C(50000000)

enum { OURS, FIRST, LAST, BEGINNING, CURSOR, DELETED };

/* ---- prints ----------------------------------------------------------- */

/* So much of it as fits. */
static size_t put(char *to, size_t at, const void *bytes, size_t n)
{
    size_t room = LEAT__PRINT_BYTES - at;
    n = n < room ? n : room;
    if (n > 0)
        memcpy(to + at, bytes, n);
    return at + n;
}

leat__print leat__verify_print(leat__id id, const leat_reply *entries, size_t i)
{
    const leat_reply *fields = leat_reply_at(leat_reply_at(entries, i), 1);
    char text[LEAT__PRINT_BYTES], head[LEAT__NUMBER + 4];
    leat_reply_iter it = leat_reply_each(fields);
    const leat_reply *f;
    size_t at = 0;
    while (at < sizeof text && (f = leat_reply_step(&it))) {
        leat_bytes b = leat_reply_bytes(f);
        int len = snprintf(head, sizeof head, "$%zu\r\n", b.n);
        at = put(text, at, head, (size_t)len);
        at = put(text, at, b.p, b.n);
        at = put(text, at, "\r\n", 2);
    }
    return (leat__print){ .id = id,
                          .mark = leat__print_mark(leat_mem(text, at)) };
}

void leat__verify_read(part *p, leat__print last)
{
    if (leat__id_cmp(last.id, leat__window_read_from(p->window)) == 0)
        p->print = last;
}

/* ---- doubt ------------------------------------------------------------ */

void leat__verify_begin(part *p)
{
    p->print = (leat__print){ 0 };
    p->taken_at = leat__window_read_from(p->window);
    p->route = 0;
    p->doubtful = p->c->clustered; /* which node it was taken at nobody knows */
    p->verify_ns = 0;
}

/* An answer that is under way is not about this. */
void leat__verify_doubt(part *p)
{
    p->doubtful = true;
    p->route = 0;
    p->verify_ns = 0;
}

void leat__verify_all(consumer *c)
{
    for (uint32_t i = 0; i < c->owned_count; i++)
        leat__verify_doubt(c->owned[i]);
}

/* ---- the answer ------------------------------------------------------- */

static leat__id id_at(const leat_reply *r, size_t i)
{
    leat__id id = { 0, 0 };
    (void)leat__id_parse(leat_reply_bytes(leat_reply_at(r, i)), &id);
    return id;
}

static bool is_there(const leat_reply *r, size_t i)
{
    return leat_reply_bytes(leat_reply_at(r, i)).n > 0;
}

/* Is this the log that the position is of? */
static bool same_log(const part *p, const leat_reply *r)
{
    leat__id read = leat__window_read_from(p->window);
    leat_bytes begins = leat_reply_bytes(leat_reply_at(r, BEGINNING));
    if (p->print.id.ms == 0 && p->print.id.seq == 0)
        return leat__id_cmp(read, p->taken_at) == 0;
    if (begins.n > 0)
        return leat__id_cmp(p->print.id, read) == 0 &&
               leat__print_mark(begins) == p->print.mark;
    bool trimmed = !is_there(r, FIRST) ||
                   leat__id_cmp(id_at(r, FIRST), read) > 0;
    return trimmed && leat__id_cmp(id_at(r, LAST), read) >= 0;
}

/* The entry at the position is gone, if we know which it was; one that somebody
 * deleted is no loss. */
static void tell(part *p, const leat_reply *r)
{
    leat__id read = leat__window_read_from(p->window), last = id_at(r, LAST);
    bool deleted = is_there(r, DELETED) && !is_there(r, BEGINNING) &&
                   leat__id_cmp(id_at(r, DELETED), read) >= 0;
    if (deleted || leat__id_cmp(p->print.id, read) != 0)
        return;
    leat__member_tell_loss(
        p, leat__id_cmp(last, read) < 0 ? last : id_at(r, CURSOR), read);
}

static void judge(part *p, const leat_reply *r)
{
    bool ours = leat_reply_int(leat_reply_at(r, OURS)) == 1;
    bool same = same_log(p, r);
    if (ours && same) {
        p->doubtful = false;
        return;
    }
    if (!same)
        tell(p, r);
    leat__member_lost(p, p->verify_epoch);
}

static void on_verified(void *arg, const leat_reply *r, const leat_error *e)
{
    part *p = arg;
    leat_error odd;
    p->verifying = false;
    e = leat__reply_odd(r, e, "[iedtee]", "a look at our place", &odd);
    if (e) {
        leat__drive_failed(p->c, e, "finding our place");
        leat__verify_doubt(p);
        p->verify_ns = leat__now_ns() + RETRY_NS;
    } else if (leat__part_epoch(p) == p->verify_epoch && p->route != 0) {
        judge(p, r);
    }
}

/* ---- asking ----------------------------------------------------------- */

static leat_code ask(part *p, uint64_t route, leat_error *err)
{
    consumer *c = p->c;
    char epoch[LEAT__NUMBER], id[LEAT__ID_TEXT], most[LEAT__NUMBER];
    const leat_bytes keys[] = { leat__key_bytes(&p->lease),
                                leat__key_bytes(&p->cursor),
                                leat__key_bytes(&p->log) };
    p->verify_epoch = leat__part_epoch(p);
    const leat_bytes args[] = {
        leat_str(c->nonce), leat__arg_int(epoch, (int64_t)p->verify_epoch),
        leat__id_format(leat__window_read_from(p->window), id),
        leat__arg_int(most, LEAT__PRINT_BYTES)
    };
    p->route = route;
    p->verifying = true; /* before: the answer may be there at once */
    leat__conn_confine(c->cmd, route);
    leat_code rc = leat__script_send(
        c->cmd, &leat__script_topic_verify, keys, 3, args, 4,
        &(leat_send_opts){ .fn = on_verified, .arg = p }, err);
    leat__conn_confine(c->cmd, 0);
    return rc;
}

/* Its commands go over another connection than they did: what reads for it goes
 * first. */
static void follow(part *p)
{
    if (p->route != 0 && leat__conn_route(p->c->cmd, p->slot) != p->route) {
        leat__verify_doubt(p);
        leat__wait_drop(p);
    }
}

static void verify(part *p, int64_t now_ns)
{
    leat_error e;
    if (!p->doubtful || p->verifying || p->gone || now_ns < p->verify_ns)
        return;
    p->verify_ns = now_ns + RETRY_NS;
    uint64_t route = leat__conn_route(p->c->cmd, p->slot);
    if (route == 0 || ask(p, route, &e) == LEAT_OK)
        return;
    p->verifying = false;
    p->route = 0;
    leat__drive_failed(p->c, &e, "finding our place");
}

void leat__verify_step(consumer *c, int64_t now_ns)
{
    for (uint32_t i = 0; c->cmd && i < c->owned_count; i++) {
        if (c->clustered)
            follow(c->owned[i]);
        verify(c->owned[i], now_ns);
    }
}

int64_t leat__verify_due(const consumer *c)
{
    int64_t due = INT64_MAX;
    for (uint32_t i = 0; i < c->owned_count; i++) {
        const part *p = c->owned[i];
        if (p->doubtful && !p->verifying && !p->gone && p->verify_ns < due)
            due = p->verify_ns;
    }
    return due;
}

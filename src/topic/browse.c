/*
 * browse.c: looking at a topic's messages without a group.
 *
 * Each partition is a page of entries, read by XRANGE behind the last one seen.
 * The next message is the one with the lowest id among the pages, so that
 * partitions come out merged by time; ids of different partitions come from one
 * server's clock, or nearly.  A page is small where there are many partitions.
 *
 * Without follow the end is fixed at the open: a busy topic does not keep a
 * reader for ever.  With follow a partition that had nothing is asked again
 * when all pages are used up, or every RECHECK_MS while others keep coming; a
 * blocking XREAD waits where there are few partitions, a pause where many, or
 * where a cluster keeps them in different places.
 */
#include "base/mem.h"
#include "base/system.h"
#include "message/opened.h"
#include "redis/client.h"
#include "redis/shape.h"
#include "stream/stream.h"
#include "topic/chunk.h"
#include "topic/describe.h"
#include "topic/ripen.h"

#include <assert.h>
#include <stdio.h>

enum {
    PAGE_TOTAL = 256,   /* entries in all pages, at least one each     */
    PAGE_MAX = 64,      /* in one                                      */
    BLOCK_STREAMS = 64, /* waited for by one XREAD; above that: pauses */
    RECHECK_MS = 100,
    RIPE_MS = 1000, /* between two looks for what was delayed            */
    LEND_MS = 1000,
    LAST_MAX = 10000 /* of leat_browse_opts.last                    */
};

typedef struct part {
    uint32_t number;
    leat__key key;
    leat__key bodies;    /* beside it; empty: none are                     */
    leat_position after; /* the last entry seen: read on behind it      */
    leat_position end;   /* the newest to be shown, without follow      */
    leat_reply *page;
    const leat_reply *entry; /* the next of the page                    */
    leat_reply_iter rest;    /* those behind it                          */
    leat_position id;        /* its id                                  */
    size_t left;             /* entries of the page, with this one      */
    bool dry;                /* had nothing when asked last             */
} part;

struct leat_browse {
    leat_client *client;
    char *stream;         /* a plain one, and its only part; NULL: a topic's */
    leat__topic_at topic; /* its name is ours */
    char *name;
    char prefix[LEAT__PREFIX_MAX + 1];
    int64_t ripened_ns;
    bool follow;
    part *parts;
    size_t count;
    size_t page_size;
    int64_t checked_ns; /* when dry ones were asked last */

    leat_reply *body;    /* of the entry at hand, kept beside the log    */
    bool gone;           /* it should be                                 */
    leat__opened opened; /* the entry whose messages are being given out */
    part *shown;         /* where it is from                             */
    size_t msg_at;
    leat_position at;
};

/* ---- asking the server ------------------------------------------------ */

static leat_bytes key_of(const leat_browse *b, const part *p)
{
    return b->stream ? leat_str(b->stream) : leat__key_bytes(&p->key);
}

static leat_code range(leat_browse *b, const part *p, const char *command,
                       leat_bytes from, leat_bytes to, size_t count,
                       leat_reply **out, leat_error *err)
{
    char text[24];
    const leat_call_opts again = { .idempotent = true };
    snprintf(text, sizeof text, "%zu", count);
    leat_code code = leat_client_call(b->client,
                                      LEAT_ARGS(leat_str(command), key_of(b, p),
                                                from, to, leat_str("COUNT"),
                                                leat_str(text)),
                                      &again, out, err);
    if (code == LEAT_OK)
        code = leat__reply_want(*out, LEAT__SHAPE_ENTRIES, LEAT_EPROTO, command,
                                err);
    if (code != LEAT_OK) {
        leat_reply_free(*out);
        *out = NULL;
    }
    return code;
}

/* Look at the entry at hand; false: it has no id, and the page is no use. */
static bool look(part *p)
{
    return leat_reply_len(p->entry) >= 2 &&
           leat__position_parse(leat_reply_bytes(leat_reply_at(p->entry, 0)),
                                &p->id);
}

static void drop_page(part *p)
{
    leat_reply_free(p->page);
    p->page = NULL;
    p->entry = NULL;
    p->left = 0;
}

static leat_code fetch(leat_browse *b, part *p, leat_error *err)
{
    char from[LEAT__ID_TEXT], to[LEAT__ID_TEXT];
    if (!b->follow && leat__position_cmp(p->after, p->end) >= 0) {
        p->dry = true;
        return LEAT_OK;
    }
    leat_bytes end = b->follow ? leat_str("+")
                               : leat__position_format(p->end, to);
    leat_code code = range(
        b, p, "XRANGE",
        leat__position_format(leat__position_after(p->after), from), end,
        b->page_size, &p->page, err);
    if (code != LEAT_OK)
        return code;
    p->left = leat_reply_len(p->page);
    p->dry = p->left == 0;
    p->rest = leat_reply_each(p->page);
    p->entry = leat_reply_step(&p->rest);
    if (p->dry) {
        drop_page(p);
    } else if (!look(p)) {
        drop_page(p);
        return leat__fail(err, LEAT_EPROTO,
                          "the server answered XRANGE strangely");
    }
    return LEAT_OK;
}

/* What was delayed and is due comes to the log first. */
static void ripen(leat_browse *b)
{
    if (b->stream)
        return;
    leat_conn *conn = leat_client_lend(b->client, LEND_MS, NULL);
    b->ripened_ns = leat__now_ns();
    if (conn)
        leat__ripe_look(&b->topic, conn, b->parts[0].number,
                        (uint32_t)b->count);
    leat_client_return(b->client, conn);
}

/* Fill every empty page that may have something. */
static leat_code refill(leat_browse *b, leat_error *err)
{
    if (b->follow &&
        leat__now_ns() - b->ripened_ns > RIPE_MS * INT64_C(1000000))
        ripen(b);
    int64_t now = leat__now_ns();
    bool again = b->follow &&
                 now - b->checked_ns > RECHECK_MS * (int64_t)1000000;
    if (again)
        b->checked_ns = now;
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < b->count && code == LEAT_OK; i++) {
        part *p = &b->parts[i];
        if (p->left == 0 && (!p->dry || again))
            code = fetch(b, p, err);
    }
    return code;
}

/* ---- waiting ---------------------------------------------------------- */

static void wet_all(leat_browse *b)
{
    for (size_t i = 0; i < b->count; i++)
        b->parts[i].dry = false;
}

static leat_code block(leat_browse *b, int64_t ms, leat_error *err)
{
    leat_bytes argv[6 + 2 * BLOCK_STREAMS] = { leat_str("XREAD"),
                                               leat_str("COUNT"), leat_str("1"),
                                               leat_str("BLOCK") };
    char text[24], ids[BLOCK_STREAMS][LEAT__ID_TEXT];
    snprintf(text, sizeof text, "%lld", (long long)ms);
    argv[4] = leat_str(text);
    argv[5] = leat_str("STREAMS");
    for (size_t i = 0; i < b->count; i++) {
        argv[6 + i] = key_of(b, &b->parts[i]);
        argv[6 + b->count + i] = leat__position_format(b->parts[i].after,
                                                       ids[i]);
    }
    leat_reply *r = NULL;
    const leat_call_opts opts = { .idempotent = true, .block_ms = ms };
    leat_code code = leat_client_call(b->client, argv, 6 + 2 * b->count, &opts,
                                      &r, err);
    if (code == LEAT_OK)
        code = leat__reply_want(r, LEAT__SHAPE_READ, LEAT_EPROTO, "XREAD", err);
    if (code == LEAT_OK && leat_reply_len(r) > 0)
        wet_all(b);
    leat_reply_free(r);
    return code;
}

static leat_code wait_more(leat_browse *b, int64_t ms, leat_error *err)
{
    if (b->count == 1 ||
        (b->count <= BLOCK_STREAMS && !leat__client_clustered(b->client)))
        return block(b, ms, err);
    leat__sleep_ms(ms < RECHECK_MS ? ms : RECHECK_MS);
    wet_all(b);
    return LEAT_OK;
}

/* ---- entries into messages -------------------------------------------- */

static bool is_large(leat_bytes name)
{
    return leat_bytes_eq(name, leat_str("@large"));
}

/* The body of the entry at hand, if it is kept beside the log. */
static leat_code fetch_body(leat_browse *b, const part *p, leat_error *err)
{
    char id[LEAT__ID_TEXT];
    const leat_call_opts again = { .idempotent = true };
    const leat_reply *fields = leat_reply_at(p->entry, 1);
    size_t n = leat_reply_len(fields);
    leat_reply_free(b->body);
    b->body = NULL;
    b->gone = false;
    if (n < 2 || p->bodies.n == 0 ||
        !is_large(leat_reply_bytes(leat_reply_at(fields, n - 2))))
        return LEAT_OK;
    leat_code code = leat_client_call(
        b->client,
        LEAT_ARGS(leat_str("HGET"), leat__key_bytes(&p->bodies),
                  leat__position_format(p->id, id)),
        &again, &b->body, err);
    if (code == LEAT_OK)
        code = leat__reply_want(b->body, "o", LEAT_EPROTO, "HGET", err);
    b->gone = code == LEAT_OK && leat_reply_kind(b->body) != LEAT_REPLY_STRING;
    if (b->gone) {
        leat_reply_free(b->body);
        b->body = NULL;
    }
    return code;
}

/* With the body where it is only named. */
static leat_code decode(leat_browse *b, const leat_reply *entry,
                        leat_error *err)
{
    leat_bytes name;
    const leat_reply *value = NULL;
    leat__pairs p = leat__pairs_of(leat_reply_at(entry, 1));
    leat_bytes *at = leat__opened_room(&b->opened, p.left, err);
    if (!at)
        return LEAT_ENOMEM;
    for (bool first = true; leat__pairs_next(&p, &name, &value);
         first = false) {
        if (first && leat_bytes_eq(name, leat_str(LEAT__AGAIN_MARK))) {
            at = leat__opened_room(&b->opened, p.left, err);
            if (!at)
                return LEAT_ENOMEM;
            continue;
        }
        bool large = b->body && is_large(name);
        *at++ = large ? leat_reply_bytes(value) : name;
        *at++ = leat_reply_bytes(large ? b->body : value);
    }
    if (b->gone)
        return leat__opened_raw(&b->opened, "its large body is gone", err);
    return leat__opened_decode(&b->opened, err);
}

/* ---- the next one ----------------------------------------------------- */

static void give(leat_browse *b, leat_seen *out)
{
    b->at.index = (uint32_t)b->msg_at;
    *out = (leat_seen){ .partition = b->shown->number,
                        .position = b->at,
                        .msg = &b->opened.msg[b->msg_at++],
                        .error = b->opened.by ? NULL : &b->opened.why };
}

/* The entry at hand was given out whole. */
static void pass(leat_browse *b)
{
    part *p = b->shown;
    b->shown = NULL;
    p->after = p->id;
    if (--p->left == 0) {
        drop_page(p);
        return;
    }
    p->entry = leat_reply_step(&p->rest);
    if (!look(p))
        drop_page(p); /* read again from here */
}

static part *lowest(leat_browse *b)
{
    part *best = NULL;
    for (size_t i = 0; i < b->count; i++) {
        part *p = &b->parts[i];
        if (p->left && (!best || leat__position_cmp(p->id, best->id) < 0))
            best = p;
    }
    return best;
}

static part *next_entry(leat_browse *b, int64_t wait_ms, leat_code *code,
                        leat_error *err)
{
    int64_t end = leat__now_ns() + wait_ms * 1000000;
    for (;;) {
        *code = refill(b, err);
        part *p = *code == LEAT_OK ? lowest(b) : NULL;
        int64_t left = (end - leat__now_ns()) / 1000000;
        if (p || *code != LEAT_OK || !b->follow || left <= 0)
            return p;
        *code = wait_more(b, left < RIPE_MS ? left : RIPE_MS, err);
        if (*code != LEAT_OK)
            return NULL;
    }
}

int leat_browse_next(leat_browse *b, leat_seen *out, int64_t wait_ms,
                     leat_error *err)
{
    leat_code code = LEAT_OK;
    if (b->shown && b->msg_at < b->opened.count) {
        give(b, out);
        return 1;
    }
    if (b->shown)
        pass(b);
    part *p = next_entry(b, wait_ms, &code, err);
    if (!p)
        return code == LEAT_OK ? 0 : -1;
    code = fetch_body(b, p, err);
    if (code == LEAT_OK)
        code = decode(b, p->entry, err);
    if (code != LEAT_OK)
        return -1;
    b->shown = p;
    b->at = p->id;
    b->msg_at = 0;
    give(b, out);
    return 1;
}

/* ---- where to begin --------------------------------------------------- */

/* The newest entry of each partition, which is the end without follow. */
static leat_code find_ends(leat_browse *b, leat_error *err)
{
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < b->count && code == LEAT_OK; i++) {
        part *p = &b->parts[i];
        leat_reply *r = NULL;
        code = range(b, p, "XREVRANGE", leat_str("+"), leat_str("-"), 1, &r,
                     err);
        if (code == LEAT_OK && leat_reply_len(r) > 0)
            (void)leat__position_parse(
                leat_reply_bytes(leat_reply_at(leat_reply_at(r, 0), 0)),
                &p->end);
        leat_reply_free(r);
    }
    return code;
}

/* One step back in one partition: its `after` becomes the entry before; false
 * in *found when there is none. */
static leat_code step_back(leat_browse *b, part *p, leat_position *id,
                           bool *found, leat_error *err)
{
    char to[LEAT__ID_TEXT];
    leat_reply *r = NULL;
    leat_code code = range(b, p, "XREVRANGE",
                           leat__position_format(p->after, to), leat_str("-"),
                           1, &r, err);
    *found = code == LEAT_OK && leat_reply_len(r) > 0 &&
             leat__position_parse(
                 leat_reply_bytes(leat_reply_at(leat_reply_at(r, 0), 0)), id);
    leat_reply_free(r);
    return code;
}

/* The newest `last` of all partitions: walk back from the ends, always in the
 * partition whose next entry back is the newest.  p->id holds that entry and
 * p->left whether there is one. */
static leat_code start_last(leat_browse *b, int last, leat_error *err)
{
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < b->count; i++) {
        b->parts[i].after = b->parts[i].id = b->parts[i].end;
        b->parts[i].left = !leat__position_zero(b->parts[i].end);
    }
    for (int n = 0; n < last && code == LEAT_OK; n++) {
        part *best = NULL;
        for (size_t i = 0; i < b->count; i++) {
            part *p = &b->parts[i];
            if (p->left && (!best || leat__position_cmp(p->id, best->id) > 0))
                best = p;
        }
        if (!best)
            break;
        bool found = false;
        best->after = leat__position_before(best->id);
        code = step_back(b, best, &best->id, &found, err);
        best->left = found;
    }
    for (size_t i = 0; i < b->count; i++)
        b->parts[i].left = 0;
    return code;
}

static leat_code start_from(leat_browse *b, const char *from, leat_error *err)
{
    leat_position at = { 0 };
    if (!from || strcmp(from, "start") == 0)
        return LEAT_OK;
    bool end = strcmp(from, "end") == 0;
    if (!end && !leat__position_parse(leat_str(from + (from[0] == '@')), &at))
        return leat__fail(err, LEAT_EINVAL,
                          "cannot begin at '%.60s': give start, end, an id "
                          "MS-SEQ or @MS",
                          from);
    for (size_t i = 0; i < b->count; i++)
        b->parts[i].after = end ? b->parts[i].end : leat__position_before(at);
    return LEAT_OK;
}

/* ---- opening ---------------------------------------------------------- */

void leat_browse_close(leat_browse *b)
{
    if (!b)
        return;
    for (size_t i = 0; b->parts && i < b->count; i++)
        drop_page(&b->parts[i]);
    leat__free(b->parts);
    leat__free(b->stream);
    leat__free(b->name);
    leat_reply_free(b->body);
    leat__opened_release(&b->opened);
    leat_client *c = b->client;
    leat__free(b);
    leat__client_drop(c, LEAT__A_BROWSE);
}

/* The topic, for as long as it is browsed. */
static leat_code keep_topic(leat_browse *b, const leat__topic_at *t,
                            leat_error *err)
{
    b->name = leat__strdup(t->name, err);
    if (!b->name)
        return LEAT_ENOMEM;
    snprintf(b->prefix, sizeof b->prefix, "%s", t->prefix ? t->prefix : "");
    b->topic = *t;
    b->topic.name = b->name;
    b->topic.prefix = t->prefix ? b->prefix : NULL;
    return LEAT_OK;
}

static leat_code add_parts(leat_browse *b, const leat__topic_at *t,
                           const leat_browse_opts *o, leat_error *err)
{
    if (o->one && o->partition >= t->meta.partitions)
        return leat__fail(err, LEAT_EINVAL,
                          "topic '%s' has no partition %u: they are 0 to %u",
                          t->name, o->partition, t->meta.partitions - 1);
    b->count = o->one ? 1 : t->meta.partitions;
    b->parts = leat__calloc(b->count, sizeof *b->parts, err);
    if (!b->parts)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < b->count; i++) {
        part *p = &b->parts[i];
        p->number = o->one ? o->partition : (uint32_t)i;
        leat__key_log(&p->key, t->prefix, t->name, t->meta.legacy, p->number);
        if (!t->meta.legacy)
            leat__key_part(&p->bodies, t->prefix, t->name, false, p->number,
                           "bodies", NULL);
    }
    return LEAT_OK;
}

/* The one part of a plain stream, whose name may be longer than a topic's. */
static leat_code add_stream(leat_browse *b, const char *name, leat_error *err)
{
    b->count = 1;
    b->parts = leat__calloc(1, sizeof *b->parts, err);
    b->stream = b->parts ? leat__strdup(name, err) : NULL;
    return b->stream ? LEAT_OK : LEAT_ENOMEM;
}

/* Without its parts. */
static leat_browse *browse_new(leat_client *c, const leat_browse_opts *o,
                               leat_error *err)
{
    if (o->last < 0 || o->last > LAST_MAX) {
        leat__fail(err, LEAT_EINVAL, "the last %d: it is 0 to %d", o->last,
                   LAST_MAX);
        return NULL;
    }
    leat_browse *b = leat__zalloc(sizeof *b, err);
    if (!b || leat__client_keep(c, LEAT__A_BROWSE, err) != LEAT_OK) {
        leat__free(b);
        return NULL;
    }
    b->client = c;
    b->opened.codec = o->codec;
    b->follow = o->follow;
    return b;
}

/* Its parts are there, or adding them failed: where to begin. */
static leat_browse *browse_begin(leat_browse *b, leat_code code,
                                 const leat_browse_opts *o, leat_error *err)
{
    assert(code != LEAT_OK || b->count > 0);
    b->page_size = b->count ? PAGE_TOTAL / b->count : 0;
    if (b->page_size < 1)
        b->page_size = 1;
    if (b->page_size > PAGE_MAX)
        b->page_size = PAGE_MAX;
    if (code == LEAT_OK)
        ripen(b);
    if (code == LEAT_OK)
        code = find_ends(b, err);
    if (code == LEAT_OK)
        code = o->last ? start_last(b, o->last, err)
                       : start_from(b, o->from, err);
    if (code == LEAT_OK)
        return b;
    leat_browse_close(b);
    return NULL;
}

leat_browse *leat_browse_open(leat_client *c, const char *topic,
                              const leat_browse_opts *opts, leat_error *err)
{
    leat__topic_at t;
    leat_browse_opts o = opts ? *opts : (leat_browse_opts){ 0 };
    if (leat__topic_at_init(&t, c, topic, o.prefix, err) != LEAT_OK)
        return NULL;
    leat_browse *b = browse_new(c, &o, err);
    if (!b)
        return NULL;
    leat_code code = keep_topic(b, &t, err);
    if (code == LEAT_OK)
        code = add_parts(b, &t, &o, err);
    return browse_begin(b, code, &o, err);
}

leat_browse *leat_stream_browse(leat_client *c, const char *name,
                                const leat_browse_opts *opts, leat_error *err)
{
    leat_browse_opts o = opts ? *opts : (leat_browse_opts){ 0 };
    if (leat__stream_there(c, name, err) != LEAT_OK)
        return NULL;
    if (o.one && o.partition > 0) {
        leat__fail(err, LEAT_EINVAL, "a stream has no partition %u",
                   o.partition);
        return NULL;
    }
    leat_browse *b = browse_new(c, &o, err);
    return b ? browse_begin(b, add_stream(b, name, err), &o, err) : NULL;
}

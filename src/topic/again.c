/*
 * again.c: failed messages that are published again, instead of kept.
 *
 * With re_add a message that failed is settled, and a new one follows it: the
 * same body, key and headers, and
 *
 *   retryCount         how often it was handed out before
 *   originalMessageId  the id of the first
 *   retryGroup         the group that failed, for which alone it is
 *
 * Headers are anybody's to write, so an entry that is to be so read begins with
 * the field "@again", the group's name, which no codec makes of a header.  A
 * dead letter of it is without.
 *
 * It waits as a delayed message does and comes at the end of the log; the step
 * `again` of move.lua does both at once.  Other groups pass it when they read
 * it.  Its attempts count on from those before.
 *
 * What could not be decoded cannot be encoded: that is kept, as without re_add.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/uuid.h"
#include "topic/addition.h"
#include "topic/consumer.h"

#include <stdio.h>

#define COUNT "retryCount"
#define FIRST "originalMessageId"
#define GROUP "retryGroup"

enum { OURS = 3, DIGITS = 12, COUNT_DIGITS = 9 };

/* ---- reading ---------------------------------------------------------- */

bool leat__again_others(const consumer *c, const leat_msg *m)
{
    leat_bytes group = leat_msg_header(m, GROUP);
    return group.n > 0 && !leat_bytes_eq(group, leat_str(c->group));
}

/* What is no number counts as none. */
uint32_t leat__again_count(const consumer *c, const leat_msg *m)
{
    leat_bytes text = leat_msg_header(m, COUNT);
    uint32_t v = 0;
    if (text.n == 0 || text.n > COUNT_DIGITS ||
        !leat_bytes_eq(leat_msg_header(m, GROUP), leat_str(c->group)))
        return 0;
    for (size_t i = 0; i < text.n; i++) {
        char digit = ((const char *)text.p)[i];
        if (digit < '0' || digit > '9')
            return 0;
        v = v * 10 + (uint32_t)(digit - '0');
    }
    return v;
}

void leat__again_pass(part *p, leat__entry *e)
{
    leat__window_claim(p->window, e);
    leat__window_done(p->window, e);
    p->passed = true;
    leat__save_soon(p, leat__now_ns());
}

/* ---- writing ---------------------------------------------------------- */

static bool is_ours(leat_bytes name)
{
    return leat_bytes_eq(name, leat_str(COUNT)) ||
           leat_bytes_eq(name, leat_str(FIRST)) ||
           leat_bytes_eq(name, leat_str(GROUP));
}

/* The id of the first: as the one before says, or its own. */
static leat_bytes first_id(const leat_msg *m)
{
    leat_bytes first = leat_msg_header(m, FIRST);
    return first.n > 0 ? first : m->id;
}

/* The headers, those of before replaced; NULL: no memory. */
static leat_header *headers_of(const handed *h, leat_fields *memory, size_t *n)
{
    const leat_msg *m = &h->d.msg;
    const consumer *c = h->part->c;
    leat_header *to = leat_fields_alloc(
        memory, (m->header_count + OURS) * sizeof *to, NULL);
    char *text = leat_fields_alloc(memory, DIGITS, NULL);
    *n = 0;
    if (!to || !text)
        return NULL;
    for (size_t i = 0; i < m->header_count; i++)
        if (!is_ours(m->headers[i].name))
            to[(*n)++] = m->headers[i];
    int digits = snprintf(text, DIGITS, "%u", h->d.attempt);
    to[(*n)++] = (leat_header){ leat_str(COUNT),
                                leat_mem(text, (size_t)digits) };
    if (first_id(m).n > 0)
        to[(*n)++] = (leat_header){ leat_str(FIRST), first_id(m) };
    to[(*n)++] = (leat_header){ leat_str(GROUP), leat_str(c->group) };
    return to;
}

/* An id of its own. */
static bool give_id(leat_msg *m, char text[LEAT__UUID_TEXT + 1])
{
    leat__uuid7_gen gen;
    leat__uuid id;
    leat__uuid7_init(&gen);
    bool ok = leat__uuid7_next(&gen, &id, NULL) == LEAT_OK;
    leat__uuid7_release(&gen);
    if (!ok)
        return false;
    leat__uuid_format(&id, text);
    m->id = leat_mem(text, LEAT__UUID_TEXT);
    return true;
}

/* The mark before the fields. */
static bool pack_all(const leat_fields *f, leat_bytes group, leat__buf *to)
{
    const leat_bytes *pairs = leat_fields_pairs(f);
    if (leat__settle_pack(to, leat_str(LEAT__AGAIN_MARK), NULL) != LEAT_OK ||
        leat__settle_pack(to, group, NULL) != LEAT_OK)
        return false;
    for (size_t i = 0; i < 2 * leat_fields_count(f); i++)
        if (leat__settle_pack(to, pairs[i], NULL) != LEAT_OK)
            return false;
    return leat_fields_count(f) < LEAT__ADDITION_PAIRS;
}

bool leat__again_pack(const handed *h, leat__buf *to)
{
    const leat_codec *codec = h->part->c->topic->opts.codec;
    char id[LEAT__UUID_TEXT + 1];
    leat_msg m = h->d.msg;
    if (h->d.error)
        return false;
    leat_fields *memory = leat_fields_new(NULL);
    leat_fields *f = memory ? leat_fields_new(NULL) : NULL;
    m.headers = f ? headers_of(h, memory, &m.header_count) : NULL;
    bool ok = m.headers && give_id(&m, id) &&
              codec->encode(codec, &m, 1, f, NULL) == LEAT_OK &&
              pack_all(f, leat_str(h->part->c->group), to);
    leat_fields_free(f);
    leat_fields_free(memory);
    return ok;
}

/*
 * producer_script.c: messages that need more than an XADD.
 *
 *   the topic has a cap           add.lua looks at the length of the log first
 *   a value is a large one        add.lua puts it beside the log
 *   to be published later         later.lua lets it wait beside the log
 *
 * All others are plain XADDs, which is what is quick.  Where a topic has
 * lossy_maxlen these say MAXLEN.
 *
 * What a cap refuses is refused alone: messages behind it may pass when some
 * room was made meanwhile.  Who needs the order of a key publishes the next
 * after the outcome of the one before.
 */
#include "base/mem.h"
#include "topic/producer.h"

enum { LARGE = 64 * 1024, XADD_WORDS = 3, MAXLEN_WORDS = 3 };

/* Heads say MAXLEN. */
static void forget_heads(leat__producer *p)
{
    for (uint32_t i = 0; p->heads && i < p->span; i++) {
        leat__free((void *)p->heads[i].p);
        p->heads[i] = (leat_bytes){ 0 };
    }
}

/* Of a stream that others read, too, everything stays in the stream. */
static size_t large_of(const leat__producer *p, const leat_retention *r)
{
    if (p->topic->meta.legacy || r->large_body < 0)
        return SIZE_MAX;
    return r->large_body ? (size_t)r->large_body : LARGE;
}

void leat__producer_policy_locked(leat__producer *p, const leat_retention *r)
{
    leat__policy *y = &p->policy;
    if (y->words != 0 && y->maxlen != r->lossy_maxlen)
        forget_heads(p);
    y->cap = r->cap;
    y->maxlen = r->lossy_maxlen;
    y->large = large_of(p, r);
    y->words = XADD_WORDS + (y->maxlen > 0 ? MAXLEN_WORDS : 0);
    y->unusual = p->opts->max_message + 1;
    if (y->large < y->unusual)
        y->unusual = y->large + 1;
    if (y->cap > 0)
        y->unusual = 0;
}

/* The place of the longest value, if it is a large one; 0: none is. */
static size_t find_large(const leat__producer *p)
{
    const leat_bytes *pairs = leat_fields_pairs(p->fields);
    size_t n = 2 * leat_fields_count(p->fields), most = p->policy.large, at = 0;
    for (size_t i = 1; i < n; i += 2) {
        if (pairs[i].n > most) {
            most = pairs[i].n;
            at = i;
        }
    }
    return at;
}

bool leat__producer_scripted(const leat__producer *p)
{
    return p->policy.cap > 0 || find_large(p) > 0;
}

static leat_code make_token(leat__producer *p, leat__addition *a,
                            leat_error *err)
{
    leat__uuid id;
    leat_code rc = leat__uuid7_next_locked(&p->uuids, &id, err);
    _Static_assert(sizeof id.b == LEAT__TOKEN, "a token is such an id");
    if (rc == LEAT_OK)
        memcpy(a->token, id.b, LEAT__TOKEN);
    return rc;
}

static leat_code too_many(const leat__producer *p, size_t fields,
                          leat_error *err)
{
    return leat__fail(err, LEAT_ETOOBIG,
                      "topic '%s': a message of %zu fields, a script takes %d: "
                      "send fewer headers",
                      p->topic->name, fields, LEAT__ADDITION_PAIRS);
}

leat_code leat__producer_put_script(leat__producer *p, leat__offer *o,
                                    uint32_t partition, size_t sum,
                                    leat_error *err)
{
    const leat_topic *t = p->topic;
    leat__addition a = { .prefix = t->prefix,
                         .topic = t->name,
                         .legacy = t->meta.legacy,
                         .partition = partition,
                         .pairs = leat_fields_pairs(p->fields),
                         .n = 2 * leat_fields_count(p->fields),
                         .large = o->later ? 0 : find_large(p),
                         .cap = p->policy.cap,
                         .maxlen = p->policy.maxlen,
                         .later = o->later,
                         .delay_ms = o->delay_ms };
    if (a.n > 2 * LEAT__ADDITION_PAIRS)
        return too_many(p, a.n / 2, err);
    if (a.later && make_token(p, &a, err) != LEAT_OK)
        return LEAT_EIO;
    leat__item *item = leat__backlog_room(&p->backlog,
                                          leat__addition_room(&a) + sum, err);
    if (!item)
        return LEAT_ENOMEM;
    item->fn = o->fn;
    item->arg = o->arg;
    item->deadline_ns = o->deadline_ns;
    item->size = (uint32_t)(leat__addition_put(&a, item->bytes) - item->bytes);
    item->partition = (uint16_t)partition;
    item->head = a.later ? LEAT__BY_LATER : LEAT__BY_ADD;
    leat__backlog_commit(&p->backlog, item);
    o->size += item->size;
    return LEAT_OK;
}

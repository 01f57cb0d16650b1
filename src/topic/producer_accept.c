/*
 * producer_accept.c: taking messages in.
 *
 * What was accepted is bounded by count and bytes.  Who finds no room waits or
 * is refused, as the topic was opened; who wants more than there will ever be
 * is refused at once.
 */
#include "base/mem.h"
#include "base/system.h"
#include "base/thread.h"
#include "message/codec.h"
#include "metrics/metrics.h"
#include "redis/script.h"
#include "topic/producer.h"

#include <endian.h>
#include <stdio.h>

/* Most of a publish, and in line also where it is needed twice.  `later` is
 * known to the compiler where it is. */
#define IN_LINE __attribute__((always_inline))

enum {
    MAX_COMMAND = 512 * 1024 * 1024, /* the server takes no more */
    ARG_COST = 16,                   /* bytes around an argument, at most */
    ARGS_MOST = 1 << 20,
    DIRECT = 32 /* with fewer under way a message is written at once */
};

/* ---- encoding --------------------------------------------------------- */

/* All of the command before the fields, but for the count of arguments. */
__attribute__((noinline, cold)) static leat_code
make_head(leat__producer *p, uint32_t partition, leat_error *err)
{
    const leat_topic *t = p->topic;
    leat__key k;
    char text[LEAT__KEY_MAX + 112];
    leat__key_log(&k, t->prefix, t->name, t->meta.legacy, partition);
    char most[64] = "", digits[LEAT__NUMBER];
    if (p->policy.maxlen > 0) {
        leat_bytes number = leat__arg_int(digits, p->policy.maxlen);
        snprintf(most, sizeof most, "$6\r\nMAXLEN\r\n$1\r\n~\r\n$%zu\r\n%s\r\n",
                 number.n, (const char *)number.p);
    }
    int n = snprintf(text, sizeof text,
                     "$4\r\nXADD\r\n$%zu\r\n%s\r\n%s$1\r\n*\r\n", k.n, k.p,
                     most);
    char *copy = leat__strdup(text, err);
    if (!copy)
        return LEAT_ENOMEM;
    p->heads[partition - p->first] = leat_mem(copy, (size_t)n);
    return LEAT_OK;
}

static leat_code too_big(const leat__producer *p, size_t size, leat_error *err)
{
    return leat__fail(err, LEAT_ETOOBIG,
                      "topic '%s': a message of %zu bytes, the limit is %zu: "
                      "send less at once or raise max_message",
                      p->topic->name, size, p->opts->max_message);
}

static size_t add_up(const leat_bytes *pairs, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, pairs[i].n, &sum))
            return SIZE_MAX;
    return sum;
}

/* The native codec's names have one letter. */
static char *put_name(char *p, leat_bytes name)
{
    if (name.n != 1)
        return leat__resp_bulk(p, name.p, name.n);
    memcpy(p, "$1\r\n?\r\n", 7);
    p[4] = *(const char *)name.p;
    return p + 7;
}

static inline IN_LINE leat_code put_xadd(leat__producer *p, leat__offer *o,
                                         uint32_t partition, size_t sum,
                                         leat_error *err)
{
    const leat_bytes *pairs = leat_fields_pairs(p->fields);
    size_t n = 2 * leat_fields_count(p->fields);
    leat_bytes head = p->heads[partition - p->first];
    leat__item *item = leat__backlog_room(
        &p->backlog, head.n + sum + (n + 1) * ARG_COST, err);
    if (!item)
        return LEAT_ENOMEM;
    char *end = leat__resp_array_head(item->bytes, p->policy.words + n);
    memcpy(end, head.p, head.n);
    end += head.n;
    for (size_t i = 0; i < n; i += 2) {
        end = put_name(end, pairs[i]);
        end = leat__resp_bulk(end, pairs[i + 1].p, pairs[i + 1].n);
    }
    item->fn = o->fn;
    item->arg = o->arg;
    item->deadline_ns = o->deadline_ns;
    item->size = (uint32_t)(end - item->bytes);
    item->partition = (uint16_t)partition;
    item->head = (uint16_t)head.n;
    leat__backlog_commit(&p->backlog, item);
    o->size += item->size;
    return LEAT_OK;
}

/* Too large, or added by a script, or neither after all. */
__attribute__((noinline, cold)) static leat_code
put_unusual(leat__producer *p, leat__offer *o, uint32_t partition, size_t sum,
            leat_error *err)
{
    size_t n = 2 * leat_fields_count(p->fields);
    if (sum > p->opts->max_message || sum > MAX_COMMAND || n > ARGS_MOST)
        return too_big(p, sum, err);
    if (o->later || leat__producer_scripted(p))
        return leat__producer_put_script(p, o, partition, sum, err);
    return put_xadd(p, o, partition, sum, err);
}

static inline IN_LINE leat_code put_item(leat__producer *p, leat__offer *o,
                                         uint32_t partition, bool later,
                                         leat_error *err)
{
    size_t n = 2 * leat_fields_count(p->fields);
    size_t sum = add_up(leat_fields_pairs(p->fields), n);
    if (sum >= p->policy.unusual || n > ARGS_MOST || later)
        return put_unusual(p, o, partition, sum, err);
    return put_xadd(p, o, partition, sum, err);
}

__attribute__((noinline)) static leat_code
add_partition_header(leat__producer *p, leat_msg *m, uint32_t partition,
                     leat_error *err)
{
    enum { DIGITS = 12 };
    size_t n = m->header_count;
    leat_header *h = leat_fields_alloc(p->fields, (n + 1) * sizeof *h, err);
    char *text = h ? leat_fields_alloc(p->fields, DIGITS, err) : NULL;
    if (!text)
        return LEAT_ENOMEM;
    if (n > 0)
        memcpy(h, m->headers, n * sizeof *h);
    int digits = snprintf(text, DIGITS, "%u", partition);
    h[n] = (leat_header){ leat_str("partitionId"),
                          leat_mem(text, (size_t)digits) };
    m->headers = h;
    m->header_count = n + 1;
    return LEAT_OK;
}

/* As leat__uuid7_ms, in line. */
static int64_t time_of(const leat__uuid *id)
{
    uint64_t word;
    memcpy(&word, id->b, sizeof word);
    return (int64_t)(be64toh(word) >> 16);
}

/* A new id is given to the native codec as it is, and to others as text. */
static leat_code encode_new(leat__producer *p, leat_msg *m, leat_error *err)
{
    const leat_codec *codec = p->opts->codec;
    leat__uuid id;
    leat_code rc = leat__uuid7_next_locked(&p->uuids, &id, err);
    if (rc != LEAT_OK)
        return rc;
    if (m->time_ms == 0)
        m->time_ms = time_of(&id); /* it was now */
    if (codec == &leat_codec_native)
        return leat__native_encode(m, id.b, p->fields, err);
    char *text = leat_fields_alloc(p->fields, LEAT__UUID_TEXT + 1, err);
    if (!text)
        return LEAT_ENOMEM;
    leat__uuid_format(&id, text);
    m->id = leat_mem(text, LEAT__UUID_TEXT);
    return codec->encode(codec, m, 1, p->fields, err);
}

static inline IN_LINE leat_code encode_fields(leat__producer *p,
                                              const leat_msg *given,
                                              uint32_t partition,
                                              leat_error *err)
{
    const leat_codec *codec = p->opts->codec;
    leat_msg m = *given;
    leat_code rc = leat__check_headers(given, err);
    leat_fields_clear(p->fields);
    if (rc == LEAT_OK && p->opts->partition_header)
        rc = add_partition_header(p, &m, partition, err);
    if (rc != LEAT_OK)
        return rc;
    if (m.id.n == 0)
        return encode_new(p, &m, err);
    if (m.time_ms == 0)
        m.time_ms = leat__date_ms();
    return codec->encode(codec, &m, 1, p->fields, err);
}

static inline IN_LINE leat_code encode_one(leat__producer *p, leat__offer *o,
                                           const leat_msg *m, bool later,
                                           leat_error *err)
{
    uint32_t partition = o->partition ? o->partition[o->each ? m - o->m : 0]
                                      : 0;
    leat_code rc = o->partition
                       ? LEAT_OK
                       : leat__choose(&p->topic->chooser, m, &partition, err);
    if (rc == LEAT_OK && !p->heads[partition - p->first].p)
        rc = make_head(p, partition, err);
    if (rc == LEAT_OK)
        rc = encode_fields(p, m, partition, err);
    return rc == LEAT_OK ? put_item(p, o, partition, later, err) : rc;
}

static inline IN_LINE leat_code encode_all(leat__producer *p, leat__offer *o,
                                           bool later, leat_error *err)
{
    leat_code rc = LEAT_OK;
    o->size = 0;
    if (!p->connected || p->opts->linger_ms > 0)
        o->deadline_ns = leat__deadline_ns(p->opts->timeout_ms);
    for (size_t i = 0; rc == LEAT_OK && i < o->n; i++)
        rc = encode_one(p, o, &o->m[i], later, err);
    return rc;
}

/* ---- room ------------------------------------------------------------- */

static bool fits(const leat__producer *p, size_t n, size_t size)
{
    if (p->quota)
        return leat__quota_fits(p->quota, n, size);
    return p->tail - p->head + n <= (uint64_t)p->opts->max_queued &&
           p->bytes + size <= p->opts->max_queued_bytes;
}

/* They fit, and the room is theirs. */
static bool reserve(leat__producer *p, size_t n, size_t size)
{
    return p->quota ? leat__quota_take(p->quota, n, size) : fits(p, n, size);
}

static leat_code full(const leat__producer *p, leat_error *err)
{
    if (p->quota)
        return leat__quota_full(p->quota, p->topic->name, err);
    return leat__quota_say(p->tail - p->head, p->bytes, p->opts, p->topic->name,
                           err);
}

/* Room that is made by another producer. */
static leat_code wait_for_others(leat__producer *p, size_t n, size_t size,
                                 int64_t deadline_ns, leat_error *err)
{
    pthread_mutex_unlock(&p->lock);
    bool more = leat__quota_wait(p->quota, n, size, deadline_ns);
    pthread_mutex_lock(&p->lock);
    return more || p->stopping ? LEAT_OK : full(p, err);
}

/* A callback runs on the thread that would make the room. */
static leat_code wait_for_room(leat__producer *p, size_t n, size_t size,
                               int64_t *deadline_ns, leat_error *err)
{
    if (p->opts->no_wait || leat__producer_inside(p->topic))
        return full(p, err);
    if (*deadline_ns == 0)
        *deadline_ns = leat__deadline_ns(p->opts->max_wait_ms);
    if (p->quota)
        return wait_for_others(p, n, size, *deadline_ns, err);
    bool more = true;
    p->waiting++;
    while (more && !p->stopping && !fits(p, n, size))
        more = leat__cond_wait(&p->room, &p->lock, *deadline_ns);
    p->waiting--;
    return p->stopping || fits(p, n, size) ? LEAT_OK : full(p, err);
}

leat_code leat__producer_check(const leat_topic *t, size_t n, size_t size,
                               leat_error *err)
{
    if (n > (size_t)t->opts.max_queued)
        return leat__fail(err, LEAT_ETOOBIG,
                          "topic '%s': %zu messages at once, max_queued is %d",
                          t->name, n, t->opts.max_queued);
    if (size <= t->opts.max_queued_bytes)
        return LEAT_OK;
    return leat__fail(err, LEAT_ETOOBIG,
                      "topic '%s': %zu bytes at once, max_queued_bytes is %zu",
                      t->name, size, t->opts.max_queued_bytes);
}

leat_code leat__producer_closing(const leat_topic *t, leat_error *err)
{
    return leat__fail(err, LEAT_ECLOSED, "topic '%s' is closing", t->name);
}

/* How large the commands are is known once they are encoded; where they do not
 * fit they are taken back, and encoded again when there is room for so much. */
static inline IN_LINE leat_code accept_locked(leat__producer *p, leat__offer *o,
                                              bool later, leat_error *err)
{
    int64_t deadline = 0;
    leat_code rc = o->n > 1 ? leat__producer_check(p->topic, o->n, 0, err)
                            : LEAT_OK;
    while (rc == LEAT_OK) {
        if (p->stopping)
            return leat__producer_closing(p->topic, err);
        if (!fits(p, o->n, o->size)) {
            rc = wait_for_room(p, o->n, o->size, &deadline, err);
            continue;
        }
        leat__spot end = leat__backlog_end(&p->backlog);
        rc = encode_all(p, o, later, err);
        if (rc == LEAT_OK && reserve(p, o->n, o->size))
            break;
        leat__backlog_cut(&p->backlog, end);
        if (rc == LEAT_OK)
            rc = leat__producer_check(p->topic, 0, o->size, err);
    }
    return rc;
}

/* ---- handing over ----------------------------------------------------- */

enum { WRITE = 1, POKE = 2, ANSWERS = 4 };

/*
 * Who sends what was just accepted.  With answers to come the sender is woken
 * by them and sends what there is then.  So a message needs no waking but when
 * it is the first, and then it is quickest to write it here, unless so much is
 * under way that gathering is better.  A sender that sleeps without end has to
 * watch over the answer.
 */
static int plan_locked(leat__producer *p, size_t n)
{
    uint64_t queued = p->tail - p->next, half = (uint64_t)p->opts->window / 2;
    bool first = queued == n;
    int plan = p->asleep ? POKE : 0;
    p->asleep = false;
    if (!p->connected)
        return first ? POKE : plan;
    if (p->opts->linger_ms > 0)
        return first || (queued >= half && queued - n < half) ? POKE : plan;
    if (first && p->next - p->head < DIRECT)
        return plan | WRITE;
    return plan;
}

/* False: the sender has to be told.  Who has the connection now may have looked
 * at the backlog before us; if answers are to come, it will be again. */
static bool write_here(leat__producer *p, bool answers)
{
    if (pthread_mutex_trylock(&p->io) != 0)
        return answers;
    bool ok = p->conn && leat__producer_send(p);
    pthread_mutex_unlock(&p->io);
    return ok;
}

static inline IN_LINE int take_in_locked(leat__producer *p,
                                         const leat__offer *o)
{
    p->tail += o->n;
    p->bytes += o->size;
    leat__gauge_add(p->queued, (int64_t)o->n);
    return plan_locked(p, o->n) | (p->next > p->head ? ANSWERS : 0);
}

static inline IN_LINE void hand_over(leat__producer *p, int plan)
{
    if ((plan & WRITE) && !write_here(p, plan & ANSWERS))
        plan |= POKE;
    if (plan & POKE)
        leat__producer_poke(p);
}

static inline IN_LINE leat_code publish(leat__producer *p, leat__offer *o,
                                        bool later, leat_error *err)
{
    pthread_mutex_lock(&p->lock);
    leat_code rc = accept_locked(p, o, later, err);
    int plan = rc == LEAT_OK ? take_in_locked(p, o) : 0;
    pthread_mutex_unlock(&p->lock);
    hand_over(p, plan);
    return rc;
}

/* The program's own function is asked without a lock: it may publish. */
static leat_code publish_own(leat__producer *p, leat__offer *o, leat_error *err)
{
    leat_code rc = leat__producer_check(p->topic, o->n, 0, err);
    if (rc != LEAT_OK)
        return rc;
    uint32_t *each = leat__calloc(o->n, sizeof *each, err);
    if (!each)
        return LEAT_ENOMEM;
    for (size_t i = 0; rc == LEAT_OK && i < o->n; i++)
        rc = leat__choose(&p->topic->chooser, &o->m[i], &each[i], err);
    o->partition = each;
    o->each = true;
    if (rc == LEAT_OK)
        rc = publish(p, o, false, err);
    leat__free(each);
    return rc;
}

leat_code leat__producer_publish(leat__producer *p, const uint32_t *partition,
                                 const leat_msg *m, size_t n,
                                 leat_published_fn *fn, void *arg,
                                 leat_error *err)
{
    leat__offer o = {
        .partition = partition, .m = m, .n = n, .fn = fn, .arg = arg
    };
    if (!partition && p->topic->chooser.how == LEAT_PARTITION_OWN)
        return publish_own(p, &o, err);
    return publish(p, &o, false, err);
}

leat_code leat__producer_publish_later(leat__producer *p,
                                       const uint32_t *partition,
                                       const leat_msg *m, int64_t delay_ms,
                                       leat_published_fn *fn, void *arg,
                                       leat_error *err)
{
    leat__offer o = { .partition = partition,
                      .m = m,
                      .n = 1,
                      .fn = fn,
                      .arg = arg,
                      .later = true,
                      .delay_ms = delay_ms };
    return publish(p, &o, true, err);
}

/* ---- for lanes.c ------------------------------------------------------ */

leat_code leat__producer_put_locked(leat__producer *p, leat__offer *o,
                                    leat_error *err)
{
    if (p->stopping)
        return leat__producer_closing(p->topic, err);
    return encode_all(p, o, false, err);
}

int leat__producer_accept_locked(leat__producer *p, const leat__offer *o)
{
    return take_in_locked(p, o);
}

void leat__producer_hand_over(leat__producer *p, int plan)
{
    hand_over(p, plan);
}

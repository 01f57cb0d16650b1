/*
 * retention.c: what is kept of a topic.
 *
 *   leat:topic:<t>   hash   max_age, abandoned_ms            milliseconds
 *                           max_entries, cap, lossy_maxlen   entries
 *                           forget                           never all first
 *                           abandoned                        pin alarm detach
 *                           large_body                       bytes
 *                           beside what meta.c has there
 *
 * Whoever uses a topic reads them again every few seconds: owners of partitions
 * beside their heartbeat, producers beside their messages.  What cannot be read
 * changes nothing: the policy that is known holds.  One that another version
 * wrote and this one does not know neither does, and is logged once.
 */
#include "topic/retention.h"
#include "base/log.h"
#include "base/system.h"
#include "redis/script.h"
#include "redis/shape.h"
#include "topic/standing.h"
#include "topic/topic.h"

#include <assert.h>
#include <string.h>

#define FAILED_NS INT64_C(60000000000)

enum {
    NUMBER_MOST_BITS = 53, /* of what a script can count with */
    WAIT_MS = 1000
};

/* ---- names ------------------------------------------------------------ */

enum {
    MAX_AGE,
    MAX_ENTRIES,
    CAP,
    LOSSY,
    FORGET,
    ABANDONED,
    ABANDONED_MS,
    LARGE
};

static const char *const names[LEAT__RETENTION_FIELDS] = {
    "max_age", "max_entries", "cap",          "lossy_maxlen",
    "forget",  "abandoned",   "abandoned_ms", "large_body",
};

static const char *const forgets[] = { "never", "all", "first", NULL };
static const char *const abandons[] = { "pin", "alarm", "detach", NULL };

static const char *const *words_of(int field)
{
    return field == FORGET ? forgets : field == ABANDONED ? abandons : NULL;
}

static void to_values(const leat_retention *r,
                      int64_t v[LEAT__RETENTION_FIELDS])
{
    v[MAX_AGE] = r->max_age_ms;
    v[MAX_ENTRIES] = r->max_entries;
    v[CAP] = r->cap;
    v[LOSSY] = r->lossy_maxlen;
    v[FORGET] = r->forget;
    v[ABANDONED] = r->abandoned;
    v[ABANDONED_MS] = r->abandoned_ms;
    v[LARGE] = r->large_body;
}

static leat_retention from_values(const int64_t v[LEAT__RETENTION_FIELDS])
{
    return (leat_retention){ .max_age_ms = v[MAX_AGE],
                             .max_entries = v[MAX_ENTRIES],
                             .cap = v[CAP],
                             .lossy_maxlen = v[LOSSY],
                             .forget = (leat_forget)v[FORGET],
                             .abandoned = (leat_abandoned)v[ABANDONED],
                             .abandoned_ms = v[ABANDONED_MS],
                             .large_body = v[LARGE] };
}

static bool find_word(const char *const *words, leat_bytes text, int64_t *out)
{
    for (int i = 0; words[i]; i++)
        if (leat_bytes_eq(text, leat_str(words[i]))) {
            *out = i;
            return true;
        }
    return false;
}

const char *leat_forget_name(leat_forget f)
{
    return f >= LEAT_FORGET_NEVER && f <= LEAT_FORGET_FIRST ? forgets[f] : NULL;
}

const char *leat_abandoned_name(leat_abandoned a)
{
    return a >= LEAT_ABANDONED_PIN && a <= LEAT_ABANDONED_DETACH ? abandons[a]
                                                                 : NULL;
}

bool leat_forget_find(const char *name, leat_forget *out)
{
    int64_t v = 0;
    if (!find_word(forgets, leat_str(name), &v))
        return false;
    *out = (leat_forget)v;
    return true;
}

bool leat_abandoned_find(const char *name, leat_abandoned *out)
{
    int64_t v = 0;
    if (!find_word(abandons, leat_str(name), &v))
        return false;
    *out = (leat_abandoned)v;
    return true;
}

/* ---- what may be ------------------------------------------------------ */

static leat_code check_ranges(const leat_retention *r, leat_error *err)
{
    int64_t v[LEAT__RETENTION_FIELDS];
    to_values(r, v);
    for (int i = 0; i < LEAT__RETENTION_FIELDS; i++) {
        if (words_of(i))
            continue;
        if (v[i] < (i == LARGE ? -1 : 0))
            return leat__fail(err, LEAT_EINVAL, "%s cannot be %lld", names[i],
                              (long long)v[i]);
        if (v[i] > 0 && v[i] >> NUMBER_MOST_BITS)
            return leat__fail(err, LEAT_EINVAL,
                              "%s cannot be as large as %lld; 0 is no limit",
                              names[i], (long long)v[i]);
    }
    if (!leat_forget_name(r->forget))
        return leat__fail(err, LEAT_EINVAL, "there is no forget policy %d",
                          (int)r->forget);
    if (!leat_abandoned_name(r->abandoned))
        return leat__fail(err, LEAT_EINVAL,
                          "there is no policy %d for abandoned groups",
                          (int)r->abandoned);
    return LEAT_OK;
}

leat_code leat__retention_check(const leat_retention *r, leat_error *err)
{
    leat_code rc = check_ranges(r, err);
    if (rc != LEAT_OK)
        return rc;
    if (r->cap && r->lossy_maxlen)
        return leat__fail(err, LEAT_EINVAL,
                          "cap and lossy_maxlen exclude each other: a full "
                          "partition either refuses messages or drops the "
                          "oldest");
    if (r->cap && r->cap < r->max_entries)
        return leat__fail(err, LEAT_EINVAL,
                          "a cap of %lld is below max_entries, %lld: nothing "
                          "could be published until it is trimmed, which "
                          "begins above",
                          (long long)r->cap, (long long)r->max_entries);
    if (r->lossy_maxlen && r->lossy_maxlen < r->max_entries)
        return leat__fail(err, LEAT_EINVAL,
                          "a lossy_maxlen of %lld is below max_entries, %lld, "
                          "which would never be reached",
                          (long long)r->lossy_maxlen,
                          (long long)r->max_entries);
    return LEAT_OK;
}

/* ---- as text ---------------------------------------------------------- */

void leat__retention_names(leat_bytes out[LEAT__RETENTION_FIELDS])
{
    for (int i = 0; i < LEAT__RETENTION_FIELDS; i++)
        out[i] = leat_str(names[i]);
}

void leat__retention_pairs(
    const leat_retention *r, leat_bytes pairs[2 * LEAT__RETENTION_FIELDS],
    char text[LEAT__RETENTION_FIELDS][LEAT__RETENTION_NUMBER])
{
    _Static_assert((int)LEAT__RETENTION_NUMBER == (int)LEAT__NUMBER, "");
    int64_t v[LEAT__RETENTION_FIELDS];
    to_values(r, v);
    for (int i = 0; i < LEAT__RETENTION_FIELDS; i++) {
        const char *const *words = words_of(i);
        pairs[2 * i] = leat_str(names[i]);
        pairs[2 * i + 1] = words ? leat_str(words[v[i]])
                                 : leat__arg_int(text[i], v[i]);
    }
}

/* A topic of an earlier version has none of them. */
static bool read_value(int field, const leat_reply *r, int64_t *out)
{
    *out = 0;
    if (leat_reply_kind(r) == LEAT_REPLY_NIL)
        return true;
    if (words_of(field))
        return find_word(words_of(field), leat_reply_bytes(r), out);
    *out = leat_reply_int(r);
    return *out != 0 || leat_bytes_eq(leat_reply_bytes(r), leat_str("0"));
}

bool leat__retention_read(leat_reply_iter it, leat_retention *out,
                          leat_bytes *bad)
{
    int64_t v[LEAT__RETENTION_FIELDS];
    for (int i = 0; i < LEAT__RETENTION_FIELDS; i++) {
        const leat_reply *r = leat_reply_step(&it);
        if (!read_value(i, r, &v[i])) {
            *bad = leat_reply_bytes(r);
            return false;
        }
    }
    *out = from_values(v);
    *bad = leat_mem(NULL, 0);
    return leat__retention_check(out, NULL) == LEAT_OK;
}

/* ---- as seen ---------------------------------------------------------- */

void leat__retention_set(leat__retention_seen *s, const leat_retention *r)
{
    int64_t v[LEAT__RETENTION_FIELDS];
    to_values(r, v);
    uint32_t n = atomic_load_explicit(&s->version, memory_order_relaxed);
    atomic_store_explicit(&s->version, n + 1, memory_order_relaxed);
    for (int i = 0; i < LEAT__RETENTION_FIELDS; i++)
        atomic_store_explicit(&s->value[i], v[i], memory_order_release);
    atomic_store_explicit(&s->version, n + 2, memory_order_release);
}

void leat__retention_get(leat__retention_seen *s, leat_retention *out)
{
    int64_t v[LEAT__RETENTION_FIELDS];
    uint32_t before, after;
    do {
        before = atomic_load_explicit(&s->version, memory_order_acquire);
        for (int i = 0; i < LEAT__RETENTION_FIELDS; i++)
            v[i] = atomic_load_explicit(&s->value[i], memory_order_acquire);
        after = atomic_load_explicit(&s->version, memory_order_relaxed);
    } while (before != after || (before & 1));
    *out = from_values(v);
}

bool leat__retention_same(const leat_retention *a, const leat_retention *b)
{
    int64_t x[LEAT__RETENTION_FIELDS], y[LEAT__RETENTION_FIELDS];
    to_values(a, x);
    to_values(b, y);
    return memcmp(x, y, sizeof x) == 0;
}

void leat__topic_retention(leat_topic *t, leat_retention *out)
{
    leat__retention_get(&t->retention, out);
}

/* ---- reading it again ------------------------------------------------- */

/* Spread, so that many processes do not ask at once. */
static int64_t about(int64_t now_ns, int64_t every_ns)
{
    uint64_t any = 0;
    (void)leat__random(&any, sizeof any, NULL);
    return now_ns - (int64_t)(any % (uint64_t)(every_ns / 4));
}

void leat__retention_begin(leat_topic *t)
{
    leat__retention_set(&t->retention, &t->meta.retention);
    memcpy(t->u, t->meta.u, sizeof t->u);
    atomic_store(&t->retention.read_ns,
                 about(leat__now_ns(), LEAT__RETENTION_NS));
}

int64_t leat__retention_at(const leat_topic *t, int64_t every_ns)
{
    if (t->meta.legacy)
        return INT64_MAX;
    return every_ns +
           atomic_load_explicit(&t->retention.read_ns, memory_order_relaxed);
}

bool leat__retention_due(leat_topic *t, int64_t now_ns, int64_t every_ns)
{
    int64_t was = atomic_load(&t->retention.read_ns);
    if (t->meta.legacy || now_ns - was < every_ns)
        return false;
    return atomic_compare_exchange_strong(&t->retention.read_ns, &was,
                                          about(now_ns, every_ns));
}

enum {
    FIELDS = LEAT__STANDING_FIELDS + LEAT__RETENTION_FIELDS,
    WORDS = 2 + FIELDS
};

static void take_in(leat_topic *t, const leat_reply *r)
{
    leat_retention new;
    leat_bytes bad;
    if (leat_reply_len(r) != FIELDS)
        return;
    leat_reply_iter it = leat_reply_each(r);
    leat__standing_take(t, &it);
    if (leat__standing_of(t) == LEAT__TOPIC_AWAY)
        return;
    if (leat__retention_read(it, &new, &bad)) {
        pthread_mutex_lock(&t->lock);
        leat__retention_set(&t->retention, &new);
        pthread_mutex_unlock(&t->lock);
        atomic_store(&t->retention.warned, false);
    } else if (!atomic_exchange(&t->retention.warned, true)) {
        leat__log(&t->opts.log, LEAT_LOG_WARN,
                  "topic '%s' has a retention policy that this leat does not "
                  "know; the one before it holds here",
                  t->name);
    }
}

static void on_answer(void *arg, const leat_reply *r, const leat_error *e)
{
    if (!e)
        take_in(arg, r);
}

static void command(const leat_topic *t, leat__key *key, leat_bytes argv[WORDS])
{
    leat__key_meta(key, t->prefix, t->name);
    argv[0] = leat_str("HMGET");
    argv[1] = leat__key_bytes(key);
    leat__standing_names(argv + 2);
    leat__retention_names(argv + 2 + LEAT__STANDING_FIELDS);
}

void leat__retention_ask(leat_topic *t, leat_conn *c)
{
    leat__key key;
    leat_bytes argv[WORDS];
    command(t, &key, argv);
    (void)leat_conn_send(c, argv, WORDS,
                         &(leat_send_opts){ .fn = on_answer, .arg = t }, NULL);
}

bool leat__retention_look(leat_topic *t)
{
    leat__key key;
    leat_bytes argv[WORDS];
    leat_reply *r;
    command(t, &key, argv);
    if (leat_client_call(t->client, argv, WORDS,
                         &(leat_call_opts){ .timeout_ms = WAIT_MS }, &r,
                         NULL) != LEAT_OK)
        return false;
    take_in(t, r);
    leat_reply_free(r);
    return true;
}

void leat__retention_wait(leat_topic *t)
{
    if (!leat__retention_look(t))
        atomic_store(&t->retention.read_ns,
                     leat__now_ns() + FAILED_NS - LEAT__RETENTION_NS);
}

/* ---- changing it ------------------------------------------------------ */

leat_code leat_topic_alter(leat_client *c, const char *name, const char *prefix,
                           const leat_retention *r, leat_error *err)
{
    enum { ALTER = 5 + 2 * LEAT__RETENTION_FIELDS };
    const leat__script *s = &leat__script_topic_alter;
    char text[LEAT__RETENTION_FIELDS][LEAT__RETENTION_NUMBER];
    leat__topic_meta m;
    leat__key key;
    leat_reply *reply;
    leat_code rc = leat__topic_check(prefix, name, err);
    if (rc == LEAT_OK)
        rc = leat__retention_check(r, err);
    if (rc == LEAT_OK)
        rc = leat__topic_lookup(c, prefix, name, &m, err);
    if (rc == LEAT_OK)
        rc = leat__topic_whole(name, &m, err);
    if (rc != LEAT_OK)
        return rc;
    if (m.legacy)
        return leat__fail(
            err, LEAT_EINVAL,
            "'%s' is a bare stream, which has no retention of its "
            "own",
            name);
    leat__key_meta(&key, prefix, name);
    leat_bytes argv[ALTER] = { leat_str("EVAL"),
                               leat_mem(s->body, s->body_size), leat_str("1"),
                               leat__key_bytes(&key), leat_str(m.u) };
    leat__retention_pairs(r, argv + 5, text);
    rc = leat_client_call(c, argv, ALTER,
                          &(leat_call_opts){ .idempotent = true }, &reply, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat__reply_want(reply, "i", LEAT_EUNKNOWN, "an alteration", err);
    if (rc == LEAT_OK && leat_reply_int(reply) != 1)
        rc = leat__fail(err, LEAT_ESTALE,
                        "topic '%s' was removed meanwhile: nothing was done to "
                        "one that was made since",
                        name);
    leat_reply_free(reply);
    return rc;
}

/*
 * settings.c: what the members of a group share.
 *
 *   leat:{<t>}:group:<g>   hash   lease      milliseconds
 *                                 order      partition key none
 *                                 attempts   -1: no limit
 *                                 backoff    exponential fixed
 *                                 delay, max_delay           milliseconds
 *                                 no_jitter, re_add          0 or 1
 *                                 lease_before, lease_at     alter.lua
 *
 * The first member writes them (enter.lua), the others get them: two that judge
 * by different leases take from each other for ever, and two orders let
 * messages overtake.  Every beat brings them along, so that a change reaches
 * members that live.
 */
#include "topic/settings.h"
#include "redis/script.h"
#include "topic/retry.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE, ORDER, ATTEMPTS, BACKOFF, DELAY, MAX_DELAY, NO_JITTER, RE_ADD };

/* Words have the numbers from 1 on; zero is unset. */
static const char *const orders[] = { "partition", "key", "none", NULL };
static const char *const backoffs[] = { "exponential", "fixed", NULL };
static const char *const jitters[] = { "0", "1", NULL }; /* of no_jitter */
static const char *const re_adds[] = { "1", "0", NULL };

static const struct {
    const char *name;
    const char *const *words; /* NULL: a number */
    int64_t least, most;
} fields[LEAT__SETTINGS] = {
    { "lease", NULL, LEAT__LEASE_LEAST_MS, LEAT__LEASE_MOST_MS },
    { "order", orders, 0, 0 },
    { "attempts", NULL, -1, INT32_MAX },
    { "backoff", backoffs, 0, 0 },
    { "delay", NULL, 1, LEAT__DELAY_MOST_MS },
    { "max_delay", NULL, 1, LEAT__DELAY_MOST_MS },
    { "no_jitter", jitters, 0, 0 },
    { "re_add", re_adds, 0, 0 },
};

const char *leat__order_name(leat_order o)
{
    assert(o >= LEAT_ORDER_PARTITION && o <= LEAT_ORDER_NONE);
    return orders[o - 1];
}

const char *leat__settings_name(size_t i)
{
    return fields[i].name;
}

static void to_values(const leat_group_settings *s, int64_t v[LEAT__SETTINGS])
{
    v[LEASE] = s->lease_ms;
    v[ORDER] = s->order;
    v[ATTEMPTS] = s->max_attempts;
    v[BACKOFF] = s->backoff;
    v[DELAY] = s->delay_ms;
    v[MAX_DELAY] = s->max_delay_ms;
    v[NO_JITTER] = s->jitter;
    v[RE_ADD] = s->re_add;
}

static leat_group_settings from_values(const int64_t v[LEAT__SETTINGS])
{
    return (leat_group_settings){ .lease_ms = v[LEASE],
                                  .order = (leat_order)v[ORDER],
                                  .max_attempts = (int)v[ATTEMPTS],
                                  .backoff = (leat_backoff_kind)v[BACKOFF],
                                  .delay_ms = v[DELAY],
                                  .max_delay_ms = v[MAX_DELAY],
                                  .jitter = (leat_choice)v[NO_JITTER],
                                  .re_add = (leat_choice)v[RE_ADD] };
}

leat_code leat__settings_check(const leat_group_settings *s, leat_error *err)
{
    leat_topic_source_opts o = { 0 };
    leat__settings_apply(s, &o);
    if (s->lease_ms && (s->lease_ms < LEAT__LEASE_LEAST_MS ||
                        s->lease_ms > LEAT__LEASE_MOST_MS))
        return leat__fail(err, LEAT_EINVAL,
                          "a lease of %lld ms is not between %d and %d: "
                          "lease_ms",
                          (long long)s->lease_ms, LEAT__LEASE_LEAST_MS,
                          LEAT__LEASE_MOST_MS);
    if ((unsigned)s->order > LEAT_ORDER_NONE)
        return leat__fail(err, LEAT_EINVAL, "order %d is none", (int)s->order);
    return leat__retry_check(&o.retry, err);
}

void leat__settings_fill(leat_group_settings *s)
{
    leat_topic_source_opts o = { 0 };
    leat__settings_apply(s, &o);
    leat__retry_fill(&o.retry);
    o.lease_ms = o.lease_ms ? o.lease_ms : LEAT__LEASE_MS;
    o.order = o.order ? o.order : LEAT_ORDER_PARTITION;
    *s = leat__settings_of(&o);
}

leat_group_settings leat__settings_of(const leat_topic_source_opts *o)
{
    return (leat_group_settings){ .lease_ms = o->lease_ms,
                                  .order = o->order,
                                  .max_attempts = o->retry.max_attempts,
                                  .backoff = o->retry.backoff,
                                  .delay_ms = o->retry.delay_ms,
                                  .max_delay_ms = o->retry.max_delay_ms,
                                  .jitter = o->retry.jitter,
                                  .re_add = o->retry.re_add };
}

void leat__settings_apply(const leat_group_settings *s,
                          leat_topic_source_opts *o)
{
    o->lease_ms = s->lease_ms;
    o->order = s->order;
    o->retry.max_attempts = s->max_attempts;
    o->retry.backoff = s->backoff;
    o->retry.delay_ms = s->delay_ms;
    o->retry.max_delay_ms = s->max_delay_ms;
    o->retry.jitter = s->jitter;
    o->retry.re_add = s->re_add;
}

bool leat__settings_same(const leat_group_settings *a,
                         const leat_group_settings *b)
{
    int64_t x[LEAT__SETTINGS], y[LEAT__SETTINGS];
    to_values(a, x);
    to_values(b, y);
    return memcmp(x, y, sizeof x) == 0;
}

/* ---- as text ---------------------------------------------------------- */

static leat_bytes text_of(int i, int64_t v, char text[LEAT__SETTING_TEXT])
{
    const char *const *words = fields[i].words;
    return v == 0  ? leat_str("")
           : words ? leat_str(words[v - 1])
                   : leat__arg_int(text, v);
}

void leat__settings_pairs(const leat_group_settings *s,
                          leat_bytes pairs[2 * LEAT__SETTINGS],
                          char text[LEAT__SETTINGS][LEAT__SETTING_TEXT])
{
    _Static_assert((int)LEAT__SETTING_TEXT == (int)LEAT__NUMBER, "");
    int64_t v[LEAT__SETTINGS];
    to_values(s, v);
    for (int i = 0; i < LEAT__SETTINGS; i++) {
        pairs[2 * i] = leat_str(fields[i].name);
        pairs[2 * i + 1] = text_of(i, v[i], text[i]);
    }
}

static bool parse(int i, leat_bytes value, int64_t *out)
{
    char text[LEAT__SETTING_TEXT], *end;
    const char *const *words = fields[i].words;
    if (value.n == 0 || value.n >= sizeof text)
        return false;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    for (int w = 0; words && words[w]; w++)
        if (strcmp(words[w], text) == 0) {
            *out = w + 1;
            return true;
        }
    *out = strtoll(text, &end, 10);
    return !words && *end == '\0' && *out != 0 && *out >= fields[i].least &&
           *out <= fields[i].most;
}

bool leat__settings_read(leat_group_settings *s, const char *name,
                         leat_bytes value)
{
    int64_t v[LEAT__SETTINGS], got;
    to_values(s, v);
    for (int i = 0; i < LEAT__SETTINGS; i++) {
        if (strcmp(fields[i].name, name) != 0)
            continue;
        if (!parse(i, value, &got))
            return false;
        v[i] = got;
        *s = from_values(v);
        return true;
    }
    return false;
}

/* ---- members that differ ---------------------------------------------- */

/* As the command takes them. */
static const char *const options[] = { "lease", "order", "max-attempts",
                                       "backoff", "re-add" };
enum { OPTIONS = sizeof options / sizeof *options, WORD = 96 };

/* In the largest unit that leaves nothing over. */
static const char *duration(int64_t ms, char text[LEAT__SETTING_TEXT])
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = { { "d", 86400000 },
                  { "h", 3600000 },
                  { "m", 60000 },
                  { "s", 1000 },
                  { "ms", 1 } };
    size_t i = 0;
    while (ms % units[i].ms != 0)
        i++;
    snprintf(text, LEAT__SETTING_TEXT, "%lld%s", (long long)(ms / units[i].ms),
             units[i].unit);
    return text;
}

/* The longest wait says nothing where all are the same. */
static void say_backoff(const leat_group_settings *s, char out[WORD])
{
    char first[LEAT__SETTING_TEXT], most[LEAT__SETTING_TEXT];
    bool fixed = s->backoff == LEAT_BACKOFF_FIXED;
    snprintf(out, WORD, "%s:%s%s%s%s", backoffs[s->backoff - 1],
             duration(s->delay_ms, first), fixed ? "" : "..",
             fixed ? "" : duration(s->max_delay_ms, most),
             s->jitter == LEAT_NO ? ",nojitter" : "");
}

static void say(size_t option, const leat_group_settings *s, char out[WORD])
{
    char text[LEAT__SETTING_TEXT];
    switch (option) {
    case 0:
        snprintf(out, WORD, "%s", duration(s->lease_ms, text));
        break;
    case 1:
        snprintf(out, WORD, "%s", leat__order_name(s->order));
        break;
    case 2:
        snprintf(out, WORD, "%d", s->max_attempts < 0 ? 0 : s->max_attempts);
        break;
    case 3:
        say_backoff(s, out);
        break;
    default:
        snprintf(out, WORD, "%s", s->re_add == LEAT_YES ? "yes" : "no");
    }
}

/* What the group would have if the member had its way. */
static leat_group_settings with(const leat_group_settings *has,
                                const leat_group_settings *asked)
{
    int64_t want[LEAT__SETTINGS], is[LEAT__SETTINGS];
    to_values(asked, want);
    to_values(has, is);
    for (int i = 0; i < LEAT__SETTINGS; i++)
        is[i] = want[i] ? want[i] : is[i];
    if (is[DELAY] > is[MAX_DELAY])
        is[want[DELAY] ? MAX_DELAY : DELAY] =
            is[want[DELAY] ? DELAY : MAX_DELAY];
    return from_values(is);
}

/* 0 attempts are none to the command, but not to a reader. */
static const char *shown(size_t option, const char *text)
{
    return option == 2 && strcmp(text, "0") == 0 ? "no limit" : text;
}

static leat_code refuse(size_t option, const char *has, const char *asks,
                        const char *topic, const char *group, leat_error *err)
{
    char text[sizeof err->msg], todo[sizeof err->msg];
    int n = snprintf(text, sizeof text,
                     "group '%.60s' has %s %s, this member asks for %s: leave "
                     "it out, or change it for all: ",
                     group, options[option], shown(option, has),
                     shown(option, asks));
    int m = snprintf(todo, sizeof todo, "leat group alter %s %s --%s %s", topic,
                     group, options[option], asks);
    bool fits = n + m < (int)sizeof text;
    return leat__fail(err, LEAT_EINVAL, "%s%s", text,
                      fits ? todo : "leat group alter");
}

leat_code leat__settings_agree(const leat_topic_source_opts *asked,
                               const leat_group_settings *has,
                               const char *topic, const char *group,
                               leat_error *err)
{
    const leat_group_settings a = leat__settings_of(asked);
    const leat_group_settings want = with(has, &a);
    for (size_t i = 0; i < OPTIONS; i++) {
        char x[WORD], y[WORD];
        say(i, has, x);
        say(i, &want, y);
        if (strcmp(x, y) != 0)
            return refuse(i, x, y, topic, group, err);
    }
    return LEAT_OK;
}

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

#include <stdlib.h>
#include <string.h>

enum { LEASE, ORDER, ATTEMPTS, BACKOFF, DELAY, MAX_DELAY, NO_JITTER, RE_ADD };

static const struct {
    const char *name, *option;
} fields[LEAT__SETTINGS] = {
    { "lease", "--lease" },           { "order", "--order" },
    { "attempts", "--max-attempts" }, { "backoff", "--backoff" },
    { "delay", "--backoff" },         { "max_delay", "--backoff" },
    { "no_jitter", "--backoff" },     { "re_add", "" },
};

static const char *const orders[] = { "partition", "key", "none", NULL };
static const char *const backoffs[] = { "exponential", "fixed", NULL };

static const char *const *words_of(int i)
{
    return i == ORDER ? orders : i == BACKOFF ? backoffs : NULL;
}

const char *leat__order_name(leat_order o)
{
    return orders[o];
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
    v[NO_JITTER] = s->no_jitter;
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
                                  .no_jitter = v[NO_JITTER] != 0,
                                  .re_add = v[RE_ADD] != 0 };
}

leat_code leat__settings_init(leat_group_settings *s, leat_error *err)
{
    leat_topic_source_opts o = { 0 };
    leat__settings_apply(s, &o);
    if (s->lease_ms && (s->lease_ms < LEAT__LEASE_LEAST_MS ||
                        s->lease_ms > LEAT__LEASE_MOST_MS))
        return leat__fail(
            err, LEAT_EINVAL, "a lease of %lld ms is not between %d and %d",
            (long long)s->lease_ms, LEAT__LEASE_LEAST_MS, LEAT__LEASE_MOST_MS);
    if ((unsigned)s->order > LEAT_ORDER_NONE)
        return leat__fail(err, LEAT_EINVAL, "order %d is none", (int)s->order);
    leat_code rc = leat__retry_init(&o.retry, err);
    o.lease_ms = o.lease_ms ? o.lease_ms : LEAT__LEASE_MS;
    *s = leat__settings_of(&o);
    return rc;
}

leat_group_settings leat__settings_of(const leat_topic_source_opts *o)
{
    return (leat_group_settings){ .lease_ms = o->lease_ms,
                                  .order = o->order,
                                  .max_attempts = o->retry.max_attempts,
                                  .backoff = o->retry.backoff,
                                  .delay_ms = o->retry.delay_ms,
                                  .max_delay_ms = o->retry.max_delay_ms,
                                  .no_jitter = o->retry.no_jitter,
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
    o->retry.no_jitter = s->no_jitter;
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
    const char *const *words = words_of(i);
    return words ? leat_str(words[v]) : leat__arg_int(text, v);
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
    const char *const *words = words_of(i);
    if (value.n == 0 || value.n >= sizeof text)
        return false;
    memcpy(text, value.p, value.n);
    text[value.n] = '\0';
    for (int w = 0; words && words[w]; w++)
        if (strcmp(words[w], text) == 0) {
            *out = w;
            return true;
        }
    *out = strtoll(text, &end, 10);
    return !words && *end == '\0';
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

leat_code leat__settings_agree(const leat_topic_source_opts *asked,
                               const leat_group_settings *has,
                               const char *topic, const char *group,
                               leat_error *err)
{
    int64_t want[LEAT__SETTINGS], is[LEAT__SETTINGS];
    char text[2][LEAT__SETTING_TEXT];
    const leat_group_settings a = leat__settings_of(asked);
    to_values(&a, want);
    to_values(has, is);
    for (int i = 0; i < LEAT__SETTINGS; i++) {
        if (want[i] == 0 || want[i] == is[i])
            continue;
        leat_bytes x = text_of(i, is[i], text[0]);
        leat_bytes y = text_of(i, want[i], text[1]);
        return leat__fail(err, LEAT_EINVAL,
                          "group '%.60s' has %s %.*s, this member asks for "
                          "%.*s: leave it out, or change it for all by "
                          "leat_group_alter, 'leat group alter %.40s %.40s "
                          "%s'",
                          group, fields[i].name, (int)x.n, (const char *)x.p,
                          (int)y.n, (const char *)y.p, topic, group,
                          fields[i].option);
    }
    return LEAT_OK;
}

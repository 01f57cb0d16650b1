/*
 * text.c: a registry as text, Prometheus 0.0.4 or OpenMetrics 1.0.
 *
 *   # HELP name help
 *   # TYPE name counter
 *   name{a="1"} 42
 *
 * OpenMetrics names a counter's family without "_total", writes bounds as
 * floats, tells the unit and ends with "# EOF".  Seconds are written from whole
 * nanoseconds, so no locale and no rounding touches them.
 */
#include "base/mem.h"
#include "metrics/metrics.h"
#include "metrics/registry.h"

#include <inttypes.h>

/* As leat__bounds: in Prometheus' text and, where it differs, OpenMetrics'. */
static const char *const les[LEAT__BOUNDS + 1][2] = {
    { "0.0001" }, { "0.0005" },     { "0.001" },    { "0.005" }, { "0.01" },
    { "0.025" },  { "0.05" },       { "0.075" },    { "0.1" },   { "0.25" },
    { "0.5" },    { "0.75" },       { "1", "1.0" }, { "2.5" },   { "5", "5.0" },
    { "7.5" },    { "10", "10.0" }, { "+Inf" }
};

struct text {
    leat__buf out;
    bool open; /* OpenMetrics */
    leat_error *err;
};

const char *leat__metric_type_name(leat__metric_type type)
{
    static const char *const names[] = { "counter", "gauge", "histogram" };
    return names[type];
}

leat_code leat__metrics_escape(leat__buf *out, const char *s, bool quote,
                               leat_error *err)
{
    leat_code rc = LEAT_OK;
    while (*s && rc == LEAT_OK) {
        size_t run = strcspn(s, quote ? "\\\n\"" : "\\\n");
        rc = leat__buf_add(out, s, run, err);
        s += run;
        if (*s == '\0' || rc != LEAT_OK)
            break;
        char pair[2] = { '\\', *s == '\n' ? 'n' : *s };
        rc = leat__buf_add(out, pair, 2, err);
        s++;
    }
    return rc;
}

static leat_code head(struct text *t, const leat__family *f)
{
    size_t n = strlen(f->name);
    if (t->open && f->type == LEAT__COUNTER)
        n -= strlen("_total");
    leat_code rc = leat__buf_printf(&t->out, t->err, "# TYPE %.*s %s\n", (int)n,
                                    f->name, leat__metric_type_name(f->type));
    if (rc == LEAT_OK && t->open && f->type == LEAT__HISTOGRAM)
        rc = leat__buf_printf(&t->out, t->err, "# UNIT %s seconds\n", f->name);
    if (rc != LEAT_OK || !f->help)
        return rc;
    rc = leat__buf_printf(&t->out, t->err, "# HELP %.*s ", (int)n, f->name);
    if (rc == LEAT_OK)
        rc = leat__metrics_escape(&t->out, f->help, t->open, t->err);
    return rc == LEAT_OK ? leat__buf_str(&t->out, "\n", t->err) : rc;
}

/* name<tail>{labels} and a space. */
static leat_code start(struct text *t, const leat__family *f, const char *tail,
                       const leat__series *s)
{
    bool some = s->labels[0] != '\0';
    return leat__buf_printf(&t->out, t->err, "%s%s%s%s%s ", f->name, tail,
                            some ? "{" : "", s->labels, some ? "}" : "");
}

static leat_code bucket(struct text *t, const leat__family *f,
                        const leat__series *s, unsigned coarse, uint64_t count)
{
    const char *const *le = les[coarse];
    return leat__buf_printf(&t->out, t->err,
                            "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", f->name,
                            s->labels, s->labels[0] ? "," : "",
                            t->open && le[1] ? le[1] : le[0], count);
}

/* All buckets from one look at each cell, so the last one is the count. */
static leat_code buckets(struct text *t, const leat__family *f,
                         const leat__series *s, uint64_t *count)
{
    const leat_histogram *h = s->metric;
    leat_code rc = LEAT_OK;
    leat__cell c = leat__cell_first();
    bool more = true;
    for (unsigned coarse = 0; coarse <= LEAT__BOUNDS && !rc; coarse++) {
        for (; more && c.coarse == coarse; more = leat__cell_next(&c))
            *count += atomic_load_explicit(&h->cell[c.index],
                                           memory_order_relaxed);
        rc = bucket(t, f, s, coarse, *count);
    }
    return rc;
}

static leat_code histogram(struct text *t, const leat__family *f,
                           const leat__series *s)
{
    const leat_histogram *h = s->metric;
    const uint64_t second = 1000000000;
    uint64_t count = 0;
    uint64_t sum = atomic_load_explicit(&h->sum_ns, memory_order_relaxed);
    leat_code rc = buckets(t, f, s, &count);
    if (rc == LEAT_OK)
        rc = start(t, f, "_sum", s);
    if (rc == LEAT_OK)
        rc = leat__buf_printf(&t->out, t->err, "%" PRIu64 ".%09" PRIu64 "\n",
                              sum / second, sum % second);
    if (rc == LEAT_OK)
        rc = start(t, f, "_count", s);
    if (rc == LEAT_OK)
        rc = leat__buf_printf(&t->out, t->err, "%" PRIu64 "\n", count);
    return rc;
}

static leat_code series(struct text *t, const leat__family *f,
                        const leat__series *s)
{
    if (f->type == LEAT__HISTOGRAM)
        return histogram(t, f, s);
    leat_code rc = start(t, f, "", s);
    if (rc != LEAT_OK)
        return rc;
    if (f->type == LEAT__COUNTER)
        return leat__buf_printf(&t->out, t->err, "%" PRIu64 "\n",
                                leat_counter_get(s->metric));
    return leat__buf_printf(&t->out, t->err, "%" PRId64 "\n",
                            leat_gauge_get(s->metric));
}

static leat_code family(struct text *t, const leat__family *f)
{
    if (leat__list_empty(&f->series))
        return LEAT_OK;
    leat_code rc = head(t, f);
    LEAT__LIST_EACH(&f->series, at)
    {
        if (rc == LEAT_OK)
            rc = series(t, f, LEAT__ITEM(at, leat__series, link));
    }
    return rc;
}

static leat_code families_locked(struct text *t, const leat_metrics *m)
{
    leat_code rc = LEAT_OK;
    LEAT__LIST_EACH(&m->families, at)
    {
        if (rc == LEAT_OK)
            rc = family(t, LEAT__ITEM(at, leat__family, link));
    }
    return rc;
}

char *leat_metrics_text(leat_metrics *m, bool openmetrics, leat_error *err)
{
    struct text t = { .open = openmetrics, .err = err };
    leat_code rc = LEAT_OK;
    if (m) {
        pthread_mutex_lock(&m->lock);
        rc = families_locked(&t, m);
        pthread_mutex_unlock(&m->lock);
    }
    if (rc == LEAT_OK && openmetrics)
        rc = leat__buf_str(&t.out, "# EOF\n", err);
    if (rc == LEAT_OK)
        rc = leat__buf_add(&t.out, "", 1, err);
    if (rc != LEAT_OK)
        leat__buf_release(&t.out);
    return t.out.p;
}

void leat_metrics_text_free(char *text)
{
    leat__free(text);
}

/*
 * metrics.c: the registry, and the public ways to write and read a metric.
 *
 * A family is a name with its type and help; a series is a family with labels
 * and holds the numbers.  Both are only ever added, under the lock, and live
 * until the registry goes: so a metric's pointer needs no lock.
 *
 * Every name a family will show is claimed in one map, with "_bucket", "_sum"
 * and "_count" of a histogram and, for OpenMetrics, a counter's name without
 * "_total": no two families can ever show the same line.
 */
#include "metrics/metrics.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "metrics/registry.h"

#include <float.h>
#include <stdlib.h>

enum { MAX_LABELS = 16, MAX_NAME = 200, MAX_VALUE = 1024, MAX_CLAIMS = 4 };

leat_metrics *leat_metrics_new(leat_error *err)
{
    leat_metrics *m = leat__zalloc(sizeof *m, err);
    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    leat__list_init(&m->families);
    return m;
}

static void free_family(leat__family *f)
{
    if (!f)
        return;
    for (leat__link *k; (k = leat__list_pop(&f->series));)
        leat__free(LEAT__ITEM(k, leat__series, link));
    leat__map_release(&f->by_labels);
    leat__free(f->name);
    leat__free(f->help);
    leat__free(f);
}

void leat_metrics_free(leat_metrics *m)
{
    if (!m)
        return;
    for (leat__link *k; (k = leat__list_pop(&m->families));)
        free_family(LEAT__ITEM(k, leat__family, link));
    leat__map_release(&m->names);
    pthread_mutex_destroy(&m->lock);
    leat__free(m);
}

/* ---- names ------------------------------------------------------------ */

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool name_chars(const char *s, bool colons)
{
    if (!s || !*s || (*s >= '0' && *s <= '9') || strlen(s) > MAX_NAME)
        return false;
    for (; *s; s++)
        if (!letter(*s) && !(*s >= '0' && *s <= '9') && !(colons && *s == ':'))
            return false;
    return true;
}

static bool ends_in(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);
    return n > t && strcmp(s + n - t, tail) == 0;
}

static leat_code check_name(const char *name, leat__metric_type type,
                            leat_error *err)
{
    static const char *const tails[] = {
        [LEAT__COUNTER] = "_total", [LEAT__HISTOGRAM] = "_seconds"
    };
    if (!name_chars(name, true))
        return leat__fail(err, LEAT_EINVAL,
                          "metric name '%.80s' is not [a-zA-Z_:][a-zA-Z0-9_:]* "
                          "of at most %d characters",
                          name ? name : "", MAX_NAME);
    if (type != LEAT__GAUGE && !ends_in(name, tails[type]))
        return leat__fail(err, LEAT_EINVAL,
                          "metric name '%.80s' must end in '%s'", name,
                          tails[type]);
    return LEAT_OK;
}

static leat_code check_label(const leat_label *l, leat_error *err)
{
    if (!name_chars(l->name, false) || strncmp(l->name, "__", 2) == 0 ||
        strcmp(l->name, "le") == 0)
        return leat__fail(
            err, LEAT_EINVAL,
            "label name '%.80s' is not [a-zA-Z_][a-zA-Z0-9_]*, or "
            "is reserved",
            l->name ? l->name : "");
    if (!l->value || strlen(l->value) > MAX_VALUE ||
        !leat__utf8_valid(leat_str(l->value)))
        return leat__fail(
            err, LEAT_EINVAL,
            "the value of label '%.80s' is missing, over %d bytes "
            "or not utf-8",
            l->name, MAX_VALUE);
    return LEAT_OK;
}

/* ---- labels as text --------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const leat_label *)a)->name, ((const leat_label *)b)->name);
}

/* The labels as they will be shown, sorted so that their order does not
 * matter: a="1",b="2". */
static leat_code render(leat__buf *out, const leat_label *labels, size_t n,
                        leat_error *err)
{
    leat_label sorted[MAX_LABELS];
    leat_code rc = LEAT_OK;
    if (n > MAX_LABELS)
        return leat__fail(err, LEAT_EINVAL, "%zu labels are over %d", n,
                          MAX_LABELS);
    for (size_t i = 0; i < n && rc == LEAT_OK; i++)
        rc = check_label(&labels[i], err);
    if (rc != LEAT_OK || n == 0)
        return rc;
    memcpy(sorted, labels, n * sizeof *labels);
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; i < n && rc == LEAT_OK; i++) {
        if (i > 0 && by_name(&sorted[i - 1], &sorted[i]) == 0)
            return leat__fail(err, LEAT_EINVAL, "label '%.80s' is given twice",
                              sorted[i].name);
        rc = leat__buf_printf(out, err, "%s%s=\"", i ? "," : "",
                              sorted[i].name);
        if (rc == LEAT_OK)
            rc = leat__metrics_escape(out, sorted[i].value, true, err);
        if (rc == LEAT_OK)
            rc = leat__buf_str(out, "\"", err);
    }
    return rc;
}

/* ---- families --------------------------------------------------------- */

/* The endings of what a type shows, besides the name itself.  "-" takes the
 * counter's ending away. */
static const char *const shows[][MAX_CLAIMS] = {
    [LEAT__COUNTER] = { "", "-" },
    [LEAT__GAUGE] = { "" },
    [LEAT__HISTOGRAM] = { "", "_bucket", "_sum", "_count" },
};

static leat_bytes claim_name(const leat__family *f, const char *tail,
                             char room[MAX_NAME + 16])
{
    size_t n = strlen(f->name), t = strlen(tail);
    memcpy(room, f->name, n);
    if (*tail == '-')
        return leat_mem(room, n - strlen("_total"));
    memcpy(room + n, tail, t);
    return leat_mem(room, n + t);
}

static void unclaim(leat_metrics *m, const leat__family *f)
{
    char room[MAX_NAME + 16];
    for (int i = 0; i < MAX_CLAIMS && shows[f->type][i]; i++) {
        leat_bytes name = claim_name(f, shows[f->type][i], room);
        if (leat__map_get(&m->names, name) == f)
            leat__map_remove(&m->names, name);
    }
}

static leat_code claim(leat_metrics *m, leat__family *f, leat_error *err)
{
    char room[MAX_NAME + 16];
    leat_code rc = LEAT_OK;
    for (int i = 0; i < MAX_CLAIMS && shows[f->type][i] && !rc; i++) {
        leat_bytes name = claim_name(f, shows[f->type][i], room);
        const leat__family *other = leat__map_get(&m->names, name);
        if (other)
            rc = leat__fail(err, LEAT_EEXIST,
                            "metric '%.80s' clashes with '%.80s', which is "
                            "there already",
                            f->name, other->name);
        else
            rc = leat__map_put(&m->names, name, f, NULL, err);
    }
    if (rc != LEAT_OK)
        unclaim(m, f);
    return rc;
}

static leat__family *new_family(leat_metrics *m, const char *name,
                                const char *help, leat__metric_type type,
                                leat_error *err)
{
    leat__family *f = leat__zalloc(sizeof *f, err);
    if (!f)
        return NULL;
    leat__list_init(&f->series);
    f->type = type;
    f->name = leat__strdup(name, err);
    f->help = f->name && help ? leat__strdup(help, err) : NULL;
    if (!f->name || (help && !f->help) || claim(m, f, err) != LEAT_OK) {
        free_family(f);
        return NULL;
    }
    leat__list_push(&m->families, &f->link);
    return f;
}

static leat__family *family_locked(leat_metrics *m, const char *name,
                                   const char *help, leat__metric_type type,
                                   leat_error *err)
{
    if (check_name(name, type, err) != LEAT_OK)
        return NULL;
    leat__family *f = leat__map_get(&m->names, leat_str(name));
    if (!f || strcmp(f->name, name) != 0)
        return new_family(m, name, help, type, err);
    if (f->type == type)
        return f;
    leat__fail(err, LEAT_EEXIST, "metric '%.80s' is a %s already", name,
               leat__metric_type_name(f->type));
    return NULL;
}

/* ---- series ----------------------------------------------------------- */

/* One block: the series, its label text, and the numbers on lines of their
 * own. */
static leat__series *new_series(leat__metric_type type, leat_bytes labels,
                                leat_error *err)
{
    static const size_t sizes[] = { [LEAT__COUNTER] = sizeof(leat_counter),
                                    [LEAT__GAUGE] = sizeof(leat_gauge),
                                    [LEAT__HISTOGRAM] = sizeof(
                                        leat_histogram) };
    size_t head = sizeof(leat__series) + labels.n + 1;
    leat__series *s = leat__zalloc(head + LEAT__CACHE_LINE - 1 + sizes[type],
                                   err);
    if (!s)
        return NULL;
    if (labels.n > 0)
        memcpy(s->labels, labels.p, labels.n);
    uintptr_t at = (uintptr_t)s + head + LEAT__CACHE_LINE - 1;
    s->metric = (void *)(at - at % LEAT__CACHE_LINE);
    return s;
}

static leat__series *add_series(leat_metrics *m, leat__family *f,
                                leat_bytes labels, leat_error *err)
{
    if (m->series >= LEAT__METRICS_SERIES) {
        leat__fail(err, LEAT_EFULL,
                   "metric '%.80s' would be series %d: a label has too many "
                   "values",
                   f->name, LEAT__METRICS_SERIES + 1);
        return NULL;
    }
    leat__series *s = new_series(f->type, labels, err);
    if (!s || leat__map_put(&f->by_labels, labels, s, NULL, err) != LEAT_OK) {
        leat__free(s);
        return NULL;
    }
    leat__list_push(&f->series, &s->link);
    m->series++;
    return s;
}

static void *metric(leat_metrics *m, const char *name, const char *help,
                    leat__metric_type type, const leat_label *labels, size_t n,
                    leat_error *err)
{
    leat__buf text = { 0 };
    leat__series *s = NULL;
    if (!m)
        return NULL;
    if (render(&text, labels, n, err) == LEAT_OK) {
        leat_bytes key = leat__buf_bytes(&text);
        pthread_mutex_lock(&m->lock);
        leat__family *f = family_locked(m, name, help, type, err);
        s = f ? leat__map_get(&f->by_labels, key) : NULL;
        if (f && !s)
            s = add_series(m, f, key, err);
        pthread_mutex_unlock(&m->lock);
    }
    leat__buf_release(&text);
    return s ? s->metric : NULL;
}

leat_counter *leat_metrics_counter(leat_metrics *m, const char *name,
                                   const char *help, const leat_label *labels,
                                   size_t n, leat_error *err)
{
    return metric(m, name, help, LEAT__COUNTER, labels, n, err);
}

leat_gauge *leat_metrics_gauge(leat_metrics *m, const char *name,
                               const char *help, const leat_label *labels,
                               size_t n, leat_error *err)
{
    return metric(m, name, help, LEAT__GAUGE, labels, n, err);
}

leat_histogram *leat_metrics_histogram(leat_metrics *m, const char *name,
                                       const char *help,
                                       const leat_label *labels, size_t n,
                                       leat_error *err)
{
    return metric(m, name, help, LEAT__HISTOGRAM, labels, n, err);
}

/* ---- writing and reading ---------------------------------------------- */

void leat_counter_add(leat_counter *c, uint64_t n)
{
    leat__counter_add(c, n);
}

void leat_gauge_set(leat_gauge *g, int64_t v)
{
    leat__gauge_set(g, v);
}

void leat_gauge_add(leat_gauge *g, int64_t n)
{
    leat__gauge_add(g, n);
}

void leat_histogram_record(leat_histogram *h, int64_t ns)
{
    leat__histogram_record(h, ns);
}

uint64_t leat_counter_get(const leat_counter *c)
{
    return c ? atomic_load_explicit(&c->n, memory_order_relaxed) : 0;
}

int64_t leat_gauge_get(const leat_gauge *g)
{
    return g ? atomic_load_explicit(&g->v, memory_order_relaxed) : 0;
}

static uint64_t cell_count(const leat_histogram *h, unsigned i)
{
    return atomic_load_explicit(&h->cell[i], memory_order_relaxed);
}

uint64_t leat_histogram_count(const leat_histogram *h)
{
    uint64_t n = 0;
    for (unsigned i = 0; h && i < LEAT__CELLS; i++)
        n += cell_count(h, i);
    return n;
}

/* Which record, counted from 1, a share of n leads to; NaN is the first.  A
 * share such as 0.552 is not exact in binary: a hair above a whole number means
 * that number. */
static uint64_t rank_of(double q, uint64_t n)
{
    double exact = q * (double)n * (1 - 4 * DBL_EPSILON);
    if (!(exact > 1))
        return 1;
    if (exact >= (double)n)
        return n;
    uint64_t r = (uint64_t)exact;
    return r + ((double)r < exact);
}

/* Counts may grow during the walk; they never shrink, so it ends in a cell. */
int64_t leat_histogram_quantile(const leat_histogram *h, double q)
{
    uint64_t n = leat_histogram_count(h), seen = 0;
    if (n == 0)
        return 0;
    uint64_t rank = rank_of(q, n);
    leat__cell c = leat__cell_first();
    while ((seen += cell_count(h, c.index)) < rank && leat__cell_next(&c))
        ;
    return (int64_t)(c.low + (c.high - c.low) / 2);
}

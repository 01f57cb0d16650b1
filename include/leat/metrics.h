/*
 * metrics.h: counters, gauges and histograms, and their text form.
 *
 * A leat_metrics is a registry that handles write to and a program reads, as
 * Prometheus text 0.0.4 or OpenMetrics 1.0.  Writing is a relaxed atomic add,
 * no lock; a NULL metric is accepted and does nothing.
 *
 * Threads: everything here is shared.
 */
#ifndef LEAT_METRICS_H
#define LEAT_METRICS_H

#include <leat/error.h>

LEAT_BEGIN

typedef struct leat_metrics leat_metrics;
typedef struct leat_counter leat_counter;
typedef struct leat_gauge leat_gauge;
typedef struct leat_histogram leat_histogram;

typedef struct leat_label {
    const char *name;
    const char *value;
} leat_label;

LEAT_API leat_metrics *leat_metrics_new(leat_error *err);

/* Frees every metric made from it: close what writes to it first. */
LEAT_API void leat_metrics_free(leat_metrics *m);

/* The metric of that name and labels, made on first use; owned by m.  Names
 * are [a-zA-Z_:][a-zA-Z0-9_:]*, a counter's ends in "_total", a histogram's in
 * "_seconds" and counts nanoseconds inside.  NULL on failure, or when m is
 * NULL: then nothing is counted. */
LEAT_API leat_counter *leat_metrics_counter(leat_metrics *m, const char *name,
                                            const char *help,
                                            const leat_label *labels, size_t n,
                                            leat_error *err);
LEAT_API leat_gauge *leat_metrics_gauge(leat_metrics *m, const char *name,
                                        const char *help,
                                        const leat_label *labels, size_t n,
                                        leat_error *err);
LEAT_API leat_histogram *
leat_metrics_histogram(leat_metrics *m, const char *name, const char *help,
                       const leat_label *labels, size_t n, leat_error *err);

LEAT_API void leat_counter_add(leat_counter *c, uint64_t n);
LEAT_API void leat_gauge_set(leat_gauge *g, int64_t v);
LEAT_API void leat_gauge_add(leat_gauge *g, int64_t n);
LEAT_API void leat_histogram_record(leat_histogram *h, int64_t ns);

LEAT_API uint64_t leat_counter_get(const leat_counter *c);
LEAT_API int64_t leat_gauge_get(const leat_gauge *g);
LEAT_API uint64_t leat_histogram_count(const leat_histogram *h);

/* The value below which a share q (0..1) of the records lies, in nanoseconds,
 * within 1/16 of the true one; 0 when there is none. */
LEAT_API int64_t leat_histogram_quantile(const leat_histogram *h, double q);

/* The whole registry as text, to be freed by leat_metrics_text_free. */
LEAT_API char *leat_metrics_text(leat_metrics *m, bool openmetrics,
                                 leat_error *err);
LEAT_API void leat_metrics_text_free(char *text);

LEAT_END
#endif

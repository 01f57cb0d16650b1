/* registry.h: the families and series of a registry, for who shows them. */
#ifndef LEAT_METRICS_REGISTRY_H
#define LEAT_METRICS_REGISTRY_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include <leat/metrics.h>
#include <pthread.h>

typedef enum leat__metric_type {
    LEAT__COUNTER,
    LEAT__GAUGE,
    LEAT__HISTOGRAM
} leat__metric_type;

typedef struct leat__series {
    leat__link link; /* in its family, oldest first                    */
    void *metric;    /* leat_counter, leat_gauge or leat_histogram     */
    char labels[];   /* a="1",b="2": escaped, sorted; may be empty     */
} leat__series;

typedef struct leat__family {
    leat__link link; /* in the registry, oldest first */
    leat__metric_type type;
    char *name, *help;   /* help may be NULL              */
    leat__list series;   /* leat__series                  */
    leat__map by_labels; /* label text -> leat__series    */
} leat__family;

struct leat_metrics {
    pthread_mutex_t lock;
    leat__list families; /* leat__family                       */
    leat__map names;     /* every name shown -> leat__family   */
    size_t series;
};

const char *leat__metric_type_name(leat__metric_type type);

/* Append s with backslash and newline escaped, the quote too where asked. */
leat_code leat__metrics_escape(leat__buf *out, const char *s, bool quote,
                               leat_error *err);

#endif

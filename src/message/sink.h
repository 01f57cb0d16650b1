/*
 * sink.h: the table every sink fills.  An implementation embeds struct
 * leat_sink as its first member.  Everything here is called from any thread.
 */
#ifndef LEAT_MESSAGE_SINK_H
#define LEAT_MESSAGE_SINK_H

#include <leat/source.h>

typedef struct leat_sink_ops {
    /* Accept n (at least 1) messages, copied; all or, with a failure, none.
     * fn, which may be NULL, is called exactly once for each accepted one, in
     * the order of a partition, also when the sink is closed first (then with
     * LEAT_EUNKNOWN for what may have left, LEAT_ECLOSED for the rest).
     * LEAT_EFULL where the sink's bound is reached and it was opened not to
     * wait. */
    leat_code (*publish)(leat_sink *k, const leat_msg *m, size_t n,
                         leat_published_fn *fn, void *arg, leat_error *err);

    /* Wait until every message accepted before the call has its outcome.
     * LEAT_ETIMEOUT when some have none; otherwise the first failure among
     * those published without fn since the last flush. */
    leat_code (*flush)(leat_sink *k, int64_t timeout_ms, leat_error *err);

    /* Free k; what has no outcome yet gets one. */
    void (*close)(leat_sink *k);
} leat_sink_ops;

struct leat_sink {
    const leat_sink_ops *ops;
    const char *name; /* for logs and metrics; lives as long as the sink */
};

/* A flush inside a callback of the sink, on the thread that tells outcomes. */
leat_code leat__sink_inside(leat_error *err);

#endif

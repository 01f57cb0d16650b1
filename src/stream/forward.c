/*
 * forward.c: publish on behalf of a delivery.
 */
#include "base/mem.h"
#include "stream/stream.h"

typedef struct forward {
    leat_delivery *d;
    int64_t nack_ms;
    atomic_size_t left;
    atomic_bool failed;
} forward;

static void on_published(void *arg, const leat_position *at,
                         const leat_error *err)
{
    forward *f = arg;
    (void)at;
    if (err)
        atomic_store(&f->failed, true);
    if (atomic_fetch_sub(&f->left, 1) > 1)
        return;
    /* It was ours alone: settling cannot be refused. */
    if (atomic_load(&f->failed))
        (void)leat_delivery_nack(f->d, f->nack_ms);
    else
        (void)leat_delivery_ack(f->d);
    leat__free(f);
}

leat_code leat_stream_forward(leat_sink *k, leat_delivery *d, const leat_msg *m,
                              size_t n, int64_t nack_ms, leat_error *err)
{
    if (n == 0 || nack_ms < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "forward: at least one message is needed, and a "
                          "delay that is not negative");
    forward *f = leat__zalloc(sizeof *f, err);
    if (!f)
        return LEAT_ENOMEM;
    f->d = d;
    f->nack_ms = nack_ms;
    atomic_store(&f->left, n);
    leat_code rc = leat_sink_publish(k, m, n, on_published, f, err);
    if (rc != LEAT_OK)
        leat__free(f);
    return rc;
}

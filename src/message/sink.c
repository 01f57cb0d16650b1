/*
 * sink.c: the public verbs of a sink, over its table.
 */
#include "message/sink.h"
#include "base/error.h"

leat_code leat_sink_publish(leat_sink *k, const leat_msg *m, size_t n,
                            leat_published_fn *fn, void *arg, leat_error *err)
{
    if (n == 0)
        return LEAT_OK;
    return k->ops->publish(k, m, n, fn, arg, err);
}

leat_code leat_sink_flush(leat_sink *k, int64_t timeout_ms, leat_error *err)
{
    return k->ops->flush(k, timeout_ms, err);
}

leat_code leat__sink_inside(leat_error *err)
{
    return leat__fail(err, LEAT_EINVAL,
                      "flush inside a callback would wait for itself");
}

void leat_sink_close(leat_sink *k)
{
    if (k)
        k->ops->close(k);
}

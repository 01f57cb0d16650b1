/*
 * conn_ops.c: the functions of every connection, each by its table.
 */
#include "redis/conn.h"

void leat__conn_free(leat_conn *c)
{
    if (c)
        c->ops->free(c);
}

leat_code leat_conn_send(leat_conn *c, const leat_bytes *argv, size_t n,
                         const leat_send_opts *opts, leat_error *err)
{
    return c->ops->send(c, argv, n, opts, err);
}

int leat_conn_fd(const leat_conn *c)
{
    return c->ops->fd(c);
}

size_t leat_conn_in_flight(const leat_conn *c)
{
    return leat__conn_waiting(c);
}

leat_code leat_conn_flush(leat_conn *c, leat_error *err)
{
    return c->ops->flush(c, err);
}

leat_code leat_conn_take(leat_conn *c, leat_error *err)
{
    return c->ops->take(c, err);
}

leat_code leat_conn_listen(leat_conn *c, int64_t wait_ms, leat_error *err)
{
    return c->ops->listen(c, wait_ms, err);
}

leat_code leat_conn_watch(leat_conn *c, const leat_bytes *keys, size_t n,
                          leat_error *err)
{
    if (c->in_tx)
        return leat__fail(err, LEAT_EINVAL,
                          "watch before leat_conn_begin, not inside it");
    return c->ops->watch(c, keys, n, err);
}

leat_code leat_conn_begin(leat_conn *c, leat_error *err)
{
    if (c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "already inside a transaction");
    return c->ops->multi(c, err);
}

leat_code leat_conn_exec(leat_conn *c, leat_error *err)
{
    return c->ops->exec(c, err);
}

leat_code leat_conn_discard(leat_conn *c, leat_error *err)
{
    return c->ops->discard(c, err);
}

leat_code leat_conn_subscribe(leat_conn *c, bool pattern,
                              const leat_bytes *names, size_t n,
                              leat_error *err)
{
    return c->ops->subscribe(c, pattern, true, names, n, err);
}

leat_code leat_conn_unsubscribe(leat_conn *c, bool pattern,
                                const leat_bytes *names, size_t n,
                                leat_error *err)
{
    return c->ops->subscribe(c, pattern, false, names, n, err);
}

void leat__reply_ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

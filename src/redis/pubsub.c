/*
 * pubsub.c: subscribing on a connection.
 *
 * RESP3 sends messages and confirmations as pushes beside the answers; RESP2
 * sends them as arrays among the answers, told apart by their first element.
 * SUBSCRIBE with n names has n confirmations and no other answer.
 */
#include "base/mem.h"
#include "redis/bundle.h"
#include "redis/server_error.h"

#include <string.h>

static bool is(const leat_reply *r, const char *word)
{
    return (r->type == LEAT_REPLY_STRING || r->type == LEAT_REPLY_STATUS) &&
           r->s.n == strlen(word) && memcmp(r->s.p, word, r->s.n) == 0;
}

static bool is_confirmation(const leat_reply *kind)
{
    return is(kind, "subscribe") || is(kind, "psubscribe") ||
           is(kind, "unsubscribe") || is(kind, "punsubscribe");
}

/* The last element counts what is subscribed; the command is answered with
 * its last confirmation. */
static void confirm(leat_conn *c, const leat_reply *r)
{
    int64_t count = leat_reply_int(leat_reply_at(r, 2));
    c->subscriptions = count > 0 ? (uint32_t)count : 0;
    if (c->head == c->tail)
        return;
    leat__pending *p = &c->ring[c->head & c->mask];
    if (p->kind != LEAT__CALL_SUBSCRIBE || --p->left > 0)
        return;
    leat_reply_fn *fn = p->fn;
    void *arg = p->arg;
    c->head++;
    leat__conn_tell(c, fn, arg, r, NULL);
}

/* The channel and the body are the last two. */
static void deliver(leat_conn *c, const leat_reply *r)
{
    const leat_reply *channel = leat_reply_at(r, r->n - 2);
    const leat_reply *body = leat_reply_at(r, r->n - 1);
    c->pushes++;
    if (c->push_fn)
        c->push_fn(c->push_arg, leat_reply_bytes(channel),
                   leat_reply_bytes(body));
}

bool leat__pubsub_take(leat_conn *c, const leat_reply *r)
{
    bool asked = c->subscriptions > 0 ||
                 (c->head != c->tail &&
                  c->ring[c->head & c->mask].kind == LEAT__CALL_SUBSCRIBE);
    if (!asked || r->n < 3)
        return false;

    const leat_reply *kind = leat_reply_at(r, 0);
    if ((is(kind, "message") && r->n == 3) ||
        (is(kind, "pmessage") && r->n == 4))
        deliver(c, r);
    else if (is_confirmation(kind) && r->n == 3)
        confirm(c, r);
    else
        return false;
    return true;
}

void leat_conn_on_push(leat_conn *c, leat_push_fn *fn, void *arg)
{
    c->push_fn = fn; /* a bundle's child gets it when it subscribes */
    c->push_arg = arg;
}

struct outcome {
    leat_error err;
};

static void on_outcome(void *arg, const leat_reply *r, const leat_error *e)
{
    struct outcome *o = arg;
    (void)r;
    if (e)
        o->err = *e;
}

static leat_code change(leat_conn *c, const char *verb, const leat_bytes *names,
                        size_t n, leat_error *err)
{
    struct outcome o = { 0 };
    if (n == 0)
        return leat__fail(err, LEAT_EINVAL, "%s needs a name", verb);
    leat_code rc = leat__conn_ready(c, err);
    if (rc != LEAT_OK)
        return rc;
    leat_bytes *argv = leat__calloc(n + 1, sizeof *argv, err);
    if (!argv)
        return LEAT_ENOMEM;
    argv[0] = leat_str(verb);
    memcpy(argv + 1, names, n * sizeof *names);

    size_t size = leat__resp_command_size(argv, n + 1);
    char *p = leat__outq_room(&c->out, size, err);
    if (p) {
        leat__resp_command(p, argv, n + 1);
        leat__conn_push(c, size,
                        &(leat__pending){ .fn = on_outcome,
                                          .arg = &o,
                                          .left = (uint32_t)n,
                                          .kind = LEAT__CALL_SUBSCRIBE });
        rc = leat__conn_await(c, 0, err);
    } else {
        rc = LEAT_ENOMEM;
    }
    leat__free(argv);
    if (o.err.code != LEAT_OK) {
        if (err)
            *err = o.err;
        rc = o.err.code;
    }
    return rc;
}

leat_code leat_conn_subscribe(leat_conn *c, bool pattern,
                              const leat_bytes *names, size_t n,
                              leat_error *err)
{
    if (c->bundle)
        return leat__bundle_subscribe(c, pattern, true, names, n, err);
    return change(c, pattern ? "PSUBSCRIBE" : "SUBSCRIBE", names, n, err);
}

leat_code leat_conn_unsubscribe(leat_conn *c, bool pattern,
                                const leat_bytes *names, size_t n,
                                leat_error *err)
{
    if (c->bundle)
        return leat__bundle_subscribe(c, pattern, false, names, n, err);
    return change(c, pattern ? "PUNSUBSCRIBE" : "UNSUBSCRIBE", names, n, err);
}

/*
 * tx.c: MULTI ... EXEC on one connection.
 *
 *   begin: MULTI is queued; from here on commands are of kind QUEUED
 *   their answers are "QUEUED": the callback moves to c->tx and waits
 *   exec: EXEC's answer is an array with the real replies, in order
 *
 * Nothing of a transaction happens before EXEC has reached the server whole.
 * So when the connection breaks earlier, every command in it certainly did not
 * happen, though its own bytes left; after that every one is unknown.
 */
#include "base/mem.h"
#include "redis/bundle.h"
#include "redis/server_error.h"

#include <assert.h>

leat_code leat_conn_watch(leat_conn *c, const leat_bytes *keys, size_t n,
                          leat_error *err)
{
    if (c->in_tx)
        return leat__fail(err, LEAT_EINVAL,
                          "watch before leat_conn_begin, not inside it");
    if (c->bundle)
        return leat__bundle_watch(c, keys, n, err);
    leat_bytes *argv = leat__calloc(n + 1, sizeof *argv, err);
    if (!argv)
        return LEAT_ENOMEM;
    argv[0] = leat_str("WATCH");
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = keys[i];
    leat_code rc = leat_conn_call(c, argv, n + 1, NULL, NULL, err);
    leat__free(argv);
    return rc;
}

/* MULTI and EXEC are entries of their own kind: their answers are not for a
 * callback. */
static leat_code send_word(leat_conn *c, const char *word,
                           enum leat__call_kind kind, leat_error *err)
{
    leat_bytes arg = leat_str(word);
    leat_code rc = leat__conn_ready(c, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat__conn_ask(c, err) != LEAT_OK)
        return LEAT_ENOMEM;
    size_t size = leat__resp_command_size(&arg, 1);
    char *p = leat__outq_room(&c->out, size, err);
    if (!p)
        return LEAT_ENOMEM;
    leat__resp_command(p, &arg, 1);
    leat__conn_push(c, size, &(leat__pending){ .kind = kind });
    return LEAT_OK;
}

/* A script that the server has forgotten is sent again when it says so; behind
 * MULTI it would become a part of the transaction. */
static leat_code settle_scripts(leat_conn *c, leat_error *err)
{
    for (uint32_t i = c->head; i != c->tail; i++)
        if (c->ring[i & c->mask].script)
            return leat__conn_await(c, 0, err);
    return LEAT_OK;
}

leat_code leat_conn_begin(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_multi(c, err);
    if (c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "already inside a transaction");
    leat_code rc = settle_scripts(c, err);
    if (rc == LEAT_OK)
        rc = send_word(c, "MULTI", LEAT__CALL_MULTI, err);
    if (rc == LEAT_OK) {
        c->in_tx = true;
        c->no_tx = false;
        c->tx_sent = 0;
        c->tx_error = (leat_error){ 0 };
    }
    return rc;
}

leat_code leat__tx_reserve(leat_conn *c, leat_error *err)
{
    if (!c->in_tx || c->tx_sent < c->tx_cap)
        return LEAT_OK;
    uint32_t cap = c->tx_cap ? c->tx_cap * 2 : 16;
    leat__tx_call *tx = leat__realloc(c->tx, cap * sizeof *tx, err);
    if (!tx)
        return LEAT_ENOMEM;
    c->tx = tx;
    c->tx_cap = cap;
    return LEAT_OK;
}

/* What follows runs one by one, and some of it has left already.  So each
 * command gets its own answer, and the whole cannot be called undone. */
void leat__tx_refused(leat_conn *c, const leat_reply *r)
{
    leat_error why;
    leat__server_error(&why, leat_mem(r->s.p, r->s.n));
    leat__fail_retriable(&c->tx_error, LEAT_EUNKNOWN, false,
                         "MULTI was refused, so that its commands ran one by "
                         "one: %.100s",
                         why.msg);
    c->no_tx = true;
}

static void answer_one(leat_conn *c, leat_reply_fn *fn, void *arg,
                       const leat_reply *r)
{
    leat_error e;
    bool bad = r->type == LEAT_REPLY_ERROR;
    if (bad)
        leat__server_error(&e, leat_mem(r->s.p, r->s.n));
    leat__conn_tell(c, fn, arg, r, bad ? &e : NULL);
}

void leat__tx_queued(leat_conn *c, const leat__pending *p, const leat_reply *r)
{
    if (c->no_tx) {
        answer_one(c, p->fn, p->arg, r);
        return;
    }
    assert(c->tx_count < c->tx_cap);
    c->tx[c->tx_count++] = (leat__tx_call){ p->fn, p->arg };
    if (r->type != LEAT_REPLY_ERROR || c->tx_error.code != LEAT_OK)
        return;
    leat__server_error(&c->tx_error, leat_mem(r->s.p, r->s.n));
    leat__conn_refused(c, leat_mem(r->s.p, r->s.n), &c->tx_error);
}

void leat__tx_abort(leat_conn *c, const leat_error *e)
{
    for (uint32_t i = 0; i < c->tx_count; i++)
        leat__conn_tell(c, c->tx[i].fn, c->tx[i].arg, NULL, e);
    c->tx_count = 0;
    c->in_tx = false;
}

static void finish_each(leat_conn *c, const leat_reply *r)
{
    leat_reply_iter it = leat_reply_each(r);
    for (uint32_t i = 0; i < c->tx_count; i++)
        answer_one(c, c->tx[i].fn, c->tx[i].arg, leat_reply_step(&it));
    c->tx_count = 0;
}

void leat__tx_finish(leat_conn *c, const leat_reply *r)
{
    leat_error *e = &c->tx_error;
    if (r->type == LEAT_REPLY_ARRAY && r->n == c->tx_count) {
        *e = (leat_error){ 0 };
        finish_each(c, r);
        return;
    }
    if (r->type == LEAT_REPLY_NIL)
        leat__fail(e, LEAT_ECONFLICT, "a watched key changed");
    else if (r->type == LEAT_REPLY_ERROR && e->code == LEAT_OK)
        leat__server_error(e, leat_mem(r->s.p, r->s.n));
    else if (r->type != LEAT_REPLY_ERROR)
        leat__fail(e, LEAT_EUNKNOWN, "the answer to EXEC makes no sense");
    leat__tx_abort(c, e);
    if (e->code == LEAT_EUNKNOWN)
        leat__conn_break(c, e);
}

/* What EXEC came to: it was lost, or a command was not taken by the server.
 * Only if it is done, the first failure of a command without a callback. */
static leat_code verdict(leat_conn *c, leat_error *err)
{
    leat_error *first = c->tx_error.code ? &c->tx_error : &c->failed;
    leat_code rc = first->code;
    if (rc != LEAT_OK && err)
        *err = *first;
    c->failed = (leat_error){ 0 };
    return rc;
}

leat_code leat_conn_exec(leat_conn *c, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_exec(c, err);
    if (c->t && !c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "exec without leat_conn_begin");
    leat_code rc = send_word(c, "EXEC", LEAT__CALL_EXEC, err);
    if (rc != LEAT_OK)
        return rc;
    c->in_tx = false;
    c->failed = (leat_error){ 0 };
    rc = leat__conn_await(c, 0, err);
    leat_code said = verdict(c, err);
    /* A connection that broke and left EXEC without an error broke behind
     * EXEC's answer. */
    return said != LEAT_OK || !c->t ? said : rc;
}

leat_code leat_conn_discard(leat_conn *c, leat_error *err)
{
    leat_error e;
    if (c->bundle)
        return leat__bundle_discard(c, err);
    if (c->t && !c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "discard without leat_conn_begin");
    leat_code rc = leat__conn_await(c, 0, err);
    if (rc != LEAT_OK)
        return rc;
    leat__fail(&e, LEAT_ECLOSED, "the transaction was discarded");
    leat__tx_abort(c, &e);
    c->failed = (leat_error){ 0 };
    return leat_conn_call(c, LEAT_ARGS(leat_str("DISCARD")), NULL, NULL, err);
}

/*
 * script.c: calling Lua scripts.
 *
 * A call keeps its encoded arguments until it is answered, so that NOSCRIPT
 * (a restarted server, SCRIPT FLUSH) can be answered with the body.  The
 * server did nothing in that case, so sending again is safe.  Inside MULTI the
 * body is sent at once: there the refusal would come too late.
 */
#include "redis/script.h"
#include "base/mem.h"
#include "redis/bundle.h"

#include <string.h>

struct leat__script_call {
    const leat__script *script;
    size_t argc;    /* numkeys, keys and args */
    size_t size;    /* of their encoding      */
    leat_bytes key; /* the first, in the tail; none: empty */
    char tail[];
};

static size_t tail_size(leat_bytes numkeys, const leat_bytes *keys,
                        size_t nkeys, const leat_bytes *args, size_t nargs)
{
    size_t head = leat__resp_command_size(NULL, 0);
    return leat__resp_command_size(&numkeys, 1) +
           leat__resp_command_size(keys, nkeys) +
           leat__resp_command_size(args, nargs) - 3 * head;
}

static char *put_all(char *p, const leat_bytes *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p = leat__resp_bulk(p, v[i].p, v[i].n);
    return p;
}

static struct leat__script_call *keep(const leat__script *s,
                                      const leat_bytes *keys, size_t nkeys,
                                      const leat_bytes *args, size_t nargs,
                                      leat_error *err)
{
    char text[LEAT__NUMBER];
    leat_bytes numkeys = leat__arg_int(text, (int64_t)nkeys);
    size_t room = tail_size(numkeys, keys, nkeys, args, nargs) + 64;
    struct leat__script_call *k = leat__alloc(sizeof *k + room, err);
    if (!k)
        return NULL;
    char *at = put_all(k->tail, &numkeys, 1);
    char *end = put_all(at, keys, nkeys);
    k->key = leat_mem(NULL, 0);
    if (nkeys > 0) /* behind "$3\r\n" */
        k->key = leat_mem((char *)memchr(at, '\n', (size_t)(end - at)) + 1,
                          keys[0].n);
    end = put_all(end, args, nargs);
    k->script = s;
    k->argc = 1 + nkeys + nargs;
    k->size = (size_t)(end - k->tail);
    return k;
}

/* Encode EVAL or EVALSHA with the kept tail and queue it; takes nothing. */
static leat_code queue(leat_conn *c, const struct leat__script_call *k,
                       bool body, leat__pending p, leat_error *err)
{
    const leat__script *s = k->script;
    leat_bytes what = body ? leat_mem(s->body, s->body_size)
                           : leat_mem(s->sha, 40);
    leat_bytes head[] = { leat_str(body ? "EVAL" : "EVALSHA"), what };
    size_t room = leat__resp_command_size(head, 2) + k->size + 32;
    if (leat__conn_ask(c, err) != LEAT_OK)
        return LEAT_ENOMEM;
    char *start = leat__outq_room(&c->out, room, err);
    if (!start)
        return LEAT_ENOMEM;
    char *end = leat__resp_array_head(start, 2 + k->argc);
    end = put_all(end, head, 2);
    memcpy(end, k->tail, k->size);
    end += k->size;
    leat__conn_push(c, (size_t)(end - start), &p);
    return LEAT_OK;
}

leat_code leat__script_send(leat_conn *c, const leat__script *s,
                            const leat_bytes *keys, size_t nkeys,
                            const leat_bytes *args, size_t nargs,
                            const leat_send_opts *opts, leat_error *err)
{
    if (c->bundle)
        return leat__bundle_script(c, s, keys, nkeys, args, nargs, opts, err);
    leat_code rc = leat__conn_ready(c, err);
    if (rc == LEAT_OK)
        rc = leat__tx_reserve(c, err);
    if (rc != LEAT_OK)
        return rc;
    struct leat__script_call *k = keep(s, keys, nkeys, args, nargs, err);
    if (!k)
        return LEAT_ENOMEM;
    leat__pending p = { .fn = opts ? opts->fn : NULL,
                        .arg = opts ? opts->arg : NULL,
                        .block_ms = opts ? opts->block_ms : 0,
                        .script = c->in_tx ? NULL : k,
                        .kind = c->in_tx ? LEAT__CALL_QUEUED
                                         : LEAT__CALL_PLAIN };
    rc = queue(c, k, c->in_tx, p, err);
    if (rc != LEAT_OK || c->in_tx)
        leat__free(k);
    return rc;
}

leat_code leat__script_call(leat_conn *c, const leat__script *s,
                            const leat_bytes *keys, size_t nkeys,
                            const leat_bytes *args, size_t nargs,
                            const leat_reply **reply, leat_error *err)
{
    leat__call call = { .conn = c };
    leat_send_opts o = { leat__call_done, &call, 0 };

    if (reply)
        *reply = NULL;
    leat_code rc = leat__call_begin(c, err);
    if (rc == LEAT_OK)
        rc = leat__script_send(c, s, keys, nkeys, args, nargs, &o, err);
    return rc == LEAT_OK ? leat__call_wait(&call, reply, err) : rc;
}

bool leat__script_resend(leat_conn *c, const leat__pending *p)
{
    leat__pending again = *p;
    again.script = NULL;
    if (queue(c, p->script, true, again, NULL) != LEAT_OK)
        return false;
    leat__script_forget(p->script);
    return true;
}

leat_bytes leat__script_key(const struct leat__script_call *call)
{
    return call->key;
}

void leat__script_forget(struct leat__script_call *call)
{
    leat__free(call);
}

leat_bytes leat__arg_int(char *text, int64_t v)
{
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    char *end = text + LEAT__NUMBER - 1, *p = end;
    *end = 0;
    do
        *--p = (char)('0' + left % 10);
    while (left /= 10);
    if (v < 0)
        *--p = '-';
    return leat_mem(p, (size_t)(end - p));
}

/*
 * dlq_edit.c: a dead letter with another message.
 *
 * The message is read, changed and written again by the codec it was read with;
 * edit.lua puts it in the place of the other, wherever that was.
 */
#include "admin/dlq.h"
#include "base/mem.h"
#include "base/system.h"
#include "base/uuid.h"
#include "message/codec.h"
#include "redis/shape.h"

#include <stdio.h>

/* ---- encoding --------------------------------------------------------- */

/* A codec wants an id and a time; what was decoded may have had none. */
static leat_code complete(leat_msg *m, leat_fields *f, leat_error *err)
{
    if (m->time_ms == 0)
        m->time_ms = leat__date_ms();
    if (m->id.n > 0)
        return LEAT_OK;
    leat__uuid id;
    leat__uuid7_gen gen;
    char *text = leat_fields_alloc(f, LEAT__UUID_TEXT + 1, err);
    if (!text)
        return LEAT_ENOMEM;
    leat__uuid7_init(&gen);
    leat_code code = leat__uuid7_next(&gen, &id, err);
    leat__uuid7_release(&gen);
    if (code == LEAT_OK) {
        leat__uuid_format(&id, text);
        m->id = leat_mem(text, LEAT__UUID_TEXT);
    }
    return code;
}

leat_code leat__dead_encode(const leat_dlq *d, const leat_codec *by,
                            const leat_msg *m, size_t n, leat_fields *out,
                            size_t *size, leat_error *err)
{
    const leat_codec *codec = by              ? by
                              : d->opts.codec ? d->opts.codec
                                              : &leat_codec_native;
    leat_msg *whole = leat_fields_alloc(out, n * sizeof *whole, err);
    leat_code code = whole ? LEAT_OK : LEAT_ENOMEM;
    for (size_t i = 0; i < n && code == LEAT_OK; i++) {
        whole[i] = m[i];
        code = complete(&whole[i], out, err);
    }
    if (code == LEAT_OK)
        code = codec->encode(codec, whole, n, out, err);
    *size = 0;
    for (size_t i = 0; code == LEAT_OK && i < 2 * leat_fields_count(out); i++)
        *size += leat_fields_pairs(out)[i].n;
    return code;
}

/* ---- editing ---------------------------------------------------------- */

static leat_code change(const leat_dead *x, const leat_dead_edit *e,
                        leat_msg *m, leat_error *err)
{
    if (x->msg_count > 1)
        return leat__fail(err, LEAT_EINVAL,
                          "dead letter %s is %zu messages in one: only single "
                          "ones can be edited",
                          x->id, x->msg_count);
    bool none = x->damaged || x->msg_count == 0;
    if (none && !e->body.p)
        return leat__fail(err, LEAT_EINVAL,
                          "dead letter %s is no message that can be read: give "
                          "it a new body",
                          x->id);
    *m = (leat_msg){ 0 };
    if (!none)
        *m = *x->msg;
    if (e->body.p)
        m->body = e->body;
    if (e->key.p)
        m->key = e->key;
    if (e->headers) {
        m->headers = e->headers;
        m->header_count = e->header_count;
        return leat__check_headers(m, err);
    }
    return LEAT_OK;
}

static leat_code check_size(const leat_dlq *d, const leat_dead *x,
                            const leat_fields *f, size_t size, leat_error *err)
{
    size_t n = leat_fields_count(f);
    if (size > d->opts.max_message)
        return leat__fail(err, LEAT_ETOOBIG,
                          "dead letter %s would have %zu bytes, more than %zu",
                          x->id, size, d->opts.max_message);
    if (n > LEAT__DLQ_FIELDS_MOST)
        return leat__fail(err, LEAT_ETOOBIG,
                          "dead letter %s would have %zu fields, more than %d",
                          x->id, n, LEAT__DLQ_FIELDS_MOST);
    return LEAT_OK;
}

static leat_code gone(const char *id, bool again, leat_error *err)
{
    if (again)
        return leat__fail(err, LEAT_EUNKNOWN,
                          "dead letter %s is gone: it was edited by this call, "
                          "whose answer was lost, or taken by another",
                          id);
    return leat__fail(err, LEAT_ENOENT,
                      "dead letter %s is gone: another has replayed, removed "
                      "or edited it",
                      id);
}

/* Put the fields in the place of what it has. */
static leat_code replace(leat_dlq *d, leat__dead_at at, const leat_fields *f,
                         leat__dead_at *now, leat_error *err)
{
    leat__key key;
    leat_reply *r = NULL;
    bool again = false;
    char text[LEAT__ID_TEXT], id[LEAT_DEAD_ID];
    size_t n = 2 * leat_fields_count(f);
    leat_bytes *args = leat__calloc(1 + n, sizeof *args, err);
    if (!args)
        return LEAT_ENOMEM;
    args[0] = leat__position_format(at.at, text);
    memcpy(args + 1, leat_fields_pairs(f), n * sizeof *args);
    leat__dead_at_format(at, id);
    leat__dlq_key(d, at.partition, "dlq", NULL, &key);
    leat_code code = leat__dlq_run(d, at.partition, &leat__script_admin_edit,
                                   &key, 1, args, 1 + n, &again, &r, err);
    *now = at;
    if (code == LEAT_OK)
        code = leat__reply_want(r, "e", LEAT_EUNKNOWN, "EVAL", err);
    if (code == LEAT_OK && leat_reply_bytes(r).n == 0)
        code = gone(id, again, err);
    else if (code == LEAT_OK)
        (void)leat__position_parse(leat_reply_bytes(r), &now->at);
    leat_reply_free(r);
    leat__free(args);
    return code;
}

leat_code leat_dlq_edit(leat_dlq *d, const char *id, const leat_dead_edit *edit,
                        char id_now[LEAT_DEAD_ID], leat_error *err)
{
    leat__dead_at at, now = { 0 };
    leat_msg m;
    size_t size = 0;
    leat__letter x = { .opened.codec = d->opts.codec };
    leat_code code = leat__dead_at_parse(id, &at, err);
    if (code != LEAT_OK)
        return code;
    leat_fields *f = leat_fields_new(err);
    if (!f)
        return LEAT_ENOMEM;
    code = leat__letter_fetch(&x, d, at, err);
    if (code == LEAT_OK)
        code = change(&x.pub, edit, &m, err);
    if (code == LEAT_OK)
        code = leat__dead_encode(d, x.opened.by, &m, 1, f, &size, err);
    if (code == LEAT_OK)
        code = check_size(d, &x.pub, f, size, err);
    if (code == LEAT_OK)
        code = replace(d, at, f, &now, err);
    if (code == LEAT_OK && id_now)
        leat__dead_at_format(now, id_now);
    leat_fields_free(f);
    leat__letter_release(&x);
    return code;
}

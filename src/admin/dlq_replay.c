/*
 * dlq_replay.c: replaying and removing dead letters.
 *
 *   replay     to its group, as a retry that is due         replay.lua
 *   republish  to the end of the log, for all groups        republish.lua
 *   remove     nowhere                                      discard.lua
 */
#include "admin/dlq.h"

enum { LARGE_BODY = 64 << 10 };

static const leat_dead_filter all = { 0 };

/* ---- replay ----------------------------------------------------------- */

static size_t replay_keys(const leat_dlq *d, const leat__batch *b,
                          leat__key *out)
{
    leat__dlq_key(d, b->partition, "dlq", NULL, &out[0]);
    leat__dlq_key(d, b->partition, "kept", b->group, &out[1]);
    leat__dlq_key(d, b->partition, "due", b->group, &out[2]);
    leat__dlq_key(d, b->partition, "lane", b->group, &out[3]);
    leat__dlq_key(d, b->partition, "cur", b->group, &out[4]);
    return 5;
}

static size_t replay_args(const leat_dlq *d, const leat__batch *b,
                          leat_bytes *out,
                          char text[LEAT__MOVE_ARGS][LEAT__NUMBER])
{
    (void)d;
    out[0] = leat_str(b->group);
    out[1] = leat__arg_int(text[0], b->partition);
    return 2;
}

static const leat__move replay = { .script = &leat__script_admin_replay,
                                   .look = true,
                                   .by_group = true,
                                   .keys = replay_keys,
                                   .args = replay_args };

/* ---- republish -------------------------------------------------------- */

static size_t republish_keys(const leat_dlq *d, const leat__batch *b,
                             leat__key *out)
{
    leat__dlq_key(d, b->partition, "dlq", NULL, &out[0]);
    leat__dlq_key(d, b->partition, "log", NULL, &out[1]);
    leat__dlq_key(d, b->partition, "bodies", NULL, &out[2]);
    leat__dlq_key(d, b->partition, "large", NULL, &out[3]);
    return 4;
}

static size_t republish_args(const leat_dlq *d, const leat__batch *b,
                             leat_bytes *out,
                             char text[LEAT__MOVE_ARGS][LEAT__NUMBER])
{
    const leat_retention *r = &d->at.meta.retention;
    int64_t large = r->large_body == 0 ? LARGE_BODY : r->large_body;
    (void)b;
    out[0] = leat__arg_int(text[0], r->cap);
    out[1] = leat__arg_int(text[1], r->lossy_maxlen);
    out[2] = leat__arg_int(text[2],
                           large > 0 && !d->at.meta.legacy ? large : 0);
    return 3;
}

/* Another copy of a message, with the header that says where it is from, or
 * with that anew. */
static leat_code say_origin(leat_fields *f, const char *id, leat_msg *m,
                            leat_error *err)
{
    size_t n = 0;
    leat_header *h = leat_fields_alloc(f, (m->header_count + 1) * sizeof *h,
                                       err);
    if (!h)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < m->header_count; i++)
        if (!leat_bytes_eq(m->headers[i].name, leat_str("replayedFrom")))
            h[n++] = m->headers[i];
    h[n++] = (leat_header){ leat_str("replayedFrom"), leat_str(id) };
    m->headers = h;
    m->header_count = n;
    return LEAT_OK;
}

static leat_code encode_again(const leat_dlq *d, const leat__letter *x,
                              leat_fields *f, leat_error *err)
{
    size_t n = x->pub.msg_count, size;
    leat_msg *m = leat_fields_alloc(f, n * sizeof *m, err);
    leat_code code = m ? LEAT_OK : LEAT_ENOMEM;
    for (size_t i = 0; i < n && code == LEAT_OK; i++) {
        m[i] = x->pub.msg[i];
        code = say_origin(f, x->pub.id, &m[i], err);
    }
    return code == LEAT_OK
               ? leat__dead_encode(d, x->opened.by, m, n, f, &size, err)
               : code;
}

/* What nobody could decode stays as it is, with a field more. */
static leat_code as_it_is(const leat__letter *x, leat_fields *f,
                          leat_error *err)
{
    leat_code code = LEAT_OK;
    for (size_t i = 0; i < x->opened.fields && code == LEAT_OK; i++)
        code = leat_fields_add(f, x->opened.pairs[2 * i],
                               x->opened.pairs[2 * i + 1], err);
    return code == LEAT_OK ? leat_fields_add(f, leat_str("replayedFrom"),
                                             leat_str(x->pub.id), err)
                           : code;
}

static leat_code add_fields(leat__batch *b, const leat__letter *x,
                            const leat_fields *f, leat_error *err)
{
    char text[LEAT__NUMBER];
    size_t n = leat_fields_count(f);
    const leat_bytes *pairs = leat_fields_pairs(f);
    if (n > LEAT__DLQ_FIELDS_MOST)
        return leat__fail(err, LEAT_ETOOBIG,
                          "dead letter %s has %zu fields, more than %d",
                          x->pub.id, n, LEAT__DLQ_FIELDS_MOST);
    leat_code code = leat__batch_arg(b, leat__arg_int(text, (int64_t)n), err);
    for (size_t i = 0; i < 2 * n && code == LEAT_OK; i++)
        code = leat__batch_arg(b, pairs[i], err);
    return code;
}

static leat_code republish_add(const leat_dlq *d, leat__batch *b,
                               const leat__letter *x, leat_error *err)
{
    if (x->pub.msg_count == 0)
        return leat__fail(err, LEAT_EINVAL,
                          "there is no message in dead letter %s: remove it",
                          x->pub.id);
    leat_fields *f = leat_fields_new(err);
    if (!f)
        return LEAT_ENOMEM;
    leat_code code = x->pub.damaged ? as_it_is(x, f, err)
                                    : encode_again(d, x, f, err);
    if (code == LEAT_OK)
        code = add_fields(b, x, f, err);
    leat_fields_free(f);
    return code;
}

static const leat__move republish = { .script = &leat__script_admin_republish,
                                      .look = true,
                                      .keys = republish_keys,
                                      .args = republish_args,
                                      .add = republish_add };

/* ---- remove ----------------------------------------------------------- */

static size_t discard_keys(const leat_dlq *d, const leat__batch *b,
                           leat__key *out)
{
    leat__dlq_key(d, b->partition, "dlq", NULL, &out[0]);
    return 1;
}

static size_t discard_args(const leat_dlq *d, const leat__batch *b,
                           leat_bytes *out,
                           char text[LEAT__MOVE_ARGS][LEAT__NUMBER])
{
    (void)d;
    (void)b;
    (void)out;
    (void)text;
    return 0;
}

static const leat__move discard = { .script = &leat__script_admin_discard,
                                    .keys = discard_keys,
                                    .args = discard_args };

/* ---- the calls -------------------------------------------------------- */

static const leat__move *replay_how(const leat_dlq_move_opts *opts)
{
    return opts && opts->republish ? &republish : &replay;
}

leat_code leat_dlq_replay(leat_dlq *d, const char *const *ids, size_t n,
                          const leat_dlq_move_opts *opts, leat_dlq_sum *sum,
                          leat_error *err)
{
    static const char *const none[] = { "" };
    return leat__dlq_move(d, replay_how(opts), n ? ids : none, n, &all, opts,
                          sum, err);
}

leat_code leat_dlq_replay_all(leat_dlq *d, const leat_dead_filter *filter,
                              const leat_dlq_move_opts *opts, leat_dlq_sum *sum,
                              leat_error *err)
{
    return leat__dlq_move(d, replay_how(opts), NULL, 0, filter ? filter : &all,
                          opts, sum, err);
}

leat_code leat_dlq_remove(leat_dlq *d, const char *const *ids, size_t n,
                          const leat_dlq_move_opts *opts, leat_dlq_sum *sum,
                          leat_error *err)
{
    static const char *const none[] = { "" };
    return leat__dlq_move(d, &discard, n ? ids : none, n, &all, opts, sum, err);
}

leat_code leat_dlq_clear(leat_dlq *d, const leat_dead_filter *filter,
                         const leat_dlq_move_opts *opts, leat_dlq_sum *sum,
                         leat_error *err)
{
    return leat__dlq_move(d, &discard, NULL, 0, filter ? filter : &all, opts,
                          sum, err);
}

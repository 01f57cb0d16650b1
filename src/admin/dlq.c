/* dlq.c: the handle, the names of dead letters, and one by its name. */
#include "admin/dlq.h"
#include "base/mem.h"
#include "redis/client.h"
#include "redis/shape.h"
#include "topic/identity.h"

#include <stdio.h>

enum { MAX_MESSAGE = 1 << 20 };

/* ---- the handle ------------------------------------------------------- */

void leat_dlq_close(leat_dlq *d)
{
    if (!d)
        return;
    leat_client *c = d->client;
    leat__free(d->name);
    leat__free(d->prefix);
    leat__free(d);
    leat__client_drop(c, LEAT__A_DLQ);
}

leat_dlq *leat_dlq_open(leat_client *c, const char *topic,
                        const leat_dlq_opts *opts, leat_error *err)
{
    leat_dlq *d = leat__zalloc(sizeof *d, err);
    if (!d)
        return NULL;
    d->opts = opts ? *opts : (leat_dlq_opts){ 0 };
    if (d->opts.max_message == 0)
        d->opts.max_message = MAX_MESSAGE;
    if (leat__topic_at_init(&d->at, c, topic, d->opts.prefix, err) != LEAT_OK)
        goto fail;
    d->name = leat__strdup(topic, err);
    if (!d->name)
        goto fail;
    if (d->opts.prefix) {
        d->prefix = leat__strdup(d->opts.prefix, err);
        if (!d->prefix)
            goto fail;
    }
    if (leat__client_keep(c, LEAT__A_DLQ, err) != LEAT_OK)
        goto fail;
    d->client = c;
    d->at.name = d->name;
    d->at.prefix = d->opts.prefix = d->prefix;
    return d;

fail:
    leat_dlq_close(d);
    return NULL;
}

/* ---- names ------------------------------------------------------------ */

static leat_code no_id(const char *text, leat_error *err)
{
    char shown[61];
    size_t n = 0;
    for (; n < sizeof shown - 1 && text[n]; n++)
        shown[n] = (char)(text[n] > ' ' && text[n] < 127 ? text[n] : '?');
    shown[n] = '\0';
    return leat__fail(err, LEAT_EINVAL,
                      "'%s' is no dead letter's id: they are "
                      "PARTITION:MS-SEQ",
                      shown);
}

leat_code leat__dead_at_parse(const char *text, leat__dead_at *out,
                              leat_error *err)
{
    uint64_t partition = 0;
    size_t n = 0;
    for (; text[n] >= '0' && text[n] <= '9' && n < 6; n++)
        partition = partition * 10 + (uint64_t)(text[n] - '0');
    if (n == 0 || text[n] != ':' || !strchr(text + n, '-') ||
        !leat__position_parse(leat_str(text + n + 1), &out->at))
        return no_id(text, err);
    out->partition = (uint32_t)partition;
    return LEAT_OK;
}

void leat__dead_at_format(leat__dead_at x, char out[LEAT_DEAD_ID])
{
    snprintf(out, LEAT_DEAD_ID, "%u:%llu-%llu", x.partition,
             (unsigned long long)x.at.ms, (unsigned long long)x.at.seq);
}

void leat__dlq_key(const leat_dlq *d, uint32_t partition, const char *word,
                   const char *group, leat__key *out)
{
    if (strcmp(word, "log") == 0)
        leat__key_log(out, d->prefix, d->name, d->at.meta.legacy, partition);
    else if (strcmp(word, "cur") == 0)
        leat__key_cursor(out, d->prefix, d->name, d->at.meta.legacy, partition,
                         group);
    else
        leat__key_part(out, d->prefix, d->name, d->at.meta.legacy, partition,
                       word, group);
}

/* ---- asking the server ------------------------------------------------ */

leat_code leat__dlq_range(const leat_dlq *d, uint32_t partition, bool back,
                          leat_bytes from, leat_bytes to, size_t count,
                          leat_reply **out, leat_error *err)
{
    leat__key key;
    char text[LEAT__NUMBER];
    const leat_call_opts again = { .idempotent = true };
    leat__dlq_key(d, partition, "dlq", NULL, &key);
    leat_code code = leat_client_call(
        d->at.client,
        LEAT_ARGS(leat_str(back ? "XREVRANGE" : "XRANGE"),
                  leat__key_bytes(&key), from, to, leat_str("COUNT"),
                  leat__arg_int(text, (int64_t)count)),
        &again, out, err);
    if (code == LEAT_OK)
        code = leat__reply_want(*out, LEAT__SHAPE_ENTRIES, LEAT_EPROTO,
                                "XRANGE", err);
    if (code != LEAT_OK) {
        leat_reply_free(*out);
        *out = NULL;
    }
    return code;
}

/* EVAL with the body, as in meta.c: a script moves up to a hundred. */
static leat_code run_once(const leat_dlq *d, const leat_bytes *argv, size_t n,
                          bool *again, leat_reply **out, leat_error *err)
{
    leat_error lost = { 0 };
    leat_code code = leat_client_call(d->at.client, argv, n, NULL, out, &lost);
    /* The second call asks until it is answered, so that its own first try may
     * have done it, too. */
    *again = code == LEAT_EUNKNOWN || code == LEAT_ECONN ||
             code == LEAT_EREADONLY || code == LEAT_EBUSY;
    if (*again)
        code = leat_client_call(d->at.client, argv, n,
                                &(leat_call_opts){ .idempotent = true }, out,
                                err);
    else if (code != LEAT_OK && err)
        *err = lost;
    return code;
}

leat_code leat__dlq_run(const leat_dlq *d, uint32_t partition,
                        const leat__script *s, const leat__key *keys,
                        size_t nkeys, const leat_bytes *args, size_t nargs,
                        bool *again, leat_reply **out, leat_error *err)
{
    char text[LEAT__NUMBER];
    leat__key id;
    size_t n = 0, words = 3 + nkeys + 1 + nargs + 1;
    leat_bytes *argv = leat__calloc(words, sizeof *argv, err);
    if (!argv)
        return LEAT_ENOMEM;
    leat__key_id(&id, &d->at, partition);
    argv[n++] = leat_str("EVAL");
    argv[n++] = leat_mem(s->body, s->body_size);
    argv[n++] = leat__arg_int(text, (int64_t)nkeys + 1);
    for (size_t i = 0; i < nkeys; i++)
        argv[n++] = leat__key_bytes(&keys[i]);
    argv[n++] = leat__key_bytes(&id);
    for (size_t i = 0; i < nargs; i++)
        argv[n++] = args[i];
    argv[n++] = leat_str(d->at.meta.u);
    leat_code code = run_once(d, argv, n, again, out, err);
    if (code == LEAT_ESTALE) {
        code = leat__topic_same(&d->at, NULL, &id, err);
        if (code == LEAT_OK)
            code = run_once(d, argv, n, again, out, err);
    }
    leat__free(argv);
    return code;
}

/* ---- one by its name -------------------------------------------------- */

static leat_code missing(const leat_dlq *d, const char *id, leat_error *err)
{
    return leat__fail(err, LEAT_ENOENT,
                      "topic '%.100s' has no dead letter %s: it was replayed "
                      "or removed, or never was",
                      d->name, id);
}

leat_code leat__letter_fetch(leat__letter *x, leat_dlq *d, leat__dead_at at,
                             leat_error *err)
{
    char text[LEAT__ID_TEXT], id[LEAT_DEAD_ID];
    leat__dead_at_format(at, id);
    if (at.partition >= d->at.meta.partitions)
        return missing(d, id, err);
    leat_reply_free(x->reply);
    x->reply = NULL;
    leat_bytes where = leat__position_format(at.at, text);
    leat_code code = leat__dlq_range(d, at.partition, false, where, where, 1,
                                     &x->reply, err);
    if (code != LEAT_OK)
        return code;
    if (leat_reply_len(x->reply) == 0)
        return missing(d, id, err);
    return leat__letter_read(x, d, at, leat_reply_at(x->reply, 0), err);
}

leat_dead *leat_dlq_get(leat_dlq *d, const char *id, leat_error *err)
{
    leat__dead_at at = { 0 };
    if (leat__dead_at_parse(id, &at, err) != LEAT_OK)
        return NULL;
    leat__letter *x = leat__zalloc(sizeof *x, err);
    if (!x)
        return NULL;
    x->opened.codec = d->opts.codec;
    if (leat__letter_fetch(x, d, at, err) != LEAT_OK) {
        leat_dead_free(&x->pub);
        return NULL;
    }
    return &x->pub;
}

void leat_dead_free(leat_dead *x)
{
    if (!x)
        return;
    leat__letter *l = (leat__letter *)x; /* its first member */
    leat__letter_release(l);
    leat__free(l);
}

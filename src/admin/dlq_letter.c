/*
 * dlq_letter.c: an entry of the stream of dead letters, read.
 *
 * What cannot be read is shown as far as it can: an entry that somebody else
 * put there has no group, and its fields are those of a damaged message.
 */
#include "admin/dlq.h"

void leat__letter_release(leat__letter *x)
{
    leat__opened_release(&x->opened);
    leat__arena_release(&x->arena);
    leat_reply_free(x->reply);
    x->reply = NULL;
}

/* A decimal number; what is none is 0. */
static uint64_t number(leat_bytes b)
{
    const char *p = b.p;
    uint64_t v = 0;
    for (size_t i = 0; i < b.n && i < 19; i++) {
        if (p[i] < '0' || p[i] > '9')
            return 0;
        v = v * 10 + (uint64_t)(p[i] - '0');
    }
    return v;
}

static leat_code set_text(leat__letter *x, leat_bytes b, const char **out,
                          leat_error *err)
{
    *out = leat__arena_text(&x->arena, b, err);
    return *out ? LEAT_OK : LEAT_ENOMEM;
}

/* ---- what the policy added -------------------------------------------- */

/* Take one "<length>:<bytes>" off the front. */
static bool take(leat_bytes *at, leat_bytes *out)
{
    const char *p = at->p;
    size_t n = 0, length = 0;
    while (n < at->n && n < 9 && p[n] >= '0' && p[n] <= '9')
        length = length * 10 + (size_t)(p[n++] - '0');
    if (n == 0 || n == at->n || p[n] != ':' || length > at->n - n - 1)
        return false;
    *out = leat_mem(p + n + 1, length);
    *at = leat_mem(p + n + 1 + length, at->n - n - 1 - length);
    return true;
}

static size_t count_packed(leat_bytes packed)
{
    leat_bytes ignored;
    size_t n = 0;
    while (take(&packed, &ignored))
        n++;
    return n / 2;
}

static leat_code read_extra(leat__letter *x, leat_bytes packed, leat_error *err)
{
    size_t n = count_packed(packed);
    if (n == 0)
        return LEAT_OK;
    leat_header *h = leat__arena_alloc(&x->arena, n * sizeof *h, err);
    if (!h)
        return LEAT_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        (void)take(&packed, &h[i].name);
        (void)take(&packed, &h[i].value);
        if (leat_bytes_eq(h[i].name, leat_str("error")))
            x->pub.error = h[i].value;
    }
    x->pub.extra = h;
    x->pub.extra_count = n;
    return LEAT_OK;
}

/* ---- the head --------------------------------------------------------- */

typedef enum head { G, U, I, N, F, FM, LM, FE, LE, E, R, X, ED, HEADS } head;

static const char *const heads[HEADS] = { "g",  "u",  "i", "n", "f", "fm", "lm",
                                          "fe", "le", "e", "r", "x", "ed" };

static void note(leat_bytes found[HEADS], leat_bytes name, leat_bytes value)
{
    for (int i = 0; i < HEADS; i++)
        if (leat_bytes_eq(name, leat_str(heads[i])))
            found[i] = value;
}

/* The head's fields, up to the number of the message's; false: there is no such
 * number, so this is not one of ours. */
static bool read_head(leat__pairs *p, leat_bytes found[HEADS])
{
    leat_bytes name;
    const leat_reply *value = NULL;
    while (leat__pairs_next(p, &name, &value)) {
        if (leat_bytes_eq(name, leat_str("c")))
            return number(leat_reply_bytes(value)) == p->left;
        note(found, name, leat_reply_bytes(value));
    }
    return false;
}

static leat_code set_head(leat__letter *x, const leat_bytes found[HEADS],
                          leat_error *err)
{
    leat_dead *d = &x->pub;
    (void)leat__position_parse(found[I], &d->position);
    d->attempts = (uint32_t)number(found[N]);
    d->failures = (uint32_t)number(found[F]);
    d->first_ms = (int64_t)number(found[FM]);
    d->last_ms = (int64_t)number(found[LM]);
    d->first_error = found[FE];
    d->last_error = d->error = found[LE];
    d->fence = number(found[E]);
    d->edited_ms = (int64_t)number(found[ED]);
    leat_code code = set_text(x, found[G], &d->group, err);
    if (code == LEAT_OK)
        code = set_text(x, found[U], &d->group_id, err);
    if (code == LEAT_OK)
        code = set_text(x, found[R], &d->replayed_from, err);
    return code == LEAT_OK ? read_extra(x, found[X], err) : code;
}

/* ---- the whole -------------------------------------------------------- */

static leat_code read_message(leat__letter *x, leat__pairs p, leat_error *err)
{
    leat_bytes name;
    const leat_reply *value = NULL;
    leat_bytes *at = leat__opened_room(&x->opened, p.left, err);
    if (!at)
        return LEAT_ENOMEM;
    while (leat__pairs_next(&p, &name, &value)) {
        *at++ = name;
        *at++ = leat_reply_bytes(value);
    }
    leat_code code = leat__opened_decode(&x->opened, err);
    x->pub.msg = x->opened.msg;
    x->pub.msg_count = x->opened.count;
    x->pub.damaged = x->opened.by ? NULL : &x->opened.why;
    return code;
}

static leat_code read_ours(leat__letter *x, leat__pairs rest,
                           const leat_bytes found[HEADS], leat_error *err)
{
    leat_code code = set_head(x, found, err);
    if (code != LEAT_OK)
        return code;
    if (rest.left > 0)
        return read_message(x, rest, err);
    x->opened.raw = (leat_msg){ 0 };
    x->pub.msg = &x->opened.raw;
    return LEAT_OK;
}

leat_code leat__letter_read(leat__letter *x, const leat_dlq *d,
                            leat__dead_at at, const leat_reply *entry,
                            leat_error *err)
{
    leat_bytes found[HEADS] = { { 0 } };
    leat__pairs all = leat__pairs_of(leat_reply_at(entry, 1)), rest = all;
    leat__arena_clear(&x->arena);
    leat__dead_at_format(at, x->id);
    x->pub = (leat_dead){ .id = x->id,
                          .group = "",
                          .group_id = "",
                          .partition = at.partition,
                          .dead_ms = (int64_t)at.at.ms,
                          .replayed_from = "",
                          .size = leat__pairs_bytes(all) };
    leat_code code = set_text(x, leat_str(d->name), &x->pub.topic, err);
    if (code != LEAT_OK)
        return code;
    if (read_head(&rest, found))
        return read_ours(x, rest, found, err);
    code = read_message(x, all, err);
    if (code == LEAT_OK && !x->pub.damaged) {
        leat__fail(&x->opened.why, LEAT_EDECODE,
                   "the entry is no dead letter of leat's");
        x->pub.damaged = &x->opened.why;
    }
    return code;
}

/*
 * resp_help.h: decoding in pieces, and replies as text to compare.
 *
 * Every piece is given in a buffer of its own, exactly as long as what came so
 * far; the one before is overwritten and freed, so a view that was not moved
 * is found by its contents and by ASan.
 */
#ifndef TESTS_RESP_HELP_H
#define TESTS_RESP_HELP_H

#include "base/buf.h"
#include "redis/resp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void dump_text(leat__buf *b, const char *mark,
                             const leat_reply *r)
{
    leat_bytes t = leat_reply_bytes(r);
    assert_int_equal(leat__buf_printf(b, NULL, "%s%zu:", mark, t.n), LEAT_OK);
    assert_int_equal(leat__buf_add(b, t.p, t.n, NULL), LEAT_OK);
}

static inline void dump_leaf(leat__buf *b, const leat_reply *r)
{
    static const char *const marks[] = {
        [LEAT_REPLY_STATUS] = "+",
        [LEAT_REPLY_ERROR] = "-",
        [LEAT_REPLY_STRING] = "$",
        [LEAT_REPLY_BIGNUM] = "(",
    };
    leat_code ok = LEAT_OK;
    switch (leat_reply_kind(r)) {
    case LEAT_REPLY_NIL:
        ok = leat__buf_str(b, "nil", NULL);
        break;
    case LEAT_REPLY_INT:
        ok = leat__buf_printf(b, NULL, "%lld", (long long)leat_reply_int(r));
        break;
    case LEAT_REPLY_BOOL:
        ok = leat__buf_str(b, leat_reply_int(r) ? "true" : "false", NULL);
        break;
    case LEAT_REPLY_DOUBLE:
        if (isnan(leat_reply_double(r)))
            ok = leat__buf_str(b, "nan", NULL);
        else
            ok = leat__buf_printf(b, NULL, "~%.17g", leat_reply_double(r));
        break;
    default:
        dump_text(b, marks[leat_reply_kind(r)], r);
    }
    assert_int_equal(ok, LEAT_OK);
}

/* The reply as text, walked with the public calls; returns the node behind. */
static inline const leat_reply *dump(leat__buf *b, const leat_reply *r)
{
    static const char *const open[] = {
        [LEAT_REPLY_ARRAY] = "[",
        [LEAT_REPLY_MAP] = "{",
        [LEAT_REPLY_SET] = "set[",
        [LEAT_REPLY_PUSH] = "push[",
    };
    leat_reply_type kind = leat_reply_kind(r);
    if (kind < LEAT_REPLY_ARRAY) {
        dump_leaf(b, r);
        return r + 1;
    }
    assert_int_equal(leat__buf_str(b, open[kind], NULL), LEAT_OK);
    const leat_reply *behind = r + 1;
    leat_reply_iter it = leat_reply_each(r);
    for (size_t i = 0; i < leat_reply_len(r); i++) {
        const leat_reply *e = leat_reply_step(&it);
        assert_ptr_equal(e, behind);
        assert_ptr_equal(e, leat_reply_at(r, i));
        if (i > 0)
            assert_int_equal(leat__buf_str(b, " ", NULL), LEAT_OK);
        behind = dump(b, e);
    }
    assert_null(leat_reply_step(&it));
    assert_ptr_equal(r + r->span, behind);
    const char *end = kind == LEAT_REPLY_MAP ? "}" : "]";
    assert_int_equal(leat__buf_str(b, end, NULL), LEAT_OK);
    return behind;
}

/* What came of some bytes. */
typedef struct outcome {
    leat__resp_state state;
    leat_code code; /* of BAD  */
    size_t used;    /* of DONE */
    leat__buf text; /* of DONE */
} outcome;

static inline void outcome_release(outcome *o)
{
    leat__buf_release(&o->text);
}

static inline void outcome_same(const outcome *a, const outcome *b)
{
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->used, b->used);
    assert_int_equal(a->text.n, b->text.n);
    if (a->text.n > 0)
        assert_memory_equal(a->text.p, b->text.p, a->text.n);
}

/* One call with the first n bytes, in a fresh buffer; the old is destroyed. */
static inline outcome give(leat__resp *d, const char *p, size_t n, char **old,
                           size_t old_n)
{
    outcome o = { 0 };
    leat_error err = { 0 };
    char *fresh = malloc(n ? n : 1);
    assert_non_null(fresh);
    memcpy(fresh, p, n);
    if (*old)
        memset(*old, 0xA5, old_n);
    free(*old);
    *old = fresh;
    o.state = leat__resp_decode(d, fresh, n, &o.used, &err);
    if (o.state == LEAT__RESP_BAD)
        o.code = err.code;
    if (o.state == LEAT__RESP_DONE)
        dump(&o.text, d->nodes);
    return o;
}

/* Decode n bytes, step bytes more at each call; the first call has `first`. */
static inline outcome decode_cut(const leat__resp_limits *limits, const char *p,
                                 size_t n, size_t first, size_t step)
{
    leat__resp d;
    char *old = NULL;
    size_t have = first, before = 0;
    leat__resp_init(&d, limits);
    outcome o = give(&d, p, have, &old, 0);
    while (o.state == LEAT__RESP_MORE && have < n) {
        before = have;
        have = n - have < step ? n : have + step;
        o = give(&d, p, have, &old, before);
    }
    leat__resp_release(&d);
    free(old);
    return o;
}

static inline outcome decode_whole(const leat__resp_limits *limits,
                                   const char *p, size_t n)
{
    return decode_cut(limits, p, n, n, 1);
}

/* However the bytes are cut, the same comes out. */
static inline void assert_cuts_do_not_matter(const leat__resp_limits *limits,
                                             const char *p, size_t n)
{
    outcome whole = decode_whole(limits, p, n);
    for (size_t step = 1; step < 4; step++) {
        outcome pieces = decode_cut(limits, p, n, step < n ? step : n, step);
        outcome_same(&pieces, &whole);
        outcome_release(&pieces);
    }
    for (size_t first = 0; first <= n; first++) {
        outcome two = decode_cut(limits, p, n, first, n);
        outcome_same(&two, &whole);
        outcome_release(&two);
    }
    outcome_release(&whole);
}

#endif

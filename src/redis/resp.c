/*
 * resp.c: decoding RESP2 and RESP3.
 *
 *   +text -text (digits ,double     a line
 *   :int #t _                       a short line
 *   $n =n !n                        n bytes and a line end
 *   *n ~n >n                        n values follow
 *   %n |n                           n pairs of values follow
 *
 * An item is one of these with its own bytes, without the values that follow.
 * The decoder takes whole items: d->pos is where the first incomplete one
 * begins, and open aggregates wait on d->stack.  So there is no state inside an
 * item but d->scan, which keeps a line that arrives in many pieces from being
 * searched from its beginning each time.  The head of a bulk is read again
 * when more of its body came; that is a few bytes.
 *
 * Attributes (|) are out-of-band remarks about the value behind them.  They are
 * decoded like a map, to know where they end, and then forgotten.
 *
 * Strictness: what a Redis does not send is refused, because the likeliest
 * reason for it is that this side lost its place in the stream.
 */
#include "redis/resp.h"
#include "base/mem.h"

#include <assert.h>
#include <endian.h>
#include <locale.h>
#include <stdlib.h>

enum {
    FIRST_NODES = 16,
    KEPT_NODES = 64 * 1024, /* more are freed after a small reply */
    SHORT_HEAD = 5,         /* a sign, two digits and the end      */
    SHORT_BULK = 99,        /* bytes of a bulk, and of a line, that  */
    SHORT_LINE = 16,        /* take_plain takes                    */
    MAX_DIGITS = 19,        /* any such number fits in a uint64_t  */
    MAX_DOUBLE_TEXT = 340,  /* DBL_MAX with 17 decimals is 327     */
};

/* What became of an item; from WRONG_TYPE on, why it was refused. */
typedef enum step {
    TAKEN,
    OPENED, /* a head was taken, its values follow       */
    SHORT,  /* the rest of it has not arrived            */
    NO_MEMORY,
    WRONG_TYPE,
    WRONG_LINE,
    WRONG_INT,
    WRONG_LENGTH,
    WRONG_END,
    WRONG_NULL,
    WRONG_BOOL,
    WRONG_DOUBLE,
    WRONG_BIGNUM,
    WRONG_VERBATIM,
    WRONG_PUSH,
    STREAMED,
    OVER_LINE,
    OVER_BULK,
    OVER_ELEMENTS,
    OVER_DEPTH,
    OVER_REPLY,
} step;

static const struct {
    leat_code code;
    const char *text;
} refusals[] = {
    [WRONG_TYPE] = { LEAT_EPROTO, "this byte begins no RESP value" },
    [WRONG_LINE] = { LEAT_EPROTO, "a line with a CR or LF alone" },
    [WRONG_INT] = { LEAT_EPROTO, "not a 64-bit integer" },
    [WRONG_LENGTH] = { LEAT_EPROTO, "not a length" },
    [WRONG_END] = { LEAT_EPROTO, "no CR LF behind a bulk string" },
    [WRONG_NULL] = { LEAT_EPROTO, "a null with contents" },
    [WRONG_BOOL] = { LEAT_EPROTO, "a boolean that is not t or f" },
    [WRONG_DOUBLE] = { LEAT_EPROTO, "not a double" },
    [WRONG_BIGNUM] = { LEAT_EPROTO, "not a big number" },
    [WRONG_VERBATIM] = { LEAT_EPROTO, "a verbatim string without format" },
    [WRONG_PUSH] = { LEAT_EPROTO, "a push inside another value" },
    [STREAMED] = { LEAT_ENOTSUP, "streamed values are not supported" },
    [OVER_LINE] = { LEAT_ETOOBIG, "a line over the limit" },
    [OVER_BULK] = { LEAT_ETOOBIG, "a bulk string over the limit" },
    [OVER_ELEMENTS] = { LEAT_ETOOBIG, "more elements than the limit" },
    [OVER_DEPTH] = { LEAT_ETOOBIG, "nested deeper than the limit" },
    [OVER_REPLY] = { LEAT_ETOOBIG, "the reply is over the limit" },
};

/* ---- life ------------------------------------------------------------- */

static uint64_t or_default(uint64_t given, uint64_t otherwise)
{
    return given ? given : otherwise;
}

void leat__resp_init(leat__resp *d, const leat__resp_limits *limits)
{
    leat__resp_limits l = limits ? *limits : (leat__resp_limits){ 0 };
    *d = (leat__resp){ 0 };
    d->limits.depth = (uint32_t)or_default(l.depth, 8);
    if (d->limits.depth > LEAT__RESP_MAX_DEPTH)
        d->limits.depth = LEAT__RESP_MAX_DEPTH;
    d->limits.elements = (uint32_t)or_default(l.elements, 1024 * 1024);
    d->limits.bulk = or_default(l.bulk, 96 * 1024 * 1024);
    if (d->limits.bulk < SHORT_BULK)
        d->limits.bulk = SHORT_BULK;
    if (d->limits.bulk > PTRDIFF_MAX - 2)
        d->limits.bulk = PTRDIFF_MAX - 2;
    d->limits.line = (uint32_t)or_default(l.line, 64 * 1024);
    if (d->limits.line < SHORT_LINE)
        d->limits.line = SHORT_LINE;
    d->limits.reply = or_default(l.reply, 512 * 1024 * 1024);
    leat__resp_reset(d);
}

/* What is behind the nodes of a whole reply is nobody's: AddressSanitizer is
 * told so, and a walk beyond a reply's end is seen wherever it happens. */
#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif

#ifdef POISONS
#include <sanitizer/asan_interface.h>

static void close_off(leat__resp *d)
{
    ASAN_POISON_MEMORY_REGION(d->nodes + d->count,
                              (d->cap - d->count) * sizeof *d->nodes);
}

static void open_up(leat__resp *d)
{
    ASAN_UNPOISON_MEMORY_REGION(d->nodes, d->cap * sizeof *d->nodes);
}
#else
static void close_off(leat__resp *d)
{
    (void)d;
}

static void open_up(leat__resp *d)
{
    (void)d;
}
#endif

void leat__resp_release(leat__resp *d)
{
    open_up(d);
    leat__free(d->nodes);
    d->nodes = NULL;
    d->cap = 0;
    leat__resp_reset(d);
}

void leat__resp_reset(leat__resp *d)
{
    open_up(d);
    if (d->cap > KEPT_NODES && d->count < KEPT_NODES / 8) {
        leat__free(d->nodes);
        d->nodes = NULL;
        d->cap = 0;
    }
    d->count = 0;
    d->depth = 0;
    d->attrs = 0;
    d->stack[0].left = 1;
    d->pos = 0;
    d->scan = 0;
}

static step grow(leat__resp *d, leat_error *err)
{
    if (d->cap == d->limits.elements)
        return OVER_ELEMENTS;
    uint64_t cap = d->cap ? (uint64_t)d->cap * 2 : FIRST_NODES;
    if (cap > d->limits.elements)
        cap = d->limits.elements;
    leat_reply *nodes = leat__realloc(d->nodes, (size_t)cap * sizeof *nodes,
                                      err);
    if (!nodes)
        return NO_MEMORY;
    d->nodes = nodes;
    d->cap = (uint32_t)cap;
    return TAKEN;
}

static bool is_text(uint8_t type)
{
    return type == LEAT_REPLY_STRING || type == LEAT_REPLY_STATUS ||
           type == LEAT_REPLY_ERROR || type == LEAT_REPLY_BIGNUM;
}

/* The received bytes were moved, and the old ones may be gone: the views are
 * only numbers now, of which the distance to the old base is still good. */
static void rebase(leat__resp *d, const char *p)
{
    for (uint32_t i = 0; i < d->count; i++) {
        leat_reply *r = d->nodes + i;
        if (is_text(r->type))
            r->s.p = p + ((uintptr_t)r->s.p - d->base);
    }
}

/* ---- lines ------------------------------------------------------------ */

static inline void set_text(leat_reply *r, leat_reply_type type, const char *p,
                            size_t n)
{
    r->type = (uint8_t)type;
    r->owned = false;
    r->n = 0;
    r->span = 1;
    r->s.p = p;
    r->s.n = n;
}

static inline void set_int(leat_reply *r, int64_t i)
{
    r->type = LEAT_REPLY_INT;
    r->owned = false;
    r->n = 0;
    r->span = 1;
    r->i = i;
}

static inline void set_aggregate(leat_reply *r, leat_reply_type type,
                                 uint32_t n)
{
    r->type = (uint8_t)type;
    r->owned = false;
    r->n = n;
    r->span = 1;
    r->i = 0;
}

static inline unsigned digit(char c)
{
    return (unsigned)(unsigned char)c - '0';
}

static inline bool is_crlf(const char *s)
{
    return memcmp(s, "\r\n", 2) == 0;
}

/* Digits and CR LF, *at on the first digit and then behind the LF.  A zero in
 * front of other digits is refused, so the digits are bounded. */
static step take_long_digits(const char **at, const char *end, uint64_t *v)
{
    const char *s = *at;
    const char *stop = end - s > MAX_DIGITS ? s + MAX_DIGITS : end;
    uint64_t x = 0;
    if (s < stop && *s == '0')
        s++;
    else
        for (; s < stop && digit(*s) < 10; s++)
            x = x * 10 + digit(*s);
    if (s == end)
        return SHORT;
    if (*s != '\r' || s == *at)
        return WRONG_LENGTH;
    if (s + 1 == end)
        return SHORT;
    if (s[1] != '\n')
        return WRONG_LINE;
    *v = x;
    *at = s + 2;
    return TAKEN;
}

/* The same, quick for one and two digits, which nearly all heads have. */
static inline step take_digits(const char **at, const char *end, uint64_t *v)
{
    const char *s = *at;
    if (end - s < 3 || digit(s[0]) > 9)
        return take_long_digits(at, end, v);
    if (is_crlf(s + 1)) {
        *v = digit(s[0]);
        *at = s + 3;
        return TAKEN;
    }
    if (s[0] == '0' || digit(s[1]) > 9 || end - s < 4 || !is_crlf(s + 2))
        return take_long_digits(at, end, v);
    *v = digit(s[0]) * 10 + digit(s[1]);
    *at = s + 4;
    return TAKEN;
}

static inline step take_int(const char **at, const char *end, leat_reply *r)
{
    uint64_t x;
    bool minus = *at < end && **at == '-';
    if (minus || (*at < end && **at == '+'))
        ++*at;
    step st = take_digits(at, end, &x);
    if (st != TAKEN)
        return st == WRONG_LENGTH ? WRONG_INT : st;
    if (x > (uint64_t)INT64_MAX + minus)
        return WRONG_INT;
    set_int(r, (int64_t)(minus ? 0 - x : x));
    return TAKEN;
}

/* Find a line's end, *cr, looking from `from` on: before it all was seen. */
static inline step find_cr(const char *s, const char *end, const char *from,
                           uint32_t limit, const char **cr)
{
    bool over = (uint64_t)(end - s) > limit;
    const char *stop = over ? s + limit + 1 : end;
    const char *c = memchr(from, '\r', (size_t)(stop - from));
    if (memchr(from, '\n', (size_t)((c ? c : stop) - from)))
        return WRONG_LINE;
    if (!c)
        return over ? OVER_LINE : SHORT;
    if (c + 1 == end)
        return SHORT;
    *cr = c;
    return c[1] == '\n' ? TAKEN : WRONG_LINE;
}

static bool all_digits(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (digit(p[i]) > 9)
            return false;
    return n > 0;
}

static size_t count_digits(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && digit(p[i]) < 10)
        i++;
    return i;
}

/* [sign] digits [. digits] [e [sign] digits], so that strtod gets no
 * hexadecimal, no blanks and no names. */
static bool is_decimal(const char *p, size_t n)
{
    size_t i = n > 0 && (p[0] == '-' || p[0] == '+');
    size_t whole = count_digits(p + i, n - i), part = 0;
    i += whole;
    if (i < n && p[i] == '.') {
        part = count_digits(p + i + 1, n - i - 1);
        i += 1 + part;
    }
    if (whole + part == 0)
        return false;
    if (i == n)
        return true;
    if (p[i] != 'e' && p[i] != 'E')
        return false;
    i++;
    if (i < n && (p[i] == '-' || p[i] == '+'))
        i++;
    return all_digits(p + i, n - i);
}

static bool is_word(const char *p, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(p, word, n) == 0;
}

bool leat__resp_double(const char *p, size_t n, double *out)
{
    char text[MAX_DOUBLE_TEXT + 1];
    if (is_word(p, n, "inf") || is_word(p, n, "-inf")) {
        *out = p[0] == '-' ? -__builtin_inf() : __builtin_inf();
        return true;
    }
    if (is_word(p, n, "nan") || is_word(p, n, "-nan")) {
        *out = __builtin_nan("");
        return true;
    }
    if (n > MAX_DOUBLE_TEXT || !is_decimal(p, n))
        return false;
    memcpy(text, p, n);
    text[n] = '\0';
    /* The C locale is a constant of the C library: nothing is allocated and
     * nothing needs to be freed. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    assert(c);
    *out = strtod_l(text, NULL, c);
    return true;
}

static bool is_bignum(const char *p, size_t n)
{
    size_t sign = n > 0 && (p[0] == '-' || p[0] == '+');
    return all_digits(p + sign, n - sign);
}

/* The line types that are rare: s..cr is the line without its type. */
static step take_rare_line(char type, const char *s, const char *cr,
                           leat_reply *r)
{
    size_t n = (size_t)(cr - s);
    *r = (leat_reply){ .type = LEAT_REPLY_NIL, .span = 1 };
    switch (type) {
    case '_':
        return n == 0 ? TAKEN : WRONG_NULL;
    case '#':
        r->type = LEAT_REPLY_BOOL;
        r->i = is_word(s, n, "t");
        return r->i || is_word(s, n, "f") ? TAKEN : WRONG_BOOL;
    case ',':
        r->type = LEAT_REPLY_DOUBLE;
        return leat__resp_double(s, n, &r->d) ? TAKEN : WRONG_DOUBLE;
    default:
        r->type = LEAT_REPLY_BIGNUM;
        r->s.p = s;
        r->s.n = n;
        return is_bignum(s, n) ? TAKEN : WRONG_BIGNUM;
    }
}

/* ---- lengths ---------------------------------------------------------- */

/* What a length is that is not digits: null, streamed or wrong. */
static step take_odd_length(const char **at, const char *end, bool nullable,
                            step why, leat_reply *r)
{
    const char *s = *at;
    size_t have = (size_t)(end - s);
    if (have > 0 && *s == '?')
        return STREAMED;
    if (!nullable || have == 0 || *s != '-')
        return why;
    if (memcmp(s, "-1\r\n", have < 4 ? have : 4) != 0)
        return WRONG_LENGTH;
    if (have < 4)
        return SHORT;
    *r = (leat_reply){ .type = LEAT_REPLY_NIL, .span = 1 };
    *at = s + 4;
    return TAKEN;
}

/* room: how many bytes the limit leaves for the reply from *at on. */
static inline step take_bulk(const char **at, const char *end, char type,
                             uint64_t limit, uint64_t room, leat_reply *r)
{
    const char *s = *at;
    uint64_t n;
    step st = take_digits(&s, end, &n);
    if (st != TAKEN)
        return take_odd_length(at, end, type == '$', st, r);
    if (n > limit)
        return OVER_BULK;
    if ((uint64_t)(end - s) < n + 2)
        return n + 2 > room - (uint64_t)(s - *at) ? OVER_REPLY : SHORT;
    if (!is_crlf(s + n))
        return WRONG_END;
    set_text(r, LEAT_REPLY_STRING, s, (size_t)n);
    *at = s + n + 2;
    return TAKEN;
}

/* The other two with a body: an error, and a string that names its format. */
static step take_rare_bulk(char type, leat_reply *r)
{
    if (type == '!') {
        r->type = LEAT_REPLY_ERROR;
        return TAKEN;
    }
    if (r->s.n < 4 || r->s.p[3] != ':')
        return WRONG_VERBATIM;
    r->s.p += 4;
    r->s.n -= 4;
    return TAKEN;
}

static inline step take_aggregate(leat__resp *d, const char **at,
                                  const char *end, leat_reply_type type,
                                  bool attr, leat_reply *r)
{
    uint64_t n;
    step st = take_digits(at, end, &n);
    if (st != TAKEN)
        return take_odd_length(at, end, type == LEAT_REPLY_ARRAY, st, r);
    if (d->depth == d->limits.depth)
        return OVER_DEPTH;
    if (type == LEAT_REPLY_PUSH && d->depth > 0)
        return WRONG_PUSH;
    if (n > d->limits.elements)
        return OVER_ELEMENTS;
    if (type == LEAT_REPLY_MAP)
        n *= 2; /* fits: n was at most UINT32_MAX */
    if (n + d->count >= (uint64_t)d->limits.elements + attr)
        return OVER_ELEMENTS;
    if (!attr)
        set_aggregate(r, type, (uint32_t)n);
    if (n == 0)
        return attr ? OPENED : TAKEN;
    d->depth++;
    d->stack[d->depth].node = d->count;
    d->stack[d->depth].left = (uint32_t)n;
    if (attr)
        d->attrs |= UINT64_C(1) << d->depth;
    d->count += !attr;
    return OPENED;
}

/* ---- the whole -------------------------------------------------------- */

/* The last element of the innermost aggregate is complete: close it, and those
 * that this completes.  True: the reply is complete. */
static bool close_full(leat__resp *d)
{
    do {
        uint32_t node = d->stack[d->depth].node;
        uint64_t bit = UINT64_C(1) << d->depth;
        if (d->depth == 0)
            return true;
        d->depth--;
        if (d->attrs & bit) {
            d->attrs &= ~bit;
            d->count = node;
            return false;
        }
        d->nodes[node].span = d->count - node;
    } while (--d->stack[d->depth].left == 0);
    return false;
}

/* What lies at *at, the first byte of an item; d->count is the node's place. */
static inline step take_item(leat__resp *d, const char *p, const char **at,
                             const char *end)
{
    leat_reply *r = d->nodes + d->count;
    const char *s = *at, *from, *cr;
    char type = *s;
    uint64_t room;
    step st;

    ++*at;
    switch (type) {
    case '$':
    case '!':
    case '=':
        room = d->limits.reply - (uint64_t)(s + 1 - p);
        st = take_bulk(at, end, type, d->limits.bulk, room, r);
        return st == TAKEN && type != '$' ? take_rare_bulk(type, r) : st;
    case ':':
        return take_int(at, end, r);
    case '*':
        return take_aggregate(d, at, end, LEAT_REPLY_ARRAY, false, r);
    case '%':
        return take_aggregate(d, at, end, LEAT_REPLY_MAP, false, r);
    case '~':
        return take_aggregate(d, at, end, LEAT_REPLY_SET, false, r);
    case '>':
        return take_aggregate(d, at, end, LEAT_REPLY_PUSH, false, r);
    case '|':
        return take_aggregate(d, at, end, LEAT_REPLY_MAP, true, r);
    case '+':
    case '-':
    case '_':
    case '#':
    case ',':
    case '(':
        break;
    default:
        return WRONG_TYPE;
    }

    from = p + d->scan > *at ? p + d->scan : *at;
    st = find_cr(*at, end, from, d->limits.line, &cr);
    if (st != TAKEN)
        return st;
    s = *at;
    *at = cr + 2;
    if (type != '+' && type != '-')
        return take_rare_line(type, s, cr, r);
    set_text(r, type == '+' ? LEAT_REPLY_STATUS : LEAT_REPLY_ERROR, s,
             (size_t)(cr - s));
    return TAKEN;
}

static leat__resp_state halt(leat__resp *d, size_t n, step why, leat_error *err)
{
    if (why == SHORT && n < d->limits.reply) {
        d->scan = n - 1; /* the last byte may be half a line end */
        return LEAT__RESP_MORE;
    }
    if (why == SHORT)
        why = OVER_REPLY;
    if (why != NO_MEMORY)
        leat__fail(err, refusals[why].code, "reply refused at byte %zu: %s",
                   d->pos, refusals[why].text);
    return LEAT__RESP_BAD;
}

/* Take the next item, whatever it is. */
static __attribute__((noinline)) step
take_next(leat__resp *d, const char *p, const char *end, leat_error *err)
{
    const char *at = p + d->pos;
    if (at == end)
        return SHORT;
    step st = d->count == d->cap ? grow(d, err) : TAKEN;
    if (st == TAKEN)
        st = take_item(d, p, &at, end);
    if (st > OPENED)
        return st;
    d->pos = (size_t)(at - p);
    if (st == TAKEN) {
        d->count++;
        d->stack[d->depth].left--;
    }
    return TAKEN;
}

/* As close_full, for take_plain.  True: the rest is for close_full. */
static inline bool close_arrays(const leat__resp *d,
                                struct leat__resp_open **top,
                                const leat_reply *r)
{
    do {
        if (*top == d->stack || d->attrs)
            return true;
        leat_reply *a = d->nodes + (*top)->node;
        a->span = (uint32_t)(r - a);
        --*top;
    } while (--(*top)->left == 0);
    return false;
}

/* n of one or two digits, and CR LF; NULL when it is anything else.  There are
 * SHORT_HEAD - 1 bytes at s, of which the last is only looked at for two. */
static inline const char *short_length(const char *s, uint32_t *n)
{
    uint32_t head;
    memcpy(&head, s, sizeof head);
    head = le32toh(head);
    uint32_t a = (head & 255) - '0', b = (head >> 8 & 255) - '0';
    if ((head & 0xffff00) == ('\r' << 8 | '\n' << 16)) {
        *n = a;
        return a < 10 ? s + 3 : NULL;
    }
    *n = a * 10 + b;
    if (head >> 16 != ('\r' | '\n' << 8) || a - 1 > 8 || b > 9)
        return NULL;
    return s + 4;
}

/* The same for three and four digits, as bodies have. */
static inline const char *middle_length(const char *s, const char *end,
                                        uint64_t limit, uint32_t *n)
{
    if (end - s < 6 || s[0] == '0' || digit(s[0]) > 9 || digit(s[1]) > 9 ||
        digit(s[2]) > 9)
        return NULL;
    *n = digit(s[0]) * 100 + digit(s[1]) * 10 + digit(s[2]);
    s += 3;
    if (digit(*s) < 10)
        *n = *n * 10 + digit(*s++);
    return is_crlf(s) && *n <= limit ? s + 2 : NULL;
}

/* Where a status of at most SHORT_LINE plain bytes ends; NULL when s is not the
 * beginning of one. */
static inline const char *short_line(const char *s, const char *end)
{
    const char *stop = end - s > SHORT_LINE + 1 ? s + SHORT_LINE + 1 : end - 1;
    while (s < stop && (unsigned char)*s > '\r')
        s++;
    return s < stop && is_crlf(s) ? s : NULL;
}

/* Take what most of most replies is, strings of less than 10 kB, arrays with a
 * length of one or two digits, small integers and short statuses, as far as
 * nothing unusual comes up: an end of the bytes or of the nodes, a limit,
 * another type, an attribute.  That is left to take_next, which knows
 * everything; this only knows it faster. */
static inline void take_plain(leat__resp *d, const char *p, const char *end)
{
    leat_reply *nodes = d->nodes, *r = nodes + d->count;
    const leat_reply *full = nodes + d->cap;
    struct leat__resp_open *top = d->stack + d->depth;
    const char *at = p + d->pos, *s;
    uint32_t n;

    if (end - at < SHORT_HEAD)
        return;
    const char *last = end - SHORT_HEAD; /* where a head may begin */
    while (r < full && at <= last) {
        char type = *at;
        s = short_length(at + 1, &n);
        if (type == '$') {
            if (!s)
                s = middle_length(at + 1, end, d->limits.bulk, &n);
            if (!s || end - s < n + 2 || !is_crlf(s + n))
                break;
            set_text(r++, LEAT_REPLY_STRING, s, n);
            at = s + n + 2;
        } else if (!s) {
            if (type != '+' || !(s = short_line(at + 1, end)))
                break;
            set_text(r++, LEAT_REPLY_STATUS, at + 1, (size_t)(s - at - 1));
            at = s + 2;
        } else if (type == ':') {
            set_int(r++, n);
            at = s;
        } else {
            if (type != '*' || n == 0 || n >= full - r ||
                top == d->stack + d->limits.depth)
                break;
            set_aggregate(r, LEAT_REPLY_ARRAY, n);
            *++top = (struct leat__resp_open){ (uint32_t)(r++ - nodes), n };
            at = s;
            continue;
        }
        if (--top->left == 0 && close_arrays(d, &top, r))
            break;
    }
    d->count = (uint32_t)(r - nodes);
    d->depth = (uint32_t)(top - d->stack);
    d->pos = (size_t)(at - p);
}

leat__resp_state leat__resp_decode(leat__resp *d, const char *p, size_t n,
                                   size_t *used, leat_error *err)
{
    if (n == 0)
        return LEAT__RESP_MORE;
    if (d->base != (uintptr_t)p) {
        rebase(d, p);
        d->base = (uintptr_t)p;
    }
    /* Bytes past the limit are not looked at, so nothing below checks it. */
    if (n > d->limits.reply)
        n = (size_t)d->limits.reply;

    do {
        if (d->count < d->cap)
            take_plain(d, p, p + n);
        if (d->stack[d->depth].left == 0)
            continue;
        step st = take_next(d, p, p + n, err);
        if (st != TAKEN)
            return halt(d, n, st, err);
    } while (d->stack[d->depth].left > 0 || (d->depth > 0 && !close_full(d)));
    close_off(d);
    *used = d->pos;
    return LEAT__RESP_DONE;
}

/*
 * resp_random.c: random replies, and hiredis as the oracle for RESP2.
 *
 * The seed is fixed, so a run is repeatable; RESP_SEED in the environment gives
 * another, RESP_CASES another number of cases.
 */
#include "resp_help.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

static uint64_t rng;

static uint64_t random_u64(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng * UINT64_C(0x2545F4914F6CDD1D);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(random_u64() >> 32) % n;
}

static uint64_t from_env(const char *name, uint64_t otherwise)
{
    const char *s = getenv(name);
    return s ? strtoull(s, NULL, 10) : otherwise;
}

static int seed(void **state)
{
    (void)state;
    rng = from_env("RESP_SEED", 20251115) * 2 + 1;
    return 0;
}

static void put(leat__buf *b, const void *p, size_t n)
{
    assert_int_equal(leat__buf_add(b, p, n, NULL), LEAT_OK);
}

#define PUTF(b, ...)                                                           \
    assert_int_equal(leat__buf_printf(b, NULL, __VA_ARGS__), LEAT_OK)

/* ---- random trees: the wire form and the expected text side by side ------ */

static void random_line(leat__buf *wire, leat__buf *text, char type)
{
    char s[40];
    uint32_t n = below(sizeof s);
    for (uint32_t i = 0; i < n; i++) {
        s[i] = (char)below(256);
        if (s[i] == '\r' || s[i] == '\n')
            s[i] = '.';
    }
    PUTF(wire, "%c", type);
    put(wire, s, n);
    put(wire, "\r\n", 2);
    PUTF(text, "%c%u:", type, n);
    put(text, s, n);
}

static void random_bulk(leat__buf *wire, leat__buf *text, char type)
{
    char s[300];
    uint32_t n = below(4) ? below(30) : below(sizeof s);
    for (uint32_t i = 0; i < n; i++)
        s[i] = (char)below(256);
    PUTF(wire, "%c%u\r\n%s", type, type == '=' ? n + 4 : n,
         type == '=' ? "txt:" : "");
    put(wire, s, n);
    put(wire, "\r\n", 2);
    PUTF(text, "%c%u:", type == '!' ? '-' : '$', n);
    put(text, s, n);
}

static void random_number(leat__buf *wire, leat__buf *text, char type)
{
    int64_t i = (int64_t)(random_u64() >> below(64));
    double d = (double)i / 1024.0;
    if (type == ':') {
        PUTF(wire, ":%lld\r\n", (long long)i);
        PUTF(text, "%lld", (long long)i);
    } else if (type == ',') {
        PUTF(wire, ",%.17g\r\n", d);
        PUTF(text, "~%.17g", d);
    } else {
        PUTF(wire, "(%lld000\r\n", (long long)i);
        PUTF(text, "(%d:%lld000", snprintf(NULL, 0, "%lld000", (long long)i),
             (long long)i);
    }
}

static void random_fixed(leat__buf *wire, leat__buf *text)
{
    static const char *const pairs[][2] = {
        { "_\r\n", "nil" },    { "$-1\r\n", "nil" },     { "*-1\r\n", "nil" },
        { "#t\r\n", "true" },  { "#f\r\n", "false" },    { ",inf\r\n", "~inf" },
        { ",nan\r\n", "nan" }, { ",-inf\r\n", "~-inf" },
    };
    const char *const *p = pairs[below(8)];
    put(wire, p[0], strlen(p[0]));
    put(text, p[1], strlen(p[1]));
}

static void random_value(leat__buf *wire, leat__buf *text, uint32_t depth,
                         bool top);

static void random_elements(leat__buf *wire, leat__buf *text, uint32_t n,
                            uint32_t depth)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            put(text, " ", 1);
        random_value(wire, text, depth, false);
    }
}

static void random_aggregate(leat__buf *wire, leat__buf *text, uint32_t depth,
                             bool top)
{
    static const char types[] = "*%~>";
    static const char *const opens[] = { "[", "{", "set[", "push[" };
    uint32_t kind = below(top ? 4 : 3), n = below(8) ? below(6) : below(40);
    PUTF(wire, "%c%u\r\n", types[kind], n);
    put(text, opens[kind], strlen(opens[kind]));
    random_elements(wire, text, kind == 1 ? 2 * n : n, depth + 1);
    put(text, kind == 1 ? "}" : "]", 1);
}

static void random_attribute(leat__buf *wire, uint32_t depth)
{
    leat__buf nowhere = { 0 };
    uint32_t n = below(3);
    PUTF(wire, "|%u\r\n", n);
    random_elements(wire, &nowhere, 2 * n, depth + 1);
    leat__buf_release(&nowhere);
}

static void random_value(leat__buf *wire, leat__buf *text, uint32_t depth,
                         bool top)
{
    if (depth < 5 && below(20) == 0)
        random_attribute(wire, depth);
    switch (below(depth < 5 ? 10 : 7)) {
    case 0:
        random_line(wire, text, below(2) ? '+' : '-');
        break;
    case 1:
        random_number(wire, text, ":,("[below(3)]);
        break;
    case 2:
        random_fixed(wire, text);
        break;
    case 3:
        random_bulk(wire, text, "!="[below(2)]);
        break;
    case 4:
    case 5:
    case 6:
        random_bulk(wire, text, '$');
        break;
    default:
        random_aggregate(wire, text, depth, top);
    }
}

static void random_replies_come_back_as_they_were_written(void **state)
{
    (void)state;
    uint64_t cases = from_env("RESP_CASES", 20000);
    for (uint64_t i = 0; i < cases; i++) {
        leat__buf wire = { 0 };
        outcome want = { .state = LEAT__RESP_DONE };
        random_value(&wire, &want.text, 0, true);
        want.used = wire.n;
        uint32_t n = (uint32_t)wire.n;
        outcome whole = decode_whole(NULL, wire.p, n);
        outcome_same(&whole, &want);
        outcome pieces = decode_cut(NULL, wire.p, n, below(n), 1 + below(n));
        outcome_same(&pieces, &want);
        outcome_release(&whole);
        outcome_release(&pieces);
        outcome_release(&want);
        leat__buf_release(&wire);
    }
}

/* ---- hiredis ---------------------------------------------------------- */

enum { ORACLE_DEPTH = 8 };

static void dump_oracle(leat__buf *b, const redisReply *r)
{
    switch (r->type) {
    case REDIS_REPLY_NIL:
        put(b, "nil", 3);
        break;
    case REDIS_REPLY_INTEGER:
        PUTF(b, "%lld", r->integer);
        break;
    case REDIS_REPLY_ARRAY:
        put(b, "[", 1);
        for (size_t i = 0; i < r->elements; i++) {
            if (i > 0)
                put(b, " ", 1);
            dump_oracle(b, r->element[i]);
        }
        put(b, "]", 1);
        break;
    default:
        PUTF(b, "%c%zu:",
             r->type == REDIS_REPLY_STATUS  ? '+'
             : r->type == REDIS_REPLY_ERROR ? '-'
                                            : '$',
             r->len);
        put(b, r->str, r->len);
    }
}

static outcome ask_oracle(const char *p, size_t n)
{
    outcome o = { .state = LEAT__RESP_BAD };
    void *reply = NULL;
    redisReader *reader = redisReaderCreate();
    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, p, n), REDIS_OK);
    if (redisReaderGetReply(reader, &reply) == REDIS_OK)
        o.state = reply ? LEAT__RESP_DONE : LEAT__RESP_MORE;
    if (reply) {
        dump_oracle(&o.text, reply);
        freeReplyObject(reply);
    }
    redisReaderFree(reader);
    return o;
}

/*
 * Where the two differ, and on purpose.  hiredis 0.14
 *  - knows no RESP3 type and refuses it (the cases hold none of their bytes);
 *  - searches a line's end first and looks at the line then, where we refuse
 *    a wrong byte at once;
 *  - lets a CR or LF alone pass inside a line;
 *  - does not look at the two bytes behind a bulk string;
 *  - refuses ":+1" and ":-0", which we accept;
 *  - refuses any array below its greatest depth at its first byte, while we
 *    look whether it is a null;
 *  - has no limit on the bytes of a bulk;
 *  - reserves memory for what a count announces (the cases keep to small ones).
 */
static bool only_theirs_refuse(const char *p, size_t n)
{
    const char *lf = memrchr(p, '\n', n);
    return memmem(p, n, ":+", 2) || memmem(p, n, ":-0", 3) ||
           memmem(p, n, "*-1", 3) || (lf && lf + 1 < p + n && lf[1] == '*');
}

static bool only_ours_refuse(const leat_error *why)
{
    return strstr(why->msg, "CR or LF alone") ||
           strstr(why->msg, "behind a bulk") || why->code == LEAT_ETOOBIG;
}

/* What hiredis makes of bytes that we refuse: with the line's end it looks. */
static leat__resp_state oracle_at_line_end(const char *p, size_t n)
{
    leat__buf b = { 0 };
    put(&b, p, n);
    put(&b, "\r\n", 2);
    outcome o = ask_oracle(b.p, b.n);
    outcome_release(&o);
    leat__buf_release(&b);
    return o.state;
}

static void compare_with_oracle(const char *p, size_t n, size_t *seen)
{
    leat__resp d;
    leat_error err = { 0 };
    outcome ours = { 0 }, theirs = ask_oracle(p, n);
    leat__resp_init(&d, &(leat__resp_limits){ .depth = ORACLE_DEPTH });
    ours.state = leat__resp_decode(&d, p, n, &ours.used, &err);
    if (ours.state == LEAT__RESP_DONE)
        dump(&ours.text, d.nodes);
    seen[ours.state]++;

    if (theirs.state == LEAT__RESP_MORE && ours.state == LEAT__RESP_BAD)
        theirs.state = oracle_at_line_end(p, n);
    bool known = theirs.state == LEAT__RESP_BAD ? only_theirs_refuse(p, n)
                                                : only_ours_refuse(&err);
    char shown[800];
    leat__escape(shown, sizeof shown, p, n);
    if (ours.state != theirs.state && !known)
        fail_msg("ours %d, theirs %d, %s: %s", (int)ours.state,
                 (int)theirs.state, err.msg, shown);
    if (ours.state == LEAT__RESP_DONE && theirs.state == LEAT__RESP_DONE) {
        assert_int_equal(ours.text.n, theirs.text.n);
        assert_memory_equal(ours.text.p, theirs.text.p, ours.text.n);
    }
    outcome_release(&ours);
    outcome_release(&theirs);
    leat__resp_release(&d);
}

static const char alphabet[] = "$$**::+-0123456789\r\n\r\n\r\nabc\t\x01 ?";

static char random_byte(void)
{
    return alphabet[below(sizeof alphabet)]; /* with its zero */
}

static void random_resp2(leat__buf *b, uint32_t depth)
{
    uint32_t n = below(12);
    switch (below(depth < 9 ? 8 : 5)) {
    case 0:
        PUTF(b, "%c%.*s\r\n", "+-"[below(2)], (int)n, "ERR of no use");
        break;
    case 1:
        PUTF(b, ":%lld\r\n", (long long)(random_u64() >> below(64)));
        break;
    case 2:
        PUTF(b, "%c-1\r\n", "$*"[below(2)]);
        break;
    case 3:
    case 4:
        PUTF(b, "$%u\r\n", n);
        for (uint32_t i = 0; i < n; i++)
            put(b, (char[]){ random_byte() }, 1);
        put(b, "\r\n", 2);
        break;
    default:
        n = depth < 2 ? n : below(4);
        PUTF(b, "*%u\r\n", n);
        for (uint32_t i = 0; i < n; i++)
            random_resp2(b, depth + 1);
    }
}

/* Up to three changes; then perhaps the end is cut off. */
static void mutate(leat__buf *b)
{
    for (uint32_t i = below(4); i > 0; i--) {
        uint32_t at = below((uint32_t)b->n);
        if (below(3) == 0 && b->n > 1)
            memmove(b->p + at, b->p + at + 1, --b->n - at);
        else
            b->p[at] = random_byte();
    }
    if (below(4) == 0)
        b->n = below((uint32_t)b->n) + 1;
}

/* A count that hiredis would reserve much memory for. */
static bool announces_much(const char *p, size_t n)
{
    size_t digits = 0;
    bool counting = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '*') {
            counting = true;
            digits = 0;
        } else if (p[i] >= '0' && p[i] <= '9') {
            digits++;
        } else {
            counting = false;
        }
        if (counting && digits > 4)
            return true;
    }
    return false;
}

static void hiredis_agrees_on_random_and_damaged_resp2(void **state)
{
    (void)state;
    uint64_t cases = from_env("RESP_CASES", 200000);
    size_t seen[3] = { 0 };
    for (uint64_t i = 0; i < cases; i++) {
        leat__buf b = { 0 };
        random_resp2(&b, 0);
        mutate(&b);
        if (!announces_much(b.p, b.n))
            compare_with_oracle(b.p, b.n, seen);
        leat__buf_release(&b);
    }
    /* The generator must not drift into one kind of case. */
    for (int s = 0; s < 3; s++)
        assert_true(seen[s] > cases / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(random_replies_come_back_as_they_were_written,
                               seed),
        cmocka_unit_test_setup(hiredis_agrees_on_random_and_damaged_resp2,
                               seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

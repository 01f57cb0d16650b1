/*
 * fingerprint.c: what errors have in common.
 *
 *   cannot reach 10.0.0.7:5432 (try 3)  ->  cannot reach <n>.<n>.<n>.<n>:<n>
 *                                           (try <n>)
 *   no user 'ann' in 0xdeadbeef         ->  no user <text> in <hex>
 *
 * A word is a run of letters and digits.  One that is hexadecimal, has a digit
 * and is long is a number of some kind; in others runs of digits are.  A quote
 * opens only where no word ends, so that "can't" is left alone, and only where
 * it is closed.
 */
#include <leat/dlq.h>

#include <string.h>

enum { HEX_LEAST = 8, UUID = 36 };

typedef struct text {
    const char *p, *end;
    char *out;
    size_t n;
} text;

static void put(text *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n && t->n < LEAT_DEAD_PRINT - 1; i++)
        t->out[t->n++] = s[i];
}

static void put_word(text *t, const char *s)
{
    put(t, s, strlen(s));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Bytes of UTF-8 beyond ASCII are letters. */
static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (unsigned char)c >= 128;
}

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 127;
}

/* ---- words ------------------------------------------------------------ */

static size_t word_length(const text *t)
{
    size_t n = 0;
    while (t->p + n < t->end && is_word(t->p[n]))
        n++;
    return n;
}

static bool is_uuid(const text *t)
{
    if (t->end - t->p < UUID)
        return false;
    for (int i = 0; i < UUID; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? t->p[i] != '-' : !is_hex(t->p[i]))
            return false;
    }
    return t->end - t->p == UUID || !is_word(t->p[UUID]);
}

static size_t count(const char *p, size_t n, bool (*is)(char))
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += is(p[i]);
    return sum;
}

/* "0x1f", or long, of hexadecimal digits only, and not a word like "facade". */
static bool is_long_hex(const char *p, size_t n)
{
    if (n > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
        return count(p + 2, n - 2, is_hex) == n - 2;
    size_t digits = count(p, n, is_digit);
    return n >= HEX_LEAST && digits > 0 && digits < n &&
           count(p, n, is_hex) == n;
}

static void put_plain_word(text *t, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t from = i;
        while (i < n && is_digit(t->p[i]))
            i++;
        if (i > from)
            put_word(t, "<n>");
        else
            put(t, &t->p[i++], 1);
    }
}

static void take_word(text *t)
{
    size_t n = is_uuid(t) ? UUID : word_length(t);
    if (is_uuid(t))
        put_word(t, "<uuid>");
    else if (is_long_hex(t->p, n))
        put_word(t, "<hex>");
    else
        put_plain_word(t, n);
    t->p += n;
}

/* ---- the rest --------------------------------------------------------- */

/* Where the quoted part that begins here ends; NULL: it does not. */
static const char *quote_end(const text *t)
{
    for (const char *s = t->p + 1; s < t->end; s++)
        if (*s == *t->p && (s + 1 == t->end || !is_word(s[1])))
            return s + 1;
    return NULL;
}

static void take_other(text *t, bool after_word)
{
    const char *end = NULL;
    if (!after_word && strchr("'\"`", *t->p))
        end = quote_end(t);
    if (end) {
        put_word(t, "<text>");
        t->p = end;
    } else if (is_blank(*t->p)) {
        while (t->p < t->end && is_blank(*t->p))
            t->p++;
        if (t->n > 0 && t->p < t->end)
            put(t, " ", 1);
    } else {
        put(t, t->p++, 1);
    }
}

/* What was cut in the middle of a code point ends before it. */
static void end_text(text *t)
{
    size_t n = t->n;
    while (n > 0 && ((unsigned char)t->out[n - 1] & 0xc0) == 0x80)
        n--;
    if (t->n == LEAT_DEAD_PRINT - 1 && n > 0 &&
        (unsigned char)t->out[n - 1] >= 0xc0)
        t->n = n - 1;
    t->out[t->n] = '\0';
}

const char *leat_dead_fingerprint(leat_bytes error, char out[LEAT_DEAD_PRINT])
{
    const char *p = error.n ? error.p : "";
    text t = { .p = p, .end = p + error.n, .out = out };
    bool after_word = false;
    while (t.p < t.end) {
        bool word = is_word(*t.p);
        if (word)
            take_word(&t);
        else
            take_other(&t, after_word);
        after_word = word;
    }
    end_text(&t);
    return out;
}

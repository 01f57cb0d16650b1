/*
 * json.c: writing JSON.
 *
 * A stack of at most DEPTH open brackets knows what may come next, so the text
 * is valid at every moment but for the brackets still open.  A value that may
 * not stand where it was put, or has no memory, fails the whole text: j->fail
 * keeps the first reason and everything after it is ignored.
 *
 * Text is often read on a terminal, so what would command it, or reorder or
 * hide what stands beside it, is written by number; it reads back the same.
 */
#include "base/base64.h"
#include "base/buf.h"
#include "base/jsoncheck.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <float.h>
#include <inttypes.h>
#include <leat/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 64 };

struct leat_json {
    leat__buf out;
    leat_error fail; /* code LEAT_OK while all is well  */
    int depth;
    bool some;         /* a value stands before the next */
    char close[DEPTH]; /* '}' or ']' of what is open     */
};

leat_json *leat_json_new(leat_error *err)
{
    return leat__zalloc(sizeof(leat_json), err);
}

void leat_json_free(leat_json *j)
{
    if (j)
        leat__buf_release(&j->out);
    leat__free(j);
}

void leat_json_clear(leat_json *j)
{
    if (!j)
        return;
    j->out.n = 0;
    j->fail.code = LEAT_OK;
    j->depth = 0;
    j->some = false;
}

/* A failed writer takes no more; neither does the NULL of a failed new. */
static bool broken(const leat_json *j)
{
    return !j || j->fail.code != LEAT_OK;
}

static void add(leat_json *j, const void *p, size_t n)
{
    if (!broken(j))
        (void)leat__buf_add(&j->out, p, n, &j->fail);
}

static void add_char(leat_json *j, char c)
{
    add(j, &c, 1);
}

static void add_escape(leat_json *j, unsigned char c)
{
    static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    const char *at = c ? strchr(letters, c) : NULL;
    char text[8];
    if (at)
        snprintf(text, sizeof text, "\\%c", names[at - letters]);
    else
        snprintf(text, sizeof text, "\\u%04x", c);
    add(j, text, strlen(text));
}

static bool plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* By number, as two of them above U+FFFF. */
static void add_number(leat_json *j, uint32_t cp)
{
    char text[16];
    uint32_t v = cp - 0x10000;
    if (cp < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", (unsigned)cp);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x",
                 (unsigned)(0xd800 + (v >> 10)),
                 (unsigned)(0xdc00 + (v & 0x3ff)));
    add(j, text, strlen(text));
}

/* One character that is not plain. */
static void add_special(leat_json *j, leat_bytes *b)
{
    const unsigned char *from = b->p;
    bool ok;
    uint32_t cp = leat__utf8_next(b, &ok);
    if (!ok)
        add(j, "\xef\xbf\xbd", 3);
    else if (cp < 0x7f)
        add_escape(j, *from);
    else if (leat__utf8_misleads(cp))
        add_number(j, cp);
    else
        add(j, from, (size_t)((const unsigned char *)b->p - from));
}

static void add_string(leat_json *j, leat_bytes b)
{
    add_char(j, '"');
    while (b.n > 0 && !broken(j)) {
        const unsigned char *s = b.p;
        size_t run = 0;
        while (run < b.n && plain(s[run]))
            run++;
        add(j, s, run);
        b = leat_mem(s + run, b.n - run);
        if (b.n > 0)
            add_special(j, &b);
    }
    add_char(j, '"');
}

static bool in_object(const leat_json *j)
{
    return j->depth > 0 && j->close[j->depth - 1] == '}';
}

/* Everything before a value: the comma, the key.  False: write nothing. */
static bool begin(leat_json *j, const char *key)
{
    if (broken(j))
        return false;
    if (in_object(j) && !key)
        leat__fail(&j->fail, LEAT_EINVAL, "a json object's value has no key");
    else if (!in_object(j) && key)
        leat__fail(&j->fail, LEAT_EINVAL,
                   "json key '%.80s' given outside an object", key);
    if (j->some)
        add_char(j, j->depth > 0 ? ',' : '\n');
    j->some = true;
    if (key) {
        add_string(j, leat_str(key));
        add_char(j, ':');
    }
    return !broken(j);
}

static void begin_nested(leat_json *j, const char *key, char open, char close)
{
    if (!begin(j, key))
        return;
    if (j->depth == DEPTH) {
        leat__fail(&j->fail, LEAT_ETOOBIG, "json nested over %d deep", DEPTH);
        return;
    }
    add_char(j, open);
    j->close[j->depth++] = close;
    j->some = false;
}

void leat_json_object(leat_json *j, const char *key)
{
    begin_nested(j, key, '{', '}');
}

void leat_json_array(leat_json *j, const char *key)
{
    begin_nested(j, key, '[', ']');
}

void leat_json_end(leat_json *j)
{
    if (broken(j))
        return;
    if (j->depth == 0) {
        leat__fail(&j->fail, LEAT_EINVAL, "json end without a begin");
        return;
    }
    add_char(j, j->close[--j->depth]);
    j->some = true;
}

void leat_json_text(leat_json *j, const char *key, leat_bytes b)
{
    if (begin(j, key))
        add_string(j, b);
}

void leat_json_str(leat_json *j, const char *key, const char *s)
{
    if (s)
        leat_json_text(j, key, leat_str(s));
    else
        leat_json_null(j, key);
}

void leat_json_base64(leat_json *j, const char *key, leat_bytes b)
{
    if (!begin(j, key))
        return;
    add_char(j, '"');
    size_t n = leat__base64_encoded(b.n);
    if (!broken(j) && leat__buf_reserve(&j->out, n, &j->fail) == LEAT_OK) {
        leat__base64_encode(j->out.p + j->out.n, b);
        j->out.n += n;
    }
    add_char(j, '"');
}

static void add_word(leat_json *j, const char *key, const char *word)
{
    if (begin(j, key))
        add(j, word, strlen(word));
}

void leat_json_int(leat_json *j, const char *key, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    add_word(j, key, text);
}

/* The program's locale may write the point as something else, even as several
 * bytes. */
static void point(char *text)
{
    char *to = text;
    bool foreign = false;
    for (const char *s = text; *s; s++) {
        bool ours = (*s >= '0' && *s <= '9') || strchr("+-e", *s);
        if (ours || !foreign)
            *to++ = ours ? *s : '.';
        foreign = !ours;
    }
    *to = '\0';
}

void leat_json_double(leat_json *j, const char *key, double v)
{
    char text[40];
    if (!isfinite(v)) {
        leat_json_null(j, key);
        return;
    }
    /* Fifteen digits always survive a double, seventeen always tell two
     * apart; only the subnormal have fewer to give. */
    int digits = fabs(v) < DBL_MIN ? 1 : 15;
    do
        snprintf(text, sizeof text, "%.*g", digits, v);
    while (digits++ < 17 && strtod(text, NULL) != v);
    point(text);
    add_word(j, key, text);
}

void leat_json_bool(leat_json *j, const char *key, bool v)
{
    add_word(j, key, v ? "true" : "false");
}

void leat_json_null(leat_json *j, const char *key)
{
    add_word(j, key, "null");
}

/* JSON has newlines only between its tokens, so each may become a space; then
 * a top-level value stays on its line. */
void leat_json_raw(leat_json *j, const char *key, leat_bytes json)
{
    if (broken(j))
        return;
    if (!leat__json_valid(json, DEPTH - j->depth)) {
        leat__fail(&j->fail, LEAT_EINVAL,
                   "%zu raw bytes are not one json value at most %d deep",
                   json.n, DEPTH - j->depth);
        return;
    }
    if (!begin(j, key))
        return;
    size_t from = j->out.n;
    add(j, json.p, json.n);
    for (size_t i = from; i < j->out.n; i++)
        if (j->out.p[i] == '\n' || j->out.p[i] == '\r')
            j->out.p[i] = ' ';
}

const char *leat_json_done(leat_json *j, size_t *n, leat_error *err)
{
    if (n)
        *n = 0;
    if (!j) {
        leat__fail(err, LEAT_ENOMEM, "no memory for json");
        return NULL;
    }
    if (j->fail.code != LEAT_OK) {
        if (err)
            *err = j->fail;
        return NULL;
    }
    if (j->depth > 0) {
        leat__fail(err, LEAT_EINVAL, "json has %d brackets still open",
                   j->depth);
        return NULL;
    }
    if (leat__buf_reserve(&j->out, 1, err) != LEAT_OK)
        return NULL;
    j->out.p[j->out.n] = '\0';
    if (n)
        *n = j->out.n;
    return j->out.p;
}

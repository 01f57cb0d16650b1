/*
 * mutate.h: replies that are changed at one place of their tree: an element is
 * dropped, doubled, emptied, wrapped, or becomes something else.  What comes of
 * it is well-formed RESP of the wrong shape.
 */
#ifndef SUPPORT_MUTATE_H
#define SUPPORT_MUTATE_H

#include "base/buf.h"
#include "redis/resp.h"
#include "redis/script.h"

#include <inttypes.h>
#include <leat/leat.h>
#include <stdio.h>
#include <stdlib.h>

enum mutation {
    MUTATE_DROP,
    MUTATE_DOUBLE,
    MUTATE_EMPTY, /* *0                                        */
    MUTATE_WRAP,  /* *1 around it                              */
    MUTATE_NIL,
    MUTATE_INT, /* a large or negative number                 */
    MUTATE_TEXT,
    MUTATE_ERROR,
    MUTATE_ODD, /* a list of three                            */
    MUTATE_MAP,
    MUTATE_COUNT,
    MUTATE_OWN /* mutate_own */
};

static __attribute__((unused)) leat_bytes mutate_own;

/* ---- a tree as bytes -------------------------------------------------- */

static inline void mutate_put(leat__buf *b, const char *text)
{
    if (leat__buf_str(b, text, NULL) != LEAT_OK)
        abort();
}

static inline void mutate_bulk(leat__buf *b, leat_bytes t)
{
    char head[32];
    snprintf(head, sizeof head, "$%zu\r\n", t.n);
    mutate_put(b, head);
    if (leat__buf_add(b, t.p, t.n, NULL) != LEAT_OK)
        abort();
    mutate_put(b, "\r\n");
}

static inline void mutate_text(leat__buf *b, char mark, const leat_reply *r)
{
    const char head[] = { mark, '\0' };
    leat_bytes t = leat_reply_bytes(r);
    mutate_put(b, head);
    if (leat__buf_add(b, t.p, t.n, NULL) != LEAT_OK)
        abort();
    mutate_put(b, "\r\n");
}

static inline void mutate_other(leat__buf *b, enum mutation how, unsigned seed)
{
    static const char *const ints[] = { ":-1\r\n", ":9223372036854775807\r\n",
                                        ":0\r\n", ":-9223372036854775808\r\n",
                                        ":1000\r\n" };
    static const char *const texts[] = { "$0\r\n\r\n", "$3\r\n1-1\r\n",
                                         "$1\r\n\xff\r\n", "+OK\r\n",
                                         "$4\r\n4096\r\n" };
    switch (how) {
    case MUTATE_EMPTY:
        mutate_put(b, "*0\r\n");
        break;
    case MUTATE_NIL:
        mutate_put(b, "$-1\r\n");
        break;
    case MUTATE_INT:
        mutate_put(b, ints[seed % 5]);
        break;
    case MUTATE_TEXT:
        mutate_put(b, texts[seed % 5]);
        break;
    case MUTATE_OWN:
        mutate_bulk(b, mutate_own);
        break;
    case MUTATE_ERROR:
        mutate_put(b, "-WRONGTYPE it is something else\r\n");
        break;
    case MUTATE_ODD:
        mutate_put(b, "*3\r\n$1\r\na\r\n:1\r\n*0\r\n");
        break;
    default:
        mutate_put(b, "%1\r\n$1\r\na\r\n*1\r\n:1\r\n");
    }
}

static inline size_t mutate_emit(leat__buf *b, const leat_reply *r, size_t i,
                                 size_t target, enum mutation how,
                                 unsigned seed);

static inline void mutate_list(leat__buf *b, const leat_reply *r, size_t i,
                               size_t target, enum mutation how, unsigned seed)
{
    static const char marks[] = { [LEAT_REPLY_ARRAY] = '*',
                                  [LEAT_REPLY_MAP] = '%',
                                  [LEAT_REPLY_SET] = '~',
                                  [LEAT_REPLY_PUSH] = '>' };
    char head[32], mark = marks[r[i].type];
    size_t n = r[i].n, at = i + 1;
    for (size_t k = 0; k < r[i].n; at += r[at].span, k++)
        if (at == target)
            n += how == MUTATE_DOUBLE ? 1 : how == MUTATE_DROP ? -1UL : 0;
    if (mark == '%' && n % 2)
        mark = '*'; /* a map has no half pairs */
    snprintf(head, sizeof head, "%c%zu\r\n", mark, mark == '%' ? n / 2 : n);
    mutate_put(b, head);
    at = i + 1;
    for (size_t k = 0; k < r[i].n; k++)
        at = mutate_emit(b, r, at, target, how, seed);
}

static inline void mutate_node(leat__buf *b, const leat_reply *r, size_t i,
                               size_t target, enum mutation how, unsigned seed)
{
    char text[64];
    switch (r[i].type) {
    case LEAT_REPLY_NIL:
        mutate_put(b, "$-1\r\n");
        return;
    case LEAT_REPLY_INT:
        snprintf(text, sizeof text, ":%" PRId64 "\r\n", r[i].i);
        mutate_put(b, text);
        return;
    case LEAT_REPLY_BOOL:
        mutate_put(b, r[i].i ? "#t\r\n" : "#f\r\n");
        return;
    case LEAT_REPLY_DOUBLE:
        snprintf(text, sizeof text, ",%.17g\r\n", r[i].d);
        mutate_put(b, text);
        return;
    case LEAT_REPLY_STRING:
        mutate_bulk(b, leat_reply_bytes(r + i));
        return;
    case LEAT_REPLY_STATUS:
        mutate_text(b, '+', r + i);
        return;
    case LEAT_REPLY_ERROR:
        mutate_text(b, '-', r + i);
        return;
    case LEAT_REPLY_BIGNUM:
        mutate_text(b, '(', r + i);
        return;
    default:
        mutate_list(b, r, i, target, how, seed);
    }
}

/* The i-th node with all inside it; returns the one behind. */
static inline size_t mutate_emit(leat__buf *b, const leat_reply *r, size_t i,
                                 size_t target, enum mutation how,
                                 unsigned seed)
{
    if (i != target) {
        mutate_node(b, r, i, target, how, seed);
    } else if (how == MUTATE_DOUBLE) {
        mutate_node(b, r, i, SIZE_MAX, how, seed);
        mutate_node(b, r, i, SIZE_MAX, how, seed);
    } else if (how == MUTATE_WRAP) {
        mutate_put(b, "*1\r\n");
        mutate_node(b, r, i, SIZE_MAX, how, seed);
    } else if (how != MUTATE_DROP) {
        mutate_other(b, how, seed);
    }
    return i + r[i].span;
}

/* ---- whose answer is it? ---------------------------------------------- */

/* A command's name, or that of the script it calls. */
static inline leat_bytes mutate_name(const leat_reply *command)
{
    leat_bytes name = leat_reply_bytes(leat_reply_at(command, 0));
    leat_bytes script = leat_reply_bytes(leat_reply_at(command, 1));
    if (name.n < 4 || memcmp(name.p, "EVAL", 4) != 0)
        return name;
    for (const leat__script *const *s = leat__scripts; *s; s++)
        if (leat_bytes_eq(script, leat_str((*s)->sha)) ||
            leat_bytes_eq(script, leat_mem((*s)->body, (*s)->body_size)))
            return leat_str((*s)->name);
    return name;
}

static inline unsigned mutate_hash(unsigned h, leat_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        h = (h ^ ((const unsigned char *)b.p)[i]) * 16777619u;
    return h * 16777619u;
}

/* By which an answer is known to be this command's: its name and its key, and
 * if it is no script the number of its words.  Of a push, NULL. */
static inline uint16_t mutate_tag(const leat_reply *command)
{
    size_t n = leat_reply_len(command);
    leat_bytes word = leat_reply_bytes(leat_reply_at(command, 0));
    bool script = word.n >= 4 && memcmp(word.p, "EVAL", 4) == 0;
    unsigned h = mutate_hash(2166136261u, mutate_name(command));
    h = mutate_hash(h,
                    leat_reply_bytes(leat_reply_at(command, script ? 3 : 1)));
    h += script ? 0 : (unsigned)n;
    return (uint16_t)(h ^ h >> 16);
}

/* Numbers that are not random, so that what was recorded belongs to whoever
 * asks later. */
static inline int mutate_random(void *arg, void *buf, size_t n)
{
    (void)arg;
    memset(buf, (int)n, n);
    return 0;
}

#endif

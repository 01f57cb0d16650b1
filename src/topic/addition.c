/*
 * addition.c: messages that a script adds to a log, as commands.
 */
#include "topic/addition.h"
#include "redis/script.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHA = 40,
    ARG_COST = 32, /* bytes around an argument, at most */
    WORDS = 13     /* before the fields, at most        */
};

#define CALL "$7\r\nEVALSHA\r\n$40\r\n"

/* ---- writing ---------------------------------------------------------- */

size_t leat__addition_room(const leat__addition *a)
{
    return (WORDS + a->n) * ARG_COST + 4 * LEAT__KEY_MAX + SHA;
}

static char *put(char *to, leat_bytes b)
{
    return leat__resp_bulk(to, b.p, b.n);
}

static char *put_number(char *to, int64_t v)
{
    char text[LEAT__NUMBER];
    return put(to, leat__arg_int(text, v));
}

static char *put_key(char *to, const leat__addition *a, const char *word)
{
    leat__key k;
    if (word)
        leat__key_part(&k, a->prefix, a->topic, a->legacy, a->partition, word,
                       NULL);
    else
        leat__key_log(&k, a->prefix, a->topic, a->legacy, a->partition);
    return put(to, leat__key_bytes(&k));
}

static char *put_later(const leat__addition *a, char *to)
{
    to = put_number(to, 4);
    to = put_key(to, a, "later");
    to = put_key(to, a, "laters");
    to = put_key(to, a, "since");
    to = put_key(to, a, NULL);
    to = put(to, leat_mem(a->token, LEAT__TOKEN));
    to = put_number(to, a->delay_ms);
    return put_number(to, a->cap);
}

static char *put_add(const leat__addition *a, char *to)
{
    to = put_number(to, a->large ? 4 : 2);
    to = put_key(to, a, NULL);
    to = put_key(to, a, "later");
    if (a->large) {
        to = put_key(to, a, "bodies");
        to = put_key(to, a, "large");
    }
    to = put_number(to, a->cap);
    to = put_number(to, a->maxlen);
    return put(to, a->large ? a->pairs[a->large] : leat_mem("", 0));
}

/* The large one is the last, and is only named. */
static char *put_fields(const leat__addition *a, char *to)
{
    for (size_t i = 0; i < a->n; i += 2) {
        if (a->large == i + 1)
            continue;
        to = put(to, a->pairs[i]);
        to = put(to, a->pairs[i + 1]);
    }
    if (a->large == 0)
        return to;
    to = put(to, leat_str("@large"));
    return put(to, a->pairs[a->large - 1]);
}

char *leat__addition_put(const leat__addition *a, char *to)
{
    const leat__script *s = a->later ? &leat__script_topic_later
                                     : &leat__script_topic_add;
    size_t keys = a->later || a->large ? 4 : 2;
    to = leat__resp_array_head(to, 3 + keys + 3 + a->n);
    to = put(to, leat_str("EVALSHA"));
    to = put(to, leat_mem(s->sha, SHA));
    to = a->later ? put_later(a, to) : put_add(a, to);
    return put_fields(a, to);
}

/* ---- reading what was written ----------------------------------------- */

/* Behind the line that p is in. */
static const char *next_line(const char *p)
{
    while (*p != '\n')
        p++;
    return p + 1;
}

/* Behind n bulk strings. */
static const char *skip(const char *p, int n)
{
    for (; n > 0; n--) {
        size_t size = strtoul(p + 1, NULL, 10);
        p = next_line(p) + size + 2;
    }
    return p;
}

bool leat__addition_is(leat_bytes command)
{
    const char *p = next_line(command.p);
    return memcmp(p, CALL, sizeof CALL - 1) == 0;
}

/* Its cap: behind EVALSHA, the script, the number of keys, and them. */
static const char *cap_of(const char *command)
{
    const char *keys = skip(next_line(command), 2);
    return skip(keys, 1 + (int)strtol(next_line(keys), NULL, 10));
}

size_t leat__addition_head(leat_bytes command)
{
    const char *words = next_line(command.p);
    return (size_t)(skip(cap_of(command.p), 3) - words);
}

int64_t leat__addition_delay(leat_bytes command)
{
    return strtoll(next_line(skip(next_line(command.p), 8)), NULL, 10);
}

void leat__addition_uncap(char *command)
{
    char *p = command + (next_line(cap_of(command)) - command);
    while (*p != '\r')
        *p++ = '0';
}

static const leat__script *script_of(const char *words)
{
    const char *sha = words + sizeof CALL - 1;
    return memcmp(sha, leat__script_topic_add.sha, SHA) == 0
               ? &leat__script_topic_add
               : &leat__script_topic_later;
}

size_t leat__addition_whole_room(leat_bytes command)
{
    const leat__script *s = script_of(next_line(command.p));
    return command.n + s->body_size + ARG_COST;
}

size_t leat__addition_whole(char *to, leat_bytes command)
{
    const char *start = command.p, *words = next_line(start);
    const leat__script *s = script_of(words);
    const char *rest = skip(words, 2);
    size_t head = (size_t)(words - start);
    size_t left = command.n - (size_t)(rest - start);
    char *end = to + head;
    memcpy(to, start, head);
    end = leat__resp_bulk(end, "EVAL", 4);
    end = leat__resp_bulk(end, s->body, s->body_size);
    memcpy(end, rest, left);
    return (size_t)(end + left - to);
}

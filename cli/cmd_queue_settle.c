/*
 * cmd_queue_settle.c: leat queue ack, change and reject: messages by their
 * receipts.
 *
 * Receipts are arguments, or lines of stdin, of which the first column counts:
 * what `leat queue receive` prints in a pipe can be given as it is.  Each that
 * cannot be settled is told, a few of them; the others are done.
 */
#include "queue.h"

#include <stdlib.h>

enum { TOLD = 10, LOT = 500, LINE_MAX_SIZE = 1 << 20 };

typedef struct settling {
    cli *c;
    opened q;
    const char *done; /* as it is told: "acknowledged" */
    leat_code (*fn)(struct settling *s, leat_error *err);
    int64_t ms;

    char *text[LOT], *bytes[LOT]; /* as given, and as it is */
    leat_bytes receipt[LOT];
    leat_code outcome[LOT];
    size_t n;
    int64_t settled, stale, invalid, unknown;
} settling;

/* ---- the calls -------------------------------------------------------- */

static leat_code ack(settling *s, leat_error *err)
{
    return leat_queue_ack_batch(s->q.queue, s->receipt, s->n, s->outcome, err);
}

static leat_code change(settling *s, leat_error *err)
{
    return leat_queue_change_batch(s->q.queue, s->receipt, s->n, s->ms,
                                   s->outcome, err);
}

static leat_code reject(settling *s, leat_error *err)
{
    leat_code first = LEAT_OK;
    for (size_t i = 0; i < s->n; i++) {
        leat_error e = { 0 };
        s->outcome[i] = leat_queue_reject(s->q.queue, s->receipt[i],
                                          value_text(s->c, "reason"), &e);
        if (s->outcome[i] == LEAT_OK || first != LEAT_OK)
            continue;
        first = s->outcome[i];
        *err = e;
    }
    return first;
}

/* ---- what came of it -------------------------------------------------- */

static void tell(const settling *s, const char *text, leat_code code)
{
    const char *name = s->c->args[0];
    if (s->stale + s->invalid > TOLD)
        return;
    if (code == LEAT_ESTALE)
        fail(EXIT_NO,
             "its visibility ran out, or it is done: what is left is received "
             "again",
             "%s: a stale receipt of queue '%s'", text, name);
    else if (strncmp(text, "v/", 2) == 0 || strncmp(text, "x/", 2) == 0)
        fail(EXIT_USAGE, "a receipt is good for the queue that gave it",
             "%s: no receipt of queue '%s'", text, name);
    else
        fail(EXIT_USAGE, "leat queue receive prints them", "%s: not a receipt",
             text);
}

/* none: the outcomes are not the receipts' fault. */
static void count(settling *s, bool none)
{
    for (size_t i = 0; i < s->n; i++) {
        leat_code got = none ? LEAT_ESERVER : s->outcome[i];
        s->settled += got == LEAT_OK;
        s->stale += got == LEAT_ESTALE;
        s->invalid += got == LEAT_EINVAL;
        s->unknown += got == LEAT_EUNKNOWN;
        if (got == LEAT_ESTALE || got == LEAT_EINVAL)
            tell(s, s->text[i], got);
        free(s->text[i]);
        free(s->bytes[i]);
    }
    s->n = 0;
}

/* 0, or an exit code that ends all. */
static int flush(settling *s)
{
    leat_error err = { 0 };
    if (s->n == 0)
        return 0;
    leat_code got = s->fn(s, &err);
    count(s, key_is_foreign(&err));
    if (got == LEAT_OK || got == LEAT_ESTALE ||
        (got == LEAT_EINVAL && !key_is_foreign(&err)))
        return 0;
    return queue_fail(s->c, s->q.client, s->c->args[0], &err);
}

static void add(settling *s, const char *p, size_t n)
{
    s->text[s->n] = copy_n(p, n);
    s->bytes[s->n] = copy_n(p, n);
    s->receipt[s->n] = receipt_bytes(s->bytes[s->n]);
    s->n++;
}

/* ---- where they come from --------------------------------------------- */

static int from_words(settling *s, int end)
{
    int code = 0;
    for (int i = 1; i < end && code == 0; i++) {
        add(s, s->c->args[i], strlen(s->c->args[i]));
        if (s->n == LOT)
            code = flush(s);
    }
    return code ? code : flush(s);
}

/* The heading of a table is none. */
static bool is_receipt(const char *p, size_t n)
{
    return n > 0 && !(n == 7 && memcmp(p, "receipt", 7) == 0);
}

static int from_lines(settling *s)
{
    const char *p = NULL;
    size_t n = 0;
    line_reader in = { .end = '\n', .max_size = LINE_MAX_SIZE };
    int code = lines_open(&in, NULL, "receipt");
    while (code == 0 && !stop_signal && lines_next(&in, &p, &n, &code)) {
        const char *tab = n ? memchr(p, '\t', n) : NULL;
        size_t len = tab ? (size_t)(tab - p) : n;
        if (len > LEAT_RECEIPT_MAX * 3)
            len = LEAT_RECEIPT_MAX * 3 + 1; /* none, whatever it is */
        if (is_receipt(p, len))
            add(s, p, len);
        lines_skip(&in, &code);
        if (s->n == LOT || (!lines_ready(&in) && code == 0))
            code = flush(s);
    }
    lines_close(&in);
    return code ? code : flush(s);
}

/* ---- the end ---------------------------------------------------------- */

static const column columns[] = {
    { "queue", COLUMN_TEXT, false },    { "settled", COLUMN_COUNT, false },
    { "stale", COLUMN_COUNT, false },   { "invalid", COLUMN_COUNT, false },
    { "unknown", COLUMN_COUNT, false },
};

static int show_counts(settling *s)
{
    int code;
    if (!wants_record(s->c)) {
        note("%lld message%s %s", (long long)s->settled, plural(s->settled),
             s->done);
        return 0;
    }
    output *out = output_open(s->c, columns, 5, true, &code);
    if (!out)
        return code;
    output_text(out, s->c->args[0]);
    output_number(out, s->settled);
    output_number(out, s->stale);
    output_number(out, s->invalid);
    output_number(out, s->unknown);
    return output_close(out);
}

static int judge(settling *s, int code, bool words)
{
    int64_t bad = s->stale + s->invalid;
    if (bad > TOLD)
        fail(EXIT_NO, NULL, "and %lld more", (long long)(bad - TOLD));
    int shown = show_counts(s);
    if (code || s->unknown)
        return s->unknown ? EXIT_UNKNOWN : code;
    if (s->invalid)
        return words ? EXIT_USAGE : EXIT_DATA;
    if (s->stale)
        return EXIT_NO;
    return stop_signal ? EXIT_SIGNAL + stop_signal : shown;
}

/* The words from 1 to `end` are receipts. */
static int settle(settling *s, int end)
{
    int code;
    bool words = end > 1;
    if (!opened_open(s->c, &s->q, false, &code))
        return code;
    code = words ? from_words(s, end) : from_lines(s);
    code = judge(s, code, words);
    opened_close(s->c, &s->q);
    return code;
}

int run_queue_ack(cli *c)
{
    settling s = { .c = c, .done = "acknowledged", .fn = ack };
    return settle(&s, c->arg_count);
}

int run_queue_reject(cli *c)
{
    settling s = { .c = c, .done = "to the dead letters", .fn = reject };
    return settle(&s, c->arg_count);
}

int run_queue_change(cli *c)
{
    settling s = { .c = c, .done = "hidden", .fn = change };
    const char *text = c->args[c->arg_count - 1];
    if (!duration_parse(text, &s.ms))
        return fail(EXIT_USAGE, "30s, 5m; 0 gives it back at once",
                    "'%s' is no time", text);
    if (s.ms > longest_visibility(c))
        return fail(EXIT_USAGE, NULL, "'%s' is over %s", text,
                    is_redowl(c) ? "10 years" : "12 hours");
    if (s.ms == 0)
        s.done = "given back";
    return settle(&s, c->arg_count - 1);
}

/*
 * window.c: any bytes as what an owner left of its window.
 *
 * Three lines: the cursor and the mark as ids, separated by a space; the
 * settled ranges; the attempts.  What is read must be written and read again
 * as the same, also when the log has been read in part.
 */
#include "topic/window.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { CAP = 8 };

static void check(bool promise)
{
    if (!promise)
        abort();
}

/* Up to the separator, which is taken away with it. */
static leat_bytes cut(leat_bytes *from, char sep)
{
    const char *p = from->p;
    const char *end = from->n > 0 ? memchr(p, sep, from->n) : NULL;
    leat_bytes piece = *from;
    if (end)
        piece.n = (size_t)(end - p);
    *from = end ? leat_mem(end + 1, from->n - piece.n - 1) : leat_mem(NULL, 0);
    return piece;
}

static leat__id id_of(leat_bytes text)
{
    leat__id id = { 0, 0 };
    if (leat__id_parse(text, &id)) {
        char room[LEAT__ID_TEXT];
        leat__id again;
        check(leat__id_parse(leat__id_format(id, room), &again));
        check(leat__id_cmp(id, again) == 0);
    }
    return id;
}

static void save(leat__window *w, leat__buf *text, leat__window_saved *s)
{
    check(leat__window_save(w, text, s, NULL) == LEAT_OK);
    check(!leat__window_dirty(w) && !leat__window_unmarked(w));
}

/* What w says of itself, a new window says too. */
static void write_and_read_again(leat__window *w)
{
    leat__buf text = { 0 }, again_text = { 0 };
    leat__window_saved s, again;
    save(w, &text, &s);
    leat__window *v = leat__window_new(CAP, LEAT_ORDER_NONE, NULL);
    check(v && leat__window_load(v, &s, NULL) == LEAT_OK);
    save(v, &again_text, &again);
    check(leat_bytes_eq(s.settled, again.settled));
    check(leat_bytes_eq(s.attempts, again.attempts));
    check(leat__id_cmp(s.cursor, again.cursor) == 0);
    check(leat__id_cmp(s.mark, again.mark) == 0);
    check(leat__id_cmp(s.cursor, s.mark) <= 0);
    leat__window_free(v);
    leat__buf_release(&text);
    leat__buf_release(&again_text);
}

/* Read a few entries in small and large steps, settle every second. */
static void live(leat__window *w)
{
    void *user;
    for (uint64_t i = 1; i <= CAP; i++) {
        leat__id id = leat__window_read_from(w);
        if (id.ms >= UINT64_MAX - CAP || id.seq == UINT64_MAX)
            break;
        id = i % 3 == 0 ? (leat__id){ id.ms + 1, 0 }
                        : (leat__id){ id.ms, id.seq + 1 };
        leat__window_push(w, id, i, NULL);
        leat__entry *e = leat__window_take(w);
        if (e && i % 2 == 0)
            leat__window_done(w, e);
        else if (e)
            leat__window_back(w, e, i % 4 == 1);
        write_and_read_again(w);
        while (i % 4 == 0 && leat__window_pop(w, &user))
            write_and_read_again(w);
    }
    while (leat__window_clear(w, &user))
        continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    leat_bytes rest = leat_mem(data, n), head = cut(&rest, '\n');
    leat__window_saved s = { .cursor = id_of(cut(&head, ' ')) };
    leat_error err = { 0 };
    s.mark = id_of(head);
    s.settled = cut(&rest, '\n');
    s.attempts = rest;
    leat__window *w = leat__window_new(CAP, (leat_order)(n % 3 + 1), NULL);
    check(w);
    if (leat__window_load(w, &s, &err) == LEAT_OK) {
        write_and_read_again(w);
        live(w);
    } else {
        check(err.code == LEAT_EDECODE && err.msg[0]);
        check(strlen(err.msg) < sizeof err.msg - 1);
    }
    leat__window_free(w);
    return 0;
}

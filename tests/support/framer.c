/* framer.c: see framer.h.  A frame is over when no element is missing and no
 * byte of a bulk is left; nesting needs no stack for that, only a count. */
#include "support/framer.h"

#include <stdlib.h>
#include <string.h>

void framer_begin(framer *f)
{
    *f = (framer){ .commands = f->commands, .lost = f->lost, .missing = 1 };
}

static void add_name(framer *f, const char *p, size_t n)
{
    for (size_t i = 0; i < n && f->name_len + 1 < sizeof f->name; i++)
        f->name[f->name_len++] = p[i];
}

static void bulk(framer *f, int64_t n)
{
    f->missing--;
    if (n < 0)
        return;
    f->skip = (uint64_t)n + 2;
    if (f->commands && !f->named)
        f->name_left = (size_t)n;
}

static void aggregate(framer *f, int64_t n, bool is_element)
{
    if (is_element)
        f->missing--;
    if (n > 0)
        f->missing += (uint64_t)n;
}

static void end_inline(framer *f)
{
    size_t n = strcspn(f->line, " \r\n");
    add_name(f, f->line, n);
    f->named = true;
    f->missing = 0;
}

static void end_line(framer *f)
{
    f->line[f->line_len < sizeof f->line ? f->line_len : sizeof f->line - 1] =
        '\0';
    int64_t n = strtoll(f->line + 1, NULL, 10);
    if (f->commands && f->type != '*') {
        end_inline(f);
        return;
    }
    switch (f->line[0]) {
    case '$':
    case '=':
    case '!':
        bulk(f, n);
        break;
    case '*':
    case '~':
    case '>':
        aggregate(f, n, true);
        break;
    case '%':
        aggregate(f, 2 * n, true);
        break;
    case '|':
        aggregate(f, 2 * n, false);
        break;
    default:
        f->lost = !f->line[0] || !strchr("+-:_,#(", f->line[0]);
        f->missing--;
        break;
    }
    f->line_len = 0;
}

static size_t scan_bulk(framer *f, const char *p, size_t n)
{
    size_t used = f->skip < n ? (size_t)f->skip : n;
    size_t name = f->name_left < used ? f->name_left : used;
    add_name(f, p, name);
    f->name_left -= name;
    f->skip -= used;
    if (f->commands && f->name_left == 0)
        f->named = true;
    return used;
}

static size_t scan_line(framer *f, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (f->type == '\0')
            f->type = p[i];
        if (f->line_len < sizeof f->line)
            f->line[f->line_len] = p[i];
        f->line_len++;
        if (p[i] == '\n') {
            end_line(f);
            return i + 1;
        }
    }
    return n;
}

size_t framer_scan(framer *f, const char *p, size_t n)
{
    size_t used = 0;
    while (used < n && !f->over && !f->lost) {
        if (f->skip)
            used += scan_bulk(f, p + used, n - used);
        else
            used += scan_line(f, p + used, n - used);
        f->over = !f->lost && f->missing == 0 && f->skip == 0;
    }
    return f->lost ? n : used;
}

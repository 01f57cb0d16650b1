/*
 * lines.c: input as messages, one a line.
 *
 * It is read in blocks into one buffer that holds at most one message above the
 * maximum size, whatever comes in.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK   65536
#define LOOK_MS 200

/* Read one more block behind what is there; false at the end of the input, at
 * a signal, or after a failure in *code. */
static bool read_block(line_reader *l, int *code)
{
    if (l->used) {
        l->have -= l->used;
        memmove(l->buffer, l->buffer + l->used, l->have);
        l->used = 0;
    }
    if (l->room - l->have < BLOCK) {
        l->room = l->have * 2 + BLOCK;
        l->buffer = regrab(l->buffer, l->room);
    }
    for (;;) {
        /* A signal may come just before we wait. */
        struct pollfd p = { .fd = l->fd, .events = POLLIN };
        if (!stop_signal && poll(&p, 1, LOOK_MS) == 0)
            continue;
        ssize_t got = stop_signal ? -1
                                  : read(l->fd, l->buffer + l->have, BLOCK);
        if (got > 0) {
            l->have += (size_t)got;
            return true;
        }
        if (got == 0) {
            l->over = true;
            return false;
        }
        if (stop_signal)
            return false;
        if (errno == EINTR)
            continue;
        *code = fail(EXIT_IO, NULL, "input: %m");
        return false;
    }
}

bool lines_next(line_reader *l, const char **p, size_t *n, int *code)
{
    size_t seen = 0;
    l->cut = false;
    for (;;) {
        /* Nothing was read yet: there is no buffer to count in. */
        const char *start = l->buffer ? l->buffer + l->used : "";
        size_t left = l->have - l->used;
        const char *end = left > seen
                              ? memchr(start + seen, l->end, left - seen)
                              : NULL;
        if (end) {
            *p = start;
            *n = (size_t)(end - start);
            l->used += *n + 1;
            l->count++;
            return true;
        }
        seen = left;
        if (left > l->max_size + BLOCK) { /* no use in reading on */
            *p = start;
            *n = left;
            l->count++;
            return l->cut = true;
        }
        if (!read_block(l, code))
            break;
    }
    *p = l->buffer + l->used;
    *n = l->have - l->used;
    l->used = l->have;
    if (!l->over || *n == 0)
        return false;
    l->count++; /* a last line without its newline */
    return true;
}

bool lines_ready(const line_reader *l)
{
    size_t left = l->have - l->used;
    return left > 0 && memchr(l->buffer + l->used, l->end, left);
}

void lines_skip(line_reader *l, int *code)
{
    const char *end = NULL;
    while (l->cut) {
        size_t left = l->have - l->used;
        end = left ? memchr(l->buffer + l->used, l->end, left) : NULL;
        l->used = end ? (size_t)(end + 1 - l->buffer) : l->have;
        l->cut = !end && read_block(l, code);
    }
}

bool lines_all(line_reader *l, const char **p, size_t *n, int *code)
{
    while (l->have <= l->max_size && read_block(l, code))
        ;
    *p = l->buffer;
    *n = l->have;
    l->count = 1;
    return *code == 0 && !stop_signal;
}

int lines_open(line_reader *l, const char *file, const char *what)
{
    l->fd = STDIN_FILENO;
    if (!file && isatty(STDIN_FILENO) == 1)
        note("one %s a line; Ctrl-D ends", what);
    if (!file || strcmp(file, "-") == 0)
        return 0;
    l->fd = open(file, O_RDONLY | O_CLOEXEC);
    return l->fd < 0 ? fail(EXIT_IO, NULL, "%s: %m", file) : 0;
}

void lines_close(line_reader *l)
{
    if (l->fd > STDERR_FILENO)
        close(l->fd);
    free(l->buffer);
}

/* ---- headers ---------------------------------------------------------- */

static int add_header(header_list *h, char *line)
{
    char *at = strchr(line, ':');
    if (!at || at == line)
        return fail(EXIT_USAGE, "give NAME:VALUE", "--header: '%s' has no name",
                    line);
    if (h->count == MAX_HEADERS)
        return fail(EXIT_USAGE, NULL, "--header: at most %d", MAX_HEADERS);
    const char *text = at + 1 + strspn(at + 1, " \t");
    h->list[h->count++] = (leat_header){ leat_mem(line, (size_t)(at - line)),
                                         leat_str(text) };
    return 0;
}

int header_list_get(cli *c, header_list *h)
{
    const char *text = value_text(c, "header");
    int code = 0;
    h->text = copy(text ? text : "");
    for (char *line = h->text; *line && code == 0;) {
        char *end = line + strcspn(line, "\n");
        bool more = *end != '\0';
        *end = '\0';
        if (*line)
            code = add_header(h, line);
        line = end + more;
    }
    return code;
}

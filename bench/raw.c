/*
 * raw.c: as little as a client can do.
 */
#include "raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { HEAD = 24 }; /* room for a sign, a number and the line's end */

raw *raw_open(const char *socket_path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    raw *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    snprintf(a.sun_path, sizeof a.sun_path, "%s", socket_path);
    r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->fd >= 0 && connect(r->fd, (struct sockaddr *)&a, sizeof a) == 0)
        return r;
    raw_close(r);
    return NULL;
}

void raw_close(raw *r)
{
    if (r && r->fd >= 0)
        close(r->fd);
    free(r);
}

bool raw_write(raw *r, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(r->fd, p, n);
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

/* Read more behind what is there; false: it is over, or does not fit. */
static bool more(raw *r)
{
    if (r->at > 0) {
        memmove(r->in, r->in + r->at, r->n);
        r->at = 0;
    }
    if (r->n == sizeof r->in)
        return false;
    ssize_t n = read(r->fd, r->in + r->n, sizeof r->in - r->n);
    if (n <= 0)
        return false;
    r->n += (size_t)n;
    return true;
}

static void skip(raw *r, size_t n)
{
    r->at += n;
    r->n -= n;
}

bool raw_lines(raw *r, uint64_t n)
{
    while (n > 0) {
        char *p = r->in + r->at, *end = memchr(p, '\n', r->n);
        if (end) {
            skip(r, (size_t)(end - p) + 1);
            n--;
            continue;
        }
        r->n = 0;
        r->at = 0;
        if (!more(r))
            return false;
    }
    return true;
}

void raw_encode(char *out, size_t *n, int argc, const char *const *argv,
                const size_t *len)
{
    char *p = out + *n;
    p += snprintf(p, HEAD, "*%d\r\n", argc);
    for (int i = 0; i < argc; i++) {
        size_t size = len ? len[i] : strlen(argv[i]);
        p += snprintf(p, HEAD, "$%zu\r\n", size);
        memcpy(p, argv[i], size);
        memcpy(p + size, "\r\n", 2);
        p += size + 2;
    }
    *n = (size_t)(p - out);
}

/* ---- entries ---------------------------------------------------------- */

/* The number in a line that begins by this sign; INT64_MIN: failed. */
static int64_t number(raw *r, char sign)
{
    char *end;
    while (!(end = memchr(r->in + r->at, '\n', r->n)))
        if (!more(r))
            return INT64_MIN;
    const char *p = r->in + r->at;
    bool minus = p[1] == '-';
    int64_t x = 0;
    if (*p != sign)
        return INT64_MIN;
    for (p += 1 + minus; *p >= '0' && *p <= '9'; p++)
        x = 10 * x + (*p - '0');
    skip(r, (size_t)(end - (r->in + r->at)) + 1);
    return minus ? -x : x;
}

/* A string, which stays until the next is read. */
static const char *string(raw *r, size_t *n)
{
    int64_t len = number(r, '$');
    if (len < 0)
        return NULL;
    *n = (size_t)len;
    while (r->n < *n + 2)
        if (!more(r))
            return NULL;
    const char *p = r->in + r->at;
    skip(r, *n + 2);
    return p;
}

static bool entry(raw *r, raw_batch *b, raw_entry_fn *fn, void *arg)
{
    size_t n;
    if (number(r, '*') != 2)
        return false;
    const char *p = string(r, &n);
    if (!p || n >= RAW_ID - 8)
        return false;
    memcpy(b->last, p, n);
    b->last[n] = 0;
    b->size += (size_t)snprintf(b->ids + b->size, RAW_ID, "$%zu\r\n%s\r\n", n,
                                b->last);
    int64_t fields = number(r, '*');
    for (int64_t i = 0; i < fields; i++)
        if (!(p = string(r, &n)))
            return false;
    if (fn)
        fn(arg, p, n);
    return fields > 0;
}

int raw_entries(raw *r, raw_batch *b, raw_entry_fn *fn, void *arg)
{
    size_t n;
    b->n = 0;
    b->size = 0;
    int64_t streams = number(r, '*');
    if (streams == -1)
        return 0;
    if (streams != 1 || number(r, '*') != 2 || !string(r, &n))
        return -1;
    int64_t count = number(r, '*');
    if (count < 0 || count > RAW_BATCH)
        return -1;
    for (; b->n < count; b->n++)
        if (!entry(r, b, fn, arg))
            return -1;
    return b->n;
}

/* ---- a reader of a group ---------------------------------------------- */

bool raw_reader_start(raw_reader *g, raw *r, const char *key, const char *group,
                      const char *consumer, int block_ms)
{
    char count[16], block[16];
    const char *argv[12] = { "XREADGROUP", "GROUP", group, consumer, "COUNT" };
    int argc = 5;
    snprintf(count, sizeof count, "%d", RAW_BATCH);
    snprintf(block, sizeof block, "%d", block_ms);
    argv[argc++] = count;
    if (block_ms > 0) {
        argv[argc++] = "BLOCK";
        argv[argc++] = block;
    }
    argv[argc++] = "STREAMS";
    argv[argc++] = key;
    argv[argc++] = ">";
    *g = (raw_reader){ .r = r, .key = key, .group = group };
    raw_encode(g->read, &g->size, argc, argv, NULL);
    return raw_write(r, g->read, g->size) && raw_write(r, g->read, g->size);
}

/* The acknowledgement of the batch, and the next read. */
static bool reader_send(raw_reader *g, bool ack, bool more_wanted)
{
    char out[RAW_IDS + sizeof g->read + 512];
    size_t n = 0;
    if (ack) {
        n = (size_t)snprintf(out, 512,
                             "*%d\r\n$4\r\nXACK\r\n$%zu\r\n%s\r\n"
                             "$%zu\r\n%s\r\n",
                             3 + g->batch.n, strlen(g->key), g->key,
                             strlen(g->group), g->group);
        memcpy(out + n, g->batch.ids, g->batch.size);
        n += g->batch.size;
    }
    if (more_wanted) {
        memcpy(out + n, g->read, g->size);
        n += g->size;
    }
    return raw_write(g->r, out, n);
}

int raw_reader_next(raw_reader *g, bool more_wanted, raw_entry_fn *fn,
                    void *arg)
{
    bool *acked = &g->acked[g->step++ % 2];
    if (*acked && !raw_lines(g->r, 1))
        return -1;
    int n = raw_entries(g->r, &g->batch, fn, arg);
    if (n < 0)
        return -1;
    *acked = n > 0;
    return reader_send(g, n > 0, more_wanted) ? n : -1;
}

bool raw_reader_end(raw_reader *g)
{
    return raw_lines(g->r, (uint64_t)g->acked[0] + g->acked[1]);
}

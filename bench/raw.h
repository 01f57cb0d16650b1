/*
 * raw.h: as little as a client can do.
 *
 * What the benches measure leat against: loops that write commands encoded
 * beforehand and look at the answers no more than they must, over the Unix
 * socket of the server.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAW_BATCH = 100, RAW_ID = 48, RAW_IDS = RAW_BATCH * RAW_ID };

typedef struct raw {
    int fd;
    size_t at, n; /* what of `in` is not looked at yet */
    char in[1 << 18];
} raw;

/* NULL: it cannot connect. */
raw *raw_open(const char *socket);
void raw_close(raw *r);

bool raw_write(raw *r, const char *p, size_t n);

/* Read over n lines: an answer to PING has one, to XADD two. */
bool raw_lines(raw *r, uint64_t n);

/* One command, encoded behind *n; each argument is a text or bytes. */
void raw_encode(char *out, size_t *n, int argc, const char *const *argv,
                const size_t *len);

/* The entries of one answer to a read. */
typedef struct raw_batch {
    int n;
    char last[RAW_ID];
    size_t size; /* their ids, as arguments of a command */
    char ids[RAW_IDS];
} raw_batch;

/* The value of the last field of an entry. */
typedef void raw_entry_fn(void *arg, const char *value, size_t n);

/* How many; 0: none in time, -1: failed.  fn may be NULL. */
int raw_entries(raw *r, raw_batch *b, raw_entry_fn *fn, void *arg);

/* XREADGROUP and XACK of 100 each, with two reads under way and the
 * acknowledgement of one batch in one write with the read after the next. */
typedef struct raw_reader {
    raw *r;
    const char *key, *group;
    size_t size;
    char read[512];
    unsigned step;
    bool acked[2];
    raw_batch batch;
} raw_reader;

/* block_ms 0: do not wait.  The group must be there. */
bool raw_reader_start(raw_reader *g, raw *r, const char *key, const char *group,
                      const char *consumer, int block_ms);

/* The next batch; as raw_entries.  more: ask for another one. */
int raw_reader_next(raw_reader *g, bool more, raw_entry_fn *fn, void *arg);

/* No read is under way: wait for the last acknowledgements. */
bool raw_reader_end(raw_reader *g);

#endif

/*
 * cmd_demo.c: leat demo: messages through a server, every one checked.
 *
 *   leat:demo:<random>   stream, one native entry per message; removed at the
 *                        end
 *
 * Without --url the server is private and lives in a temporary directory; both
 * are gone when the command ends, also by Ctrl-C.  After kill -9 the server
 * ends by itself, since its last user is gone, and the directory stays.
 *
 * A message's number is in its id and its body is made from the number, so the
 * reader knows what to expect without having seen the writer's.
 */
#include "cli.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MIN_SIZE  16
#define MAX_SIZE  (1024 * 1024)
#define MAX_BATCH 10000
#define MAX_PAIRS 32
#define STOP_MS   15000

typedef struct demo {
    cli *c;
    leat_client *client;
    leat_conn *conn;
    leat_fields *fields;
    char key[64];
    int64_t count, batch, size;
    int64_t sent, refused; /* answered with an id; with an error */
    int64_t read, duplicated, out_of_order, corrupt, highest;
    double publish_s, consume_s;
    unsigned char *seen; /* a bit per message */
    char *body;          /* room for an expected one */
    leat_error refusal;  /* the first */
    progress bar;
} demo;

/* ---- the message of a number ------------------------------------------ */

static void make_body(char *body, int64_t size, int64_t i)
{
    int n = snprintf(body, MIN_SIZE + 1, "%016lld", (long long)i);
    for (int64_t k = n; k < size; k++)
        body[k] = (char)(i * 31 + k * 7);
}

static leat_msg make_message(const demo *d, int64_t i, char *id, size_t room)
{
    int n = snprintf(id, room, "demo-%lld", (long long)i);
    return (leat_msg){ .id = leat_mem(id, (size_t)n),
                       .type = leat_str("leat.demo"),
                       .source = leat_str("leat demo"),
                       .time_ms = (int64_t)time(NULL) * 1000,
                       .body = leat_mem(d->body, (size_t)d->size) };
}

static int64_t number_of(leat_bytes id)
{
    char text[32];
    if (id.n < 6 || id.n >= sizeof text || memcmp(id.p, "demo-", 5) != 0)
        return -1;
    memcpy(text, id.p, id.n);
    text[id.n] = '\0';
    char *end = NULL;
    int64_t i = strtoll(text + 5, &end, 10);
    return *end || text[5] == '-' ? -1 : i;
}

/* ---- publishing ------------------------------------------------------- */

static void on_added(void *arg, const leat_reply *reply, const leat_error *err)
{
    demo *d = arg;
    (void)reply;
    if (!err) {
        d->sent++;
        return;
    }
    if (d->refused++ == 0)
        d->refusal = *err;
}

static leat_code publish_one(demo *d, int64_t i, leat_error *err)
{
    char id[32];
    make_body(d->body, d->size, i);
    leat_msg m = make_message(d, i, id, sizeof id);
    leat_fields_clear(d->fields);
    leat_code code = leat_codec_native.encode(&leat_codec_native, &m, 1,
                                              d->fields, err);
    if (code != LEAT_OK)
        return code;
    leat_bytes argv[3 + 2 * MAX_PAIRS] = { leat_str("XADD"), leat_str(d->key),
                                           leat_str("*") };
    size_t n = leat_fields_count(d->fields);
    if (n > MAX_PAIRS)
        n = MAX_PAIRS; /* the native codec has three: decode would fail */
    memcpy(argv + 3, leat_fields_pairs(d->fields), 2 * n * sizeof *argv);
    leat_send_opts opts = { .fn = on_added, .arg = d };
    return leat_conn_send(d->conn, argv, 3 + 2 * n, &opts, err);
}

static leat_code publish(demo *d, leat_error *err)
{
    int64_t start = now_ns();
    leat_code code = LEAT_OK;
    progress_start(&d->bar, "publishing", d->count);
    for (int64_t i = 0; i < d->count && code == LEAT_OK && !stop_signal; i++) {
        code = publish_one(d, i, err);
        if (i % 256 == 0)
            progress_set(&d->bar, d->sent);
    }
    if (code == LEAT_OK && !stop_signal)
        code = leat_conn_drain(d->conn, 0, err);
    d->publish_s = (double)(now_ns() - start) / 1e9;
    d->bar.done = d->sent;
    progress_end(&d->bar);
    if (code == LEAT_OK && d->refused) {
        *err = d->refusal;
        code = d->refusal.code;
    }
    return code;
}

/* ---- reading ---------------------------------------------------------- */

static void check(demo *d, const leat_msg *m)
{
    int64_t i = number_of(m->id);
    d->read++;
    if (i < 0 || i >= d->count) {
        d->corrupt++;
        return;
    }
    make_body(d->body, d->size, i);
    if (!leat_bytes_eq(m->body, leat_mem(d->body, (size_t)d->size)))
        d->corrupt++;
    unsigned char bit = (unsigned char)(1u << (i & 7));
    if (d->seen[i >> 3] & bit)
        d->duplicated++;
    else if (i < d->highest)
        d->out_of_order++;
    d->seen[i >> 3] |= bit;
    if (i > d->highest)
        d->highest = i;
}

/* One entry: [id, [name, value, ...]]. */
static leat_code read_entry(demo *d, const leat_reply *entry, char *last,
                            size_t room, leat_error *err)
{
    leat_bytes id = leat_reply_bytes(leat_reply_first(entry));
    const leat_reply *pairs = leat_reply_at(entry, 1);
    snprintf(last, room, "%.*s", (int)id.n, (const char *)id.p);
    leat_fields_clear(d->fields);
    size_t n = pairs ? leat_reply_len(pairs) / 2 : 0;
    const leat_reply *x = n ? leat_reply_first(pairs) : NULL;
    for (size_t i = 0; i < n; i++) {
        leat_bytes name = leat_reply_bytes(x);
        x = leat_reply_next(x);
        leat_code code = leat_fields_add(d->fields, name, leat_reply_bytes(x),
                                         err);
        if (code != LEAT_OK)
            return code;
        if (i + 1 < n)
            x = leat_reply_next(x);
    }
    const leat_msg *m = NULL;
    size_t count = 0;
    leat_code code = leat_codec_native.decode(&leat_codec_native, d->fields, &m,
                                              &count, err);
    if (code == LEAT_EDECODE) {
        d->corrupt++;
        return LEAT_OK;
    }
    for (size_t i = 0; code == LEAT_OK && i < count; i++)
        check(d, &m[i]);
    return code;
}

/* The entries of XREAD's one stream: RESP2 answers [[key, entries]], RESP3
 * {key: entries}, and nothing is nil. */
static const leat_reply *entries_of(const leat_reply *r)
{
    if (leat_reply_kind(r) == LEAT_REPLY_MAP)
        return leat_reply_at(r, 1);
    if (leat_reply_kind(r) == LEAT_REPLY_ARRAY && leat_reply_len(r) > 0)
        return leat_reply_at(leat_reply_first(r), 1);
    return NULL;
}

static leat_code read_batch(demo *d, char *last, size_t room, size_t *got,
                            leat_error *err)
{
    char count[24];
    const leat_reply *r = NULL;
    snprintf(count, sizeof count, "%lld", (long long)d->batch);
    leat_code code = leat_conn_call(
        d->conn,
        LEAT_ARGS(leat_str("XREAD"), leat_str("COUNT"), leat_str(count),
                  leat_str("STREAMS"), leat_str(d->key), leat_str(last)),
        NULL, &r, err);
    *got = 0;
    if (code != LEAT_OK)
        return code;
    const leat_reply *list = entries_of(r);
    *got = list ? leat_reply_len(list) : 0;
    const leat_reply *x = *got ? leat_reply_first(list) : NULL;
    for (size_t i = 0; i < *got && code == LEAT_OK; i++) {
        code = read_entry(d, x, last, room, err);
        if (i + 1 < *got)
            x = leat_reply_next(x);
    }
    return code;
}

static leat_code consume(demo *d, leat_error *err)
{
    int64_t start = now_ns();
    char last[64] = "0-0";
    size_t got = 1;
    leat_code code = LEAT_OK;
    progress_start(&d->bar, "reading", d->count);
    while (got && code == LEAT_OK && !stop_signal) {
        code = read_batch(d, last, sizeof last, &got, err);
        progress_set(&d->bar, d->read);
    }
    d->consume_s = (double)(now_ns() - start) / 1e9;
    progress_end(&d->bar);
    return code;
}

/* ---- the result ------------------------------------------------------- */

static int64_t missing(const demo *d)
{
    int64_t n = 0;
    for (int64_t i = 0; i < d->count; i++)
        n += !(d->seen[i >> 3] >> (i & 7) & 1);
    return n;
}

static const column columns[] = {
    { "sent", COLUMN_COUNT, false },
    { "read", COLUMN_COUNT, false },
    { "missing", COLUMN_COUNT, false },
    { "duplicated", COLUMN_COUNT, false },
    { "out_of_order", COLUMN_COUNT, false },
    { "corrupt", COLUMN_COUNT, false },
    { "publish_per_s", COLUMN_COUNT, false },
    { "consume_per_s", COLUMN_COUNT, false },
};

static int64_t rate(int64_t n, double seconds)
{
    return seconds > 0 ? (int64_t)((double)n / seconds) : 0;
}

static int show(const demo *d, output *out)
{
    int64_t lost = missing(d);
    output_number(out, d->sent);
    output_number(out, d->read);
    output_number(out, lost);
    output_number(out, d->duplicated);
    output_number(out, d->out_of_order);
    output_number(out, d->corrupt);
    output_number(out, rate(d->sent, d->publish_s));
    output_number(out, rate(d->read, d->consume_s));
    int code = output_close(out);
    bool whole = lost + d->duplicated + d->out_of_order + d->corrupt == 0;
    if (code == 0 && !whole)
        code = fail(EXIT_NO, NULL, "the messages did not all arrive as sent");
    return code;
}

/* ---- running ---------------------------------------------------------- */

static void remove_key(demo *d)
{
    leat_reply *reply = NULL;
    leat_call_opts again = { .idempotent = true };
    if (leat_client_call(d->client,
                         LEAT_ARGS(leat_str("DEL"), leat_str(d->key)), &again,
                         &reply, NULL) == LEAT_OK)
        leat_reply_free(reply);
    else
        hint("the key %s was left behind", d->key);
}

static leat_code work(demo *d, leat_error *err)
{
    d->fields = leat_fields_new(err);
    if (!d->fields)
        return err->code;
    d->conn = leat_client_lend(d->client, value_ms(d->c, "timeout"), err);
    if (!d->conn)
        return err->code;
    leat_code code = publish(d, err);
    if (code == LEAT_OK && !stop_signal)
        code = consume(d, err);
    leat_client_return(d->client, d->conn);
    return code;
}

static int run_on(cli *c, const char *url, output *out, long *server)
{
    demo d = { .c = c,
               .count = value_count(c, "count"),
               .batch = value_count(c, "batch"),
               .size = value_count(c, "size"),
               .highest = -1 };
    uint64_t random = 0;
    int code;
    leat_error err = { 0 };
    if (getrandom(&random, sizeof random, 0) < 0)
        random = (uint64_t)now_ns();
    snprintf(d.key, sizeof d.key, "leat:demo:%016llx",
             (unsigned long long)random);
    d.client = client_open(c, url, "leat-demo", &code);
    if (!d.client) {
        output_drop(out);
        return code;
    }
    *server = server_pid(d.client);
    d.seen = grab((size_t)d.count / 8 + 1);
    d.body = grab((size_t)d.size + 1);
    if (work(&d, &err) != LEAT_OK)
        code = fail_with(leat_client_url(d.client), &err, NULL);
    remove_key(&d);
    leat_client_close(d.client);
    leat_fields_free(d.fields);
    if (code == 0 && stop_signal)
        code = EXIT_SIGNAL + stop_signal;
    if (code == 0)
        code = show(&d, out);
    else
        output_drop(out);
    free(d.seen);
    free(d.body);
    return code;
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    (void)remove(path);
    return 0;
}

/* The server ends after its last user: wait, or it writes into what is being
 * removed. */
static void clean_up(const char *dir, long server)
{
    if (server > 0 && !wait_gone(server, STOP_MS))
        hint("process %ld still runs in %s", server, dir);
    for (int i = 0; i < 100 && access(dir, F_OK) == 0; i++) {
        nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        struct timespec t = { .tv_nsec = 10000000 };
        if (access(dir, F_OK) == 0)
            nanosleep(&t, NULL);
    }
    if (access(dir, F_OK) == 0)
        hint("could not remove %s", dir);
}

static int run_private(cli *c, output *out)
{
    const char *base = getenv("TMPDIR");
    char *dir = format("%s/leat-demo-XXXXXX",
                       base && base[0] == '/' ? base : "/tmp");
    if (!mkdtemp(dir)) {
        int code = fail(EXIT_IO, NULL, "%s: %m", dir);
        free(dir);
        output_drop(out);
        return code;
    }
    char *url = format("embedded://%s", dir);
    long server = 0;
    int code = run_on(c, url, out, &server);
    clean_up(dir, server);
    free(url);
    free(dir);
    return code;
}

int run_demo(cli *c)
{
    int code;
    int64_t size = value_count(c, "size"), batch = value_count(c, "batch");
    if (size < MIN_SIZE || size > MAX_SIZE)
        return fail(EXIT_USAGE, NULL, "--size is from %d to %d", MIN_SIZE,
                    MAX_SIZE);
    if (batch > MAX_BATCH)
        return fail(EXIT_USAGE, NULL, "--batch is at most %d", MAX_BATCH);
    output *out = output_open(c, columns, sizeof columns / sizeof *columns,
                              true, &code);
    if (!out)
        return code;
    if (value_find(c, "url")->origin < FROM_CHOSEN_CONTEXT)
        return run_private(c, out);
    long server = 0;
    return run_on(c, value_text(c, "url"), out, &server);
}

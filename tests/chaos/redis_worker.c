/*
 * redis_worker.c: a process of the chaos run `redis`.
 *
 *   redis_worker write URL DIR N [MS]
 *                                  writer N: numbered entries into its streams,
 *                                  a round every so many ms (1)
 *   redis_worker read  URL DIR N   all streams of writers 1 to N, as deliveries
 *
 * A writer has four keys, a stream each.  It writes each attempt into its
 * ledger before the send and the outcome after it, and never sends a number
 * again: after a failure it goes on with the next, after a kill with the one
 * behind the highest in its ledgers.  So what appears twice was sent twice by
 * the library.
 *
 *   key 1, 2   XADD, pipelined, the window full
 *   key 3      a script, one at a time: after SCRIPT FLUSH the library sends
 *              the body behind what was sent meanwhile
 *   key 4      three at a time in MULTI ... EXEC
 *
 * SIGTERM ends it in order: one more entry of every key must be acknowledged.
 * Exit 0: all is well; 1: it cannot work; 3: it could not end so.
 */
#include "redis/script.h"
#include "support/wait.h"
#include "support/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 4,
    SCRIPTED = 2,
    IN_TX = 3,
    TX_SIZE = 3,
    TX_EVERY = 4, /* rounds */
    WINDOW = 64,
    SLOTS = 2 * WINDOW,
    PAGE = 1000,
    IMPATIENT_MS = 300, /* so that faults last longer than a call */
    END_MS = 10000
};

static const leat__script append = {
    "chaos/append", "daf63c50e3653be02586b2b440e1c9825a7748ad",
    "return redis.call('XADD', KEYS[1], '*', 'id', ARGV[1])", 54
};

struct key {
    uint64_t number; /* of the ledger; the stream is "log:<number>" */
    uint64_t seq;    /* of the last attempt                         */
    uint64_t acked;  /* how many                                    */
    bool busy;       /* the script is under way                     */
};

/* An attempt that waits for its outcome. */
struct slot {
    struct key *key;
    uint64_t seq;
};

static struct key keys[KEYS];
static struct slot slots[SLOTS];
static unsigned next_slot, rounds;
static ledger *book;

static void write_down(ledger_kind kind, const struct key *k, uint64_t seq)
{
    worker_write(book, kind,
                 (ledger_record){ .key = k->number,
                                  .seq = seq,
                                  .id = k->number << 32 | seq });
}

/* ---- writing ---------------------------------------------------------- */

static void settle(struct slot *s, leat_code code)
{
    s->key->busy = false;
    s->key->acked += code == LEAT_OK;
    write_down(worker_outcome(code), s->key, s->seq);
}

/* An answer that is not an entry's id must not pass for one. */
static void on_answer(void *arg, const leat_reply *r, const leat_error *e)
{
    if (!e && (leat_reply_kind(r) != LEAT_REPLY_STRING ||
               !memchr(leat_reply_bytes(r).p, '-', leat_reply_bytes(r).n)))
        worker_die("an answer that is not an id", NULL);
    settle(arg, e ? e->code : LEAT_OK);
}

static bool send_one(leat_conn *conn, struct key *k, bool script)
{
    struct slot *s = &slots[next_slot++ % SLOTS];
    leat_send_opts o = { on_answer, s, 0 };
    char name[32], text[32];
    leat_error e;

    *s = (struct slot){ k, ++k->seq };
    write_down(LEDGER_ATTEMPT, k, s->seq);
    snprintf(name, sizeof name, "log:%llu", (unsigned long long)k->number);
    snprintf(text, sizeof text, "%llu", (unsigned long long)s->seq);
    leat_bytes key = leat_str(name), id = leat_str(text);
    k->busy = script;
    leat_code rc = script ? leat__script_send(conn, &append, &key, 1, &id, 1,
                                              &o, &e)
                          : leat_conn_send(conn,
                                           LEAT_ARGS(leat_str("XADD"), key,
                                                     leat_str("*"),
                                                     leat_str("id"), id),
                                           &o, &e);
    if (rc != LEAT_OK)
        settle(s, rc);
    return rc == LEAT_OK;
}

static bool transaction(leat_conn *conn, struct key *k)
{
    leat_error e;
    if (leat_conn_begin(conn, &e) != LEAT_OK)
        return false;
    for (int i = 0; i < TX_SIZE; i++)
        if (!send_one(conn, k, false))
            return false;
    return leat_conn_exec(conn, &e) == LEAT_OK;
}

/* A window full of what the keys want; false: the connection is of no more
 * use. */
static bool some_work(leat_conn *conn)
{
    leat_error e;
    for (int i = 0; i < WINDOW / 2; i++)
        if (!send_one(conn, &keys[i % 2], false))
            return false;
    if (!keys[SCRIPTED].busy && !send_one(conn, &keys[SCRIPTED], true))
        return false;
    if (leat_conn_flush(conn, &e) != LEAT_OK ||
        leat_conn_take(conn, &e) != LEAT_OK)
        return false;
    return ++rounds % TX_EVERY != 0 || transaction(conn, &keys[IN_TX]);
}

static int64_t pause_ms = 1;

static void work(leat_client *c)
{
    while (!worker_stopping) {
        leat_error e;
        leat_conn *conn = leat_client_lend(c, 200, &e);
        if (!conn)
            continue;
        while (!worker_stopping && some_work(conn))
            wait_nap(pause_ms);
        if (leat_conn_drain(conn, 0, &e) != LEAT_OK)
            wait_nap(1);
        leat_client_return(c, conn);
    }
}

static bool last_round(leat_client *c)
{
    leat_error e;
    leat_conn *conn = leat_client_lend(c, 1000, &e);
    uint64_t before[KEYS];
    bool all = conn != NULL;
    for (int i = 0; conn && i < KEYS; i++) {
        before[i] = keys[i].acked;
        if (i == IN_TX)
            all = transaction(conn, &keys[i]) && all;
        else
            all = send_one(conn, &keys[i], i == SCRIPTED) && all;
    }
    if (conn && leat_conn_drain(conn, 0, &e) != LEAT_OK)
        all = false;
    leat_client_return(c, conn);
    for (int i = 0; all && i < KEYS; i++)
        all = keys[i].acked > before[i];
    return all;
}

/* ---- after a kill ------------------------------------------------------ */

static void recall(const char *dir, const char *role)
{
    uint64_t last[KEYS] = { 0 };
    worker_recall(dir, role, keys[0].number, KEYS, last);
    for (int i = 0; i < KEYS; i++)
        keys[i].seq = last[i];
}

static leat_client *dial(const char *url, int64_t timeout_ms)
{
    leat_client_opts o = { .timeout_ms = timeout_ms,
                           .connect_timeout_ms = 500,
                           .max_retry_ms = 100,
                           .window = WINDOW,
                           .pool_size = 2 };
    leat_error e = { 0 };
    for (;;) {
        leat_client *c = leat_client_open(url, &o, &e);
        if (c)
            return c;
        if (!e.retriable)
            worker_die("open", &e);
        wait_nap(20);
    }
}

static int writer(const char *url, const char *dir, unsigned long n)
{
    char role[32];
    worker_signals();
    snprintf(role, sizeof role, "writer%lu", n);
    for (unsigned i = 0; i < KEYS; i++)
        keys[i].number = n * 10 + i + 1;
    recall(dir, role);
    book = ledger_open(dir, role);
    if (!book)
        return 1;
    leat_client *c = dial(url, IMPATIENT_MS);
    work(c);
    int64_t end = wait_now_ms() + END_MS;
    bool well = false;
    while (!well && wait_now_ms() < end)
        well = last_round(c);
    leat_client_close(c);
    ledger_close(book);
    return well ? 0 : 3;
}

/* ---- reading ---------------------------------------------------------- */

/* One page behind `from`, which becomes the last id; how many entries. */
static size_t read_page(leat_conn *conn, const char *name, struct key *k,
                        char *from, size_t room)
{
    const leat_reply *r;
    leat_error e;
    char count[16];
    snprintf(count, sizeof count, "%d", PAGE);
    if (leat_conn_call(conn,
                       LEAT_ARGS(leat_str("XRANGE"), leat_str(name),
                                 leat_str(from), leat_str("+"),
                                 leat_str("COUNT"), leat_str(count)),
                       NULL, &r, &e) != LEAT_OK)
        worker_die("XRANGE", &e);
    size_t n = leat_reply_len(r);
    leat_reply_iter it = leat_reply_each(r);
    for (const leat_reply *entry; (entry = leat_reply_step(&it));) {
        leat_bytes id = leat_reply_bytes(leat_reply_at(entry, 0));
        const leat_reply *fields = leat_reply_at(entry, 1);
        write_down(LEDGER_DELIVERY, k,
                   (uint64_t)leat_reply_int(leat_reply_at(fields, 1)));
        snprintf(from, room, "(%.*s", (int)id.n, (const char *)id.p);
    }
    return n;
}

static void read_key(leat_conn *conn, uint64_t number)
{
    struct key k = { .number = number };
    char from[64] = "-", name[32];
    snprintf(name, sizeof name, "log:%llu", (unsigned long long)number);
    while (read_page(conn, name, &k, from, sizeof from) == PAGE)
        ;
}

static int reader(const char *url, const char *dir, unsigned long writers)
{
    leat_error e;
    leat_client *c = dial(url, END_MS);
    leat_conn *conn = leat_client_lend(c, END_MS, &e);
    book = ledger_open(dir, "reader");
    if (!conn || !book)
        worker_die("cannot read", &e);
    for (unsigned long n = 1; n <= writers; n++)
        for (unsigned i = 0; i < KEYS; i++)
            read_key(conn, n * 10 + i + 1);
    leat_client_return(c, conn);
    leat_client_close(c);
    ledger_close(book);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    if (argc > 5)
        pause_ms = strtoll(argv[5], NULL, 10);
    if (n && strcmp(argv[1], "write") == 0)
        return writer(argv[2], argv[3], n);
    if (n && strcmp(argv[1], "read") == 0)
        return reader(argv[2], argv[3], n);
    fprintf(stderr, "usage: redis_worker write URL DIR N [MS] | "
                    "read URL DIR N\n");
    return 1;
}

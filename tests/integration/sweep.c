/*
 * sweep.c: every allocation and every system call of the Redis layer, failed
 * once, against a real server; a second program does the same over TLS.
 *
 * The scenario opens a client and does everything it can do once.  Each step
 * that changes something pushes its own number on the list "done", and writes
 * down what it was told.  After each run the list is compared with that: OK
 * means once, unknown at most once, anything else never.  Nothing may be told
 * twice or not at all, and neither memory nor descriptors may be left over.
 */
#include "redis/script.h"
#include "redis/waker.h"
#include "sweep_help.h"
#ifdef OVER_TLS
#include "tls_help.h"
#else
#include "support/server.h"
#endif

#include <stdlib.h>

enum {
    CALL = 0,
    PIPELINE = 1, /* and the 49 after it */
    PIPELINED = 50,
    SCRIPT = 60,
    BEFORE_TX = 61, /* a script, not yet answered when MULTI is sent */
    TX = 70,
    IN_TX = 20, /* more than the first 16 that are made room for */
    CLIENT_CALL = 95,
    OPS = 100,
    BIG = 2 * 1024 * 1024,
    TIMEOUT_MS = 2000,
    RUN_MS = 8000
};

static char *big;

/* ---- what was told ---------------------------------------------------- */

static struct {
    bool sent;      /* the library took it               */
    int told;       /* how often its callback was called */
    leat_code code; /* the outcome                       */
} ops[OPS];
static leat_code tx_code;
static bool tx_done;

static void outcome(int op, leat_code code)
{
    ops[op].told++;
    ops[op].code = code;
}

static void on_push(void *arg, const leat_reply *r, const leat_error *e)
{
    int op = (int)(intptr_t)arg;
    if (!e && leat_reply_int(r) <= 0)
        fail_msg("operation %d: OK with a wrong answer", op);
    outcome(op, e ? e->code : LEAT_OK);
    if (e)
        (void)checked("an answer", e->code, e);
}

/* ---- the steps -------------------------------------------------------- */

static const leat__script append = {
    "tests/append", "b9705020f551c492b7692cdba607bbdb64837972",
    "return redis.call('RPUSH', KEYS[1], ARGV[1])", 44
};

static bool push(leat_conn *conn, int op, bool script)
{
    char text[LEAT__NUMBER];
    leat_error e = { 0 };
    leat_send_opts o = { on_push, (void *)(intptr_t)op, 0 };
    leat_bytes key = leat_str("done"), id = leat__arg_int(text, op);
    leat_code rc = script
                       ? leat__script_send(conn, &append, &key, 1, &id, 1, &o,
                                           &e)
                       : leat_conn_send(conn,
                                        LEAT_ARGS(leat_str("RPUSH"), key, id),
                                        &o, &e);
    if (rc == LEAT_OK)
        ops[op].sent = true;
    else
        ops[op].code = rc;
    return checked("send", rc, &e);
}

static void forget_scripts(void)
{
    freeReplyObject(redis_raw(server, "SCRIPT FLUSH"));
}

static void call(leat_conn *conn)
{
    leat_error e = { 0 };
    const leat_reply *r = NULL;
    ops[CALL].sent = true;
    leat_code rc = leat_conn_call(
        conn, LEAT_ARGS(leat_str("RPUSH"), leat_str("done"), leat_str("0")),
        NULL, &r, &e);
    outcome(CALL, rc);
    if (checked("call", rc, &e))
        assert_int_equal(leat_reply_int(r), 1);
}

static void pipeline(leat_conn *conn)
{
    leat_error e = { 0 };
    for (int i = 0; i < PIPELINED; i++)
        (void)push(conn, PIPELINE + i, false);
    (void)checked("drain", leat_conn_drain(conn, 0, &e), &e);
}

static void script(leat_conn *conn)
{
    leat_error e = { 0 };
    forget_scripts();
    (void)push(conn, SCRIPT, true);
    (void)checked("drain", leat_conn_drain(conn, 0, &e), &e);
}

/* The server does not know the script, and says so when MULTI has left. */
static void transaction(leat_conn *conn)
{
    leat_error e = { 0 };
    bool all = true;
    forget_scripts();
    (void)push(conn, BEFORE_TX, true);
    if (!checked("begin", leat_conn_begin(conn, &e), &e))
        return;
    for (int i = 0; i < IN_TX && all; i++)
        all = push(conn, TX + i, false);
    (void)leat_conn_take(conn, NULL);
    if (!all) {
        no_wonder = LEAT_ECLOSED;
        (void)checked("discard", leat_conn_discard(conn, &e), &e);
        no_wonder = LEAT_OK;
        return;
    }
    tx_code = leat_conn_exec(conn, &e);
    tx_done = true;
    (void)checked("exec", tx_code, &e);
}

struct heard {
    int n;
    bool wrong;
};

static void on_message(void *arg, leat_bytes channel, leat_bytes payload)
{
    struct heard *h = arg;
    h->n++;
    h->wrong |= !leat_bytes_eq(channel, leat_str("news")) ||
                !leat_bytes_eq(payload, leat_str("hello"));
}

static void pubsub(leat_conn *conn)
{
    struct heard h = { 0 };
    leat_error e = { 0 };
    leat_bytes name = leat_str("news");
    leat_conn_on_push(conn, on_message, &h);
    if (checked("subscribe", leat_conn_subscribe(conn, false, &name, 1, &e),
                &e)) {
        assert_int_equal(redis_int(server, "PUBLISH news hello"), 1);
        if (checked("listen", leat_conn_listen(conn, TIMEOUT_MS, &e), &e)) {
            assert_int_equal(h.n, 1);
            assert_false(h.wrong);
        }
        (void)checked("unsubscribe",
                      leat_conn_unsubscribe(conn, false, &name, 1, &e), &e);
    }
    leat_conn_on_push(conn, NULL, NULL);
}

static void large(leat_conn *conn)
{
    leat_error e = { 0 };
    const leat_reply *r = NULL;
    leat_code rc = leat_conn_call(
        conn, LEAT_ARGS(leat_str("GET"), leat_str("big")), NULL, &r, &e);
    if (!checked("get", rc, &e))
        return;
    assert_int_equal(leat_reply_bytes(r).n, BIG);
    assert_memory_equal(leat_reply_bytes(r).p, big, BIG);
}

static void client_call(leat_client *c)
{
    leat_error e = { 0 };
    leat_reply *r = NULL;
    ops[CLIENT_CALL].sent = true;
    leat_code rc = leat_client_call(
        c, LEAT_ARGS(leat_str("RPUSH"), leat_str("done"), leat_str("95")), NULL,
        &r, &e);
    outcome(CLIENT_CALL, rc);
    if (checked("client_call", rc, &e))
        assert_true(leat_reply_int(r) > 0);
    else
        assert_null(r);
    leat_reply_free(r);
}

static void waker(leat_client *c)
{
    leat_error e = { 0 };
    leat__waker *w = leat__client_waker(c, &e);
    leat__waiter *q = w ? leat__waiter_open(w, leat_str("bell"), &e) : NULL;
    if (!q) {
        (void)checked("waker", e.code, &e);
        return;
    }
    bool hinted = leat__waiter_wait(q, strict ? TIMEOUT_MS : 20);
    assert_true(hinted || !strict);
    leat__waiter_close(q);
}

/* A connection for each step, so that one that broke does not save the others
 * from their faults. */
static void with_conn(leat_client *c, void (*step)(leat_conn *conn))
{
    leat_error e = { 0 };
    leat_conn *conn = leat_client_lend(c, 0, &e);
    if (conn)
        step(conn);
    else
        (void)checked("lend", e.code, &e);
    leat_client_return(c, conn);
}

static leat_client *dial(void)
{
    leat_error e = { 0 };
    leat_client *c = leat_client_open(
        url,
        &(leat_client_opts){ .timeout_ms = TIMEOUT_MS,
                             .connect_timeout_ms = TIMEOUT_MS,
                             .max_retry_ms = 5 },
        &e);
    if (!c)
        (void)checked("open", e.code, &e);
    return c;
}

static void everything(leat_client *c)
{
    with_conn(c, call);
    with_conn(c, pipeline);
    with_conn(c, script);
    with_conn(c, transaction);
    with_conn(c, pubsub);
    with_conn(c, large);
    client_call(c);
    waker(c);
}

/* ---- the comparison --------------------------------------------------- */

static void count_done(int *there)
{
    redisReply *all = redis_raw(server, "LRANGE done 0 -1");
    assert_non_null(all);
    for (size_t i = 0; i < all->elements; i++) {
        long op = strtol(all->element[i]->str, NULL, 10);
        assert_in_range(op, 0, OPS - 1);
        there[op]++;
    }
    freeReplyObject(all);
}

static void audit(long n)
{
    int there[OPS] = { 0 };
    count_done(there);
    for (int i = 0; i < OPS; i++) {
        if (ops[i].sent && ops[i].told != 1)
            fail_msg("fault %ld: operation %d was told %d times", n, i,
                     ops[i].told);
        bool ok = ops[i].sent && ops[i].code == LEAT_OK;
        bool unknown = ops[i].sent && ops[i].code == LEAT_EUNKNOWN;
        if (there[i] < ok || there[i] > (ok || unknown))
            fail_msg("fault %ld: operation %d was called %s and is there %d "
                     "times",
                     n, i, leat_code_name(ops[i].code), there[i]);
    }
    for (int i = 0; tx_done && i < IN_TX; i++) {
        assert_int_equal(there[TX + i], there[TX]);
        if (tx_code != LEAT_EUNKNOWN && there[TX + i] != (tx_code == LEAT_OK))
            fail_msg("fault %ld: exec was %s and its commands are there %d "
                     "times",
                     n, leat_code_name(tx_code), there[TX]);
    }
}

static void forget(void)
{
    memset(ops, 0, sizeof ops);
    tx_code = LEAT_OK;
    tx_done = false;
    freeReplyObject(redis_raw(server, "DEL done"));
}

/* Without a fault from now on the client works, if there is one. */
static void prove_usable(leat_client *c)
{
    bool was = strict;
    strict = true;
    with_conn(c, large);
    strict = was;
}

static void scenario(long n, void (*heal)(void))
{
    int64_t start = wait_now_ms();
    int fds = open_fds();
    forget();
    leat_client *c = dial();
    if (c)
        everything(c);
    heal();
    if (c)
        prove_usable(c);
    leat_client_close(c);
    audit(n);
    assert_int_equal(open_fds(), fds);
    assert_true(wait_now_ms() - start < RUN_MS);
}

/* ---- */

static int start(void **state)
{
    big = malloc(BIG);
    if (start_server(state) != 0 || !big)
        return -1;
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)(i * 2654435761u >> 13);
    redisReply *r = redis_raw(server, "SET big %b", big, (size_t)BIG);
    freeReplyObject(r);
    return r ? 0 : -1;
}

static int stop(void **state)
{
    free(big);
    return stop_server(state);
}

int main(void)
{
    least.allocations = 30;
    least.calls = 50;
#ifdef OVER_TLS
    stride = SANITIZED ? 5 : 1; /* each run is a handshake or two */
#endif
    return cmocka_run_group_tests(sweep_tests, start, stop);
}

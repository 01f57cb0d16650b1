/*
 * tls_cuts.c: TLS cut at every byte of the handshake and of a command, and at
 * every record of a pipeline, in both directions.
 *
 * What was said of each XADD is written down and compared at the end with what
 * the server has: OK means once, unknown at most once, anything else never.
 * Connections are made below the client, so that only the handshake and the
 * command are on the wire.
 */
#include "base/system.h"
#include "support/tcpfault.h"
#include "tls_help.h"

#include <stdlib.h>

enum {
    MAX_OPS = 200000,
    PIPELINED = 600,
    CAPTURED = 1 << 20,
    MOST = 6000,               /* bytes of one way, far more than there are */
    STEP = SANITIZED ? 13 : 1, /* from cut to cut: sanitizers are slow      */
};

static tcpfault *proxy;
static leat__tls *tls;

/* What was said of operation i, which adds entry i to the stream "log". */
static leat_code said[MAX_OPS];
static int ops;

static int start(void **state)
{
    char target[32], ca[80];
    leat_error e = { 0 };
    if (start_server(state) != 0)
        return -1;
    snprintf(target, sizeof target, "127.0.0.1:%d", redis_tls_port(server));
    snprintf(ca, sizeof ca, "%s/ca.crt", dir);
    proxy = tcpfault_start(target, NULL);
    tls = leat__tls_new(&(leat_tls_opts){ .ca_file = ca }, &e);
    return proxy && tls ? 0 : -1;
}

static int stop(void **state)
{
    leat__tls_free(tls);
    tcpfault_stop(proxy);
    return stop_server(state);
}

static int reset(void **state)
{
    (void)state;
    ops = 0;
    tcpfault_clear(proxy);
    return redis_flush(server) ? 0 : -1;
}

/* ---- one connection --------------------------------------------------- */

static leat_conn *dial(int64_t timeout_ms, leat_error *e)
{
    leat__conn_opts o = { .timeout_ms = timeout_ms, .window = 4096 };
    leat__transport *t = leat__transport_tls(tls, "127.0.0.1",
                                             tcpfault_port(proxy),
                                             leat__deadline_ns(timeout_ms), e);
    leat_conn *conn = t ? leat__conn_new(t, &o, e) : NULL;
    if (t)
        assert_non_null(conn);
    return conn;
}

static void on_done(void *arg, const leat_reply *r, const leat_error *e)
{
    leat_code *out = arg;
    (void)r;
    *out = e ? e->code : LEAT_OK;
    if (e && e->code != LEAT_EUNKNOWN && e->code != LEAT_ECONN)
        fail_msg("%s: %s", leat_code_name(e->code), e->msg);
}

static void add(leat_conn *conn, leat_bytes body)
{
    char text[16];
    leat_error e = { 0 };
    assert_true(ops < MAX_OPS);
    said[ops] = LEAT_CODES_;
    leat_send_opts o = { on_done, &said[ops], 0 };
    snprintf(text, sizeof text, "%d", ops);
    leat_code rc = leat_conn_send(
        conn,
        LEAT_ARGS(leat_str("XADD"), leat_str("log"), leat_str("*"),
                  leat_str("id"), leat_str(text), leat_str("body"), body),
        &o, &e);
    if (rc != LEAT_OK)
        said[ops] = rc;
    ops++;
}

/* Compare what was said with what is there.  What is still on its way is
 * waited for: it is in the server before this question, or never. */
static void audit(void)
{
    static int found[MAX_OPS];
    int unknown = 0, certain = 0, done = 0;
    memset(found, 0, sizeof found);
    tcpfault_drop(proxy, 0, true);
    wait_until(tcpfault_count(proxy).open == 0, LONG_MS);
    wait_until(redis_int(server, "XLEN log") >= 0, LONG_MS);
    redisReply *all = redis_raw(server, "XRANGE log - +");
    assert_non_null(all);
    for (size_t i = 0; i < all->elements; i++) {
        redisReply *fields = all->element[i]->element[1];
        long id = strtol(fields->element[1]->str, NULL, 10);
        assert_in_range(id, 0, ops - 1);
        found[id]++;
    }
    freeReplyObject(all);
    for (int i = 0; i < ops; i++) {
        int most = said[i] == LEAT_OK || said[i] == LEAT_EUNKNOWN;
        int least = said[i] == LEAT_OK;
        if (found[i] < least || found[i] > most)
            fail_msg("operation %d was called %s and is there %d times", i,
                     leat_code_name(said[i]), found[i]);
        unknown += said[i] == LEAT_EUNKNOWN;
        certain += said[i] != LEAT_EUNKNOWN && said[i] != LEAT_OK;
        done += found[i];
    }
    print_message("# %d operations: %d unknown, %d certainly not, %d there\n",
                  ops, unknown, certain, done);
    assert_true(unknown > 0);
}

/* ---- every byte ------------------------------------------------------- */

/* Connect and add one entry, with one cut.  False: all went well, for there
 * are not that many bytes. */
static bool cut_at(tcpfault_dir way, uint64_t at, tcpfault_action action,
                   int64_t timeout_ms)
{
    leat_error e = { 0 };
    tcpfault_clear(proxy);
    int rule = tcpfault_rule_add(proxy,
                                 &(tcpfault_rule){ .dir = way,
                                                   .when = TCPFAULT_OFFSET,
                                                   .n = at,
                                                   .action = action,
                                                   .times = 1 });
    leat_conn *conn = dial(timeout_ms, &e);
    if (conn) {
        add(conn, leat_str("x"));
        (void)leat_conn_drain(conn, 0, NULL);
        leat__conn_free(conn);
    } else if (e.code != LEAT_ECONN && e.code != LEAT_ETIMEOUT) {
        fail_msg("cut at %d: %s: %s", (int)at, leat_code_name(e.code), e.msg);
    } else {
        assert_true(e.retriable && e.msg[0]);
    }
    return tcpfault_fired(proxy, rule) > 0;
}

/* A session from a connection of its own, or none. */
static void prepare(bool resume)
{
    leat__tls_place *p = NULL;
    leat__tls_link l = { .tls = tls };
    char where[32];
    leat_error e = { 0 };
    snprintf(where, sizeof where, "127.0.0.1:%d", tcpfault_port(proxy));
    must(leat__tls_place_get(tls, where, &p, err));
    l.place = p;
    if (!resume) {
        leat__tls_forget(&l);
        return;
    }
    if (p->session)
        return;
    tcpfault_clear(proxy);
    leat_conn *conn = dial(LONG_MS, &e);
    assert_non_null(conn);
    must(leat_conn_call(conn, LEAT_ARGS(leat_str("PING")), NULL, NULL, err));
    leat__conn_free(conn);
    assert_non_null(p->session);
}

/* With both, resets and cuts take turns. */
static int cut_every(tcpfault_dir way, tcpfault_action action, bool resume,
                     int step, int64_t timeout_ms)
{
    int at = 0;
    prepare(resume);
    while (cut_at(way, (uint64_t)at, action, timeout_ms)) {
        at += step;
        if (action == TCPFAULT_RESET || action == TCPFAULT_CUT)
            action = action == TCPFAULT_RESET ? TCPFAULT_CUT : TCPFAULT_RESET;
        assert_true(at < MOST);
        prepare(resume);
    }
    return at;
}

static void cut_both_ways(bool resume, int step)
{
    int up = cut_every(TCPFAULT_UP, TCPFAULT_RESET, resume, step, LONG_MS);
    int down = cut_every(TCPFAULT_DOWN, TCPFAULT_CUT, resume, step, LONG_MS);
    print_message("# %d bytes up, %d bytes down\n", up, down);
    tcpfault_clear(proxy);
    audit();
}

static void a_handshake_and_a_command_cut_anywhere_never_lie(void **state)
{
    (void)state;
    cut_both_ways(false, STEP);
}

static void a_resumed_connection_cut_anywhere_never_lies(void **state)
{
    (void)state;
    cut_both_ways(true, 5 * STEP);
}

/* Silence instead of an end, here and there: it takes its time. */
static void a_swallowed_rest_never_lies(void **state)
{
    (void)state;
    cut_every(TCPFAULT_UP, TCPFAULT_BLACKHOLE, true, 41, 60);
    cut_every(TCPFAULT_DOWN, TCPFAULT_BLACKHOLE, true, 41, 60);
    tcpfault_clear(proxy);
    audit();
}

/* A length that was damaged makes it wait in vain. */
enum { ECHO_MS = 300 };

static leat_code echo(leat_error *e)
{
    const leat_reply *r;
    leat_bytes text = leat_str("what is said is what is heard");
    leat_conn *conn = dial(ECHO_MS, e);
    if (!conn)
        return e->code;
    leat_code rc = leat_conn_call(conn, LEAT_ARGS(leat_str("ECHO"), text), NULL,
                                  &r, e);
    if (rc == LEAT_OK)
        assert_true(leat_bytes_eq(leat_reply_bytes(r), text));
    leat__conn_free(conn);
    return rc;
}

/* A record's version means nothing and may change unnoticed; all else is an
 * error, and no answer is ever a wrong one. */
static void a_damaged_byte_never_becomes_an_answer(void **state)
{
    enum { EVERY = 13, AGAIN = 200 };
    int changed = 0, noticed = 0, again = 0;
    (void)state;
    for (int at = 0; at < MOST; at += EVERY) {
        leat_error e = { 0 };
        tcpfault_clear(proxy);
        prepare(false);
        int rule = tcpfault_rule_add(proxy,
                                     &(tcpfault_rule){ .dir = TCPFAULT_DOWN,
                                                       .when = TCPFAULT_OFFSET,
                                                       .n = (uint64_t)at,
                                                       .action = TCPFAULT_FLIP,
                                                       .bit = at % 8,
                                                       .times = 1 });
        bool answered = echo(&e) == LEAT_OK;
        bool fired = tcpfault_fired(proxy, rule) > 0;
        if (!fired && answered)
            break; /* nothing was that far */
        if (!fired) {
            assert_true(++again < AGAIN);
            at -= EVERY; /* the machine was too busy: once more */
            continue;
        }
        changed++;
        noticed += !answered;
    }
    tcpfault_clear(proxy);
    print_message("# %d bytes changed, %d errors\n", changed, noticed);
    assert_true(changed > 50 && noticed > changed - 5);
}

/* ---- every record ----------------------------------------------------- */

static struct {
    leat_system sys;
    unsigned char bytes[CAPTURED];
    size_t n;
} up;

static ssize_t capture(void *arg, int fd, const struct iovec *v, int n)
{
    ssize_t sent = leat_system_default()->sendv(arg, fd, v, n);
    size_t left = sent > 0 ? (size_t)sent : 0;
    for (int i = 0; i < n && left > 0; i++) {
        size_t here = v[i].iov_len < left ? v[i].iov_len : left;
        assert_true(up.n + here <= CAPTURED);
        memcpy(up.bytes + up.n, v[i].iov_base, here);
        up.n += here;
        left -= here;
    }
    return sent;
}

static void pipeline(tcpfault_dir way, uint64_t at, tcpfault_action action)
{
    static char body[200];
    leat_error e = { 0 };
    tcpfault_clear(proxy);
    if (at)
        tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = way,
                                                   .when = TCPFAULT_OFFSET,
                                                   .n = at,
                                                   .action = action,
                                                   .times = 1 });
    leat_conn *conn = dial(LONG_MS, &e);
    if (!conn)
        return;
    for (int i = 0; i < PIPELINED; i++)
        add(conn, leat_mem(body, sizeof body));
    (void)leat_conn_drain(conn, 0, NULL);
    leat__conn_free(conn);
}

/* Where the records end that a whole pipeline sends. */
static size_t record_ends(size_t *ends, size_t room)
{
    size_t n = 0;
    up.sys = *leat_system_default();
    up.sys.sendv = capture;
    up.n = 0;
    leat_system_set(&up.sys);
    pipeline(TCPFAULT_UP, 0, TCPFAULT_CUT);
    leat_system_set(NULL);
    for (size_t at = 0; at + 5 <= up.n;) {
        at += 5 + (size_t)up.bytes[at + 3] * 256 + up.bytes[at + 4];
        assert_true(n < room);
        ends[n++] = at;
    }
    return n;
}

static void a_pipeline_cut_at_every_record_never_lies(void **state)
{
    static size_t ends[200];
    uint64_t down = tcpfault_count(proxy).down;
    (void)state;
    size_t n = record_ends(ends, sizeof ends / sizeof ends[0]);
    down = tcpfault_count(proxy).down - down;
    print_message("# %zu records up, %d bytes down\n", n, (int)down);
    assert_true(n > 8); /* 150 kB in records of up to 16 KiB, and handshake */
    for (size_t i = 0; i < n; i++)
        for (int d = -1; d <= 1; d++)
            pipeline(TCPFAULT_UP, ends[i] + (size_t)d,
                     (i + (size_t)d) % 2 ? TCPFAULT_CUT : TCPFAULT_RESET);
    for (uint64_t at = 1; at < down; at += 501)
        pipeline(TCPFAULT_DOWN, at, at % 2 ? TCPFAULT_CUT : TCPFAULT_RESET);
    tcpfault_clear(proxy);
    audit();
}

static void bytes_that_come_one_by_one_change_nothing(void **state)
{
    leat_error e = { 0 };
    (void)state;
    for (int d = 0; d < 2; d++)
        assert_true(tcpfault_rule_add(
            proxy, &(tcpfault_rule){ .dir = d ? TCPFAULT_UP : TCPFAULT_DOWN,
                                     .when = TCPFAULT_OFFSET,
                                     .action = TCPFAULT_SPLIT }));
    leat_conn *conn = dial(LONG_MS, &e);
    assert_non_null(conn);
    for (int i = 0; i < 50; i++)
        add(conn, leat_str("x"));
    must(leat_conn_drain(conn, 0, err));
    assert_int_equal(redis_int(server, "XLEN log"), 50);
    leat__conn_free(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_handshake_and_a_command_cut_anywhere_never_lie,
                               reset),
        cmocka_unit_test_setup(a_resumed_connection_cut_anywhere_never_lies,
                               reset),
        cmocka_unit_test_setup(a_swallowed_rest_never_lies, reset),
        cmocka_unit_test_setup(a_damaged_byte_never_becomes_an_answer, reset),
        cmocka_unit_test_setup(a_pipeline_cut_at_every_record_never_lies,
                               reset),
        cmocka_unit_test_setup(bytes_that_come_one_by_one_change_nothing,
                               reset),
    };
    return cmocka_run_group_tests(tests, start, stop);
}

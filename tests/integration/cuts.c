/*
 * cuts.c: every core operation, cut at every byte in both directions.
 *
 * Each cut is a client of its own through the proxy.  What the client says of
 * the operation is written down and compared at the end with what the server
 * has: OK means once, unknown at most once, anything else never.
 */
#include "redis/script.h"
#include "support/proxy.h"

#include <stdlib.h>

enum { MAX_OPS = 20000, TIMEOUT_MS = 25, PATIENCE_MS = 60000 };

/* What was said of operation i, which adds element i to set "done". */
static leat_code said[MAX_OPS];
static int ops;

/* ---- the operations --------------------------------------------------- */

typedef leat_code op_fn(leat_conn *conn, int id, leat_error *err);

static leat_code ping(leat_conn *conn, int id, leat_error *err)
{
    const leat_reply *r;
    char text[16];
    snprintf(text, sizeof text, "op-%d", id);
    leat_code rc = leat_conn_call(
        conn, LEAT_ARGS(leat_str("PING"), leat_str(text)), NULL, &r, err);
    if (rc == LEAT_OK)
        assert_text(r, text);
    return rc;
}

static leat_code xadd(leat_conn *conn, int id, leat_error *err)
{
    const leat_reply *r;
    char text[16];
    snprintf(text, sizeof text, "%d", id);
    leat_code rc = leat_conn_call(conn,
                                  LEAT_ARGS(leat_str("XADD"), leat_str("log"),
                                            leat_str("*"), leat_str("id"),
                                            leat_str(text)),
                                  NULL, &r, err);
    if (rc == LEAT_OK)
        assert_non_null(
            memchr(leat_reply_bytes(r).p, '-', leat_reply_bytes(r).n));
    return rc;
}

/* The script the tests have no registry for: body and sha by hand. */
static const leat__script counter = {
    "tests/counter", "daf63c50e3653be02586b2b440e1c9825a7748ad",
    "return redis.call('XADD', KEYS[1], '*', 'id', ARGV[1])", 54
};

static leat_code script(leat_conn *conn, int id, leat_error *err)
{
    const leat_reply *r;
    char text[LEAT__NUMBER];
    leat_bytes key = leat_str("log"), arg = leat__arg_int(text, id);
    return leat__script_call(conn, &counter, &key, 1, &arg, 1, &r, err);
}

static leat_code blocking_read(leat_conn *conn, int id, leat_error *err)
{
    const leat_reply *r;
    (void)id;
    leat_code rc = leat_conn_call(
        conn,
        LEAT_ARGS(leat_str("XREAD"), leat_str("BLOCK"), leat_str("10"),
                  leat_str("STREAMS"), leat_str("static"), leat_str("0")),
        &(leat_send_opts){ .block_ms = 10 }, &r, err);
    if (rc == LEAT_OK)
        assert_int_equal(leat_reply_len(leat_reply_at(r, 0)) > 0 ||
                             leat_reply_kind(r) == LEAT_REPLY_MAP,
                         1);
    return rc;
}

/* ---- cutting ---------------------------------------------------------- */

struct meter {
    uint64_t up, down;
};

static struct meter passed(void)
{
    tcpfault_counts n = tcpfault_count(proxy);
    return (struct meter){ n.up, n.down };
}

static leat_client *dial(void)
{
    return open_client(url, &(leat_client_opts){ .timeout_ms = TIMEOUT_MS,
                                                 .connect_timeout_ms = 5000 });
}

/* So that the recovery from NOSCRIPT is cut, too. */
static void forget_scripts(void)
{
    redis_do(server, "SCRIPT FLUSH");
}

/* How many bytes the operation takes each way when nothing is wrong. */
static struct meter size_of(op_fn *op)
{
    leat_client *c = dial();
    leat_conn *conn = lend(c);
    struct meter a = passed();
    forget_scripts();
    assert_code(op(conn, ops, NULL), LEAT_OK);
    said[ops++] = LEAT_OK;
    struct meter b = passed();
    leat_client_return(c, conn);
    leat_client_close(c);
    return (struct meter){ b.up - a.up, b.down - a.down };
}

static void cut_once(op_fn *op, tcpfault_dir dir, uint64_t at,
                     tcpfault_action action)
{
    leat_error e = { 0 };
    struct meter before = passed();
    leat_client *c = dial();
    leat_conn *conn = lend(c);
    struct meter now = passed();
    uint64_t base = dir == TCPFAULT_UP ? now.up - before.up
                                       : now.down - before.down;
    tcpfault_clear(proxy);
    assert_true(tcpfault_rule_add(
        proxy, &(tcpfault_rule){ .conn = (int)tcpfault_count(proxy).connections,
                                 .dir = dir,
                                 .when = TCPFAULT_OFFSET,
                                 .n = base + at,
                                 .action = action,
                                 .times = 1 }));
    assert_true(ops < MAX_OPS);
    forget_scripts();
    leat_code rc = op(conn, ops, &e);
    said[ops++] = rc;
    if (rc != LEAT_OK && rc != LEAT_EUNKNOWN && rc != LEAT_ECONN)
        fail_msg("cut at byte %d: %s: %s", (int)at, leat_code_name(rc), e.msg);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void cut_everywhere(op_fn *op)
{
    static const tcpfault_action actions[] = { TCPFAULT_RESET, TCPFAULT_CUT,
                                               TCPFAULT_BLACKHOLE };
    struct meter size = size_of(op);
    for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
        for (uint64_t at = 0; at <= size.up; at++)
            cut_once(op, TCPFAULT_UP, at, actions[a]);
        for (uint64_t at = 0; at <= size.down; at++)
            cut_once(op, TCPFAULT_DOWN, at, actions[a]);
    }
    tcpfault_clear(proxy);
}

/* Compare what was said with what is there.  A command still on its way when
 * its connection died is waited for by asking the same server behind it. */
static void audit(void)
{
    static int found[MAX_OPS];
    memset(found, 0, sizeof found);
    redisReply *all = redis_raw(server, "XRANGE log - +");
    assert_non_null(all);
    for (size_t i = 0; i < all->elements; i++) {
        redisReply *fields = all->element[i]->element[1];
        long id = strtol(fields->element[1]->str, NULL, 10);
        assert_in_range(id, 0, ops - 1);
        found[id]++;
    }
    freeReplyObject(all);
    int unknown = 0, done = 0;
    for (int i = 0; i < ops; i++) {
        int most = said[i] == LEAT_OK || said[i] == LEAT_EUNKNOWN;
        int least = said[i] == LEAT_OK;
        if (found[i] < least || found[i] > most)
            fail_msg("operation %d was called %s and is there %d times", i,
                     leat_code_name(said[i]), found[i]);
        unknown += said[i] == LEAT_EUNKNOWN;
        done += found[i];
    }
    print_message("# %d cuts: %d unknown, %d there\n", ops, unknown, done);
    assert_true(unknown > 0);
}

static int reset(void **state)
{
    (void)state;
    ops = 0;
    tcpfault_clear(proxy);
    return redis_flush(server) ? 0 : -1;
}

static void a_ping_cut_anywhere_never_lies(void **state)
{
    (void)state;
    int fds = open_fds();
    cut_everywhere(ping);
    for (int i = 0; i < ops; i++)
        assert_true(said[i] == LEAT_OK || said[i] == LEAT_EUNKNOWN ||
                    said[i] == LEAT_ECONN);
    tcpfault_drop(proxy, 0, true); /* those that the proxy swallowed */
    wait_until(tcpfault_count(proxy).open == 0, 2000);
    assert_true(open_fds() <= fds + 1);
}

static void an_xadd_cut_anywhere_never_lies(void **state)
{
    (void)state;
    cut_everywhere(xadd);
    audit();
}

static void a_script_cut_anywhere_never_lies(void **state)
{
    (void)state;
    cut_everywhere(script);
    audit();
}

static void a_blocking_read_cut_anywhere_ends(void **state)
{
    (void)state;
    redis_do(server, "XADD static 1-1 a b");
    cut_everywhere(blocking_read);
}

static void bytes_that_come_one_by_one_change_nothing(void **state)
{
    static op_fn *const each[] = { ping, xadd, script, blocking_read };
    (void)state;
    redis_do(server, "XADD static 1-1 a b");
    for (int dir = 0; dir < 2; dir++)
        assert_true(tcpfault_rule_add(
            proxy, &(tcpfault_rule){ .dir = dir ? TCPFAULT_UP : TCPFAULT_DOWN,
                                     .when = TCPFAULT_OFFSET,
                                     .action = TCPFAULT_SPLIT }));
    leat_client *c = open_client(
        url, &(leat_client_opts){ .connect_timeout_ms = PATIENCE_MS,
                                  .timeout_ms = PATIENCE_MS });
    leat_conn *conn = lend(c);
    for (int i = 0; i < 40; i++)
        assert_code(each[i % 4](conn, i, NULL), LEAT_OK);
    assert_int_equal(redis_int(server, "XLEN log"), 20);
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* The answer is swallowed, so the library cannot know: it sends an idempotent
 * command again on its own, and only then. */
static void a_lost_answer_is_asked_for_again_where_twice_is_once(void **state)
{
    char text[16];
    (void)state;
    for (int i = 0; i < 50; i++) {
        leat_error e = { 0 };
        tcpfault_clear(proxy);
        leat_client *c = open_client(
            url, &(leat_client_opts){ .timeout_ms = TIMEOUT_MS });
        snprintf(text, sizeof text, "%d", i);
        for (int idempotent = 0; idempotent < 2; idempotent++) {
            tcpfault_rule_add(proxy,
                              &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                                .when = TCPFAULT_COMMAND,
                                                .command = "SADD",
                                                .after = true,
                                                .n = 1,
                                                .action = TCPFAULT_HALF_OPEN,
                                                .times = 1 });
            leat_call_opts o = { .idempotent = idempotent, .timeout_ms = 5000 };
            leat_code rc = leat_client_call(
                c,
                LEAT_ARGS(leat_str("SADD"), leat_str("done"), leat_str(text)),
                &o, NULL, &e);
            assert_code(rc, idempotent ? LEAT_OK : LEAT_EUNKNOWN);
        }
        leat_client_close(c);
    }
    assert_int_equal(redis_int(server, "SCARD done"), 50);
}

/* It was done; that the server cannot be reached afterwards says nothing. */
static void a_lost_answer_stays_unknown_when_the_next_try_fails(void **state)
{
    (void)state;
    leat_error e = { 0 };
    leat_client *c = open_client(
        url, &(leat_client_opts){ .timeout_ms = TIMEOUT_MS });
    tcpfault_rule_add(proxy, &(tcpfault_rule){ .dir = TCPFAULT_UP,
                                               .when = TCPFAULT_COMMAND,
                                               .command = "SADD",
                                               .after = true,
                                               .n = 1,
                                               .action = TCPFAULT_HALF_OPEN,
                                               .times = 1 });
    tcpfault_set_door(proxy, TCPFAULT_REFUSE);
    leat_call_opts o = { .idempotent = true, .timeout_ms = 3 * TIMEOUT_MS };
    leat_code rc = leat_client_call(
        c, LEAT_ARGS(leat_str("SADD"), leat_str("done"), leat_str("1")), &o,
        NULL, &e);
    tcpfault_set_door(proxy, TCPFAULT_OPEN);
    assert_code(rc, LEAT_EUNKNOWN);
    assert_int_equal(redis_int(server, "SCARD done"), 1);
    leat_client_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_ping_cut_anywhere_never_lies, reset),
        cmocka_unit_test_setup(an_xadd_cut_anywhere_never_lies, reset),
        cmocka_unit_test_setup(a_script_cut_anywhere_never_lies, reset),
        cmocka_unit_test_setup(a_blocking_read_cut_anywhere_ends, reset),
        cmocka_unit_test_setup(bytes_that_come_one_by_one_change_nothing,
                               reset),
        cmocka_unit_test_setup(
            a_lost_answer_is_asked_for_again_where_twice_is_once, reset),
        cmocka_unit_test_setup(
            a_lost_answer_stays_unknown_when_the_next_try_fails, reset),
    };
    return cmocka_run_group_tests(tests, start_proxy, stop_proxy);
}

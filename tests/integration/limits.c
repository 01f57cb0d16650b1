/*
 * limits.c: a server that does not stop, and what it can cost: time up to the
 * deadline, memory up to a bound.
 */
#include "redis/handshake.h"
#include "support/badredis.h"
#include "support/leat.h"

#include <unistd.h>

enum {
    SHORT_MS = 300,
    HANG_S = 60,    /* then it hangs: SIGALRM ends the program      */
    FLOOD = 1 << 17 /* pushes in one write: sent faster than read   */
};

static char url[64];
static badredis *bad;

static int watched(void **state)
{
    (void)state;
    alarm(HANG_S);
    return 0;
}

static int stop_bad(void **state)
{
    (void)state;
    alarm(0);
    badredis_stop(bad);
    bad = NULL;
    return 0;
}

static const badredis_reply usual[] = {
    { "EVALSHA", "$16\r\n1763200000000000\r\n" },
    { "XAUTOCLAIM", "-NOGROUP No such key\r\n" },
    { NULL, NULL },
};

static leat_client *open_bad(const badredis_opts *o)
{
    bad = badredis_start(o);
    assert_non_null(bad);
    return open_client(badredis_url(bad, url, sizeof url),
                       &(leat_client_opts){ .timeout_ms = SHORT_MS });
}

/* ---- pushes without end ----------------------------------------------- */

static const char *flood(void)
{
    static const char push[] = ">1\r\n+x\r\n";
    static char text[FLOOD * sizeof push];
    for (size_t i = 0; i < FLOOD; i++)
        memcpy(text + i * (sizeof push - 1), push, sizeof push);
    return text;
}

static leat_client *open_flooding(void)
{
    badredis_step steps[] = {
        { .command = "GET", .send = flood(), .then = BADREDIS_REPEAT },
    };
    return open_bad(&(badredis_opts){
        .handshake = true, .replies = usual, .steps = steps, .nsteps = 1 });
}

static void pushes_without_end_stretch_no_deadline(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_flooding();
    leat_conn *conn = lend(c);
    assert_code(leat_conn_call(conn, LEAT_ARGS(leat_str("GET"), leat_str("k")),
                               NULL, NULL, &e),
                LEAT_EUNKNOWN);
    assert_non_null(strstr(e.msg, "no answer within 300 ms"));
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void note(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    *(leat_error *)arg = e ? *e : (leat_error){ 0 };
}

/* Who polls by himself comes back from each look, and can see the time. */
static void pushes_without_end_keep_no_caller_in_a_look(void **state)
{
    leat_error told = { 0 };
    (void)state;
    leat_client *c = open_flooding();
    leat_conn *conn = lend(c);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("GET"), leat_str("k")),
                        &(leat_send_opts){ note, &told, 20000 }, err));
    must(leat_conn_flush(conn, err));
    for (int i = 0; i < 10; i++)
        must(leat_conn_take(conn, err));
    assert_int_equal(leat_conn_in_flight(conn), 1);
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void pushes_that_are_no_messages_do_not_keep_a_listener(void **state)
{
    leat_error told = { 0 };
    (void)state;
    leat_client *c = open_flooding();
    leat_conn *conn = lend(c);
    must(leat_conn_send(conn, LEAT_ARGS(leat_str("GET"), leat_str("k")),
                        &(leat_send_opts){ note, &told, 20000 }, err));
    must(leat_conn_listen(conn, SHORT_MS, err));
    leat_client_return(c, conn);
    leat_client_close(c);
}

static void a_node_that_floods_stretches_no_deadline_either(void **state)
{
    static char map[128];
    static const badredis_reply replies[] = {
        { "CLUSTER", map },
        { "EVALSHA", "$16\r\n1763200000000000\r\n" },
        { "XAUTOCLAIM", "-NOGROUP No such key\r\n" },
        { NULL, NULL },
    };
    leat_error e = { 0 };
    (void)state;
    badredis_step steps[] = {
        { .command = "GET", .send = flood(), .then = BADREDIS_REPEAT },
    };
    bad = badredis_start(&(badredis_opts){
        .handshake = true, .replies = replies, .steps = steps, .nsteps = 1 });
    assert_non_null(bad);
    snprintf(map, sizeof map,
             "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:%d\r\n",
             badredis_port(bad));
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d",
             badredis_port(bad));
    leat_client *c = open_client(url,
                                 &(leat_client_opts){ .timeout_ms = SHORT_MS });
    leat_conn *conn = lend(c);
    assert_code(leat_conn_call(conn, LEAT_ARGS(leat_str("GET"), leat_str("k")),
                               NULL, NULL, &e),
                LEAT_EUNKNOWN);
    assert_non_null(strstr(e.msg, "no answer within 300 ms"));
    leat_client_return(c, conn);
    leat_client_close(c);
}

/* ---- before the login ------------------------------------------------- */

/* The most memory this process has had, in KiB. */
static long peak_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

/* A bulk that makes the whole reply so long. */
static char *bulk_reply(size_t whole, size_t *len)
{
    char *p = malloc(whole + 16);
    assert_non_null(p);
    for (size_t body = whole - 16;; body++) {
        int head = snprintf(p, whole, "$%zu\r\n", body);
        if ((size_t)head + body + 2 < whole)
            continue;
        memset(p + head, 'x', body);
        memcpy(p + head + body, "\r\n", 2);
        *len = (size_t)head + body + 2;
        assert_int_equal(*len, whole);
        return p;
    }
}

static leat_client *open_greeted(size_t whole, leat_error *e)
{
    size_t len;
    char *hello = bulk_reply(whole, &len);
    badredis_step step = { .command = "HELLO", .send = hello, .len = len };
    bad = badredis_start(&(badredis_opts){
        .steps = &step, .nsteps = 1, .handshake = false, .rest = "+OK\r\n" });
    assert_non_null(bad);
    leat_client *c = leat_client_open(badredis_url(bad, url, sizeof url),
                                      &(leat_client_opts){ .timeout_ms = 5000 },
                                      e);
    badredis_stop(bad);
    bad = NULL;
    free(hello);
    return c;
}

static void a_reply_before_the_login_is_bounded(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client_close(open_greeted(LEAT__LOGIN_REPLY_MAX, &e));
    if (e.code == LEAT_EPROTO || e.code == LEAT_ETOOBIG)
        fail_msg("%s", e.msg); /* the login itself was fine */
    assert_null(open_greeted(LEAT__LOGIN_REPLY_MAX + 1, &e));
    assert_non_null(strstr(e.msg, "over the limit"));
}

static void a_server_that_greets_without_end_costs_little(void **state)
{
    static char much[1 << 20];
    leat_error e = { 0 };
    (void)state;
    memset(much, 'x', sizeof much);
    badredis_step steps[] = {
        { .command = "HELLO", .send = "$60000000\r\n" },
        { .send = much, .len = sizeof much, .then = BADREDIS_REPEAT },
    };
    bad = badredis_start(&(badredis_opts){ .steps = steps, .nsteps = 2 });
    assert_non_null(bad);
    long before = peak_kib();
    assert_null(leat_client_open(
        badredis_url(bad, url, sizeof url),
        &(leat_client_opts){ .connect_timeout_ms = 3000, .timeout_ms = 3000 },
        &e));
    long cost = peak_kib() - before;
    print_message("%ld KiB for it: %s\n", cost, e.msg);
    assert_true(SANITIZED || cost < 4096);
}

/* ---- a scan without end ----------------------------------------------- */

static const badredis_reply endless[] = {
    { "SSCAN", "*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n" },
    { "HSCAN", "*2\r\n$1\r\n7\r\n*0\r\n" },
    { "EVALSHA", "*2\r\n:0\r\n$1\r\n7\r\n" },
    { "EVAL", "*2\r\n:0\r\n$1\r\n7\r\n" },
    { NULL, NULL },
};

static leat_client *open_endless(void)
{
    return open_bad(&(badredis_opts){
        .handshake = true, .replies = endless, .rest = "+OK\r\n" });
}

static void ignore_name(void *arg, const char *name)
{
    (void)arg;
    (void)name;
}

static void a_scan_without_end_ends_at_the_deadline(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_endless();
    assert_null(leat_topic_names(c, NULL, &e));
    assert_code(e.code, LEAT_ETIMEOUT);
    assert_null(leat_group_names(c, "t", NULL, &e));
    assert_code(e.code, LEAT_ETIMEOUT);
    assert_code(leat_queue_list(c, NULL, ignore_name, NULL, &e), LEAT_ETIMEOUT);
    assert_non_null(strstr(e.msg, "did not end within 300 ms"));
    leat_client_close(c);
}

static void a_removal_that_gets_nowhere_ends_at_the_deadline(void **state)
{
    leat_error e = { 0 };
    (void)state;
    leat_client *c = open_endless();
    assert_code(leat_queue_remove(c, "q", NULL, &e), LEAT_ETIMEOUT);
    assert_non_null(strstr(e.msg, "did not end"));
    leat_client_close(c);
}

int main(void)
{
#define limited(test) cmocka_unit_test_setup_teardown(test, watched, stop_bad)
    const struct CMUnitTest tests[] = {
        limited(pushes_without_end_stretch_no_deadline),
        limited(pushes_without_end_keep_no_caller_in_a_look),
        limited(pushes_that_are_no_messages_do_not_keep_a_listener),
        limited(a_node_that_floods_stretches_no_deadline_either),
        limited(a_reply_before_the_login_is_bounded),
        limited(a_server_that_greets_without_end_costs_little),
        limited(a_scan_without_end_ends_at_the_deadline),
        limited(a_removal_that_gets_nowhere_ends_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * sentinel_sweep.c: every allocation and every system call on the way through
 * the sentinels to the master, failed once.
 *
 * One real sentinel and one that is not there.  The outcome of each write is
 * compared with what the server has; nothing may be left over, and no fault is
 * taken for a failover.
 */
#include "sweep_help.h"

#include <stdatomic.h>

enum { TIMEOUT_MS = 4000, LONG_MS = 60000 };

static redis_server *server, *sentinel;
static char url[128];
static atomic_int changes;

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    (void)level;
    if (strstr(line, "is now"))
        atomic_fetch_add(&changes, 1);
}

static void write_once(leat_client *c, long n)
{
    leat_error e = { 0 };
    int64_t before = redis_int(server, "LLEN done");
    leat_code rc = leat_client_call(
        c, LEAT_ARGS(leat_str("RPUSH"), leat_str("done"), leat_str("1")), NULL,
        NULL, &e);
    (void)checked("write", rc, &e);
    int64_t there = redis_int(server, "LLEN done") - before;
    if (there < (rc == LEAT_OK) ||
        there > (rc == LEAT_OK || rc == LEAT_EUNKNOWN))
        fail_msg("fault %ld: a write was called %s and is there %d times", n,
                 leat_code_name(rc), (int)there);
}

/* A connection that is dialled for it. */
static void lend_anew(leat_client *c)
{
    leat_error e = { 0 };
    leat_conn *held = leat_client_lend(c, 0, &e);
    if (!held)
        (void)checked("lend", e.code, &e);
    leat_conn *more = leat_client_lend(c, 0, &e);
    if (!more)
        (void)checked("lend", e.code, &e);
    leat_client_return(c, more);
    leat_client_return(c, held);
}

static void list_nodes(leat_client *c)
{
    leat_node nodes[4];
    size_t n = 0;
    leat_error e = { 0 };
    leat_code rc = leat_client_nodes(c, nodes, 4, &n, &e);
    if (checked("nodes", rc, &e))
        assert_int_equal(nodes[0].port, redis_port(server));
}

static leat_client *dial(void)
{
    leat_error e = { 0 };
    leat_client *c = leat_client_open(
        url,
        &(leat_client_opts){ .timeout_ms = TIMEOUT_MS,
                             .connect_timeout_ms = TIMEOUT_MS,
                             .max_retry_ms = 5,
                             .log = { .fn = on_log } },
        &e);
    if (!c)
        (void)checked("open", e.code, &e);
    return c;
}

static void prove_usable(leat_client *c)
{
    bool was = strict;
    leat_error e = { 0 };
    leat_conn *conn = leat_client_lend(c, LONG_MS, &e);
    if (!conn)
        fail_msg("unusable: %s", e.msg);
    leat_client_return(c, conn);
    strict = true;
    write_once(c, 0);
    strict = was;
}

static void scenario(long n, void (*heal)(void))
{
    int64_t start = wait_now_ms();
    int fds = open_fds();
    leat_client *c = dial();
    if (c) {
        write_once(c, n);
        lend_anew(c);
        list_nodes(c);
    }
    heal();
    if (c)
        prove_usable(c);
    leat_client_close(c);
    assert_int_equal(open_fds(), fds);
    assert_int_equal(atomic_load(&changes), 0);
    assert_true(wait_now_ms() - start < LONG_MS);
}

static int start(void **state)
{
    char monitor[64];
    const char *const config[] = { monitor, NULL };
    (void)state;
    server = redis_start(&(redis_opts){ .tcp = true });
    if (!server)
        return -1;
    snprintf(monitor, sizeof monitor, "sentinel monitor shop 127.0.0.1 %d 1",
             redis_port(server));
    sentinel = redis_start(
        &(redis_opts){ .tcp = true, .sentinel = true, .config = config });
    if (!sentinel)
        return -1;
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:1,127.0.0.1:%d/shop",
             redis_port(sentinel));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(sentinel);
    redis_stop(server);
    return 0;
}

int main(void)
{
    least.allocations = 20;
    least.calls = 30;
    return cmocka_run_group_tests(sweep_tests, start, stop);
}

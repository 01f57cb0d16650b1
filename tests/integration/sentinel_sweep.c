/*
 * sentinel_sweep.c: every allocation and every system call on the way through
 * the sentinels to the master, failed once.
 *
 * One real sentinel and one that is not there.  The outcome of each write is
 * compared with what the server has; nothing may be left over, and no fault is
 * taken for a failover.
 */
#include "support/allocfail.h"
#include "support/leat.h"
#include "support/sysfail.h"

#include <stdatomic.h>

enum { TIMEOUT_MS = 4000, LONG_MS = 60000 };

static redis_server *server, *sentinel;
static char url[128];
static bool strict; /* every step must succeed */
static long errors;
static atomic_int changes;

static void on_log(void *arg, leat_level level, const char *line)
{
    (void)arg;
    (void)level;
    if (strstr(line, "is now"))
        atomic_fetch_add(&changes, 1);
}

static const leat_code harmless[] = { LEAT_ENOMEM, LEAT_ECONN, LEAT_EUNKNOWN,
                                      LEAT_EIO, LEAT_ETIMEOUT };

static bool checked(const char *what, leat_code code, const leat_error *e)
{
    if (code == LEAT_OK)
        return true;
    errors++;
    assert_int_equal(e->code, code);
    assert_true(e->msg[0] != '\0');
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0] && !strict; i++)
        if (code == harmless[i])
            return false;
    fail_msg("%s: %s: %s", what, leat_code_name(code), e->msg);
    return false;
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

static long fail_allocation(long n, bool forever)
{
    alloc_fail_install(n, forever);
    scenario(n, alloc_fail_heal);
    long live = alloc_fail_live(), fails = alloc_fail_count();
    alloc_fail_remove();
    if (live != 0)
        fail_msg("%ld blocks leaked with allocation %ld failing%s", live, n,
                 forever ? " and all after it" : "");
    return fails;
}

static void sweep_allocations(bool forever)
{
    long n = 1;
    errors = 0;
    while (fail_allocation(n, forever) > 0)
        assert_true(++n < ALLOC_FAIL_MOST);
    print_message("# %ld allocations failed, %ld errors told\n", n - 1, errors);
    assert_true(n > 20);
    strict = true;
    (void)fail_allocation(ALLOC_FAIL_NEVER, false);
}

static void any_one_allocation_may_fail(void **state)
{
    (void)state;
    sweep_allocations(false);
}

static void memory_may_end_at_any_allocation(void **state)
{
    (void)state;
    sweep_allocations(true);
}

static long fail_system_call(enum sys_fault kind, long n)
{
    sys_fail_install(kind, n);
    scenario(n, sys_fail_heal);
    long live = alloc_fail_live();
    alloc_fail_remove();
    if (live != 0)
        fail_msg("%ld blocks leaked with system call %ld failing", live, n);
    return sys_fail_count();
}

static void sweep_system_calls(enum sys_fault kind)
{
    long n = 1;
    errors = 0;
    while (fail_system_call(kind, n) > 0)
        n++;
    print_message("# %ld system calls failed, %ld errors told\n", n - 1,
                  errors);
    assert_true(n > 30);
}

static void any_one_system_call_may_fail(void **state)
{
    (void)state;
    sweep_system_calls(SYS_FAULT_HARD);
    assert_true(errors > 0);
}

static void an_interrupted_system_call_changes_nothing(void **state)
{
    (void)state;
    strict = true;
    sweep_system_calls(SYS_FAULT_SOFT);
    assert_int_equal(errors, 0);
}

static void short_reads_and_writes_change_nothing(void **state)
{
    (void)state;
    strict = true;
    (void)fail_system_call(SYS_FAULT_SHORT, 0);
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

static int lenient(void **state)
{
    (void)state;
    strict = false;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(any_one_allocation_may_fail, lenient),
        cmocka_unit_test_setup(memory_may_end_at_any_allocation, lenient),
        cmocka_unit_test_setup(any_one_system_call_may_fail, lenient),
        cmocka_unit_test_setup(an_interrupted_system_call_changes_nothing,
                               lenient),
        cmocka_unit_test_setup(short_reads_and_writes_change_nothing, lenient),
    };
    return cmocka_run_group_tests(tests, start, stop);
}

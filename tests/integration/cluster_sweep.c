/*
 * cluster_sweep.c: every allocation and every system call of a cluster's
 * client, failed once: open, connect to all nodes, commands, a redirect, the
 * map read again, close.
 *
 * Each run pushes its numbers on lists of its own.  OK means once, unknown at
 * most once, anything else never; nothing hangs, and nothing is left over.
 */
#include "cluster_help.h"

#include "support/sysfail.h"

enum { OPS = 5 };

static char keys[OPS][32]; /* on nodes 0, 1, 2; and two of the moving slot */
static unsigned slot;      /* empty but for those two */
static int home;

static struct {
    int told;
    leat_code code;
} ops[OPS];

static void on_push(void *arg, const leat_reply *r, const leat_error *e)
{
    int op = (int)(intptr_t)arg;
    (void)r;
    ops[op].told++;
    ops[op].code = e ? e->code : LEAT_OK;
}

static void push(leat_conn *conn, int op)
{
    leat_error e;
    leat_code rc = leat_conn_send(
        conn, LEAT_ARGS(leat_str("RPUSH"), leat_str(keys[op]), leat_str("x")),
        &(leat_send_opts){ on_push, (void *)(intptr_t)op, 0 }, &e);
    if (rc != LEAT_OK)
        ops[op].code = rc;
}

/* The slot has no keys now.  Begun all the same: only one who imports gets a
 * new epoch, without which what the old owner told the others before, and they
 * hear late, takes the slot back. */
static void move_slot(void)
{
    int to = (home + 1) % 3;
    assert_true(cluster_move_begin(rig, slot, home, to));
    assert_true(cluster_move_end(rig, slot, home, to));
    home = to;
}

static void work(leat_client *c)
{
    leat_error e;
    leat_conn *conn = leat_client_lend(c, 2000, &e);
    if (!conn)
        return;
    for (int i = 0; i < 3; i++)
        push(conn, i);
    (void)leat_conn_drain(conn, 0, &e);
    move_slot();
    push(conn, 3);
    push(conn, 4);
    (void)leat_conn_drain(conn, 0, &e);
    leat_client_return(c, conn);
}

static void audit(long n)
{
    for (int i = 0; i < OPS; i++) {
        int node = i < 3 ? i : home;
        int64_t there = redis_int(cluster_node(rig, node), "LLEN %s", keys[i]);
        redis_do(cluster_node(rig, node), "DEL %s", keys[i]);
        leat_code code = ops[i].code;
        if (ops[i].told > 1 || (code == LEAT_OK && there != ops[i].told) ||
            (code == LEAT_EUNKNOWN && there > 1) ||
            (code != LEAT_OK && code != LEAT_EUNKNOWN && there != 0))
            fail_msg("run %ld, operation %d: told %d times, %s, is there %lld "
                     "times",
                     n, i, ops[i].told, leat_code_name(code), (long long)there);
    }
}

/* Threads that nobody waits for may outlive the client by a moment. */
static void scenario(long n, void (*heal)(void))
{
    leat_error e;
    int fds = open_fds();
    memset(ops, 0, sizeof ops);
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .timeout_ms = 20000, .max_retry_ms = 20 },
        &e);
    if (c)
        work(c);
    heal();
    if (c)
        must(leat_client_call(
            c, LEAT_ARGS(leat_str("EXISTS"), leat_str(keys[0])),
            &(leat_call_opts){ .idempotent = true, .timeout_ms = LONG_MS },
            NULL, err));
    leat_client_close(c);
    wait_until(alloc_fail_live() == 0, LONG_MS);
    wait_until(open_fds() == fds, LONG_MS);
    audit(n);
}

/* When nothing failed, everything was done. */
static void assert_all_done(void)
{
    for (int i = 0; i < OPS; i++) {
        assert_int_equal(ops[i].told, 1);
        assert_code(ops[i].code, LEAT_OK);
    }
}

static void sweep_allocations(bool forever)
{
    long n = 1, fails = 1;
    for (; fails > 0; n++) {
        alloc_fail_install(n, forever);
        scenario(n, alloc_fail_heal);
        fails = alloc_fail_count();
        alloc_fail_remove();
    }
    assert_all_done();
    print_message("# up to allocation %ld\n", n);
    assert_true(n > 30);
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

static void any_one_system_call_may_fail(void **state)
{
    (void)state;
    long n = 1, fails = 1;
    for (; fails > 0; n++) {
        sys_fail_install(SYS_FAULT_HARD, n);
        scenario(n, sys_fail_heal);
        fails = sys_fail_count();
        alloc_fail_remove();
    }
    assert_all_done();
    print_message("# up to system call %ld\n", n);
    assert_true(n > 50);
}

static int start(void **state)
{
    if (start_rig(state) != 0)
        return -1;
    for (int i = 0; i < 3; i++)
        key_on(i, "sweep", keys[i], sizeof keys[i]);
    snprintf(keys[3], sizeof keys[3], "{wanders}a");
    snprintf(keys[4], sizeof keys[4], "{wanders}b");
    slot = cluster_slot(keys[3]);
    home = cluster_owner(rig, slot, -1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_one_allocation_may_fail),
        cmocka_unit_test(memory_may_end_at_any_allocation),
        cmocka_unit_test(any_one_system_call_may_fail),
    };
    rig_opts = (cluster_opts){ .replicas = -1 };
    return cmocka_run_group_tests(tests, start, stop_rig);
}

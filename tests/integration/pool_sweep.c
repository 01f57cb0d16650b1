/*
 * pool_sweep.c: allocations and system calls of a pool's life, each failed
 * once: started, served, settled in every way, stopped.  Some of them, with
 * LEAT_LONG=1 all.
 *
 * One that fails costs a try, not a message: all is still handled, in its
 * order.  Where memory has ended for good the pool can be stopped, and the next
 * one finds all that is left.  Nothing is left over.
 */
#include "pool_help.h"
#include "support/allocfail.h"
#include "support/sysfail.h"

enum { QUEUES = 3, EACH = 4, HIDDEN_MS = 300, TIMEOUT_MS = 300 };

static const char *const names[QUEUES] = { "a", "b", "g" };
static atomic_int done; /* had their effect, or were rejected */

/* "0" fails at first, "1" is rejected. */
static leat_verdict handle(leat_ctx *x, void *arg)
{
    (void)arg;
    if (body_is(x, "0") && leat_delivery_attempt(leat_ctx_delivery(x)) == 1)
        return leat_ctx_nack(x, 1);
    log_handled(x);
    atomic_fetch_add(&done, 1);
    return body_is(x, "1") ? leat_ctx_reject(x, "never") : LEAT_ACK;
}

static leat_queue *queue_at(int i)
{
    return queue_of(names[i], &(leat_queue_opts){ .fifo = i == 2,
                                                  .visibility_ms = HIDDEN_MS,
                                                  .no_reaper = true });
}

/* The test's own client has threads, so it is away while memory fails. */
static void fill(void)
{
    assert_true(redis_flush(server));
    for (int i = 0; i < QUEUES; i++) {
        leat_queue *q = queue_at(i);
        for (int k = 0; k < EACH; k++) {
            char text[8];
            snprintf(text, sizeof text, "%d", k);
            send_group(q, "same", text);
        }
        leat_queue_close(q);
    }
    atomic_store(&done, 0);
    log_clear();
    leat_client_close(client);
    client = NULL;
}

/* What was handled and is not settled. */
static int64_t left(void)
{
    int64_t n = 0;
    for (int i = 0; i < QUEUES; i++) {
        leat_queue *q = queue_at(i);
        leat_queue_stats s = stats(q);
        n += s.visible + s.in_flight + s.delayed;
        conserved(q);
        leat_queue_close(q);
    }
    return n;
}

typedef struct life {
    bool ends;  /* memory does: nothing is waited for */
    bool whole; /* it began, and all was handled      */
} life;

static bool all_handled(const leat_pool *p)
{
    leat_pool_stats s;
    leat_pool_stats_get((leat_pool *)p, &s);
    return s.failed || atomic_load(&done) >= QUEUES * EACH;
}

static void live(void *arg)
{
    life *l = arg;
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .timeout_ms = TIMEOUT_MS, .max_retry_ms = 5 },
        NULL);
    leat_pool *p = c ? leat_pool_start(
                           c, handle, NULL,
                           &(leat_pool_opts){ .workers = 2, .poll_ms = 1 },
                           NULL)
                     : NULL;
    if (p && !l->ends)
        wait_until(all_handled(p), LONG_MS);
    else if (p)
        wait_nap(10);
    l->whole = p && atomic_load(&done) >= QUEUES * EACH;
    if (p)
        l->whole &= leat_pool_stop(p, 0, NULL) == LEAT_OK;
    leat_client_close(c);
}

/* Of each queue the first time of each message, in the order sent. */
static void in_order(long n)
{
    for (int i = 0; i < QUEUES; i++) {
        char next = '0';
        for (const char *at = log_of(names[i]); *at; at++) {
            if (*at > next)
                fail_msg("run %ld, queue %s: %s", n, names[i],
                         log_of(names[i]));
            next = (char)(next + (*at == next));
        }
    }
}

/* By a sound pool: all that is left, and no queue is stuck. */
static void audit(void)
{
    client = open_client(url, NULL);
    if (left() == 0)
        return;
    leat_pool *p = pool_of(handle, NULL, &(leat_pool_opts){ .poll_ms = 1 });
    wait_until(left() == 0, LONG_MS);
    stop(p);
}

/* Which thread's it is differs anyway: some are enough. */
static long stride(long usual)
{
    return getenv("LEAT_LONG") ? 1 : usual;
}

static void sweep(bool forever)
{
    long n = 1, fails = 1, at_once = 0;
    life l = { 0 };
    for (; fails > 0 && n < ALLOC_FAIL_MOST; n += stride(forever ? 8 : 5)) {
        l = (life){ .ends = forever };
        fill();
        fails = alloc_fail_run(live, &l, n, forever);
        at_once += l.whole;
        audit();
        in_order(n);
    }
    print_message("# up to allocation %ld, all handled in %ld runs\n", n,
                  at_once);
    assert_true(forever || l.whole);
    assert_true(n > 30);
}

static void any_one_allocation_may_fail(void **state)
{
    (void)state;
    sweep(false);
}

static void memory_may_end_at_any_allocation(void **state)
{
    (void)state;
    sweep(true);
}

static void any_one_system_call_may_fail(void **state)
{
    (void)state;
    long n = 1, fails = 1;
    life l = { 0 };
    for (; fails > 0; n += stride(5)) {
        l = (life){ 0 };
        fill();
        sys_fail_install(SYS_FAULT_HARD, n);
        live(&l);
        fails = sys_fail_count();
        assert_int_equal(alloc_fail_live(), 0);
        alloc_fail_remove();
        audit();
        in_order(n);
    }
    print_message("# up to system call %ld\n", n);
    assert_true(l.whole);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(any_one_allocation_may_fail),
        queue_test(memory_may_end_at_any_allocation),
        queue_test(any_one_system_call_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

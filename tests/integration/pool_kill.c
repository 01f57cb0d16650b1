/*
 * pool_kill.c: pools in several processes, one of which is killed.
 *
 * This program is also the worker: "worker URL" runs a pool whose handlers
 * write down what they handle in the list seen:<queue>, until its stdin ends.
 */
#include "pool_help.h"
#include "support/proc.h"

#include <signal.h>
#include <unistd.h>

enum { QUEUES = 20, EACH = 30, HIDE_MS = 700 };

static leat_verdict write_down(leat_ctx *x, void *arg)
{
    leat_bytes from = leat_delivery_from(leat_ctx_delivery(x));
    char key[64];
    snprintf(key, sizeof key, "seen:%.*s", (int)from.n, (const char *)from.p);
    leat_conn *conn = leat_client_lend(arg, LONG_MS, NULL);
    if (!conn)
        return LEAT_NACK;
    const leat_reply *r;
    leat_code rc = leat_conn_call(
        conn,
        LEAT_ARGS(leat_str("RPUSH"), leat_str(key), leat_ctx_msg(x)->body),
        NULL, &r, NULL);
    leat_client_return(arg, conn);
    wait_nap(2);
    return rc == LEAT_OK ? LEAT_ACK : LEAT_NACK;
}

static int worker(const char *to)
{
    char byte;
    leat_error e = { 0 };
    leat_client *c = leat_client_open(to, NULL, &e);
    leat_pool *p = c ? leat_pool_start(c, write_down, c, NULL, &e) : NULL;
    if (!p) {
        fprintf(stderr, "worker: %s\n", e.msg);
        return 1;
    }
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    leat_code rc = leat_pool_stop(p, 0, &e);
    leat_client_close(c);
    return rc == LEAT_OK ? 0 : 1;
}

static proc *start_worker(void)
{
    const char *const argv[] = { "/proc/self/exe", "worker", url, NULL };
    proc *w = proc_start(argv, NULL);
    assert_non_null(w);
    return w;
}

static int64_t acked(leat_queue **q)
{
    int64_t n = 0;
    for (int i = 0; i < QUEUES; i++)
        n += stats(q[i]).acked;
    return n;
}

static int64_t in_flight(leat_queue **q)
{
    int64_t n = 0;
    for (int i = 0; i < QUEUES; i++)
        n += stats(q[i]).in_flight;
    return n;
}

/* Each goes on where the last left off, or from something before it that was
 * not acknowledged; how often it went back. */
static int check_order(int i)
{
    int back = 0, last = 0, high = 0;
    redisReply *r = redis_raw(server, "LRANGE seen:q%d 0 -1", i);
    assert_non_null(r);
    for (size_t k = 0; k < r->elements; k++) {
        int n = (int)strtol(r->element[k]->str, NULL, 10);
        if (n != last + 1 && n > last)
            fail_msg("queue %d: %d came after %d", i, n, last);
        back += n <= last;
        last = n;
        high = n > high ? n : high;
    }
    freeReplyObject(r);
    assert_int_equal(high, EACH);
    assert_int_equal(last, EACH);
    return back;
}

static void a_killed_pool_loses_nothing_and_the_order_is_kept(void **state)
{
    (void)state;
    leat_queue *q[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        q[i] = queue_nr(
            "q", i,
            &(leat_queue_opts){ .visibility_ms = HIDE_MS, .no_reaper = true });
        send_many(q[i], 1, EACH);
    }
    proc *a = start_worker(), *b = start_worker();
    wait_until(acked(q) >= 50 && in_flight(q) >= 5, LONG_MS);
    proc_signal(a, SIGKILL);
    assert_true(proc_wait(a, LONG_MS, NULL));
    wait_until(acked(q) == QUEUES * EACH, LONG_MS);
    int back = 0, status = -1;
    for (int i = 0; i < QUEUES; i++) {
        back += check_order(i);
        conserved(q[i]);
        assert_int_equal(stats(q[i]).visible, 0);
        leat_queue_close(q[i]);
    }
    print_message("queues that went back: %d\n", back);
    proc_close_stdin(b);
    assert_true(proc_wait(b, LONG_MS, &status));
    assert_int_equal(status, 0);
    proc_free(a);
    proc_free(b);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return worker(argv[2]);
    const struct CMUnitTest tests[] = {
        queue_test(a_killed_pool_loses_nothing_and_the_order_is_kept),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

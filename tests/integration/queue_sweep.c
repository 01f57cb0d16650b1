/*
 * queue_sweep.c: every allocation and every system call of a queue's life,
 * failed once: made, sent to, received from, held, settled in every way,
 * redriven, looked at, purged, closed.
 *
 * What was told stays true, every message is somewhere, and nothing is left
 * over.
 */
#include "queue_help.h"
#include "support/sysfail.h"

enum { MESSAGES = 9, TIMEOUT_MS = 300 };

/* What one life was told. */
typedef struct life {
    bool fifo;
    int sent, perhaps; /* messages */
    int acked, acks;   /* settled, and tried */
    bool whole;        /* nothing failed */
} life;

static void note_sent(life *l, leat_code rc)
{
    l->sent += rc == LEAT_OK;
    l->perhaps += rc == LEAT_EUNKNOWN;
    l->whole &= rc == LEAT_OK;
}

static void send_all(leat_queue *q, life *l)
{
    leat_msg m[MESSAGES - 2] = { 0 };
    leat_queue_sent sent[MESSAGES - 2] = { 0 };
    leat_queue_send_opts o[MESSAGES - 2] = { 0 };
    for (int i = 0; i < MESSAGES - 2; i++) {
        m[i].body = leat_str("x");
        o[i].group = leat_mem(&"abcdefgh"[i], 1);
    }
    (void)leat_queue_send_batch(q, m, MESSAGES - 2, o, sent, NULL);
    for (int i = 0; i < MESSAGES - 2; i++)
        note_sent(l, sent[i].code);
    note_sent(l, leat_queue_send(q, m, o, sent, NULL));
    leat_queue_send_opts later = { .delay_ms = 3600000,
                                   .dedup = leat_str("once") };
    note_sent(l, leat_queue_send(q, m, l->fifo ? o : &later, sent, NULL));
}

static void note_ack(life *l, leat_code rc)
{
    l->acks++;
    l->acked += rc == LEAT_OK;
    l->whole &= rc == LEAT_OK;
}

/* Four messages, each settled in another way. */
static void settle_all(leat_queue *q, life *l, const leat_queue_batch *b)
{
    leat_bytes r[4];
    leat_code outcome[2] = { LEAT_OK, LEAT_OK };
    for (size_t i = 0; i < 4; i++) {
        const leat_queue_item *it = leat_queue_batch_at(b, i);
        if (!it)
            return;
        r[i] = it->receipt;
    }
    leat_queue_hold *h = leat_queue_hold_start(q, r[0], 0, NULL);
    l->whole &= h != NULL;
    leat_queue_hold_end(h);
    (void)leat_queue_ack_batch(q, r, 2, outcome, NULL);
    note_ack(l, outcome[0]);
    note_ack(l, outcome[1]);
    l->whole &= leat_queue_change_visibility(q, r[2], 0, NULL) == LEAT_OK;
    l->whole &= leat_queue_reject(q, r[3], "no", NULL) == LEAT_OK;
}

static void serve(leat_queue *q, life *l)
{
    leat_delivery *d[2];
    leat_source *s = leat_queue_source(q, NULL, NULL);
    int n = s ? leat_source_receive(s, d, 2, 0, NULL) : 0;
    if (n > 0)
        (void)leat_delivery_reject(d[0], "nor this");
    if (n > 1)
        (void)leat_delivery_nack(d[1], 1000);
    l->whole &= n == 2 && leat_source_flush(s, 5000, NULL) == LEAT_OK;
    if (s)
        leat_source_close(s);
}

static void look_after(leat_queue *q, life *l)
{
    leat_queue_stats st;
    int64_t moved, dropped;
    leat_queue_batch *b = leat_queue_peek(q, 5, true, NULL);
    l->whole &= b != NULL;
    leat_queue_batch_free(b);
    l->whole &= leat_queue_stats_get(q, &st, NULL) == LEAT_OK;
    l->whole &= leat_queue_redrive(q, &(leat_redrive_opts){ .max = 1 }, &moved,
                                   NULL) == LEAT_OK;
    l->whole &= leat_queue_purge(q, true, &dropped, NULL) == LEAT_OK;
}

static void live(void *arg)
{
    life *l = arg;
    leat_client *c = leat_client_open(
        url, &(leat_client_opts){ .timeout_ms = TIMEOUT_MS, .max_retry_ms = 5 },
        NULL);
    leat_metrics *m = c ? leat_metrics_new(NULL) : NULL;
    leat_queue *q = m ? leat_queue_open(
                            c, "orders",
                            &(leat_queue_opts){ .fifo = l->fifo, .metrics = m },
                            NULL)
                      : NULL;
    l->whole = q != NULL;
    if (q) {
        send_all(q, l);
        leat_queue_batch *b = leat_queue_receive(
            q, &(leat_receive_opts){ .max = 4 }, NULL);
        if (b)
            settle_all(q, l, b);
        else
            l->whole = false;
        leat_queue_batch_free(b);
        serve(q, l);
        look_after(q, l);
    }
    leat_queue_close(q);
    leat_metrics_free(m);
    leat_client_close(c);
}

/* By a sound client. */
static void audit(const life *l, long n)
{
    leat_error e = { 0 };
    leat_queue *q = leat_queue_open(
        client, "orders",
        &(leat_queue_opts){ .must_exist = true, .no_reaper = true }, &e);
    if (!q) {
        assert_code(e.code, LEAT_ENOENT);
        assert_int_equal(l->sent, 0);
        return;
    }
    leat_queue_stats s = stats(q);
    if (s.sent < l->sent || s.sent > l->sent + l->perhaps ||
        s.acked < l->acked || s.acked > l->acks)
        fail_msg("run %ld: told %d sent and %d acked (%d perhaps, %d tried), "
                 "the server has %lld and %lld",
                 n, l->sent, l->acked, l->perhaps, l->acks, (long long)s.sent,
                 (long long)s.acked);
    conserved(q);
    leat_queue_close(q);
}

/* Every one alone; of those with all after it, every third. */
static void sweep(bool fifo, bool forever)
{
    long n = 1, fails = 1, told = 0;
    life l = { 0 };
    for (; fails > 0 && n < ALLOC_FAIL_MOST; n += forever ? 3 : 1) {
        l = (life){ .fifo = fifo };
        assert_true(redis_flush(server));
        fails = alloc_fail_run(live, &l, n, forever);
        audit(&l, n);
        told += l.sent;
    }
    print_message("# up to allocation %ld, %ld sent\n", n, told);
    assert_true(l.whole);
    assert_true(n > 50);
}

static void any_one_allocation_may_fail(void **state)
{
    (void)state;
    sweep(false, false);
}

static void any_one_allocation_may_fail_where_groups_are_in_order(void **state)
{
    (void)state;
    sweep(true, false);
}

static void memory_may_end_at_any_allocation(void **state)
{
    (void)state;
    sweep(false, true);
}

static void any_one_system_call_may_fail(void **state)
{
    (void)state;
    long n = 1, fails = 1;
    life l = { 0 };
    for (; fails > 0; n++) {
        l = (life){ 0 };
        assert_true(redis_flush(server));
        sys_fail_install(SYS_FAULT_HARD, n);
        live(&l);
        fails = sys_fail_count();
        assert_int_equal(alloc_fail_live(), 0);
        alloc_fail_remove();
        audit(&l, n);
    }
    print_message("# up to system call %ld\n", n);
    assert_true(l.whole);
    assert_true(n > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(any_one_allocation_may_fail),
        queue_test(any_one_allocation_may_fail_where_groups_are_in_order),
        queue_test(memory_may_end_at_any_allocation),
        queue_test(any_one_system_call_may_fail),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

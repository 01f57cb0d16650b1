/* pool_shard.c: a pool whose queues are all of one shard, at its limits. */
#include "pool_help.h"
#include "queue/keys.h"

enum { QUEUES = 64, EACH = 1000, SHARD = 7, ALL = QUEUES * EACH };

static _Atomic int seen;
static unsigned char came[QUEUES][EACH];
static char names[QUEUES][16];

/* Names of one shard: then one script has to do with all of them. */
static void name_all(void)
{
    for (int i = 0, n = 0; n < QUEUES; i++) {
        snprintf(names[n], sizeof names[n], "q%d", i);
        if (leat__queue_shard(names[n]) == SHARD)
            n++;
    }
}

static leat_verdict count_it(leat_ctx *x, void *arg)
{
    int q, i;
    char text[32];
    (void)arg;
    leat_bytes body = leat_ctx_msg(x)->body;
    snprintf(text, sizeof text, "%.*s", (int)body.n, (const char *)body.p);
    if (sscanf(text, "%d %d", &q, &i) == 2)
        came[q][i]++;
    atomic_fetch_add(&seen, 1);
    return LEAT_ACK;
}

static void fill(int q, const leat_queue_opts *o)
{
    static leat_msg full[EACH];
    static char bodies[EACH][16];
    leat_queue *queue = queue_of(names[q], o);
    for (int i = 0; i < EACH; i++) {
        snprintf(bodies[i], sizeof bodies[i], "%d %d", q, i);
        full[i] = (leat_msg){ .body = leat_str(bodies[i]) };
    }
    must(leat_queue_send_batch(queue, full, EACH, NULL, NULL, err));
    leat_queue_close(queue);
}

static void queues_of_one_shard_lose_nothing(void **state)
{
    (void)state;
    name_all();
    for (int q = 0; q < QUEUES; q++)
        fill(q, &(leat_queue_opts){ .no_reaper = true });
    leat_pool *p = pool_of(count_it, NULL, &(leat_pool_opts){ .workers = 64 });
    wait_until(atomic_load(&seen) >= ALL, LONG_MS);
    stop(p);
    for (int q = 0; q < QUEUES; q++) {
        for (int i = 0; i < EACH; i++)
            assert_int_equal(came[q][i], 1);
        leat_queue *queue = queue_of(names[q], NULL);
        leat_queue_stats st = stats(queue);
        assert_int_equal(st.acked, EACH);
        assert_int_equal(st.visible + st.in_flight + st.dead + st.lost, 0);
        leat_queue_close(queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(queues_of_one_shard_lose_nothing),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

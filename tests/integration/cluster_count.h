/*
 * cluster_count.h: counting on three nodes at once, as an event loop does.
 */
#ifndef CLUSTER_COUNT_H
#define CLUSTER_COUNT_H

#include "cluster_help.h"

static const leat_client_opts quick = { .timeout_ms = 3000,
                                        .connect_timeout_ms = 2000,
                                        .max_retry_ms = 200 };

/* One key for each of three nodes, counted up one at a time. */
struct counter {
    char key[32];
    int node;
    bool under_way;
    int64_t done, last;
    int refused, unknown;
    leat_error why;
};

static inline void on_count(void *arg, const leat_reply *r, const leat_error *e)
{
    struct counter *k = arg;
    k->under_way = false;
    if (!e) {
        k->done++;
        k->last = leat_reply_int(r);
        return;
    }
    k->why = *e;
    if (e->code == LEAT_EUNKNOWN)
        k->unknown++;
    else
        k->refused++;
}

static inline void count_on(leat_conn *conn, struct counter *k)
{
    leat_error e;
    if (k->under_way)
        return;
    if (leat_conn_send(conn, LEAT_ARGS(leat_str("INCR"), leat_str(k->key)),
                       &(leat_send_opts){ .fn = on_count, .arg = k },
                       &e) == LEAT_OK) {
        k->under_way = true;
        return;
    }
    k->why = e;
    k->refused++;
}

/* One round of an event loop, as the consumer of a topic has it. */
static inline void loop_once(leat_conn *conn, struct counter *k, int n)
{
    for (int i = 0; i < n; i++)
        count_on(conn, &k[i]);
    must(leat_conn_flush(conn, err));
    struct pollfd p = { .fd = leat_conn_fd(conn), .events = POLLIN };
    (void)poll(&p, 1, 5);
    must(leat_conn_take(conn, err));
    must(leat__conn_expire(conn, err));
}

static inline void begin_counting(struct counter *k, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        k[i] = (struct counter){ .node = -1 };
        for (int tag = 0; tag < 10000 && k[i].node != i; tag++) {
            snprintf(k[i].key, sizeof k[i].key, "{%d}%s", tag, name);
            int owner = cluster_owner_of(rig, k[i].key);
            bool taken = false;
            for (int j = 0; j < i; j++)
                taken = taken || k[j].node == owner;
            if (!taken) {
                k[i].node = owner;
                break;
            }
        }
    }
}

/* Until each has so many more. */
static inline void count_more(leat_conn *conn, struct counter *k, int n,
                              int64_t more)
{
    int64_t until[3], end = wait_now_ms() + LONG_MS;
    bool all = false;
    for (int i = 0; i < n; i++)
        until[i] = k[i].done + more;
    while (!all) {
        loop_once(conn, k, n);
        all = true;
        for (int i = 0; i < n; i++)
            all = all && k[i].done >= until[i];
        for (int i = 0; i < n && wait_now_ms() > end; i++)
            if (k[i].done < until[i])
                fail_msg("%s stands still: %s", k[i].key, k[i].why.msg);
    }
}

/* The others must not have been disturbed at all. */
static inline void assert_smooth(const struct counter *k)
{
    if (k->refused || k->unknown)
        fail_msg("%s: %d refused, %d unknown: %s", k->key, k->refused,
                 k->unknown, k->why.msg);
    assert_int_equal(k->last, k->done);
}

#endif

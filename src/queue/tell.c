/*
 * tell.c: events through another client.
 *
 * The scripts then publish nothing and end their answers by [queue, event,
 * ...].  Published to the queue's channel first, then to that of all queues;
 * lost if the other server cannot be reached.  On a cluster through the node
 * that has the channel as a key: from several, some would overtake others.  A
 * copy of them is, for each text, its size and its bytes.
 */
#include "base/system.h"
#include "queue/queue.h"
#include "redis/bundle.h"

static leat_code add_text(leat__buf *to, const leat_reply *r, leat_error *err)
{
    leat_bytes b = leat_reply_bytes(r);
    leat_code rc = leat__buf_add(to, &b.n, sizeof b.n, err);
    return rc == LEAT_OK ? leat__buf_add(to, b.p, b.n, err) : rc;
}

const char *leat__queue_telling(leat_queue *q)
{
    bool deaf = q->events[0] == '1' && leat__now_ns() < q->deaf_ns;
    return deaf ? "0" : q->events;
}

leat_code leat__told_copy(leat_queue *q, leat__buf *to, const leat_reply *r,
                          leat_error *err)
{
    size_t n = leat_reply_len(r);
    const leat_reply *last = n > 0 ? leat_reply_at(r, n - 1) : NULL;
    leat_code rc = LEAT_OK;
    if (!last || leat_reply_kind(last) != LEAT_REPLY_ARRAY)
        return rc;
    leat_reply_iter it = leat_reply_each(last);
    if (q && it.left == 0)
        q->deaf_ns = leat__deadline_ns(LEAT__QUEUE_DEAF_MS);
    if (q && !q->opts.event_client)
        return rc; /* the script has published them */
    if (it.left % 2 != 0)
        return leat__fail(err, LEAT_EPROTO, "half an event was told");
    for (const leat_reply *at; rc == LEAT_OK && (at = leat_reply_step(&it));)
        rc = add_text(to, at, err);
    return rc;
}

static leat_bytes next_text(leat_bytes all, size_t *at)
{
    size_t n;
    const char *p = (const char *)all.p + *at;
    memcpy(&n, p, sizeof n);
    *at += sizeof n + n;
    return leat_mem(p + sizeof n, n);
}

leat_bytes leat__told_of_one(leat_bytes told, leat_bytes *queue)
{
    size_t at = 0, end = 0;
    do {
        leat_bytes name = next_text(told, &at);
        if (end > 0 && !leat_bytes_eq(name, *queue))
            break;
        *queue = name;
        (void)next_text(told, &at);
        end = at;
    } while (at < told.n);
    return leat_mem(told.p, end);
}

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

static leat_code publish(leat_conn *conn, const leat__key *channel,
                         leat_bytes event)
{
    leat_bytes to = leat__key_bytes(channel);
    const leat_bytes argv[] = { leat_str("PUBLISH"), to, event };
    const leat_send_opts o = { .fn = ignore };
    return conn->bundle ? leat__bundle_send_to(conn, to, argv, 3, &o, NULL)
                        : leat_conn_send(conn, argv, 3, &o, NULL);
}

static leat_code publish_all(leat_conn *conn, const queue_profile *p,
                             const char *prefix, leat_bytes told)
{
    leat__key near, far;
    char name[LEAT__QUEUE_NAME_MAX + 1];
    leat_code rc = LEAT_OK;
    leat__key_put(&far, "%s:events", prefix);
    for (size_t at = 0; rc == LEAT_OK && at < told.n;) {
        leat_bytes queue = next_text(told, &at), event = next_text(told, &at);
        size_t n = queue.n < sizeof name ? queue.n : sizeof name - 1;
        memcpy(name, queue.p, n);
        name[n] = '\0';
        p->key(&near, prefix, name, "events");
        rc = publish(conn, &near, event);
        if (rc == LEAT_OK)
            rc = publish(conn, &far, event);
    }
    return rc == LEAT_OK ? leat_conn_drain(conn, 0, NULL) : rc;
}

bool leat__told_publish(leat_client *to, const queue_profile *p,
                        const char *prefix, leat_bytes told)
{
    leat_conn *conn = leat_client_lend(to, LEAT__TELL_MS, NULL);
    if (!conn)
        return false;
    int64_t usual = conn->timeout_ms;
    if (usual > LEAT__TELL_MS)
        conn->timeout_ms = LEAT__TELL_MS;
    leat_code rc = publish_all(conn, p, prefix, told);
    conn->timeout_ms = usual;
    leat_client_return(to, conn);
    return rc == LEAT_OK;
}

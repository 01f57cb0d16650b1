/*
 * bundle_pin.c: what belongs to one child of a bundle.
 *
 * A transaction is pinned to the node of its first key.  Before it begins
 * everything else is answered, so that no redirect can put a stranger's command
 * between MULTI and EXEC; inside it commands go to that child's connection
 * directly.  MULTI itself is sent with the first command, for only that tells
 * where.
 *
 * Subscriptions are pinned to any child: a cluster carries what is published
 * to all its nodes.
 */
#include "redis/bundle_inside.h"
#include "redis/keys.h"

static leat_code slot_child(leat__bundle *b, int slot, leat__child **out,
                            leat_error *err)
{
    leat__address at;
    leat_code rc = leat__cluster_owner(b->cluster, (unsigned)slot, &at, err);
    if (rc != LEAT_OK)
        return rc;
    *out = leat__bundle_child(b, &at, err);
    return *out ? leat__child_connected(b, *out, err) : LEAT_ENOMEM;
}

static leat_code pin(leat__bundle *b, int slot, leat_error *err)
{
    leat__child *child;
    leat_code rc = slot_child(b, slot, &child, err);
    if (rc != LEAT_OK)
        return rc;
    b->pin = child;
    b->pin_slot = slot;
    b->pin_life = child->lives;
    return LEAT_OK;
}

/* The connection that watches, or that has MULTI behind it, is still there. */
static leat_code still_pinned(const leat__bundle *b, leat_error *err)
{
    const leat__child *child = b->pin;
    if (child->conn && child->lives == b->pin_life)
        return LEAT_OK;
    return leat__fail(err, LEAT_ECONN,
                      "the connection of the transaction was lost: %.150s",
                      child->why.msg);
}

static leat_code other_slot(const leat__bundle *b, leat_bytes key, int slot,
                            leat_error *err)
{
    char text[65];
    leat__escape(text, sizeof text, key.p, key.n);
    return leat__fail(err, LEAT_EINVAL,
                      "key '%s' is in slot %d and the transaction in slot %d, "
                      "on a cluster use a common {tag}",
                      text, slot, b->pin_slot);
}

/* Has MULTI been sent? */
static bool begun(const leat__bundle *b)
{
    return b->pin && b->pin->conn && b->pin->lives == b->pin_life &&
           b->pin->conn->in_tx;
}

leat_code leat__bundle_pinned(leat__bundle *b, int slot, leat_bytes key,
                              leat_error *err)
{
    if (b->pin && slot >= 0 && slot != b->pin_slot)
        return other_slot(b, key, slot, err);
    if (!b->pin && slot < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "on a cluster the first command of a transaction "
                          "must name a key");
    leat_code rc = b->pin ? still_pinned(b, err) : pin(b, slot, err);
    if (rc == LEAT_OK && !begun(b))
        rc = leat_conn_begin(b->pin->conn, err);
    return rc;
}

static void unpin(leat__bundle *b)
{
    b->pin = NULL;
    b->conn->in_tx = false;
}

leat_code leat__bundle_watch(leat_conn *c, const leat_bytes *keys, size_t n,
                             leat_error *err)
{
    leat__bundle *b = c->bundle;
    int slot;
    leat_code rc = leat__bundle_await(c, 0, err);
    if (rc == LEAT_OK)
        rc = leat__keys_same(keys, n, &slot, err);
    if (rc != LEAT_OK || n == 0)
        return rc;
    if (b->pin && slot != b->pin_slot)
        return other_slot(b, keys[0], slot, err);
    rc = b->pin ? still_pinned(b, err) : pin(b, slot, err);
    if (rc != LEAT_OK)
        return rc;
    rc = leat_conn_watch(b->pin->conn, keys, n, err);
    b->pin->conn->stale = false;
    if (rc != LEAT_OK)
        b->pin = NULL;
    return rc;
}

leat_code leat__bundle_multi(leat_conn *c, leat_error *err)
{
    if (c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "already inside a transaction");
    leat_code rc = leat__bundle_await(c, 0, err);
    if (rc == LEAT_OK && c->bundle->pin) {
        rc = still_pinned(c->bundle, err);
        if (rc != LEAT_OK)
            unpin(c->bundle);
    }
    if (rc == LEAT_OK)
        c->in_tx = true;
    return rc;
}

/* A transaction without a command is done; one whose connection broke before
 * EXEC certainly is not. */
leat_code leat__bundle_exec(leat_conn *c, leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_own(c, err);
    if (rc == LEAT_OK && !c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "exec without leat_conn_begin");
    if (rc == LEAT_OK && b->pin)
        rc = still_pinned(b, err);
    if (rc == LEAT_OK && b->pin && !begun(b))
        rc = leat_conn_begin(b->pin->conn, err);
    if (rc == LEAT_OK && b->pin)
        rc = leat_conn_exec(b->pin->conn, err);
    if (b->pin && b->pin->conn)
        b->pin->conn->stale = false;
    unpin(b);
    return rc;
}

leat_code leat__bundle_discard(leat_conn *c, leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_own(c, err);
    if (rc == LEAT_OK && !c->in_tx)
        return leat__fail(err, LEAT_EINVAL, "discard without leat_conn_begin");
    if (rc == LEAT_OK && begun(b))
        rc = leat_conn_discard(b->pin->conn, err);
    else if (rc == LEAT_OK && b->pin && b->pin->conn)
        rc = leat_conn_call(b->pin->conn, LEAT_ARGS(leat_str("UNWATCH")), NULL,
                            NULL, err);
    unpin(b);
    return rc;
}

/* ---- subscriptions ---------------------------------------------------- */

static leat_code heard(leat__bundle *b, leat_error *err)
{
    leat__child *child = b->heard;
    if (child->conn && child->conn->t && child->lives == b->heard_life)
        return LEAT_OK;
    return leat__fail(err, LEAT_ECONN,
                      "the connection of the subscriptions was lost: %.150s",
                      child->why.msg);
}

static leat_code hear(leat__bundle *b, leat_error *err)
{
    leat__child *child = leat__bundle_any(b);
    if (!child)
        return leat__fail(err, LEAT_EBUSY, "no node of the cluster has a slot");
    leat_code rc = leat__child_connected(b, child, err);
    if (rc == LEAT_OK) {
        b->heard = child;
        b->heard_life = child->lives;
    }
    return rc;
}

leat_code leat__bundle_subscribe(leat_conn *c, bool pattern, bool on,
                                 const leat_bytes *names, size_t n,
                                 leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_await(c, 0, err);
    if (rc == LEAT_OK && (!b->heard || heard(b, NULL) != LEAT_OK))
        rc = hear(b, err);
    if (rc != LEAT_OK)
        return rc;
    leat_conn *conn = b->heard->conn;
    leat_conn_on_push(conn, c->push_fn, c->push_arg);
    rc = on ? leat_conn_subscribe(conn, pattern, names, n, err)
            : leat_conn_unsubscribe(conn, pattern, names, n, err);
    if (conn->subscriptions == 0)
        b->heard = NULL;
    return rc;
}

leat_code leat__bundle_listen(leat_conn *c, int64_t wait_ms, leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_take(c, err);
    if (rc != LEAT_OK)
        return rc;
    if (!b->heard)
        return leat__fail(err, LEAT_EINVAL, "listen without a subscription");
    rc = heard(b, err);
    return rc == LEAT_OK ? leat_conn_listen(b->heard->conn, wait_ms, err) : rc;
}

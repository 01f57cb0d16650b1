/*
 * bundle.c: commands that find their node.
 *
 *   send -> slot -> child -> its connection        -> answer
 *                   waiting, while it has none     -> MOVED, ASK: sent again
 *                   held, while its slot is moving -> else: told
 *
 * Order.  Commands of one slot must not overtake each other.  So while some are
 * unanswered, those behind them go to the same child, whatever the map says
 * meanwhile.  After the first MOVED those that were sent already come back one
 * by one and are sent on in that order; new ones are held until the last of
 * them is answered, and then go where the map says.
 *
 * A command is sent again only on an answer that says it was not carried out,
 * and only a few times: nodes that point at each other end as a failure.
 *
 * Nothing in here reads or writes a socket: callbacks run while a child is
 * reading, and a child may be any of them.
 */
#include "base/mem.h"
#include "base/system.h"
#include "redis/bundle_inside.h"
#include "redis/keys.h"
#include "redis/server_error.h"

#include <stdio.h>

enum { REDIRECTS = 5, AUTO_FLUSH = 32 * 1024 };

static const char asking[] = "*1\r\n$6\r\nASKING\r\n";

static void ignore(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)arg;
    (void)r;
    (void)e;
}

static void on_answer(void *arg, const leat_reply *r, const leat_error *e);

/* ---- queueing --------------------------------------------------------- */

static bool has_room(const leat_conn *c)
{
    return leat__conn_waiting(c) + 2 <= c->mask + 1;
}

/* The same call with the script's body instead of its name. */
static size_t body_size(const leat__routed *k)
{
    return 64 + k->script->body_size + (k->size - k->head);
}

static char *put_body(char *p, const leat__routed *k)
{
    p = leat__resp_array_head(p, k->argc);
    p = leat__resp_bulk(p, "EVAL", 4);
    p = leat__resp_bulk(p, k->script->body, k->script->body_size);
    memcpy(p, k->bytes + k->head, k->size - k->head);
    return p + (k->size - k->head);
}

static char *put_call(char *p, const leat__routed *k)
{
    if (k->body)
        return put_body(p, k);
    memcpy(p, k->bytes, k->size);
    return p + k->size;
}

static uint64_t route_of(const leat__child *child)
{
    return (uint64_t)(child->index + 1) << 32 | (uint32_t)child->lives;
}

/* May it go over this connection?  A node that asks for ASKING has the same
 * keys, which it gets one by one. */
static leat_code permitted(const leat__child *child, const leat__routed *k,
                           leat_error *err)
{
    if (k->route == 0 || k->asking || k->route == route_of(child))
        return LEAT_OK;
    return leat__fail(err, LEAT_ECONN,
                      "not sent: the slot's commands go over another "
                      "connection by now");
}

/* Into the connection's queue; it has room. */
static leat_code queue(leat__child *child, leat__routed *k, leat_error *err)
{
    leat_conn *c = child->conn;
    if (permitted(child, k, err) != LEAT_OK)
        return LEAT_ECONN;
    size_t most = k->body ? body_size(k) : k->size;
    char *p = leat__outq_room(&c->out, most + sizeof asking, err);
    if (!p)
        return LEAT_ENOMEM;
    if (k->asking) {
        memcpy(p, asking, sizeof asking - 1);
        leat__conn_push(c, sizeof asking - 1, &(leat__pending){ .fn = ignore });
        p += sizeof asking - 1;
    }
    char *end = put_call(p, k);
    leat__conn_push(
        c, (size_t)(end - p),
        &(leat__pending){ .fn = on_answer, .arg = k, .block_ms = k->block_ms });
    return LEAT_OK;
}

leat_code leat__routed_launch(leat__routed *k, leat__child *child,
                              leat_error *err)
{
    leat_code rc;
    if (child->conn && child->conn->t && has_room(child->conn) &&
        leat__list_empty(&child->waiting)) {
        rc = queue(child, k, err);
    } else {
        rc = child->conn ? LEAT_OK : leat__child_need(k->bundle, child, err);
        if (rc == LEAT_OK)
            leat__list_push(&child->waiting, &k->link);
    }
    if (rc == LEAT_OK)
        k->child = child;
    return rc;
}

void leat__bundle_pump(leat__child *child)
{
    leat__link *at;
    while (child->conn && child->conn->t && has_room(child->conn) &&
           (at = leat__list_pop(&child->waiting)) != NULL) {
        leat_error e;
        leat__routed *k = LEAT__ITEM(at, leat__routed, link);
        if (queue(child, k, &e) != LEAT_OK)
            leat__routed_end(k, NULL, &e);
    }
}

/* ---- routing ---------------------------------------------------------- */

static leat_code look_up(leat__bundle *b, int slot, leat_error *err)
{
    leat__address at;
    leat_code rc = leat__cluster_owner(b->cluster, (unsigned)slot, &at, err);
    if (rc != LEAT_OK)
        return rc;
    leat__child *child = leat__bundle_child(b, &at, err);
    if (!child)
        return LEAT_ENOMEM;
    b->slots[slot].child = (uint16_t)(child->index + 1);
    return LEAT_OK;
}

/* Send a new command on its way.  On failure it is still the caller's. */
static leat_code route(leat__bundle *b, leat__routed *k, leat_error *err)
{
    if (k->slot < 0) {
        leat__child *any = leat__bundle_any(b);
        return any ? leat__routed_launch(k, any, err)
                   : leat__fail(err, LEAT_EBUSY,
                                "no node of the cluster has a slot");
    }
    struct leat__bundle_slot *s = &b->slots[k->slot];
    if (s->moving) {
        k->child = NULL;
        leat__list_push(&b->held, &k->link);
        return LEAT_OK;
    }
    leat_code rc = s->child ? LEAT_OK : look_up(b, k->slot, err);
    if (rc == LEAT_OK)
        rc = leat__routed_launch(k, b->children[s->child - 1], err);
    k->counted = rc == LEAT_OK;
    s->pending += k->counted;
    return rc;
}

/* The last command of a slot that moved is answered: on with the others. */
static void release_held(leat__bundle *b, int slot)
{
    LEAT__LIST_EACH(&b->held, at)
    {
        leat_error e;
        leat__routed *k = LEAT__ITEM(at, leat__routed, link);
        if (k->slot != slot)
            continue;
        leat__link_remove(at);
        if (route(b, k, &e) != LEAT_OK)
            leat__routed_end(k, NULL, &e);
    }
}

/* It is no longer under way. */
static void uncount(leat__routed *k)
{
    struct leat__bundle_slot *s = &k->bundle->slots[k->slot];
    if (!k->counted)
        return;
    k->counted = false;
    if (--s->pending > 0 || !s->moving)
        return;
    s->moving = 0;
    s->child = 0;
    if (!k->bundle->ended)
        release_held(k->bundle, k->slot);
}

/* Tell the caller, and keep the reply if it is to outlive the reading. */
void leat__routed_end(leat__routed *k, const leat_reply *r, const leat_error *e)
{
    leat__bundle *b = k->bundle;
    leat_conn *c = b->conn;
    c->head++;
    uncount(k);
    b->depth++;
    leat__conn_tell(c, k->fn, k->arg, r, e);
    b->depth--;
    if (c->hold) {
        c->hold = false;
        k->child->conn->hold = true;
        b->kept = k->child;
    }
    leat__free(k);
}

/* A slot that is moving has others under way, which these are behind: they
 * stay. */
static bool stays(const leat__routed *k)
{
    return k->slot >= 0 && k->bundle->slots[k->slot].moving;
}

/* All of a slot are uncounted before the first is routed, so that it is looked
 * up anew. */
static void uncount_waiting(leat__child *child)
{
    LEAT__LIST_EACH(&child->waiting, at)
    {
        leat__routed *k = LEAT__ITEM(at, leat__routed, link);
        if (!k->counted || stays(k))
            continue;
        struct leat__bundle_slot *s = &k->bundle->slots[k->slot];
        k->counted = false;
        if (--s->pending == 0)
            s->child = 0;
    }
}

void leat__bundle_reroute(leat__child *child)
{
    leat__list all;
    leat__link *at;
    uncount_waiting(child);
    leat__list_init(&all);
    leat__list_move_all(&all, &child->waiting);
    while ((at = leat__list_pop(&all)) != NULL) {
        leat_error e;
        leat__routed *k = LEAT__ITEM(at, leat__routed, link);
        if (stays(k) || k->proof)
            leat__list_push(&child->waiting, at);
        else if (route(k->bundle, k, &e) != LEAT_OK)
            leat__routed_end(k, NULL, &e);
    }
}

/* ---- proofs ----------------------------------------------------------- */

static uint16_t life_of(const leat__child *child)
{
    return (uint16_t)child->lives;
}

/* A command of this slot was carried out over this child's connection. */
static void note_done(leat__bundle *b, const leat__routed *k)
{
    struct leat__bundle_slot *s = &b->slots[k->slot];
    uint16_t done = (uint16_t)(k->child->index + 1);
    uint16_t life = life_of(k->child);
    if (s->dirty && (s->done != done || s->life != life))
        s->torn = true;
    s->dirty = true;
    s->done = done;
    s->life = life;
}

/* Is there still the one connection over which all of it was answered? */
static bool provable(const leat__bundle *b, int slot)
{
    const struct leat__bundle_slot *s = &b->slots[slot];
    if (s->torn || s->done == 0)
        return false;
    const leat__child *child = b->children[s->done - 1];
    return child->conn && child->conn->t && life_of(child) == s->life;
}

static void unproven(leat_error *e)
{
    leat__fail(e, LEAT_EUNKNOWN,
               "the connection that could prove it is gone, or the slot "
               "has moved");
}

/* The answer to a proof: it counts if nothing was answered elsewhere
 * meanwhile. */
static void end_proof(leat__routed *k, const leat_reply *r, const leat_error *e)
{
    leat_error lost;
    struct leat__bundle_slot *s = &k->bundle->slots[k->slot];
    bool good = provable(k->bundle, k->slot) && s->done == k->child->index + 1;
    s->dirty = s->torn = false;
    if (r && !good) {
        unproven(&lost);
        leat__routed_end(k, NULL, &lost);
        return;
    }
    leat__routed_end(k, r, e);
}

void leat__bundle_doom(leat__bundle *b)
{
    leat__link *at;
    while ((at = leat__list_pop(&b->doomed)) != NULL) {
        leat_error e;
        unproven(&e);
        leat__routed_end(LEAT__ITEM(at, leat__routed, link), NULL, &e);
    }
}

/* ---- answers ---------------------------------------------------------- */

/* Is it on its way to another node?  Its slot's count stays as it is. */
static bool redirected(leat__routed *k, leat_bytes text)
{
    leat__bundle *b = k->bundle;
    leat__redirect to;
    if (b->ended || !leat__redirect_read(&to, text, &k->child->at))
        return false;
    if (!to.ask)
        leat__cluster_moved(b->cluster, &to);
    if (k->redirects >= REDIRECTS)
        return false;
    leat__child *child = leat__bundle_child(b, &to.to, NULL);
    if (!child)
        return false;
    k->redirects++;
    k->asking = to.ask;
    if (!to.ask && k->slot >= 0)
        b->slots[k->slot].moving = 1;
    return leat__routed_launch(k, child, NULL) == LEAT_OK;
}

static void on_answer(void *arg, const leat_reply *r, const leat_error *e)
{
    leat__routed *k = arg;
    if (k->proof) {
        end_proof(k, r, e);
        return;
    }
    if (!r || !e) {
        if (r && k->slot >= 0)
            note_done(k->bundle, k);
        leat__routed_end(k, r, e);
        return;
    }
    leat_bytes text = leat_mem(r->s.p, r->s.n);
    if (k->script && !k->body && leat__server_error_is(text, "NOSCRIPT")) {
        k->body = true;
        if (leat__routed_launch(k, k->child, NULL) == LEAT_OK)
            return;
    } else if (e->code == LEAT_EREADONLY && redirected(k, text)) {
        return;
    } else if (leat__server_error_is(text, "CLUSTERDOWN")) {
        leat__cluster_doubt(k->bundle->cluster);
    }
    leat__routed_end(k, r, e);
}

/* ---- routes ----------------------------------------------------------- */

/* The child of a slot that is not moving; NULL: nobody knows. */
static leat__child *child_of(leat__bundle *b, int slot)
{
    const struct leat__bundle_slot *s = &b->slots[slot];
    if (b->ended || s->moving ||
        (!s->child && look_up(b, slot, NULL) != LEAT_OK))
        return NULL;
    return b->children[s->child - 1];
}

uint64_t leat__conn_route(leat_conn *c, int slot)
{
    leat__bundle *b = c->bundle;
    if (!b)
        return 1;
    leat__bundle_sync(b);
    leat__child *child = child_of(b, slot);
    if (child && child->conn && child->conn->t)
        return route_of(child);
    if (child && !child->conn)
        (void)leat__child_need(b, child, NULL);
    return 0;
}

void leat__conn_confine(leat_conn *c, uint64_t route)
{
    if (c->bundle)
        c->bundle->confined = route;
}

bool leat__conn_leads(leat_conn *c, int slot, const leat_conn *other)
{
    if (c->bundle) {
        const leat__child *child = child_of(c->bundle, slot);
        c = child ? child->conn : NULL;
    }
    return c && c->t && c->born_ns <= other->born_ns &&
           leat__address_same(&c->line.at, &other->line.at);
}

/* ---- sending ---------------------------------------------------------- */

leat_code leat__bundle_own(const leat_conn *c, leat_error *err)
{
    if (c->bundle->ended)
        return leat__fail(err, LEAT_ECONN, "the connection was lost: %s",
                          c->why.msg);
    return leat__conn_forked(c, err);
}

leat_code leat__bundle_ready(leat_conn *c, leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat_code rc = leat__bundle_own(c, err);
    if (rc != LEAT_OK || b->depth > 0)
        return rc;
    leat__bundle_unkeep(b);
    leat__bundle_sync(b);
    if (leat__conn_waiting(c) < c->window)
        return LEAT_OK;
    return leat__bundle_await(c, c->window / 2, err);
}

static leat__routed *routed_new(leat__bundle *b, size_t size, int slot,
                                const leat_send_opts *opts, leat_error *err)
{
    leat__routed *k = leat__alloc(sizeof *k + size, err);
    if (k)
        *k = (leat__routed){ .bundle = b,
                             .fn = opts ? opts->fn : NULL,
                             .arg = opts ? opts->arg : NULL,
                             .block_ms = opts ? opts->block_ms : 0,
                             .born_ns = leat__now_ns(),
                             .route = b->confined,
                             .slot = slot,
                             .size = size };
    return k;
}

/* Count it, and write while the server works on what was sent before. */
static leat_code start(leat__bundle *b, leat__routed *k, leat_error *err)
{
    leat_code rc = route(b, k, err);
    if (rc != LEAT_OK) {
        leat__free(k);
        return rc;
    }
    leat_conn *c = b->conn;
    c->tail++;
    leat_conn *to = k->child ? k->child->conn : NULL;
    if (to && b->depth == 0 &&
        (to->tail - to->stamped >= c->window / 2 ||
         leat__outq_left(&to->out) >= AUTO_FLUSH))
        leat__child_write(b, k->child);
    return LEAT_OK;
}

leat_code leat__bundle_send(leat_conn *c, const leat_bytes *argv, size_t n,
                            const leat_send_opts *opts, leat_error *err)
{
    leat__bundle *b = c->bundle;
    size_t size;
    int slot;
    leat_bytes key = { 0 };
    leat_code rc = leat__bundle_ready(c, err);
    if (rc == LEAT_OK)
        rc = leat__conn_command_size(argv, n, &size, err);
    if (rc == LEAT_OK)
        rc = leat__keys_slot(argv, n, &slot, &key, err);
    if (rc == LEAT_OK && c->in_tx) {
        rc = leat__bundle_pinned(b, slot, key, err);
        return rc == LEAT_OK ? leat_conn_send(b->pin->conn, argv, n, opts, err)
                             : rc;
    }
    if (rc != LEAT_OK)
        return rc;
    leat__routed *k = routed_new(b, size, slot, opts, err);
    if (!k)
        return LEAT_ENOMEM;
    leat__resp_command(k->bytes, argv, n);
    return start(b, k, err);
}

/* A command without keys for the node of this slot, not on its way yet. */
static leat_code command_for(leat_conn *c, int slot, const leat_bytes *argv,
                             size_t n, const leat_send_opts *opts,
                             leat__routed **out, leat_error *err)
{
    size_t size;
    leat_code rc = leat__bundle_ready(c, err);
    if (rc == LEAT_OK)
        rc = leat__conn_command_size(argv, n, &size, err);
    if (rc != LEAT_OK)
        return rc;
    *out = routed_new(c->bundle, size, slot, opts, err);
    if (!*out)
        return LEAT_ENOMEM;
    leat__resp_command((*out)->bytes, argv, n);
    return LEAT_OK;
}

leat_code leat__bundle_send_to(leat_conn *c, leat_bytes key,
                               const leat_bytes *argv, size_t n,
                               const leat_send_opts *opts, leat_error *err)
{
    leat__routed *k;
    leat_code rc = command_for(c, (int)leat__crc16_slot(key), argv, n, opts, &k,
                               err);
    return rc == LEAT_OK ? start(c->bundle, k, err) : rc;
}

/* EVALSHA sha numkeys keys args; the words behind the second are kept for
 * EVAL. */
static leat__routed *script_new(leat__bundle *b, const leat__script *s,
                                int slot, const leat_bytes *keys, size_t nkeys,
                                const leat_bytes *args, size_t nargs,
                                const leat_send_opts *opts, leat_error *err)
{
    char text[LEAT__NUMBER];
    leat_bytes first[] = { leat_str("EVALSHA"), leat_mem(s->sha, 40),
                           leat__arg_int(text, (int64_t)nkeys) };
    size_t most = leat__resp_command_size(first, 3) +
                  leat__resp_command_size(keys, nkeys) +
                  leat__resp_command_size(args, nargs);
    leat__routed *k = routed_new(b, most, slot, opts, err);
    if (!k)
        return NULL;
    k->script = s;
    k->argc = 3 + nkeys + nargs;
    char *p = leat__resp_array_head(k->bytes, k->argc);
    p = leat__resp_bulk(p, first[0].p, first[0].n);
    p = leat__resp_bulk(p, first[1].p, first[1].n);
    k->head = (size_t)(p - k->bytes);
    p = leat__resp_bulk(p, first[2].p, first[2].n);
    for (size_t i = 0; i < nkeys; i++)
        p = leat__resp_bulk(p, keys[i].p, keys[i].n);
    for (size_t i = 0; i < nargs; i++)
        p = leat__resp_bulk(p, args[i].p, args[i].n);
    k->size = (size_t)(p - k->bytes);
    return k;
}

leat_code leat__bundle_script(leat_conn *c, const leat__script *s,
                              const leat_bytes *keys, size_t nkeys,
                              const leat_bytes *args, size_t nargs,
                              const leat_send_opts *opts, leat_error *err)
{
    leat__bundle *b = c->bundle;
    int slot;
    leat_code rc = leat__bundle_ready(c, err);
    if (rc == LEAT_OK)
        rc = leat__keys_same(keys, nkeys, &slot, err);
    if (rc == LEAT_OK && c->in_tx) {
        rc = leat__bundle_pinned(b, slot, nkeys ? keys[0] : leat_mem("", 0),
                                 err);
        return rc == LEAT_OK ? leat__script_send(b->pin->conn, s, keys, nkeys,
                                                 args, nargs, opts, err)
                             : rc;
    }
    if (rc != LEAT_OK)
        return rc;
    leat__routed *k = script_new(b, s, slot, keys, nkeys, args, nargs, opts,
                                 err);
    return k ? start(b, k, err) : LEAT_ENOMEM;
}

leat_code leat__bundle_prove(leat_conn *c, leat_bytes key,
                             const leat_bytes *argv, size_t n,
                             const leat_send_opts *opts, leat_error *err)
{
    leat__bundle *b = c->bundle;
    leat__routed *k;
    int slot = (int)leat__crc16_slot(key);
    leat_code rc = command_for(c, slot, argv, n, opts, &k, err);
    if (rc != LEAT_OK)
        return rc;
    k->proof = true;
    struct leat__bundle_slot *s = &b->slots[slot];
    if (provable(b, slot)) {
        rc = leat__routed_launch(k, b->children[s->done - 1], err);
    } else {
        s->dirty = s->torn = false;
        leat__list_push(&b->doomed, &k->link);
        leat__bundle_stir(b);
    }
    if (rc == LEAT_OK)
        c->tail++;
    else
        leat__free(k);
    return rc;
}

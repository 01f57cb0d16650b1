/*
 * redowl.c: queues that are shared with Go programs that use redowl.
 *
 *   P:<queue>:ready      list  ids, the next one at the head
 *   P:<queue>:dlq        list  ids of dead letters, the oldest first
 *   P:<queue>:msg:<id>   hash  body (base64), attrs (JSON), rc, created_at_ms
 *   P:<queue>:receipt    hash  receipt -> id
 *   P:<queue>:inflight   zset  receipt -> when it is visible again, Unix ms
 *
 * and leat's own, which redowl does not look at:
 *
 *   P:<queue>:dlq_inflight   zset    the same for dead letters that leat has
 *   P:<queue>:lane:<lane>    string  the last call of a lane, with a TTL
 *   P:<queue>:whole          never is: see leat__queue_keys
 *
 * Channels P:<queue>:events, P:events.  An id and a receipt are 32 hexadecimal
 * digits; the receipts of a receive are its lane, its number and a count, so
 * that asking again finds them.
 *
 *        send               receive                 ack
 *   -----------> ready -----------------> inflight -----> done
 *                ^  ^ \ once too often     |
 *        redrive |  |  +--> dlq            | expired, given back
 *                |  +----------------------+
 *               dlq <--> dlq_inflight --> done
 *
 * A Go process does its steps command by command.  What it leaves when it dies
 * between two of them: a message without id in a list is nowhere (between HSET
 * and RPUSH, LPOP and ZADD), an id or a receipt without message is passed over.
 *
 * There is no record of a queue: every name is one, and the settings are each
 * handle's own.
 */
#include "base/system.h"
#include "base/utf8.h"
#include "message/codec.h"
#include "queue/profile.h"
#include "queue/redowl_pack.h"

#include <stdio.h>

enum { FLOOR_MS = 500, RANDOM = 16, KEY_REST = 24 };

_Static_assert(LEAT_REDOWL_PREFIX_MAX + LEAT_REDOWL_NAME_MAX + KEY_REST <=
                   LEAT__KEY_MAX,
               "a key of the longest names has room");

/* ---- names ------------------------------------------------------------ */

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static leat_code check_text(const char *what, const char *text, size_t max,
                            leat_error *err)
{
    size_t n = strlen(text);
    char quoted[80];
    bool fine = n > 0 && n <= max && !blank(text[0]) && !blank(text[n - 1]) &&
                leat__utf8_valid(leat_str(text));
    for (size_t i = 0; fine && i < n; i++)
        fine = (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
    if (fine)
        return LEAT_OK;
    leat__escape(quoted, sizeof quoted, text, n);
    return leat__fail(err, LEAT_EINVAL,
                      "%s '%s' of %zu bytes: of redowl use 1 to %zu bytes of "
                      "text, without blanks at its ends",
                      what, quoted, n, max);
}

static leat_code check_name(const char *name, leat_error *err)
{
    if (!*name)
        return leat__fail(err, LEAT_EINVAL, "no queue name was given");
    return check_text("queue name", name, LEAT_REDOWL_NAME_MAX, err);
}

static leat_code check_opts(const leat_queue_opts *o, leat_error *err)
{
    const struct {
        bool given;
        const char *name;
    } all[] = {
        { o->fifo, "fifo" },
        { o->content_dedup, "content_dedup" },
        { o->dedup_ms != 0, "dedup_ms" },
        { o->ttl_ms != 0, "ttl_ms" },
        { o->durable_events, "durable_events" },
        { o->dead_queue != NULL, "dead_queue" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given)
            return leat__fail(err, LEAT_ENOTSUP,
                              "%s is not for a queue that is shared with "
                              "redowl, which knows nothing of it",
                              all[i].name);
    return !o->prefix || !*o->prefix
               ? LEAT_OK
               : check_text("prefix", o->prefix, LEAT_REDOWL_PREFIX_MAX, err);
}

static leat_code check(const char *name, const leat_queue_opts *o,
                       leat_error *err)
{
    leat_code rc = check_opts(o, err);
    return rc == LEAT_OK && name ? check_name(name, err) : rc;
}

leat_code leat__queue_one_slot(const leat__key *home, const char *name,
                               leat_error *err)
{
    const char *open = memchr(home->p, '{', home->n);
    const char *end = open ? memchr(open, '}',
                                    home->n - (size_t)(open - home->p))
                           : NULL;
    if (end && end > open + 1)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "queue '%s': on a cluster the name of a redowl queue "
                      "needs a hash tag, so that its keys are in one slot: "
                      "'{%s}'",
                      name, name);
}

/* ---- keys, ids, receipts ---------------------------------------------- */

static void key(leat__key *k, const char *prefix, const char *name,
                const char *what)
{
    leat__key_put(k, "%s:%s:%s",
                  leat__profile_prefix(&leat__queue_redowl, prefix), name,
                  what);
}

static void home(leat__key *k, const char *prefix, const char *name)
{
    key(k, prefix, name, leat__queue_redowl.shard);
}

static leat_code new_id(leat__uuid7_gen *ids, char *out, leat_error *err)
{
    unsigned char r[RANDOM];
    (void)ids;
    leat_code rc = leat__random(r, sizeof r, err);
    for (size_t i = 0; rc == LEAT_OK && i < sizeof r; i++)
        snprintf(out + 2 * i, 3, "%02x", r[i]);
    return rc;
}

/* Ours and redowl's are 32 digits; others are the server's to know. */
static bool receipt(leat_bytes text, bool fifo, leat__receipt *out)
{
    const char *p = text.p;
    (void)fifo;
    *out = (leat__receipt){ .kind = 'v' };
    for (size_t i = 0; i < text.n && text.n <= LEAT_RECEIPT_MAX; i++)
        if (!blank(p[i]))
            return true;
    return false;
}

/* ---- hints ------------------------------------------------------------ */

/* Events begin by their type. */
static bool is(leat_bytes said, const char *type)
{
    char head[40];
    int n = snprintf(head, sizeof head, "{\"type\":\"%s\"", type);
    return said.n > (size_t)n && memcmp(said.p, head, (size_t)n) == 0;
}

static bool hears(leat_bytes said)
{
    return is(said, "sent") || is(said, "requeued") || is(said, "dlq_redriven");
}

static bool hears_dead(leat_bytes said)
{
    return is(said, "to_dlq");
}

const queue_profile leat__queue_redowl = {
    .prefix = "redowl",
    .shard = "inflight",
    .channel = "events",
    .dead_channel = "events",
    .hears = hears,
    .hears_dead = hears_dead,
    .floor_ms = FLOOR_MS,
    .max_message = LEAT__FIELD_MAX,
    .hide_max_ms = LEAT_REDOWL_VISIBILITY_MAX_MS,
    .hide_min_ms = -LEAT_REDOWL_VISIBILITY_MAX_MS,
    .check = check,
    .home = home,
    .key = key,
    .id = new_id,
    .check_send = leat__owl_check_send,
    .size = leat__owl_size,
    .pack = leat__owl_pack,
    .unpack = leat__owl_unpack,
    .receipt = receipt,
    .each = &leat__script_queue_owl_send,
    .take = &leat__script_queue_owl_take,
    .peek = &leat__script_queue_owl_peek,
    .ack = &leat__script_queue_owl_ack,
    .change = &leat__script_queue_owl_change,
    .expire = &leat__script_queue_owl_expire,
    .redrive = &leat__script_queue_owl_redrive,
    .drop = &leat__script_queue_owl_drop,
    .stats = &leat__script_queue_owl_stats,
};

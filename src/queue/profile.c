/*
 * profile.c: leat's own queues, and finding a profile.
 */
#include "queue/profile.h"
#include "base/system.h"
#include "queue/pack.h"

enum { FLOOR_MS = 5000 }; /* see lua/send.lua, too */

const queue_profile *leat__queue_profile(leat_queue_profile which)
{
    switch (which) {
    case LEAT_QUEUE_NATIVE:
        return &leat__queue_native;
    case LEAT_QUEUE_REDOWL:
        return &leat__queue_redowl;
    }
    return NULL;
}

/* ---- leat's own ------------------------------------------------------- */

static leat_code check(const char *name, const leat_queue_opts *o,
                       leat_error *err)
{
    leat_code rc = name ? leat__name_check("queue", name, err) : LEAT_OK;
    return rc == LEAT_OK ? leat__prefix_check(o->prefix, err) : rc;
}

static void home(leat__key *k, const char *prefix, const char *name)
{
    leat__key_shard(k, prefix, leat__queue_shard(name), "due");
}

static leat_code new_id(leat__uuid7_gen *ids, char *out, leat_error *err)
{
    leat__uuid u;
    leat_code rc = leat__uuid7_next(ids, &u, err);
    if (rc == LEAT_OK)
        leat__uuid_format(&u, out);
    return rc;
}

static leat_code pack(leat__buf *b, leat_fields *f, const leat_msg *m,
                      leat_error *err)
{
    leat_msg own = *m;
    if (own.time_ms == 0)
        own.time_ms = leat__date_ms();
    return leat__queue_pack(b, f, &own, err);
}

static leat_code unpack(leat_bytes member, leat_bytes value, bool fifo,
                        leat_fields *f, leat_queue_item *it, leat_error *err)
{
    leat__receipt r;
    if (!leat__receipt_parse(member, fifo, &r))
        return leat__fail(err, LEAT_EPROTO,
                          "the server gave a receipt that is none");
    it->group = r.group;
    it->receives = r.receives;
    it->sent_ms = r.sent_ms;
    leat_code rc = leat__queue_unpack(value, f, &it->msg, err);
    if (rc != LEAT_OK)
        it->msg = (leat_msg){ .id = r.id };
    return rc;
}

const queue_profile leat__queue_native = {
    .prefix = "leat",
    .kept = true,
    .channel = "ready",
    .dead_channel = "dead",
    .floor_ms = FLOOR_MS,
    .max_message = 1 << 20,
    .hide_max_ms = LEAT_VISIBILITY_MAX_MS,
    .check = check,
    .home = home,
    .key = leat__key_queue,
    .id = new_id,
    .pack = pack,
    .unpack = unpack,
    .receipt = leat__receipt_parse,
    .make = &leat__script_queue_make,
    .send = &leat__script_queue_send,
    .each = &leat__script_queue_send_each,
    .take = &leat__script_queue_take,
    .peek = &leat__script_queue_peek,
    .ack = &leat__script_queue_ack,
    .change = &leat__script_queue_change,
    .expire = &leat__script_queue_expire,
    .repair = &leat__script_queue_repair,
    .redrive = &leat__script_queue_redrive,
    .drop = &leat__script_queue_drop,
    .stats = &leat__script_queue_stats,
};

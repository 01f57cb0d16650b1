/*
 * keys.h: the names of all keys of a queue, and what a receipt says.
 *
 * A queue lives in shard s = crc16(name) mod 64.  Its keys and the indexes of
 * the shard share the tag {q/<s>}, so every step is one script on any topology:
 *
 *   P:{q/s}:<name>:conf     hash    settings, created, u; paused: since when;
 *                                   gone: being removed
 *   P:{q/s}:<name>:ready    list    entries, the next one at the head; of a
 *                                   fifo queue the groups to be served
 *   P:{q/s}:<name>:body     hash    id -> message, see pack.h
 *   P:{q/s}:<name>:dead     list    entries, the oldest first
 *   P:{q/s}:<name>:why      hash    id -> why it failed last, or is dead
 *   P:{q/s}:<name>:stat     hash    counters, see below
 *   P:{q/s}:<name>:log      stream  durable events
 *   P:{q/s}:<name>:g:<group>  list  fifo: entries of one group
 *   P:{q/s}:<name>:busy     hash    fifo: group -> id that is in flight
 *   P:{q/s}:<name>:dd:<u or created>:<dedup id>  string  until when, and the
 *                                   first id, with a TTL
 *   P:{q/s}:<name>:by:<id>  string  the nonce of the receipt by which one that
 *                                   was received again is done, with a TTL
 *   P:{q/s}:due             zset    deadlines of the shard's queues
 *   P:{q/s}:work            zset    queues with something to serve -> when it
 *                                   came, or they were served last
 *   P:{q/s}:queues          set     the shard's queues
 *   P:{q/s}:clock           string  the logical clock: see lua/base.lua
 *   P:{q/s}:s:<lane>        string  the last call of a lane: see call.c
 *   P:{q/s}:reaper          string  whose turn it is: see reaper.c
 *   P:{q/s}:whole           never is: see leat__queue_keys
 *
 * Channels: P:{q/s}:<name>:ready and :dead are hints that there is something;
 * P:work is one that a queue has come into a `work`; P:{q/s}:<name>:events and
 * P:events carry events.
 *
 * An entry is "<receives>/<sent ms>/<id>", of a fifo queue "<receives>/<sent
 * ms>/<length>/<group>/<id>": what is known of a message travels with it, so
 * that nothing but its body is kept under its id.  While it is in flight or
 * delayed it is part of a member of `due`, and a receipt is such a member:
 *
 *   v/<queue>/<entry>/<lane>.<number>   in flight, of this very receive
 *   x/<queue>/<entry>/<lane>.<number>   the same, from the dead letters
 *   d/<queue>/<entry>                   delayed; fifo: d/<queue>/<n>/<entry>
 *
 * A message with a body is in exactly one place: ready (or its group's list),
 * due, or dead.  The reaper finds one that an earlier version left in none: see
 * repair.lua, and search.lua for the keys `lost` and `lost:*` that it keeps
 * while it looks through a long queue.
 *
 *           send                  take                   ack
 *   ------------------> ready ------------> v in due ----------> done
 *    \  delay       ^    ^  |                 |  | change 0, expire
 *     +--> d in due-+    |  | too many,       |  +--> ready, at the head
 *             expire     |  | too old         | too many, reject
 *                        |  +--> dead, done   +--> dead
 *                        +------- redrive -------- dead <--> x in due --> done
 *
 * To settle is to remove the member: whoever comes late finds none, and deletes
 * nothing.  A fifo group that has entries and none in flight stands in ready
 * once, any other group does not.
 *
 * A name is no identity: `u`, 64 random bits, tells which queue of that name
 * it is, and where a queue of an earlier version has none, `created` does.
 * Removing, purging, redriving, altering, and a send that is asked again, name
 * the one they mean and leave another alone; what is received and settled is
 * known by its receipt.
 *
 * A crash of a client leaves messages in flight, which expire; of the server,
 * what its log holds, where a script is whole or not at all.
 *
 * Counters of stat: sent, recv, acked, back (left flight otherwise), requeued,
 * dead, expired, redriven, purged, lost (an entry without body); wait is until
 * when pools wait for one that failed; late is how many are delayed; drecv,
 * dacked, dback the same of dead letters.  In flight are recv - acked - back.
 */
#ifndef LEAT_QUEUE_KEYS_H
#define LEAT_QUEUE_KEYS_H

#include "message/name.h"
#include <leat/queue.h>

enum {
    LEAT__QUEUE_SHARDS = 64,
    LEAT__QUEUE_PREFIX_MAX = LEAT_REDOWL_PREFIX_MAX, /* of any profile */
    LEAT__QUEUE_NAME_MAX = LEAT_REDOWL_NAME_MAX,
    LEAT__GROUP_MAX = 128,
    LEAT__QUEUE_ID_MAX = 63,
    LEAT__QUEUE_NONCE = 17, /* 64 bits as text */
    LEAT__QUEUE_WHO = 24    /* an incarnation: 16 digits, or a time in ms */
};

unsigned leat__queue_shard(const char *name);

void leat__key_shard(leat__key *k, const char *prefix, unsigned shard,
                     const char *what);
void leat__key_queue(leat__key *k, const char *prefix, const char *name,
                     const char *what);

/* What a receipt says.  Views of it. */
typedef struct leat__receipt {
    char kind; /* 'v' or 'x' */
    leat_bytes queue, entry, group, id, nonce;
    uint32_t receives;
    int64_t sent_ms;
} leat__receipt;

/* False: it is none. */
bool leat__receipt_parse(leat_bytes text, bool fifo, leat__receipt *out);

#endif

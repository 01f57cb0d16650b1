/*
 * ledger.h: what was tried, promised and seen, written down to be counted.
 *
 * Each process of a chaos run appends records to a file of its own in one
 * directory; after the run the judge reads them all.  A record is one write(2)
 * with O_APPEND, so a kill -9 costs at most the record being written, never one
 * that was.  A producer writes ATTEMPT before each send and one of ACK, FAIL,
 * UNKNOWN after it; a consumer DELIVERY when it gets a message and EFFECT when
 * the effect is done.
 *
 * The words are those of Jepsen's total-queue:
 *
 *   attempted   ids with an attempt
 *   acked       of these, promised (Jepsen: acknowledged)
 *   unknown     without a promise, at least one attempt's outcome is not known
 *   delivered   ids seen at the other end (ok)
 *   lost        promised, never seen
 *   unexpected  seen, never attempted
 *   duplicated  sightings beyond the first: effects, or deliveries where the
 *               run wrote no effects
 *   reordered   of one key (0: no order), first seen after a later seq was; or
 *               handed out behind a later one under one fence of a place
 *   stuck       delivered without an effect, where the run wrote effects
 *   dishonest   seen though each of its attempts was reported as failed
 *
 * Where consumers own places by leases, a record names its place and fence, and
 * the judge is the fenced store that leat_delivery_fence speaks of: of a place
 * it takes no effect whose fence is below one it has taken.
 *
 *   fenced      effects refused so; each counts as a delivery
 *   shared      fences of a place that two processes worked under
 *
 * What may come twice follows from the records too.  A message is in flight
 * from its delivery until its settlement is saved (SETTLED), its place is given
 * up or lost (OWNER), or its process has ended in order (END).  The run writes
 * down whom it struck, and when (STRIKE); to lose a place that one had is a
 * blow as well.  What was in flight then and was never saved may come once
 * more, and nothing else.  Who gives a place up has saved what it had, or was
 * told LEAT_EUNKNOWN: else no blow is an excuse but one to its own process.
 *
 * Whoever takes a place writes down what is settled there (TAKEN).  A later
 * owner may repeat an effect only if a take since then did not know it: what
 * was saved and lost with a server is known by this, message by message.
 *
 *   bound       effects of what was in flight when it was struck: so many may
 *               come once more
 *   repeated    effects that came again though none of those allows it
 *
 * A run that has an operator writes down what that one allows: GONE, it may be
 * missing; AGAIN, it may come once more from here on; LATE, its place among
 * the others is not the consumers' doing.
 */
#ifndef SUPPORT_LEDGER_H
#define SUPPORT_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ledger_kind {
    LEDGER_ATTEMPT = 1,
    LEDGER_ACK,
    LEDGER_FAIL,
    LEDGER_UNKNOWN,
    LEDGER_DELIVERY,
    LEDGER_EFFECT,
    LEDGER_SETTLED, /* detail: leat_code, in its lowest 16 bits            */
    LEDGER_OWNER,   /* detail: leat_assign                                 */
    LEDGER_LOSS,    /* told: key-seq the first position, id-fence the last,
                       detail the count << 16 | partition + 1; for the
                       reader, not the judge                               */
    LEDGER_STRIKE,  /* id: the process, 0: all; fence to detail: since when
                       and until when, in ns; 0: for ever; seq 1: what was
                       saved meanwhile may be gone                         */
    LEDGER_END,     /* the process has ended in order                      */
    LEDGER_GONE,    /* key, seq and id of a message; likewise the next two */
    LEDGER_AGAIN,
    LEDGER_LATE,
    LEDGER_TAKEN, /* of this place under this fence: when it was taken, all
                     from key to seq was settled, both as of ledger_at       */
    LEDGER_KINDS_,
} ledger_kind;

/* As it is in the file, in the machine's byte order. */
typedef struct ledger_record {
    uint32_t magic;
    uint32_t kind;
    uint64_t key;    /* messages of one key keep their order; 0: none        */
    uint64_t seq;    /* of the producer, within the key                      */
    uint64_t id;     /* of the message                                       */
    uint64_t place;  /* what was owned, from 1; 0: nothing                */
    uint64_t fence;  /* under which lease; of an ACK: its position's ms   */
    uint64_t detail; /* attempt, or as the kind says; of an ACK: the rest */
                     /* of its position, seq << 16 | partition + 1; of an */
                     /* EFFECT at a place: ledger_at of its message; 0:   */
                     /* that did not come from the log                    */
    int64_t ns;      /* monotonic: one clock for all processes of a machine  */
    uint64_t sum;    /* of the above: a torn record is seen                  */
} ledger_record;

typedef struct ledger ledger;

/* Append to dir/role.pid.ledger.  NULL after saying why on stderr. */
ledger *ledger_open(const char *dir, const char *role);
void ledger_close(ledger *l); /* NULL is fine */

/* False if it could not be written whole: then do not go on with what it
 * announces.  Shared. */
bool ledger_add(ledger *l, ledger_kind kind, uint64_t key, uint64_t seq,
                uint64_t id);

/* The same of a record whose key to detail are filled in. */
bool ledger_write(ledger *l, ledger_kind kind, ledger_record r);

/* A position of a log as one number, in the same order. */
uint64_t ledger_at(uint64_t ms, uint64_t seq);

/* A number for a text: for keys and ids that are none. */
uint64_t ledger_hash(const void *p, size_t n);

typedef struct ledger_verdict {
    uint64_t attempted, acked, unknown, delivered;
    uint64_t lost, duplicated, reordered, stuck, unexpected, dishonest;
    uint64_t fenced, shared;
    uint64_t bound, repeated;
    uint64_t records, files;
    uint64_t torn; /* records cut by a kill; tolerated */
} ledger_verdict;

/* Read all ledgers of a directory and count.  False after saying why on
 * stderr.  Costs some sorts of 80 bytes per record.  expiring: consumers have a
 * message for a time, and who is told LEAT_ESTALE had it for longer: a blow. */
bool ledger_judge(const char *dir, bool expiring, ledger_verdict *out);

#endif

/*
 * group.h: one member's share in deciding who owns which partition.
 *
 * Pure code: no socket, no clock, no thread.  What the world says comes in by
 * calls with the time they happened, what is to be done goes out as actions.
 * The member's I/O (member.c) carries actions out against the server; the
 * simulator carries them out against a model.
 *
 * See group.c for the record, the plan and why it is safe.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_GROUP_H
#define LEAT_TOPIC_GROUP_H

#include "base/buf.h"
#include "base/error.h"
#include <leat/bytes.h>
#include <leat/topic.h>

typedef struct leat__group leat__group;

/* A member's identity: 128 random bits. */
typedef struct leat__nonce {
    uint8_t b[16];
} leat__nonce;

enum { LEAT__NONCE_TEXT = 32 }; /* lower-case hexadecimal */

void leat__nonce_format(const leat__nonce *n, char out[LEAT__NONCE_TEXT + 1]);
bool leat__nonce_parse(leat_bytes text, leat__nonce *out);

typedef struct leat__group_opts {
    leat__nonce self;
    const char *name; /* for people; copied                            */
    bool stable;      /* the name supersedes an earlier life of itself */
    uint32_t partitions;
    uint32_t cap;     /* owned at most; 0: no limit                    */
    int64_t lease_ns; /* TTL: silent for so long is dead               */
    int64_t drain_ns; /* then a draining partition is handed over all  */
                      /* the same: its deliveries become stale         */
} leat__group_opts;

leat__group *leat__group_new(const leat__group_opts *o, leat_error *err);
void leat__group_free(leat__group *g);

/* ---- what is to be done ----------------------------------------------- */

typedef enum leat__group_do {
    LEAT__GROUP_NOTHING = 0,
    LEAT__GROUP_BEAT,  /* write our record, read all: then beat_done        */
    LEAT__GROUP_TAKE,  /* compare-and-set the lease: then take_done         */
    LEAT__GROUP_DRAIN, /* hand out no more of it; call drained when nothing */
                       /* of it is out                                      */
    LEAT__GROUP_KEEP,  /* it stays ours after all: hand out of it again     */
    LEAT__GROUP_HAND,  /* hand out no more of it, drained or not, and give  */
                       /* the lease up, to `to` if not zero: hand_done      */
    LEAT__GROUP_DROP,  /* no longer ours: forget it at once (LOST)          */
    LEAT__GROUP_LEAVE, /* delete our record: we are through                 */
    LEAT__GROUP_BURY   /* delete the record of `other`, long dead, if its   */
                       /* text is still `record`                            */
} leat__group_do;

typedef struct leat__group_action {
    leat__group_do what;
    uint32_t partition;
    uint64_t epoch;    /* HAND: of our lease                              */
    leat__nonce from;  /* TAKE: take it also if this one, judged dead or  */
    bool from_dead;    /* superseded, has it or was promised it           */
    bool superseded;   /* TAKE: that one is, by a later life of its name  */
    leat__nonce to;    /* HAND: zero for nobody in particular             */
    leat__nonce other; /* BURY                                            */
    leat_bytes record; /* BEAT: ours, to be written; BURY; lives until    */
                       /* the next call                                   */
} leat__group_action;

/* The next thing to do now; NOTHING: not before leat__group_due, or until
 * something is told.  Each action is given once and is under way until it is
 * answered; several may be under way. */
leat__group_action leat__group_next(leat__group *g, int64_t now_ns);

/* When to call next again if nothing else happens. */
int64_t leat__group_due(const leat__group *g);

/* ---- what happened ---------------------------------------------------- */

/* The answer of a BEAT that was given out at sent_ns: the records of all
 * members, ours among them.  A record that cannot be read belongs to a newer
 * version and is a live member without partitions.  LEAT_ENOMEM leaves the view
 * as it was. */
typedef struct leat__group_record {
    leat__nonce nonce;
    leat_bytes text;
} leat__group_record;

leat_code leat__group_beat_done(leat__group *g, int64_t sent_ns, int64_t now_ns,
                                const leat__group_record *records, size_t n,
                                leat_error *err);

/* It failed, or nobody knows: try again soon. */
void leat__group_beat_failed(leat__group *g, int64_t now_ns);

/* The answer of a TAKE: taken with this epoch; or refused, since owner has it
 * (or it is promised to owner).  Failed: nobody knows. */
void leat__group_taken(leat__group *g, uint32_t p, uint64_t epoch,
                       int64_t now_ns);
void leat__group_take_refused(leat__group *g, uint32_t p,
                              const leat__nonce *owner, int64_t now_ns);
void leat__group_take_failed(leat__group *g, uint32_t p, int64_t now_ns);

/* The consumer has nothing of a draining partition out any more. */
void leat__group_drained(leat__group *g, uint32_t p, int64_t now_ns);

/* HAND: done, or it was not ours any more, or nobody knows (tried again). */
void leat__group_hand_done(leat__group *g, uint32_t p, int64_t now_ns);
void leat__group_hand_failed(leat__group *g, uint32_t p, int64_t now_ns);

/* The server refused our nonce and epoch: the partition is another's.  The
 * caller has forgotten it already; no DROP follows. */
void leat__group_fenced(leat__group *g, uint32_t p, uint64_t epoch,
                        int64_t now_ns);

/* Our lease is another from the next beat on, and that by which we judge. */
void leat__group_lease(leat__group *g, int64_t lease_ns, int64_t judge_ns);

/* Somebody said that the group changed: look soon. */
void leat__group_hint(leat__group *g, int64_t now_ns);

/* Stop: drain and hand over everything, then LEAVE. */
void leat__group_leave(leat__group *g, int64_t now_ns);

/* ---- what is the case ------------------------------------------------- */

/* Until when, on our clock, nobody can have judged us dead: the sending of the
 * last beat that was answered, plus the lease. */
int64_t leat__group_safe_until(const leat__group *g);

/* Ask for a beat now, also if none is due. */
void leat__group_beat_now(leat__group *g);

bool leat__group_owns(const leat__group *g, uint32_t p);
uint32_t leat__group_owned(const leat__group *g);
uint32_t leat__group_members(const leat__group *g); /* alive, with us */

/* ---- the pure heart: the balanced, sticky target ---------------------- */

/* A view of the group that every member computes alike.  owner[p] is an index
 * into the members, or -1.  quota[i] becomes how many partitions member i
 * should have: all are placed as far as caps allow, the most and the fewest
 * differ by at most one among those below their caps, and those who have more
 * already keep the odd ones. */
void leat__plan_quota(uint32_t partitions, const uint32_t *have,
                      const uint32_t *cap, size_t members, uint32_t *quota);

#endif

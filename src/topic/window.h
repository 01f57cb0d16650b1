/*
 * window.h: what of a partition is read and not yet behind the cursor.
 *
 * Pure code: no socket, no clock, no thread, no message memory of its own.
 *
 * The log is a line of entries with ascending ids.  The cursor is the id up to
 * which, and including it, everything is settled.  Behind it stands a ring of
 * entries, in the order of the log:
 *
 *     cursor | DONE OUT DONE WAITING(nacked) OUT OUT | WAITING WAITING ...
 *                                        read mark --^
 *
 * The read mark is the id up to which entries were handed out at least once.
 * State that must survive this process is written as text (see window.c) by
 * leat__window_save, and read back by leat__window_load in the next owner.
 *
 * A nacked or released entry stays in the ring and is handed out again from
 * there: the log is never read twice by one owner.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_WINDOW_H
#define LEAT_TOPIC_WINDOW_H

#include "base/buf.h"
#include "base/error.h"
#include "message/id.h"
#include <leat/source.h>
#include <leat/topic.h>

/* Out of the way of what every entry passes through. */
#define LEAT__COLD __attribute__((noinline, cold))

typedef enum leat__entry_state {
    LEAT__ENTRY_FREE = 0,
    LEAT__ENTRY_WAITING, /* not out; may have been                          */
    LEAT__ENTRY_OUT,
    LEAT__ENTRY_DONE
} leat__entry_state;

/* One entry of the ring.  `user` is the caller's (the message's memory). */
typedef struct leat__entry {
    leat__id id;
    uint64_t lane;     /* serial with its equals; 0: by itself              */
    uint32_t attempts; /* times handed out so far                           */
    uint8_t state;     /* leat__entry_state                                 */
    bool alone;        /* nothing else beside it                            */
    bool claimed;      /* OUT, but with no user                             */
    void *user;
} leat__entry;

typedef struct leat__window leat__window;

/* Room for cap entries at once (at least 1), allocated here. */
leat__window *leat__window_new(uint32_t cap, leat_order order, leat_error *err);
void leat__window_free(leat__window *w);

/* ---- life with an owner ----------------------------------------------- */

/* What the cursor key said when the lease was taken; the ring must be empty.
 * LEAT_EDECODE for text that is not ours. */
typedef struct leat__window_saved {
    leat__id cursor;
    leat__id mark;
    uint64_t count;      /* entries ever in the log up to the cursor, as far */
    bool count_known;    /* as known                                         */
    leat_bytes settled;  /* text of ranges behind the cursor                 */
    leat_bytes attempts; /* text of attempts that are not as expected        */
} leat__window_saved;

leat_code leat__window_load(leat__window *w, const leat__window_saved *saved,
                            leat_error *err);

/* Entries that may be read now: free places of the ring. */
uint32_t leat__window_room(const leat__window *w);

/* Where to read on: behind this id. */
leat__id leat__window_read_from(const leat__window *w);

/* The next entry of the log has been read; id is above read_from and there is
 * room.  NULL: it was settled before and needs nothing (its place is kept as
 * DONE until the cursor is over it): user stays the caller's, and when the
 * place leaves, NULL is given for it. */
leat__entry *leat__window_push(leat__window *w, leat__id id, uint64_t lane,
                               void *user);

/* The next entry that may be handed out, made OUT with its attempt counted, or
 * NULL: then there is none before a settlement or a push. */
leat__entry *leat__window_take(leat__window *w);

/* Would take give something? */
bool leat__window_ready(const leat__window *w);

/* An OUT entry is settled.  After done (acknowledged or rejected) its place is
 * freed by leat__window_pop. */
void leat__window_done(leat__window *w, leat__entry *e);

/* Handed back: of a lane it comes not before everything of that lane that is
 * out has come back, and then in order.  uncount: it was never begun, so the
 * attempt does not count. */
void leat__window_back(leat__window *w, leat__entry *e, bool uncount);

/* ---- taken out of the line --------------------------------------------- */

/* Entries that leave the ring by another way than a user's hands are claimed:
 * OUT, but with no attempt counted, until they are done. */
void leat__window_claim(leat__window *w, leat__entry *e);

/* The next of this lane that waits (KEY), or of all up to the id `last`
 * (PARTITION), claimed; NULL: no more.  Start with *at = 0, and claim them all:
 * nothing is left to hold the lane. */
leat__entry *leat__window_claim_lane(leat__window *w, uint64_t lane,
                                     uint64_t *at);
leat__entry *leat__window_claim_upto(leat__window *w, leat__id last,
                                     uint64_t *at);

/* KEY: how many of this lane users have. */
uint32_t leat__window_lane_out(const leat__window *w, uint64_t lane);

/* The next that is `alone` and not done; NULL: no more.  As above. */
leat__entry *leat__window_suspect(leat__window *w, uint64_t *at);

/* How many there are. */
uint32_t leat__window_suspects(const leat__window *w);

/* What take would look at: the entry that comes next, whether or not it may go
 * beside what is out; NULL: none does. */
const leat__entry *leat__window_peek(const leat__window *w);

/* Move the cursor over what is done.  Returns the `user` of each entry that
 * leaves, one a call; false: no more. */
bool leat__window_pop(leat__window *w, void **user);

/* Empty the ring, whatever the states: the `user` of each, one a call; false:
 * no more.  From the first call on the window is only good for a load. */
bool leat__window_clear(leat__window *w, void **user);

/* ---- what must be known to the next owner ----------------------------- */

/* Something changed since the last save (`mark`: something was handed out that
 * no saved state tells of). */
bool leat__window_dirty(const leat__window *w);
bool leat__window_unmarked(const leat__window *w);

/* Append the texts of what to keep; the views in *out point into buf, whose
 * capacity is reused.  Clears dirty and unmarked. */
leat_code leat__window_save(leat__window *w, leat__buf *buf,
                            leat__window_saved *out, leat_error *err);

/* The save was not taken by the server: everything is dirty again. */
void leat__window_unsaved(leat__window *w);

uint32_t leat__window_count(const leat__window *w); /* in the ring           */
uint32_t leat__window_out(const leat__window *w);   /* OUT                   */
leat__id leat__window_cursor(const leat__window *w);

/* Entries ever in the log up to the cursor; false: not known. */
bool leat__window_passed(const leat__window *w, uint64_t *count);

/* So many behind it were in the log and will not be read: they count as passed
 * from now on. */
void leat__window_skip(leat__window *w, uint64_t count);

#endif

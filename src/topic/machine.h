/*
 * machine.h: the inside of a member's share in its group: group.c does, share.c
 * says what should be had.
 */
#ifndef LEAT_TOPIC_MACHINE_H
#define LEAT_TOPIC_MACHINE_H

#include "topic/plan.h"
#include "topic/view.h"

#include <assert.h>

enum {
    TAKES_AT_ONCE = 256,  /* under way                                     */
    REFUSED_AT_ONCE = 64, /* tried again after one look, in turn           */
    FREE_FOR = 3,         /* plans, then a lost TAKE is tried again,       */
    FREE_FOR_LONG = 30,   /* and once more if it was answered since        */
    UNCLAIMED = 4,        /* beats and leases without a claim: it does not */
                          /* know                                          */
    BURY_AT_ONCE = 16,
    BURY_AFTER = 4, /* leases                                              */
    NAME_ROOM = 4 * LEAT_NAME_MAX + 1
};

#define MS       ((int64_t)1000000)
#define LONG_AGO (INT64_MIN / 4)

enum state { NONE, TAKING, OWNED, DRAINING, HANDING };

enum {
    BUSY = 1,      /* an action of it is under way                           */
    DRAINED = 2,   /* nothing of it is out                                   */
    DOUBT = 4,     /* a TAKE was lost: it may be ours without our knowing    */
    NOTED = 8,     /* there is a note of it                                  */
    ANSWERED = 16, /* DOUBT, but one after it was answered                  */
    HAD = 32       /* it was ours, once                                     */
};

struct part {
    uint32_t ref; /* none: who is dead and has it, index in view + 1;      */
                  /* taking: index in taking; owned and later: in own      */
    uint8_t state, flags, todo;
    uint8_t idle; /* plans in which it was free, with DOUBT                */
};

struct own {
    uint32_t partition;
    uint64_t epoch;
    int64_t drain_ns; /* when draining is over                             */
};

struct taking {
    uint32_t partition;
    int64_t sent_ns;
};

struct note { /* who refused us */
    uint32_t partition;
    leat__nonce owner;
    uint64_t beat; /* its last, as we knew it then */
    int64_t since_ns;
};

struct bits {
    uint64_t *w;
    uint32_t count, at;
};

struct leat__group {
    leat__group_opts o;
    char name[NAME_ROOM];
    leat__view view;

    struct part *part;
    struct own *own;
    size_t own_n, own_cap;
    struct note *note;
    size_t note_n, note_cap;
    size_t turn; /* of the notes, see REFUSED_AT_ONCE                      */
    struct bits todo, take; /* partitions with something to be given out   */
    uint32_t words;
    struct taking taking[TAKES_AT_ONCE];
    size_t takes; /* under way */
    size_t hands;
    int64_t drain_ns; /* the first drain that is over, or INT64_MAX  */
    leat__peer *bury[BURY_AT_ONCE];
    size_t bury_n;

    leat__buf record, claims;
    bool claims_stale;
    uint64_t beat, born;
    bool registered; /* our record was in the last answer                  */
    bool beating;    /* a BEAT is under way                                */
    bool dirty;      /* our record says less than is the case              */
    bool hinted, asked, failed;
    bool restless;   /* something of ours is not done                      */
    bool replan;     /* also if the next look shows nothing new            */
    int64_t sent_ns; /* of the last BEAT, answered or not                  */
    int64_t retry_ns;
    int64_t safe_ns; /* sending of the last BEAT that counted              */
    int64_t now_ns;  /* as last told                                       */
    uint32_t members;
    bool sure; /* all who share were seen to live */

    bool leaving, superseded, out;
    int64_t leave_ns; /* then we go, whatever is left                      */
    size_t tidied;    /* of the view, for records of our earlier lives     */
};

/* ---- bits ------------------------------------------------------------- */

static inline void bit_set(struct bits *b, uint32_t i)
{
    uint64_t m = UINT64_C(1) << (i % 64);
    b->count += (b->w[i / 64] & m) == 0;
    b->w[i / 64] |= m;
}

static inline void bit_clear(struct bits *b, uint32_t i)
{
    uint64_t m = UINT64_C(1) << (i % 64);
    b->count -= (b->w[i / 64] & m) != 0;
    b->w[i / 64] &= ~m;
}

/* Take the next one out, in turn; there is one. */
static inline uint32_t bit_take(struct bits *b, uint32_t words)
{
    assert(b->count > 0);
    while (b->w[b->at] == 0)
        b->at = (b->at + 1) % words;
    uint32_t i = b->at * 64 + (uint32_t)__builtin_ctzll(b->w[b->at]);
    bit_clear(b, i);
    return i;
}

static inline void bit_none(struct bits *b, uint32_t words)
{
    memset(b->w, 0, words * sizeof *b->w);
    b->count = b->at = 0;
}

/* ---- owning ----------------------------------------------------------- */

static inline struct own *own_of(leat__group *g, uint32_t p)
{
    return &g->own[g->part[p].ref];
}

static inline bool owned(const struct part *x)
{
    return x->state >= OWNED;
}

static inline void to_do(leat__group *g, uint32_t p, leat__group_do what)
{
    g->part[p].todo = (uint8_t)what;
    bit_set(&g->todo, p);
}

/* Whom a look shows as what. */
static inline bool is_self(const leat__group *g, const leat__peer *p)
{
    return leat__nonce_compare(&p->nonce, &g->o.self) == 0;
}

static inline bool has_share(const leat__peer *p)
{
    return p->text.n > 0 && p->readable && !p->rec.leaving && !p->silent &&
           !leat__peer_gone(p);
}

/* ---- share.c ---------------------------------------------------------- */

/* Room for making a plan, in one piece: owner, have, cap, quota. */
struct leat__share_room {
    int32_t *owner;
    uint32_t *have, *cap, *quota;
};

leat_code leat__share_prepare(struct leat__share_room *r, uint32_t partitions,
                              size_t members, leat_error *err);

/* Plan anew from what the view shows: what is to be given out is set to what
 * the plan says. */
void leat__share_plan(leat__group *g, struct leat__share_room *r);

/* Give one up: drain it, or hand it over if it has drained. */
void leat__share_give(leat__group *g, uint32_t p);

#endif

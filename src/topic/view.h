/*
 * view.h: what one member knows of the others, and whom it judges dead.
 *
 * See view.c for how it judges.
 */
#ifndef LEAT_TOPIC_VIEW_H
#define LEAT_TOPIC_VIEW_H

#include "topic/record.h"

typedef struct leat__peer {
    leat__nonce nonce;
    leat__buf text;   /* its record; empty: known only as owner of a lease  */
    leat__record rec; /* into text                                          */
    bool readable;
    bool looked;      /* it was in the last look                             */
    bool proven;      /* we saw it change, or come */
    bool silent;      /* it has not changed for half a lease */
    bool dead;        /* its record did not change for too long              */
    bool superseded;  /* a later life of its name is there                   */
    int64_t seen_ns;  /* since when we see this text and miss no look; of    */
                      /* an owner without a record: since it was named       */
    int64_t gone_ns;  /* since when it is dead or superseded                 */
    int64_t named_ns; /* when it was last named as an owner                 */
} leat__peer;

typedef struct leat__view {
    leat__nonce self;
    int64_t lease_ns;
    leat__peer **peers; /* all, ours too, by nonce                          */
    size_t n, cap;
    size_t waiting;    /* behind these n: owners named since the last look */
    leat__peer **last; /* those of the last look, in its order             */
    size_t last_n, last_cap;
    leat__peer **names; /* for finding who is superseded                    */
    size_t names_cap;
    bool looked; /* at least once                                    */
    int64_t sent_ns, answered_ns; /* of the last look                       */
    int64_t suspect_ns; /* when the most silent one will be dead, if it is  */
                        /* silent for long enough to be worth a look then;  */
                        /* else INT64_MAX                                   */
} leat__view;

/* How long the text must stay the same: the lease and the time between two
 * beats, so that a pause shorter than the lease kills nobody. */
static inline int64_t leat__view_silence(const leat__view *v)
{
    return v->lease_ns + v->lease_ns / 6;
}

static inline bool leat__peer_gone(const leat__peer *p)
{
    return p->dead || p->superseded;
}

int leat__nonce_compare(const leat__nonce *a, const leat__nonce *b);

void leat__view_release(leat__view *v);

/* Its index in peers; SIZE_MAX: not known. */
size_t leat__view_find(const leat__view *v, const leat__nonce *nonce);

/* All records, read by a beat.  *changed: anything but counters.  LEAT_ENOMEM
 * leaves all as it was. */
leat_code leat__view_look(leat__view *v, int64_t sent_ns, int64_t now_ns,
                          const leat__group_record *records, size_t n,
                          bool *changed, leat_error *err);

/* An owner of a lease: if it is in no record, watch it from now on.  Without
 * memory it is not watched until it is named again. */
void leat__view_named(leat__view *v, const leat__nonce *owner, int64_t now_ns);

#endif

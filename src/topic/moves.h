/*
 * moves.h: the steps by which messages of a partition change their place.
 *
 * A step is made when a message fails, waits behind one that did, or is handed
 * out and settled from where it was kept.  It waits in a line, gets a number
 * when a save first carries it, and is carried by every save from then on until
 * one that did is answered: see move.lua.
 * Threads: confined.
 */
#ifndef LEAT_TOPIC_MOVES_H
#define LEAT_TOPIC_MOVES_H

#include "base/buf.h"
#include "topic/blocks.h"
#include "topic/window.h"

enum {
    LEAT__MOVE_MAX = 100,  /* steps that one save carries                  */
    LEAT__STEP_ARGS = 8,   /* of the script, for each                      */
    LEAT__ERROR_MAX = 255, /* bytes of an error that are kept              */
};

typedef enum leat__step_what {
    LEAT__STEP_KEEP = 0,
    LEAT__STEP_BEGIN,
    LEAT__STEP_DONE,
    LEAT__STEP_DEAD,
    LEAT__STEP_AGAIN
} leat__step_what;

typedef struct leat__step leat__step;

struct leat__step {
    leat__step *next;
    uint64_t number; /* 0: no save has carried it                           */
    leat__step_what what;
    int why;      /* dead: a leat__dead, for who counts                     */
    bool failure; /* keep: because it failed, not behind another            */
    leat__id id;
    uint32_t n, f; /* times handed out, failures told                       */
    int64_t delay_ms;
    uint64_t lane;
    leat__entry *entry;    /* its place in the window, while it has one      */
    struct handed *handed; /* whose settlement it is, until it is carried    */
    struct leat__kept
        *kept;       /* or NULL                                        */
    leat__buf extra; /* dead, again: names and values, packed          */
    char error[LEAT__ERROR_MAX + 1];
};

/* Zero-initialised is empty. */
typedef struct leat__moves {
    leat__step *first, *last; /* those with a number are the first ones      */
    leat__step *ready;        /* the first without                           */
    uint32_t numbered, waiting;
    uint64_t number; /* the last one given                                   */
    uint64_t known;  /* all up to this are known to be carried out           */
} leat__moves;

void leat__step_free(leat__step *s);

/* At the end of the line. */
void leat__moves_add(leat__moves *m, leat__step *s);

/* Give the next step its number; NULL: there is none, or no room. */
leat__step *leat__moves_number(leat__moves *m);

/* A save that carried the steps up to this number was answered: each of them,
 * one a call, out of the line; NULL: no more. */
leat__step *leat__moves_confirmed(leat__moves *m, uint64_t upto);

/* Take any step out, whatever is known of it; NULL: there is none. */
leat__step *leat__moves_drop(leat__moves *m);

/* Something may be carried that is not. */
static inline bool leat__moves_ready(const leat__moves *m)
{
    return m->ready && m->numbered < LEAT__MOVE_MAX;
}

/* The lanes that the numbered steps touch, then their arguments, to args, which
 * has room for 1 + LEAT__MOVE_MAX * LEAT__STEP_ARGS.  How many; 0: no
 * memory. */
size_t leat__moves_write(const leat__moves *m, leat__buf *text,
                         leat_bytes *args, leat_error *err);

#endif

/*
 * name.h: what may be the name of a topic, a group, a queue or a prefix, and
 * the room that a key made of them needs.
 */
#ifndef LEAT_MESSAGE_NAME_H
#define LEAT_MESSAGE_NAME_H

#include "base/error.h"
#include "base/log.h"
#include <leat/message.h>

enum {
    LEAT__PREFIX_MAX = 32,
    LEAT__KEY_MAX = 704 /* two names, or a redowl queue's name and prefix */
};

typedef struct leat__key {
    size_t n;
    char p[LEAT__KEY_MAX];
} leat__key;

static inline leat_bytes leat__key_bytes(const leat__key *k)
{
    return leat_mem(k->p, k->n);
}

/* The key's text; names in it were checked, so it has room. */
void leat__key_put(leat__key *k, const char *fmt, ...) LEAT_PRINTF(2, 3);

/* LEAT_EINVAL, quoting the name escaped; what is "topic", "group", ... */
leat_code leat__name_check(const char *what, const char *name, leat_error *err);

/* Could these bytes, which somebody else may have written, be a name? */
bool leat__name_is(leat_bytes name);

/* Those of a registry that are none are passed over, and told once. */
typedef struct leat__junk {
    uint64_t count;
    char first[48]; /* escaped */
} leat__junk;
void leat__junk_note(leat__junk *j, leat_bytes member);
void leat__junk_tell(const leat__junk *j, const char *registry,
                     const leat_logger *log);

/* The same for a prefix, which is shorter and may be NULL or empty. */
leat_code leat__prefix_check(const char *prefix, leat_error *err);

/* NULL or empty is "leat". */
const char *leat__prefix_of(const char *prefix);

#endif

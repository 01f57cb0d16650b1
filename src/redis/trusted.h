/*
 * trusted.h: can somebody else put another directory in the place of this one?
 */
#ifndef LEAT_REDIS_TRUSTED_H
#define LEAT_REDIS_TRUSTED_H

#include <leat/error.h>

/* Look at all directories above dir, an absolute path that is there.
 * LEAT_EAUTH names the one that others can change. */
leat_code leat__trusted_way(const char *dir, leat_error *err);

#endif

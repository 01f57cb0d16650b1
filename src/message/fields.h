/*
 * fields.h: several entries in one leat_fields, for readers of batches.
 */
#ifndef LEAT_MESSAGE_FIELDS_H
#define LEAT_MESSAGE_FIELDS_H

#include <leat/message.h>

/* Begin another entry, of that many fields: the fields are forgotten, but
 * unlike after a clear, what was decoded from them stays valid. */
leat_code leat__fields_next(leat_fields *f, size_t count, leat_error *err);

/* The same, and they are there, to be filled in: name, value, name, ...  NULL:
 * no memory. */
leat_bytes *leat__fields_begin(leat_fields *f, size_t count, leat_error *err);

#endif

/*
 * message.h: the envelope, and the codecs that turn it into stream fields.
 *
 * A leat_msg is an open struct of borrowed bytes: fill what you have, zero is
 * "not given".  Its shape is that of a CloudEvent, so that every codec maps
 * onto it.
 *
 * A codec is a public table.  It turns messages into the fields of one Redis
 * stream entry and back; register nothing, pass the table where one is asked
 * for.
 */
#ifndef LEAT_MESSAGE_H
#define LEAT_MESSAGE_H

#include <leat/bytes.h>
#include <leat/error.h>

LEAT_BEGIN

/* Topics, groups, queues and prefixes are named by letters, digits, '.', '_',
 * '-'. */
enum { LEAT_NAME_MAX = 200 };

/* Headers of a message that is published, sent or edited; LEAT_ETOOBIG beyond.
 * What leat itself adds comes on top.  A message of another program that has
 * more is received whole, and is retried, moved and replayed with them. */
enum { LEAT_HEADERS_MAX = 1000 };

typedef struct leat_header {
    leat_bytes name;
    leat_bytes value;
} leat_header;

typedef struct leat_msg {
    leat_bytes id;  /* empty: a UUIDv7 is made when it is sent    */
    leat_bytes key; /* order and partition                        */
    leat_bytes type;
    leat_bytes source;
    leat_bytes subject;
    leat_bytes content_type;
    int64_t time_ms;            /* since 1970; 0: now, when it is sent        */
    const leat_header *headers; /* in order, names may repeat              */
    size_t header_count;
    leat_bytes body;
} leat_msg;

/* The value of the first header of that name, compared as bytes; p is NULL
 * when there is none. */
LEAT_API leat_bytes leat_msg_header(const leat_msg *m, const char *name);

/* A deep copy in one allocation, freed by leat_msg_free; NULL: no memory. */
LEAT_API leat_msg *leat_msg_copy(const leat_msg *m, leat_error *err);
LEAT_API void leat_msg_free(leat_msg *m);

/* ---- fields of an entry ----------------------------------------------- */

/* The fields of one stream entry and the memory its made-up parts live in.
 * Reused from entry to entry: after a warm-up nothing is allocated. */
typedef struct leat_fields leat_fields;

LEAT_API leat_fields *leat_fields_new(leat_error *err);
LEAT_API void leat_fields_free(leat_fields *f);

/* Forget fields and scratch memory; the capacity stays. */
LEAT_API void leat_fields_clear(leat_fields *f);

/* Append one field; name and value are borrowed. */
LEAT_API leat_code leat_fields_add(leat_fields *f, leat_bytes name,
                                   leat_bytes value, leat_error *err);

/* Memory that lives until the next clear; NULL: no memory. */
LEAT_API void *leat_fields_alloc(leat_fields *f, size_t n, leat_error *err);

/* name, value, name, value, ...: 2 * leat_fields_count of them, ready to be
 * the tail of an XADD. */
LEAT_API const leat_bytes *leat_fields_pairs(const leat_fields *f);
LEAT_API size_t leat_fields_count(const leat_fields *f);

/* The value of the first field of that name; p is NULL when there is none. */
LEAT_API leat_bytes leat_fields_get(const leat_fields *f, const char *name);

/* ---- codecs ----------------------------------------------------------- */

typedef struct leat_codec leat_codec;
struct leat_codec {
    const char *name;
    size_t max_batch; /* messages one entry can carry, at least 1 */
    void *arg;

    /* Append the fields of n messages, 1 <= n <= max_batch, to out; a missing
     * id or time was filled in by the caller.  LEAT_ETOOBIG or LEAT_EINVAL for
     * what cannot be carried; nothing is ever cut. */
    leat_code (*encode)(const leat_codec *c, const leat_msg *m, size_t n,
                        leat_fields *out, leat_error *err);

    /* Set *m and *n to the messages in these fields.  They and what they
     * point to live in `in` (its fields or its scratch memory) until its next
     * clear.  LEAT_EDECODE for bytes that are not such an entry: the caller
     * keeps the raw fields. */
    leat_code (*decode)(const leat_codec *c, leat_fields *in,
                        const leat_msg **m, size_t *n, leat_error *err);
};

/* leat's own: at most three short fields, packed attributes, CRC32C, batches.
 * Carries any bytes. */
LEAT_API extern const leat_codec leat_codec_native;

/* CloudEvents 1.0, readable: ce_* fields and the body as it is.  An event is
 * text but for its body and headers: LEAT_EINVAL for an id, key, type, source,
 * subject or content type that is not.  An event has a source and a type: a
 * message without arrives with "/leat" and "leat.message".  Reads structured
 * entries as well. */
LEAT_API extern const leat_codec leat_codec_ce_binary;

/* CloudEvents 1.0, one JSON document of at most 16 MiB, or a batch in one.  The
 * body comes back byte for byte.  Reads entries of ce_* fields as well. */
LEAT_API extern const leat_codec leat_codec_ce_json;

/* One of the codecs above by name ("native", "ce", "ce-json"); NULL: none. */
LEAT_API const leat_codec *leat_codec_find(const char *name);

LEAT_END
#endif

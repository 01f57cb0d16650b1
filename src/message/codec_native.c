/*
 * codec_native.c: leat's own entry format.
 *
 * An entry has up to three fields, each left out when it would be empty:
 *
 *   k   the key                                (never in a batch)
 *   a   the packed attributes, always there
 *   b   the body; in a batch all bodies, back to back
 *
 * Field a:
 *
 *   0     version, 1
 *   1..4  CRC32C, little endian, of k, a[5..] and b, in that order
 *   5     flags: bit 0, a batch; the others are 0
 *   6..   one message: its tags, to the end of the field
 *         a batch: varint count (2 to 4096), then for each message its tags
 *         and an END
 *
 * A tag is one byte, its value follows.  Tags rise within a message, so none
 * repeats; one that is not given is left out, so no length is 0.
 *
 *   0     END      nothing                       (only in a batch)
 *   1     id       varint length, bytes
 *   2     id       16 bytes: a UUID whose text is lower case and canonical
 *   3     type     varint length, bytes
 *   4     source   varint length, bytes
 *   5     subject  varint length, bytes
 *   6     content  varint length, bytes: the content type
 *   7     time     8 bytes, little endian, signed: milliseconds since 1970
 *   8     headers  varint count, then name and value of each: varint length,
 *                  bytes; these lengths may be 0
 *   9     key      varint length, bytes          (only in a batch)
 *   10    body     varint length of its part of b   (only in a batch)
 *   128.. optional: varint length, bytes; a reader that does not know the tag
 *         skips it.  An unknown tag below 128 is an error.
 *
 * A varint has 7 bits a byte, lowest first, the top bit says that more follow;
 * it is as short as can be.  Whatever deviates, or is left over, is refused:
 * there is one way to write a message, and a damaged entry is never half read.
 */
#include "base/crc32c.h"
#include "message/codec.h"
#include "message/uuid_pack.h"

#include <assert.h>
#include <endian.h>

enum {
    VERSION = 1,
    BATCH = 1, /* the flag */
    CRC_AT = 1,
    FLAGS_AT = 5,
    HEAD = 6,
    MAX_BATCH = 4096,
    VARINT_MAX = 10
};

enum tag {
    END,
    ID,
    ID_UUID,
    TYPE,
    SOURCE,
    SUBJECT,
    CONTENT,
    TIME,
    HEADERS,
    KEY,
    BODY,
    OPTIONAL = 128
};

static const char *const tag_names[] = {
    "end",     "id",   "id",      "type", "source", "subject",
    "content", "time", "headers", "key",  "body",
};

static const char *tag_name(unsigned tag)
{
    return tag < sizeof tag_names / sizeof tag_names[0] ? tag_names[tag]
                                                        : "optional";
}

/* ---- the checksum ----------------------------------------------------- */

/* Field a stands between the others, so no byte can move from the key to the
 * body unseen. */
static uint32_t checksum(leat_bytes k, leat_bytes a, leat_bytes b)
{
    const unsigned char *p = a.p;
    uint32_t crc = k.n > 0 ? leat__crc32c(0, k.p, k.n) : 0;
    crc = leat__crc32c(crc, p + FLAGS_AT, a.n - FLAGS_AT);
    return b.n > 0 ? leat__crc32c(crc, b.p, b.n) : crc;
}

/* ---- encoding --------------------------------------------------------- */

/* At most so many bytes of field a does this message need, its key included;
 * anything over the limit if a part of it is.  The lengths are looked at
 * together, because this is done for every message. */
static uint64_t room_for(const leat_msg *m)
{
    enum { TAGS = 10, TAG_MAX = 1 + VARINT_MAX, OVER = LEAT__FIELD_MAX + 1 };
    uint64_t sum = TAGS * TAG_MAX + m->id.n + m->type.n + m->source.n +
                   m->subject.n + m->content_type.n + m->key.n;

    if ((m->id.n | m->type.n | m->source.n | m->subject.n | m->content_type.n |
         m->key.n) >= OVER)
        return OVER;
    for (size_t i = 0; i < m->header_count && sum < OVER; i++) {
        leat_bytes name = m->headers[i].name, value = m->headers[i].value;
        if ((name.n | value.n) >= OVER)
            return OVER;
        sum += name.n + value.n + 2 * VARINT_MAX;
    }
    return sum;
}

static unsigned char *put_varint(unsigned char *p, uint64_t v)
{
    while (v >= 128) {
        *p++ = (unsigned char)(v | 128);
        v >>= 7;
    }
    *p++ = (unsigned char)v;
    return p;
}

static unsigned char *put_bytes(unsigned char *p, leat_bytes b)
{
    p = put_varint(p, b.n);
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    return p + b.n;
}

static unsigned char *put_tag(unsigned char *p, enum tag tag, leat_bytes b)
{
    if (b.n == 0)
        return p;
    *p++ = (unsigned char)tag;
    return put_bytes(p, b);
}

static unsigned char *put_id(unsigned char *p, leat_bytes id)
{
    if (!leat__uuid_pack(id, p + 1))
        return put_tag(p, ID, id);
    *p = ID_UUID;
    return p + 1 + LEAT__UUID_BYTES;
}

static unsigned char *put_time(unsigned char *p, int64_t ms)
{
    if (ms == 0)
        return p;
    uint64_t word = htole64((uint64_t)ms);
    *p++ = TIME;
    memcpy(p, &word, sizeof word);
    return p + sizeof word;
}

static unsigned char *put_headers(unsigned char *p, const leat_msg *m)
{
    if (m->header_count == 0)
        return p;
    *p++ = HEADERS;
    p = put_varint(p, m->header_count);
    for (size_t i = 0; i < m->header_count; i++) {
        p = put_bytes(p, m->headers[i].name);
        p = put_bytes(p, m->headers[i].value);
    }
    return p;
}

/* uuid, if given, is the message's id, ready to be written. */
static unsigned char *put_message(unsigned char *p, const leat_msg *m,
                                  const unsigned char *uuid)
{
    if (uuid) {
        *p++ = ID_UUID;
        memcpy(p, uuid, LEAT__UUID_BYTES);
        p += LEAT__UUID_BYTES;
    } else {
        p = put_id(p, m->id);
    }
    p = put_tag(p, TYPE, m->type);
    p = put_tag(p, SOURCE, m->source);
    p = put_tag(p, SUBJECT, m->subject);
    p = put_tag(p, CONTENT, m->content_type);
    p = put_time(p, m->time_ms);
    return put_headers(p, m);
}

static unsigned char *put_batch(unsigned char *p, const leat_msg *m, size_t n)
{
    p = put_varint(p, n);
    for (size_t i = 0; i < n; i++) {
        p = put_message(p, &m[i], NULL);
        p = put_tag(p, KEY, m[i].key);
        if (m[i].body.n > 0) {
            *p++ = BODY;
            p = put_varint(p, m[i].body.n);
        }
        *p++ = END;
    }
    return p;
}

/* Sizes are looked at before anything is allocated or read. */
static leat_code measure(const leat_codec *c, const leat_msg *m, size_t n,
                         size_t *attributes, size_t *bodies, leat_error *err)
{
    *attributes = HEAD + VARINT_MAX + LEAT__UUID_BYTES;
    *bodies = 0;
    for (size_t i = 0;
         i < n && *attributes <= LEAT__FIELD_MAX && *bodies <= LEAT__FIELD_MAX;
         i++) {
        size_t body = m[i].body.n;
        *attributes += (size_t)room_for(&m[i]);
        *bodies += body <= LEAT__FIELD_MAX ? body : LEAT__FIELD_MAX + 1u;
    }
    leat_code rc = leat__codec_check_size(c, "a", *attributes, err);
    return rc == LEAT_OK ? leat__codec_check_size(c, "b", *bodies, err) : rc;
}

/* All bodies back to back; a single one is borrowed as it is. */
static leat_code join_bodies(const leat_msg *m, size_t n, size_t size,
                             leat_fields *out, leat_bytes *b, leat_error *err)
{
    *b = m->body;
    if (n == 1 || size == 0) {
        b->n = size;
        return LEAT_OK;
    }
    char *p = leat_fields_alloc(out, size, err);
    if (!p)
        return LEAT_ENOMEM;
    *b = leat_mem(p, size);
    for (size_t i = 0; i < n; i++) {
        if (m[i].body.n > 0)
            memcpy(p, m[i].body.p, m[i].body.n);
        p += m[i].body.n;
    }
    return LEAT_OK;
}

static leat_code add_fields(leat_fields *out, leat_bytes k, leat_bytes a,
                            leat_bytes b, leat_error *err)
{
    leat_code rc = LEAT_OK;
    if (k.n > 0)
        rc = leat_fields_add(out, leat_mem("k", 1), k, err);
    if (rc == LEAT_OK)
        rc = leat_fields_add(out, leat_mem("a", 1), a, err);
    if (rc == LEAT_OK && b.n > 0)
        rc = leat_fields_add(out, leat_mem("b", 1), b, err);
    return rc;
}

static leat_code put_entry(const leat_codec *c, const leat_msg *m, size_t n,
                           const unsigned char *uuid, leat_fields *out,
                           leat_error *err)
{
    size_t room, bodies;
    leat_bytes k = { 0 }, b;
    leat_code rc = leat__codec_check_count(c, n, err);
    if (rc == LEAT_OK)
        rc = measure(c, m, n, &room, &bodies, err);
    if (rc == LEAT_OK)
        rc = join_bodies(m, n, bodies, out, &b, err);
    if (rc != LEAT_OK)
        return rc;

    unsigned char *p = leat_fields_alloc(out, room, err), *end;
    if (!p)
        return LEAT_ENOMEM;
    p[0] = VERSION;
    p[FLAGS_AT] = n > 1 ? BATCH : 0;
    if (n == 1) {
        k = m->key;
        end = put_message(p + HEAD, m, uuid);
    } else {
        end = put_batch(p + HEAD, m, n);
    }
    leat_bytes a = leat_mem(p, (size_t)(end - p));
    uint32_t crc = htole32(checksum(k, a, b));
    memcpy(p + CRC_AT, &crc, sizeof crc);
    return add_fields(out, k, a, b, err);
}

static leat_code encode(const leat_codec *c, const leat_msg *m, size_t n,
                        leat_fields *out, leat_error *err)
{
    return put_entry(c, m, n, NULL, out, err);
}

leat_code leat__native_encode(const leat_msg *m, const unsigned char *uuid,
                              leat_fields *out, leat_error *err)
{
    return put_entry(&leat_codec_native, m, 1, uuid, out, err);
}

/* ---- decoding --------------------------------------------------------- */

typedef struct reader {
    const unsigned char *p, *end; /* what is left of field a     */
    const char *body, *body_end;  /* what is left of field b     */
    char *uuid;                   /* room for the next UUID text */
    bool batch;
    leat_fields *in;
    leat_error *err;
} reader;

/* Refusals stand apart from the path of a good entry. */
#define COLD __attribute__((noinline, cold))

COLD static leat_code bad(leat_error *err, const char *what)
{
    return leat__fail(err, LEAT_EDECODE, "native entry: %s", what);
}

COLD static leat_code bad_tag(leat_error *err, unsigned tag, const char *what)
{
    return leat__fail(err, LEAT_EDECODE, "native entry: tag %u (%s) %s", tag,
                      tag_name(tag), what);
}

static size_t left(const reader *r)
{
    return (size_t)(r->end - r->p);
}

/* Behind the varint at p; NULL: cut short, over 64 bits, or longer than it
 * need be. */
static const unsigned char *
get_long_varint(const unsigned char *p, const unsigned char *end, uint64_t *v)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; p < end && shift < 63; shift += 7) {
        uint64_t byte = *p++;
        sum |= (byte & 127) << shift;
        if (byte < 128) {
            *v = sum;
            return byte > 0 || shift == 0 ? p : NULL;
        }
    }
    if (p == end || *p != 1) /* the 64th bit */
        return NULL;
    *v = sum | UINT64_C(1) << 63;
    return p + 1;
}

static inline bool get_varint(reader *r, uint64_t *v)
{
    if (r->p < r->end && *r->p < 128) {
        *v = *r->p++;
        return true;
    }
    const unsigned char *next = get_long_varint(r->p, r->end, v);
    if (next)
        r->p = next;
    return next != NULL;
}

static inline bool get_bytes(reader *r, leat_bytes *b)
{
    uint64_t n;
    if (!get_varint(r, &n) || n > left(r))
        return false;
    *b = leat_mem(r->p, (size_t)n);
    r->p += n;
    return true;
}

static leat_code get_string(reader *r, unsigned tag, leat_bytes *b)
{
    if (!get_bytes(r, b))
        return bad_tag(r->err, tag, "has a bad length");
    if (b->n == 0)
        return bad_tag(r->err, tag, "is empty");
    return LEAT_OK;
}

static leat_code get_uuid(reader *r, leat_bytes *id)
{
    if (id->n > 0)
        return bad_tag(r->err, ID_UUID, "is a second id");
    if (left(r) < LEAT__UUID_BYTES)
        return bad_tag(r->err, ID_UUID, "has a bad length");
    leat__uuid_unpack(r->p, r->uuid);
    *id = leat_mem(r->uuid, LEAT__UUID_TEXT);
    r->uuid += LEAT__UUID_TEXT;
    r->p += LEAT__UUID_BYTES;
    return LEAT_OK;
}

static leat_code get_time(reader *r, int64_t *ms)
{
    uint64_t word;
    if (left(r) < sizeof word)
        return bad_tag(r->err, TIME, "is cut short");
    memcpy(&word, r->p, sizeof word);
    if (word == 0)
        return bad_tag(r->err, TIME, "is empty");
    *ms = (int64_t)le64toh(word);
    r->p += sizeof word;
    return LEAT_OK;
}

/* Every header takes two bytes at least, so a claimed count cannot ask for
 * more memory than a fixed multiple of what was received. */
static leat_code get_headers(reader *r, leat_msg *m)
{
    uint64_t n;
    if (!get_varint(r, &n) || n == 0 || n > left(r) / 2)
        return bad_tag(r->err, HEADERS, "has a bad count");
    leat_header *h = leat_fields_alloc(r->in, (size_t)n * sizeof *h, r->err);
    if (!h)
        return LEAT_ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        if (!get_bytes(r, &h[i].name) || !get_bytes(r, &h[i].value))
            return bad_tag(r->err, HEADERS, "has a bad length");
    m->headers = h;
    m->header_count = (size_t)n;
    return LEAT_OK;
}

static leat_code get_body(reader *r, leat_bytes *body)
{
    uint64_t n;
    if (!get_varint(r, &n) || n == 0 || n > (size_t)(r->body_end - r->body))
        return bad_tag(r->err, BODY, "has a bad length");
    *body = leat_mem(r->body, (size_t)n);
    r->body += n;
    return LEAT_OK;
}

/* A tag this leat does not know: skipped if it says that it may be. */
COLD static leat_code get_unknown(reader *r, unsigned tag)
{
    leat_bytes skipped;
    if (tag >= OPTIONAL)
        return get_string(r, tag, &skipped);
    return leat__fail(r->err, LEAT_EDECODE,
                      "native entry: unknown tag %u: written by a newer leat",
                      tag);
}

static leat_code get_tag(reader *r, unsigned tag, leat_msg *m)
{
    switch (tag) {
    case ID:
        return get_string(r, tag, &m->id);
    case ID_UUID:
        return get_uuid(r, &m->id);
    case TYPE:
        return get_string(r, tag, &m->type);
    case SOURCE:
        return get_string(r, tag, &m->source);
    case SUBJECT:
        return get_string(r, tag, &m->subject);
    case CONTENT:
        return get_string(r, tag, &m->content_type);
    case TIME:
        return get_time(r, &m->time_ms);
    case HEADERS:
        return get_headers(r, m);
    case KEY:
        if (r->batch)
            return get_string(r, tag, &m->key);
        break;
    case BODY:
        if (r->batch)
            return get_body(r, &m->body);
        break;
    default:
        return get_unknown(r, tag);
    }
    return bad_tag(r->err, tag, "outside a batch");
}

/* One message's tags: to the END in a batch, else to the end of the field. */
static leat_code get_message(reader *r, leat_msg *m)
{
    unsigned last = END;
    while (r->p < r->end) {
        unsigned tag = *r->p++;
        if (tag == END && r->batch)
            return LEAT_OK;
        if (tag <= last)
            return bad_tag(r->err, tag, "repeats or is out of order");
        leat_code rc = get_tag(r, tag, m);
        if (rc != LEAT_OK)
            return rc;
        last = tag;
    }
    return r->batch ? bad(r->err, "a message of the batch is cut short")
                    : LEAT_OK;
}

static leat_code get_count(reader *r, size_t *n)
{
    uint64_t v = 1;
    if (r->batch && (!get_varint(r, &v) || v < 2 || v > MAX_BATCH))
        return bad(r->err, "bad count of messages");
    if (v > left(r) + 1)
        return bad(r->err, "more messages announced than there are bytes");
    *n = (size_t)v;
    return LEAT_OK;
}

static leat_code get_messages(reader *r, leat_bytes k, leat_bytes b,
                              const leat_msg **out, size_t *n)
{
    leat_code rc = get_count(r, n);
    if (rc != LEAT_OK)
        return rc;
    leat_msg *m = leat_fields_alloc(r->in, *n * (sizeof *m + LEAT__UUID_TEXT),
                                    r->err);
    if (!m)
        return LEAT_ENOMEM;
    r->uuid = (char *)(m + *n);
    for (size_t i = 0; i < *n && rc == LEAT_OK; i++) {
        m[i] = (leat_msg){ 0 };
        rc = get_message(r, &m[i]);
    }
    if (!r->batch) {
        m->key = k;
        m->body = b;
        r->body = r->body_end;
    }
    if (rc == LEAT_OK && (r->p < r->end || r->body < r->body_end))
        rc = bad(r->err, "bytes are left over");
    *out = m;
    return rc;
}

typedef struct entry {
    leat_bytes k, a, b;
} entry;

static leat_bytes *field_of(entry *e, leat_bytes name)
{
    switch (name.n == 1 ? *(const char *)name.p : 0) {
    case 'k':
        return &e->k;
    case 'a':
        return &e->a;
    case 'b':
        return &e->b;
    default:
        return NULL;
    }
}

COLD static leat_code bad_field(leat_bytes name, const char *what,
                                leat_error *err)
{
    char quoted[40];
    leat__escape(quoted, sizeof quoted, name.p, name.n);
    return leat__fail(err, LEAT_EDECODE, "native entry: field '%s' %s", quoted,
                      what);
}

/* Sort the fields into k, a, b, in whatever order they stand. */
static leat_code get_fields(const leat_fields *in, entry *e, leat_error *err)
{
    const leat_bytes *pairs = leat_fields_pairs(in);
    const leat_bytes *end = pairs + 2 * leat_fields_count(in);

    for (; pairs < end; pairs += 2) {
        leat_bytes *to = field_of(e, pairs[0]);
        if (!to)
            return bad_field(pairs[0], "is none of ours", err);
        if (to->n > 0)
            return bad_field(pairs[0], "is there twice", err);
        if (pairs[1].n == 0)
            return bad_field(pairs[0], "is empty", err);
        *to = pairs[1];
    }
    return LEAT_OK;
}

/* Version first: another one may have its checksum elsewhere. */
static leat_code check_head(const entry *e, leat_error *err)
{
    const unsigned char *p = e->a.p;
    uint32_t crc;

    if (e->a.n == 0)
        return bad(err, "no field a");
    if (p[0] != VERSION)
        return leat__fail(err, LEAT_EDECODE,
                          "native entry: version %u, this leat reads %d", p[0],
                          VERSION);
    if (e->a.n < HEAD)
        return bad(err, "field a is cut short");
    memcpy(&crc, p + CRC_AT, sizeof crc);
    if (le32toh(crc) != checksum(e->k, e->a, e->b))
        return bad(err, "wrong checksum: the entry was changed or damaged");
    if (p[FLAGS_AT] & ~BATCH)
        return bad(err, "unknown flags: written by a newer leat");
    if (p[FLAGS_AT] == BATCH && e->k.n > 0)
        return bad(err, "field k in a batch");
    return LEAT_OK;
}

static __attribute__((noinline)) leat_code
decode_any(const entry *e, leat_fields *in, const leat_msg **m, size_t *n,
           leat_error *err)
{
    const unsigned char *p = e->a.p;
    assert(p); /* check_head refused an entry without it */
    const char *b = e->b.n > 0 ? e->b.p : "";
    reader r = { .p = p + HEAD,
                 .end = p + e->a.n,
                 .body = b,
                 .body_end = b + e->b.n,
                 .batch = p[FLAGS_AT] == BATCH,
                 .in = in,
                 .err = err };
    return get_messages(&r, e->k, e->b, m, n);
}

enum { TIME_AT = HEAD + 1 + LEAT__UUID_BYTES, PLAIN = TIME_AT + 1 + 8 };

/* One message with a UUID and a time and no other attribute, which is what a
 * message of key and body becomes. */
static inline bool is_plain(leat_bytes a)
{
    const unsigned char *p = a.p;
    return a.n == PLAIN && p[FLAGS_AT] == 0 && p[HEAD] == ID_UUID &&
           p[TIME_AT] == TIME;
}

/* The same as get_messages makes of it, in fewer steps. */
static leat_code get_plain(const entry *e, leat_fields *in,
                           const leat_msg **out, leat_error *err)
{
    struct {
        leat_msg m;
        char id[LEAT__UUID_TEXT];
    } *to = leat_fields_alloc(in, sizeof *to, err);
    const unsigned char *p = e->a.p;
    uint64_t time;
    if (!to)
        return LEAT_ENOMEM;
    memcpy(&time, p + TIME_AT + 1, sizeof time);
    if (time == 0)
        return bad_tag(err, TIME, "is empty");
    leat__uuid_unpack(p + HEAD + 1, to->id);
    to->m = (leat_msg){ .id = leat_mem(to->id, LEAT__UUID_TEXT),
                        .key = e->k,
                        .time_ms = (int64_t)le64toh(time),
                        .body = e->b };
    *out = &to->m;
    return LEAT_OK;
}

static leat_code decode(const leat_codec *c, leat_fields *in,
                        const leat_msg **m, size_t *n, leat_error *err)
{
    entry e = { { 0 }, { 0 }, { 0 } };
    (void)c;

    leat_code rc = get_fields(in, &e, err);
    if (rc == LEAT_OK)
        rc = check_head(&e, err);
    if (rc != LEAT_OK)
        return rc;
    if (is_plain(e.a)) {
        *n = 1;
        return get_plain(&e, in, m, err);
    }
    return decode_any(&e, in, m, n, err);
}

const leat_codec leat_codec_native = {
    .name = "native",
    .max_batch = MAX_BATCH,
    .encode = encode,
    .decode = decode,
};

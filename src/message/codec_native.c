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
 *   1     flags: bit 0, a batch; the others are 0
 *   2..5  CRC32C, little endian, of k, a[0..1], a[6..] and b, in that order
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
 *   7     time     varint of the zigzag of milliseconds since 1970
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

#include <endian.h>

enum {
    VERSION = 1,
    BATCH = 1, /* the flag */
    HEAD = 6,
    CRC_AT = 2,
    MAX_BATCH = 4096,
    VARINT_MAX = 10,
    UUID_TEXT = 36,
    UUID_BYTES = 16
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

/* ---- UUIDs ------------------------------------------------------------ */

/* Eight hexadecimal digits at a time, one in each byte of a word. */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

static uint64_t digits_of_nibbles(uint64_t n)
{
    uint64_t letters = ((n + EACH(6)) >> 4) & EACH(1);
    return n + EACH('0') + letters * ('a' - '0' - 10);
}

/* False unless they are lower-case digits: then they come back the same. */
static bool pack_digits(uint64_t digits, unsigned char *out)
{
    uint64_t letters = (digits >> 6) & EACH(1);
    uint64_t n = (digits & EACH(15)) + letters * 9;
    if ((n & EACH(0xf0)) || digits_of_nibbles(n) != digits)
        return false;

    n = (n << 4 | n >> 8) & UINT64_C(0x00ff00ff00ff00ff);
    n = (n | n >> 8) & UINT64_C(0x0000ffff0000ffff);
    uint32_t word = htole32((uint32_t)(n | n >> 16));
    memcpy(out, &word, 4);
    return true;
}

static uint64_t unpack_digits(const unsigned char *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    uint64_t n = le32toh(word);
    n = (n | n << 16) & UINT64_C(0x0000ffff0000ffff);
    n = (n | n << 8) & UINT64_C(0x00ff00ff00ff00ff);
    n = ((n >> 4) & UINT64_C(0x000f000f000f000f)) |
        ((n & UINT64_C(0x000f000f000f000f)) << 8);
    return digits_of_nibbles(n);
}

/* The eight digits of which four stand at a and four at b. */
static uint64_t digits_at(const char *a, const char *b)
{
    uint64_t digits;
    memcpy(&digits, a, 4);
    memcpy((char *)&digits + 4, b, 4);
    return le64toh(digits);
}

static bool uuid_pack(leat_bytes id, unsigned char *out)
{
    const char *s = id.p;
    return id.n == UUID_TEXT && s[8] == '-' && s[13] == '-' && s[18] == '-' &&
           s[23] == '-' && pack_digits(digits_at(s, s + 4), out) &&
           pack_digits(digits_at(s + 9, s + 14), out + 4) &&
           pack_digits(digits_at(s + 19, s + 24), out + 8) &&
           pack_digits(digits_at(s + 28, s + 32), out + 12);
}

static void put_digits(uint64_t digits, char *a, char *b)
{
    digits = htole64(digits);
    memcpy(a, &digits, 4);
    memcpy(b, (char *)&digits + 4, 4);
}

static void uuid_unpack(const unsigned char *p, char *s)
{
    put_digits(unpack_digits(p), s, s + 4);
    put_digits(unpack_digits(p + 4), s + 9, s + 14);
    put_digits(unpack_digits(p + 8), s + 19, s + 24);
    put_digits(unpack_digits(p + 12), s + 28, s + 32);
    s[8] = s[13] = s[18] = s[23] = '-';
}

/* ---- the checksum ----------------------------------------------------- */

static uint32_t checksum(leat_bytes k, leat_bytes a, leat_bytes b)
{
    const unsigned char *p = a.p;
    uint32_t crc = leat__crc32c(0, k.p, k.n);
    crc = leat__crc32c(crc, p, CRC_AT);
    crc = leat__crc32c(crc, p + HEAD, a.n - HEAD);
    return leat__crc32c(crc, b.p, b.n);
}

/* ---- encoding --------------------------------------------------------- */

static bool add(size_t *sum, size_t n)
{
    return !__builtin_add_overflow(*sum, n, sum);
}

/* Room for one string with its tag and length, and no less. */
static bool add_string(size_t *sum, leat_bytes b)
{
    return add(sum, b.n) && add(sum, 1 + VARINT_MAX);
}

/* At most so many bytes of field a does this message need, its key included. */
static bool add_message(size_t *sum, const leat_msg *m)
{
    enum { TIME_BODY_HEADERS_END = 3 * (1 + VARINT_MAX) + 1 };
    bool fits = add_string(sum, m->id) && add_string(sum, m->type) &&
                add_string(sum, m->source) && add_string(sum, m->subject) &&
                add_string(sum, m->content_type) && add_string(sum, m->key) &&
                add(sum, TIME_BODY_HEADERS_END);
    for (size_t i = 0; fits && i < m->header_count; i++)
        fits = add_string(sum, m->headers[i].name) &&
               add_string(sum, m->headers[i].value);
    return fits;
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
    if (!uuid_pack(id, p + 1))
        return put_tag(p, ID, id);
    *p = ID_UUID;
    return p + 1 + UUID_BYTES;
}

static unsigned char *put_time(unsigned char *p, int64_t ms)
{
    if (ms == 0)
        return p;
    *p++ = TIME;
    return put_varint(p, (uint64_t)ms << 1 ^ (ms < 0 ? UINT64_MAX : 0));
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

static unsigned char *put_message(unsigned char *p, const leat_msg *m)
{
    p = put_id(p, m->id);
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
        p = put_message(p, &m[i]);
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
    *attributes = HEAD + VARINT_MAX;
    *bodies = 0;
    for (size_t i = 0; i < n; i++)
        if (!add_message(attributes, &m[i]) || !add(bodies, m[i].body.n))
            *attributes = *bodies = SIZE_MAX / 2;

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

static leat_code encode(const leat_codec *c, const leat_msg *m, size_t n,
                        leat_fields *out, leat_error *err)
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
    p[1] = n > 1 ? BATCH : 0;
    if (n == 1) {
        k = m->key;
        end = put_message(p + HEAD, m);
    } else {
        end = put_batch(p + HEAD, m, n);
    }
    leat_bytes a = leat_mem(p, (size_t)(end - p));
    uint32_t crc = htole32(checksum(k, a, b));
    memcpy(p + CRC_AT, &crc, sizeof crc);
    return add_fields(out, k, a, b, err);
}

/* ---- decoding --------------------------------------------------------- */

typedef struct reader {
    const unsigned char *p, *end; /* what is left of field a        */
    const char *body, *body_end;  /* what is left of field b        */
    bool batch;
    leat_fields *in;
    leat_error *err;
} reader;

static leat_code bad(const reader *r, const char *what)
{
    return leat__fail(r->err, LEAT_EDECODE, "native entry: %s", what);
}

static leat_code bad_tag(const reader *r, unsigned tag, const char *what)
{
    return leat__fail(r->err, LEAT_EDECODE, "native entry: tag %u (%s) %s", tag,
                      tag_name(tag), what);
}

static size_t left(const reader *r)
{
    return (size_t)(r->end - r->p);
}

/* False: cut short, over 64 bits, or longer than it need be. */
static bool get_varint(reader *r, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; r->p < r->end && shift < 64; shift += 7) {
        uint64_t byte = *r->p++;
        if (shift == 63 && byte > 1)
            return false;
        *v |= (byte & 127) << shift;
        if (byte < 128)
            return byte > 0 || shift == 0;
    }
    return false;
}

static bool get_bytes(reader *r, leat_bytes *b)
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
        return bad_tag(r, tag, "has a bad length");
    if (b->n == 0)
        return bad_tag(r, tag, "is empty");
    return LEAT_OK;
}

static leat_code get_uuid(reader *r, leat_bytes *id)
{
    if (id->n > 0)
        return bad_tag(r, ID_UUID, "is a second id");
    if (left(r) < UUID_BYTES)
        return bad_tag(r, ID_UUID, "has a bad length");
    char *text = leat_fields_alloc(r->in, UUID_TEXT, r->err);
    if (!text)
        return LEAT_ENOMEM;
    uuid_unpack(r->p, text);
    r->p += UUID_BYTES;
    *id = leat_mem(text, UUID_TEXT);
    return LEAT_OK;
}

static leat_code get_time(reader *r, int64_t *ms)
{
    uint64_t v;
    if (!get_varint(r, &v) || v == 0)
        return bad_tag(r, TIME, "is no time");
    *ms = (int64_t)(v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
    return LEAT_OK;
}

/* Every header takes two bytes at least, so a claimed count cannot ask for
 * more memory than a fixed multiple of what was received. */
static leat_code get_headers(reader *r, leat_msg *m)
{
    uint64_t n;
    if (!get_varint(r, &n) || n == 0 || n > left(r) / 2)
        return bad_tag(r, HEADERS, "has a bad count");
    leat_header *h = leat_fields_alloc(r->in, (size_t)n * sizeof *h, r->err);
    if (!h)
        return LEAT_ENOMEM;
    for (uint64_t i = 0; i < n; i++)
        if (!get_bytes(r, &h[i].name) || !get_bytes(r, &h[i].value))
            return bad_tag(r, HEADERS, "has a bad length");
    m->headers = h;
    m->header_count = (size_t)n;
    return LEAT_OK;
}

static leat_code get_body(reader *r, leat_bytes *body)
{
    uint64_t n;
    if (!get_varint(r, &n) || n == 0 || n > (size_t)(r->body_end - r->body))
        return bad_tag(r, BODY, "has a bad length");
    *body = leat_mem(r->body, (size_t)n);
    r->body += n;
    return LEAT_OK;
}

static leat_code get_tag(reader *r, unsigned tag, leat_msg *m)
{
    leat_bytes skipped;

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
        if (tag >= OPTIONAL)
            return get_string(r, tag, &skipped);
        return leat__fail(r->err, LEAT_EDECODE,
                          "native entry: unknown tag %u: written by a newer "
                          "leat",
                          tag);
    }
    return bad_tag(r, tag, "outside a batch");
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
            return bad_tag(r, tag, "repeats or is out of order");
        leat_code rc = get_tag(r, tag, m);
        if (rc != LEAT_OK)
            return rc;
        last = tag;
    }
    return r->batch ? bad(r, "a message of the batch is cut short") : LEAT_OK;
}

static leat_code get_count(reader *r, size_t *n)
{
    uint64_t v = 1;
    if (r->batch && (!get_varint(r, &v) || v < 2 || v > MAX_BATCH))
        return bad(r, "bad count of messages");
    if (v > left(r) + 1)
        return bad(r, "more messages announced than there are bytes");
    *n = (size_t)v;
    return LEAT_OK;
}

static leat_code get_messages(reader *r, leat_bytes k, leat_bytes b,
                              const leat_msg **out, size_t *n)
{
    leat_code rc = get_count(r, n);
    if (rc != LEAT_OK)
        return rc;
    leat_msg *m = leat_fields_alloc(r->in, *n * sizeof *m, r->err);
    if (!m)
        return LEAT_ENOMEM;
    memset(m, 0, *n * sizeof *m);
    if (!r->batch) {
        m->key = k;
        m->body = b;
        r->body = r->body_end;
    }
    for (size_t i = 0; i < *n && rc == LEAT_OK; i++)
        rc = get_message(r, &m[i]);
    if (rc == LEAT_OK && (r->p < r->end || r->body < r->body_end))
        rc = bad(r, "bytes are left over");
    *out = m;
    return rc;
}

/* Sort the fields into k, a, b, in whatever order they stand. */
static leat_code get_fields(const reader *r, leat_bytes part[3])
{
    const leat_bytes *pairs = leat_fields_pairs(r->in);
    size_t count = leat_fields_count(r->in);

    for (size_t i = 0; i < count; i++) {
        leat_bytes name = pairs[2 * i], value = pairs[2 * i + 1];
        const char *at = name.n == 1 ? memchr("kab", *(const char *)name.p, 3)
                                     : NULL;
        if (!at) {
            char quoted[40];
            leat__escape(quoted, sizeof quoted, name.p, name.n);
            return leat__fail(r->err, LEAT_EDECODE,
                              "native entry: unknown field '%s'", quoted);
        }
        size_t which = *at == 'k' ? 0 : *at == 'a' ? 1 : 2;
        if (part[which].p)
            return leat__fail(r->err, LEAT_EDECODE,
                              "native entry: field %c is there twice", *at);
        if (value.n == 0)
            return leat__fail(r->err, LEAT_EDECODE,
                              "native entry: field %c is empty", *at);
        part[which] = value;
    }
    return LEAT_OK;
}

/* Version first: another one may have its checksum elsewhere. */
static leat_code check_head(const reader *r, leat_bytes k, leat_bytes a,
                            leat_bytes b)
{
    const unsigned char *p = a.p;
    uint32_t crc;

    if (!p)
        return bad(r, "no field a");
    if (p[0] != VERSION)
        return leat__fail(r->err, LEAT_EDECODE,
                          "native entry: version %u, this leat reads %d", p[0],
                          VERSION);
    if (a.n < HEAD)
        return bad(r, "field a is cut short");
    memcpy(&crc, p + CRC_AT, sizeof crc);
    if (le32toh(crc) != checksum(k, a, b))
        return bad(r, "wrong checksum: the entry was changed or damaged");
    if (p[1] & ~BATCH)
        return bad(r, "unknown flags: written by a newer leat");
    if (p[1] == BATCH && k.n > 0)
        return bad(r, "field k in a batch");
    return LEAT_OK;
}

static leat_code decode(const leat_codec *c, leat_fields *in,
                        const leat_msg **m, size_t *n, leat_error *err)
{
    leat_bytes part[3] = { { 0 } }, a, b;
    reader r = { .in = in, .err = err };
    (void)c;

    leat_code rc = get_fields(&r, part);
    if (rc == LEAT_OK)
        rc = check_head(&r, part[0], part[1], part[2]);
    if (rc != LEAT_OK)
        return rc;
    a = part[1];
    b = part[2];
    r.p = a.p;
    r.end = r.p + a.n;
    r.batch = r.p[1] == BATCH;
    r.p += HEAD;
    r.body = b.p;
    r.body_end = b.n > 0 ? r.body + b.n : r.body;
    return get_messages(&r, part[0], b, m, n);
}

const leat_codec leat_codec_native = {
    .name = "native",
    .max_batch = MAX_BATCH,
    .encode = encode,
    .decode = decode,
};

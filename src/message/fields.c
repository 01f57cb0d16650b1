/*
 * fields.c: the fields of one stream entry.
 *
 * An array of names and values, and what a codec makes up, in one arena.  It
 * keeps its capacity over a clear, so a reader that handles one entry after
 * the other allocates only while the entries still grow.
 */
#include "message/fields.h"
#include "base/arena.h"
#include "base/mem.h"

enum {
    FIRST = 8, /* fields; the native codec has three */
    MANY = 64  /* for several entries                */
};

struct leat_fields {
    leat_bytes *pairs; /* name, value, name, value, ...; in scratch */
    size_t count;      /* fields in use  */
    size_t cap;        /* fields of room */
    leat__arena scratch;
};

leat_fields *leat_fields_new(leat_error *err)
{
    return leat__zalloc(sizeof(leat_fields), err);
}

void leat_fields_free(leat_fields *f)
{
    if (!f)
        return;
    leat__arena_release(&f->scratch);
    leat__free(f);
}

void leat_fields_clear(leat_fields *f)
{
    f->pairs = NULL;
    f->count = f->cap = 0;
    leat__arena_clear(&f->scratch);
}

/* A new array: the one before stays where it is, until the next clear. */
static leat_code reserve(leat_fields *f, size_t cap, leat_error *err)
{
    if (cap > SIZE_MAX / (2 * sizeof *f->pairs))
        return leat__fail(err, LEAT_ENOMEM, "no memory for %zu fields", cap);
    leat_bytes *p = leat__arena_alloc(&f->scratch, cap * 2 * sizeof *p, err);
    if (!p)
        return LEAT_ENOMEM;
    if (f->count > 0)
        memcpy(p, f->pairs, f->count * 2 * sizeof *p);
    f->pairs = p;
    f->cap = cap;
    return LEAT_OK;
}

/* Apart, so that adding a field to what has room stays a few instructions. */
__attribute__((noinline, cold)) static leat_code grow(leat_fields *f,
                                                      leat_error *err)
{
    return reserve(f, f->cap ? f->cap * 2 : FIRST, err);
}

__attribute__((noinline, cold)) static leat_code
begin_anew(leat_fields *f, size_t count, leat_error *err)
{
    f->count = 0;
    return reserve(f, count > MANY ? count : MANY, err);
}

/* Behind those of the entry before, which stay. */
static inline leat_code next(leat_fields *f, size_t count, leat_error *err)
{
    size_t used = f->count;
    if (!f->pairs || f->cap - used < count)
        return begin_anew(f, count, err);
    f->pairs += 2 * used;
    f->cap -= used;
    f->count = 0;
    return LEAT_OK;
}

leat_code leat__fields_next(leat_fields *f, size_t count, leat_error *err)
{
    return next(f, count, err);
}

leat_code leat_fields_add(leat_fields *f, leat_bytes name, leat_bytes value,
                          leat_error *err)
{
    if (f->count == f->cap && grow(f, err) != LEAT_OK)
        return LEAT_ENOMEM;
    f->pairs[2 * f->count] = name;
    f->pairs[2 * f->count + 1] = value;
    f->count++;
    return LEAT_OK;
}

leat_bytes *leat__fields_begin(leat_fields *f, size_t count, leat_error *err)
{
    if (next(f, count, err) != LEAT_OK)
        return NULL;
    f->count = count;
    return f->pairs;
}

void *leat_fields_alloc(leat_fields *f, size_t n, leat_error *err)
{
    return leat__arena_alloc(&f->scratch, n, err);
}

const leat_bytes *leat_fields_pairs(const leat_fields *f)
{
    return f->pairs;
}

size_t leat_fields_count(const leat_fields *f)
{
    return f->count;
}

leat_bytes leat_fields_get(const leat_fields *f, const char *name)
{
    leat_bytes want = leat_str(name);
    for (size_t i = 0; i < f->count; i++) {
        leat_bytes value = f->pairs[2 * i + 1];
        if (leat_bytes_eq(f->pairs[2 * i], want))
            return leat_mem(value.p ? value.p : "", value.n);
    }
    return leat_mem(NULL, 0);
}

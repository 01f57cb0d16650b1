/*
 * uuid.c: UUID version 7.
 *
 *    0 .. 47   milliseconds since 1970
 *   48 .. 51   7
 *   52 .. 63   counter, high 12 bits
 *   64 .. 65   binary 10
 *   66 .. 79   counter, low 14 bits
 *   80 .. 127  random, for every id anew
 *
 * The counter starts each millisecond at a random number with its top bit
 * clear, so there is room for 33 million more; past that the milliseconds run
 * ahead of the clock.  Randomness is fetched a pool at a time, since the system
 * call costs more than the id.
 */
#include "base/uuid.h"
#include "base/fork.h"
#include "base/system.h"

#include <endian.h>
#include <string.h>

enum { COUNTER_BITS = 26, TAIL = 6 };
static const uint32_t counter_end = 1u << COUNTER_BITS;

void leat__uuid7_init(leat__uuid7_gen *g)
{
    memset(g, 0, sizeof *g);
    pthread_mutex_init(&g->lock, NULL);
}

void leat__uuid7_release(leat__uuid7_gen *g)
{
    explicit_bzero(g->pool, sizeof g->pool);
    pthread_mutex_destroy(&g->lock);
}

/* n bytes nobody was given before, n below the pool's size. */
static const uint8_t *draw_locked(leat__uuid7_gen *g, size_t n, leat_error *err)
{
    unsigned forks = leat__fork_count();
    if (g->left < n || g->forks != forks) {
        if (leat__random(g->pool, sizeof g->pool, err) != LEAT_OK)
            return NULL;
        g->left = sizeof g->pool;
        g->forks = forks;
    }
    g->left -= n;
    return g->pool + g->left;
}

static leat_code restart_locked(leat__uuid7_gen *g, uint64_t ms,
                                leat_error *err)
{
    uint32_t start;
    const uint8_t *r = draw_locked(g, sizeof start, err);
    if (!r)
        return LEAT_EIO;
    memcpy(&start, r, sizeof start);
    g->counter = start % (counter_end / 2);
    g->ms = ms;
    return LEAT_OK;
}

/* Set ms and counter to the next pair in order. */
static leat_code advance_locked(leat__uuid7_gen *g, leat_error *err)
{
    int64_t now = leat__date_ms();
    if (now > 0 && (uint64_t)now > g->ms)
        return restart_locked(g, (uint64_t)now, err);
    if (g->counter + 1 < counter_end) {
        g->counter++;
        return LEAT_OK;
    }
    return restart_locked(g, g->ms + 1, err);
}

static void put_be(uint8_t *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, sizeof v);
}

static void compose(leat__uuid *id, uint64_t ms, uint32_t counter,
                    const uint8_t *tail)
{
    put_be(id->b, ms << 16 | 0x7000 | counter >> 14);
    put_be(id->b + 8, (uint64_t)(0x8000 | (counter & 0x3fff)) << 48);
    memcpy(id->b + 10, tail, TAIL);
}

leat_code leat__uuid7_next_locked(leat__uuid7_gen *g, leat__uuid *id,
                                  leat_error *err)
{
    leat_code rc = advance_locked(g, err);
    const uint8_t *tail = rc == LEAT_OK ? draw_locked(g, TAIL, err) : NULL;
    if (tail)
        compose(id, g->ms, g->counter, tail);
    return tail ? LEAT_OK : LEAT_EIO;
}

leat_code leat__uuid7_next(leat__uuid7_gen *g, leat__uuid *id, leat_error *err)
{
    pthread_mutex_lock(&g->lock);
    leat_code rc = leat__uuid7_next_locked(g, id, err);
    pthread_mutex_unlock(&g->lock);
    return rc;
}

int64_t leat__uuid7_ms(const leat__uuid *id)
{
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id->b[i];
    return ms;
}

/* Four bytes as eight digits, all at once: each nibble gets a byte, and those
 * above 9 carry into bit 4 when 6 is added, which moves them to the letters. */
static void hex8(char *out, const uint8_t *p)
{
    const uint64_t each = 0x0101010101010101, nibbles = 0x000f000f000f000f;
    uint32_t x;
    memcpy(&x, p, sizeof x);
    uint64_t v = le32toh(x);
    v = (v | v << 16) & 0x0000ffff0000ffff;
    v = (v | v << 8) & 0x00ff00ff00ff00ff;
    v = (v >> 4 & nibbles) | (v & nibbles) << 8;
    uint64_t letters = (v + 6 * each) >> 4 & each;
    v = htole64(v + '0' * each + letters * ('a' - '0' - 10));
    memcpy(out, &v, sizeof v);
}

void leat__uuid_format(const leat__uuid *id, char out[LEAT__UUID_TEXT + 1])
{
    char hex[32];
    for (int i = 0; i < 4; i++)
        hex8(hex + 8 * i, id->b + 4 * i);
    memcpy(out, hex, 8);
    memcpy(out + 9, hex + 8, 4);
    memcpy(out + 14, hex + 12, 4);
    memcpy(out + 19, hex + 16, 4);
    memcpy(out + 24, hex + 20, 12);
    out[8] = out[13] = out[18] = out[23] = '-';
    out[36] = '\0';
}

/* 0..15, or -1. */
static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool dash_before(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

bool leat__uuid_parse(leat_bytes text, leat__uuid *id)
{
    const char *s = text.p;
    if (text.n != LEAT__UUID_TEXT)
        return false;
    for (int i = 0; i < 16; i++, s += 2) {
        if (dash_before(i) && *s++ != '-')
            return false;
        int hi = nibble(s[0]), lo = nibble(s[1]);
        if (hi < 0 || lo < 0)
            return false;
        id->b[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

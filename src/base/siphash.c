/*
 * siphash.c: SipHash-1-3 (Aumasson and Bernstein).  Whoever does not know the
 * key cannot choose names that all fall into one place of a table.
 */
#include "base/siphash.h"

#include <endian.h>

struct state {
    uint64_t a, b, c, d;
};

static inline uint64_t turn(uint64_t v, unsigned n)
{
    return v << n | v >> (64 - n);
}

static inline void mix(struct state *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = turn(s->b, 13) ^ s->a;
    s->d = turn(s->d, 16) ^ s->c;
    s->a = turn(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = turn(s->b, 17) ^ s->c;
    s->d = turn(s->d, 21) ^ s->a;
    s->c = turn(s->c, 32);
}

static inline void absorb(struct state *s, uint64_t word)
{
    s->d ^= word;
    mix(s);
    s->a ^= word;
}

static inline uint64_t word(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

/* The last bytes, fewer than 8, and the length in the top one. */
static inline uint64_t tail(const unsigned char *p, size_t left, size_t n)
{
    uint64_t v = (uint64_t)n << 56;
    for (size_t i = 0; i < left; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint64_t leat__siphash13(leat__sipkey key, leat_bytes bytes)
{
    struct state s = { key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d,
                       key.k0 ^ 0x6c7967656e657261,
                       key.k1 ^ 0x7465646279746573 };
    const unsigned char *p = bytes.p;
    size_t left = bytes.n;

    for (; left >= 8; p += 8, left -= 8)
        absorb(&s, word(p));
    absorb(&s, tail(p, left, bytes.n));
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

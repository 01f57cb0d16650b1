/*
 * crc32c.c: CRC-32C (Castagnoli, reflected polynomial 0x82f63b78).
 *
 * x86 has an instruction for it; elsewhere, eight bytes at a time are looked
 * up in eight tables.  A CRC is linear, so an entry of a table is the xor of
 * the entries of its bits; the compiler lays each table out from those eight.
 */
#include "base/crc32c.h"

#include <stdatomic.h>
#include <string.h>

typedef uint32_t crc_fn(uint32_t crc, const void *p, size_t n);

#define BIT(i, b, v) ((i) >> (b)&1 ? (v) : 0)
#define E1(i, a, b, c, d, e, f, g, h)                                          \
    BIT(i, 0, a) ^ BIT(i, 1, b) ^ BIT(i, 2, c) ^ BIT(i, 3, d) ^ BIT(i, 4, e) ^ \
        BIT(i, 5, f) ^ BIT(i, 6, g) ^ BIT(i, 7, h)
#define E4(i, ...)                                                             \
    E1(i, __VA_ARGS__), E1((i) + 1, __VA_ARGS__), E1((i) + 2, __VA_ARGS__),    \
        E1((i) + 3, __VA_ARGS__)
#define E16(i, ...)                                                            \
    E4(i, __VA_ARGS__), E4((i) + 4, __VA_ARGS__), E4((i) + 8, __VA_ARGS__),    \
        E4((i) + 12, __VA_ARGS__)
#define E64(i, ...)                                                            \
    E16(i, __VA_ARGS__), E16((i) + 16, __VA_ARGS__),                           \
        E16((i) + 32, __VA_ARGS__), E16((i) + 48, __VA_ARGS__)
#define ROW(...)                                                               \
    {                                                                          \
        E64(0, __VA_ARGS__), E64(64, __VA_ARGS__), E64(128, __VA_ARGS__),      \
            E64(192, __VA_ARGS__)                                              \
    }

/* table[k][b]: byte b followed by k zero bytes. */
static const uint32_t table[8][256] = {
    ROW(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu,
        0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u),
    ROW(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u,
        0x7f8be302u, 0xff17c604u, 0xfbc3faf9u),
    ROW(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au,
        0xe144fb14u, 0xc76580d9u, 0x8b277743u),
    ROW(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du,
        0xd725148bu, 0xaba65fe7u, 0x52a0c93fu),
    ROW(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u,
        0x1ba8b557u, 0x37516aaeu, 0x6ea2d55cu),
    ROW(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu,
        0x85f4168du, 0x0e045bebu, 0x1c08b7d6u),
    ROW(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u,
        0x3d5b83bdu, 0x7ab7077au, 0xf56e0ef4u),
    ROW(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u,
        0x0d006599u, 0x1a00cb32u, 0x34019664u),
};

uint32_t leat__crc32c_portable(uint32_t crc, const void *p, size_t n)
{
    const unsigned char *s = p;

    crc = ~crc;
    for (; n >= 8; s += 8, n -= 8)
        crc = table[7][s[0] ^ (crc & 255)] ^ table[6][s[1] ^ (crc >> 8 & 255)] ^
              table[5][s[2] ^ (crc >> 16 & 255)] ^ table[4][s[3] ^ crc >> 24] ^
              table[3][s[4]] ^ table[2][s[5]] ^ table[1][s[6]] ^ table[0][s[7]];
    for (; n > 0; s++, n--)
        crc = crc >> 8 ^ table[0][(crc ^ *s) & 255];
    return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

static inline uint64_t eight(const unsigned char *s)
{
    uint64_t v;
    memcpy(&v, s, sizeof v);
    return v;
}

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t wide = (uint32_t)~crc;

    for (; n >= 32; s += 32, n -= 32) {
        wide = _mm_crc32_u64(wide, eight(s));
        wide = _mm_crc32_u64(wide, eight(s + 8));
        wide = _mm_crc32_u64(wide, eight(s + 16));
        wide = _mm_crc32_u64(wide, eight(s + 24));
    }
    for (; n >= 8; s += 8, n -= 8)
        wide = _mm_crc32_u64(wide, eight(s));
    uint32_t c = (uint32_t)wide;
    if (n >= 4) {
        uint32_t four;
        memcpy(&four, s, 4);
        c = _mm_crc32_u32(c, four);
        s += 4;
        n -= 4;
    }
    for (; n > 0; s++, n--)
        c = _mm_crc32_u8(c, *s);
    return ~c;
}

static crc_fn *best(void)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction
                                            : leat__crc32c_portable;
}
#else
static crc_fn *best(void)
{
    return leat__crc32c_portable;
}
#endif

/* Threads that meet here for the first time all find the same answer, so it
 * does not matter whose store wins. */
static uint32_t choose(uint32_t crc, const void *p, size_t n);
static _Atomic(crc_fn *) chosen = choose;

static uint32_t choose(uint32_t crc, const void *p, size_t n)
{
    crc_fn *fn = best();
    atomic_store_explicit(&chosen, fn, memory_order_relaxed);
    return fn(crc, p, n);
}

uint32_t leat__crc32c(uint32_t crc, const void *p, size_t n)
{
    return atomic_load_explicit(&chosen, memory_order_relaxed)(crc, p, n);
}

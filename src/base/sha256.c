/*
 * sha256.c: SHA-256, as FIPS 180-4 writes it down.
 */
#include "base/sha256.h"

#include <endian.h>
#include <stdio.h>

enum { BLOCK = 64, ROUNDS = 64, LENGTH_AT = 56 };

static const uint32_t k[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void expand(uint32_t w[ROUNDS], const unsigned char *p)
{
    for (int i = 0; i < 16; i++) {
        memcpy(&w[i], p + 4 * i, 4);
        w[i] = be32toh(w[i]);
    }
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = turn(a, 7) ^ turn(a, 18) ^ a >> 3;
        uint32_t s1 = turn(b, 17) ^ turn(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void compress(uint32_t h[8], const unsigned char *p)
{
    uint32_t w[ROUNDS], v[8];
    expand(w, p);
    memcpy(v, h, sizeof v);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
        uint32_t s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
        uint32_t t1 = v[7] + s1 + ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t t2 = s0 + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void leat__sha256_hex(leat_bytes b, char out[LEAT__SHA256_TEXT + 1])
{
    uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    unsigned char last[2 * BLOCK] = { 0 };
    const unsigned char *p = b.p;
    size_t left = b.n;
    for (; left >= BLOCK; left -= BLOCK, p += BLOCK)
        compress(h, p);
    if (left > 0)
        memcpy(last, p, left);
    last[left] = 0x80;
    size_t size = left < LENGTH_AT ? BLOCK : 2 * BLOCK;
    uint64_t bits = htobe64((uint64_t)b.n * 8);
    memcpy(last + size - 8, &bits, 8);
    for (size_t i = 0; i < size; i += BLOCK)
        compress(h, last + i);
    for (int i = 0; i < 8; i++)
        snprintf(out + (size_t)8 * i, 9, "%08x", h[i]);
}

/* sha256.h: SHA-256 (FIPS 180-4), for ids made of contents. */
#ifndef LEAT_BASE_SHA256_H
#define LEAT_BASE_SHA256_H

#include <leat/bytes.h>

enum { LEAT__SHA256_TEXT = 64 };

/* In lower-case hexadecimal digits, and a zero. */
void leat__sha256_hex(leat_bytes b, char out[LEAT__SHA256_TEXT + 1]);

#endif

/* crc16.h: CRC-16/XMODEM and the slot of a key in a Redis cluster. */
#ifndef LEAT_BASE_CRC16_H
#define LEAT_BASE_CRC16_H

#include <leat/bytes.h>

enum { LEAT__SLOTS = 16384 };

uint16_t leat__crc16(const void *p, size_t n);

/* What of the key is hashed: between the first '{' and the first '}' after
 * it, when there is something; otherwise all of it. */
leat_bytes leat__crc16_tag(leat_bytes key);

/* 0 .. LEAT__SLOTS - 1. */
unsigned leat__crc16_slot(leat_bytes key);

#endif

/* crc32c.h: CRC-32C (Castagnoli), which guards what leat stores. */
#ifndef LEAT_BASE_CRC32C_H
#define LEAT_BASE_CRC32C_H

#include <leat/api.h>

/* Continue a checksum; 0 starts one.  In pieces or at once is the same. */
uint32_t leat__crc32c(uint32_t crc, const void *p, size_t n);

/* The one that needs no special instruction; only tests ask for it by name. */
uint32_t leat__crc32c_portable(uint32_t crc, const void *p, size_t n);

#endif

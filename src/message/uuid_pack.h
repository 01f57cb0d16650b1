/* uuid_pack.h: the text of a UUID in 16 bytes. */
#ifndef LEAT_MESSAGE_UUID_PACK_H
#define LEAT_MESSAGE_UUID_PACK_H

#include <leat/bytes.h>

enum { LEAT__UUID_TEXT = 36, LEAT__UUID_BYTES = 16 };

/* False, with out in no certain state, unless the text is a UUID in canonical
 * form and lower case: then unpacking restores it exactly. */
bool leat__uuid_pack(leat_bytes text, unsigned char out[LEAT__UUID_BYTES]);

void leat__uuid_unpack(const unsigned char *packed, char text[LEAT__UUID_TEXT]);

#endif

/*
 * api.h: what every public header needs: export marks and the version.
 */
#ifndef LEAT_API_H
#define LEAT_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEAT_API                __attribute__((visibility("default")))
#define LEAT_MUST_CHECK         __attribute__((warn_unused_result))
#define LEAT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

#ifdef __cplusplus
#define LEAT_BEGIN extern "C" {
#define LEAT_END   }
#else
#define LEAT_BEGIN
#define LEAT_END
#endif

LEAT_BEGIN

/* The version of these headers; as a number to be compared, 10203 is 1.2.3. */
#define LEAT_VERSION       "0.1.0"
#define LEAT_VERSION_MAJOR 0
#define LEAT_VERSION_MINOR 1
#define LEAT_VERSION_PATCH 0
#define LEAT_VERSION_NUMBER                                                    \
    (LEAT_VERSION_MAJOR * 10000 + LEAT_VERSION_MINOR * 100 + LEAT_VERSION_PATCH)

/* Those of the library that is linked: LEAT_VERSION and LEAT_VERSION_NUMBER of
 * the headers that it was built with. */
LEAT_API const char *leat_version(void);
LEAT_API int leat_version_number(void);

/* The optional parts this library was built with, as "tls sqlite ...". */
LEAT_API const char *leat_features(void);

LEAT_END
#endif

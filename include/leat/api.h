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

/* The version of the library that is linked, as "0.1.0". */
LEAT_API const char *leat_version(void);

/* The optional parts this library was built with, as "tls sqlite ...". */
LEAT_API const char *leat_features(void);

LEAT_END
#endif

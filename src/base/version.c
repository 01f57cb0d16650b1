/*
 * version.c: what this library is.
 */
#include <leat/api.h>

const char *leat_version(void)
{
    return LEAT_VERSION;
}

const char *leat_features(void)
{
    return LEAT_FEATURES;
}

/*
 * version.c: what this library is.
 */
#include <leat/api.h>

const char *leat_version(void)
{
    return LEAT_VERSION;
}

int leat_version_number(void)
{
    return LEAT_VERSION_NUMBER;
}

const char *leat_features(void)
{
    return LEAT_FEATURES;
}

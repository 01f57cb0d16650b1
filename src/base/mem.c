/*
 * mem.c: memory, through the system table.
 */
#include "base/mem.h"
#include "base/system.h"

#include <string.h>

void *leat__realloc(void *old, size_t n, leat_error *err)
{
    void *p = leat__sys->alloc(leat__sys->arg, old, n ? n : 1);
    if (!p)
        leat__fail(err, LEAT_ENOMEM, "no memory for %zu bytes", n);
    return p;
}

void *leat__alloc(size_t n, leat_error *err)
{
    return leat__realloc(NULL, n, err);
}

void *leat__zalloc(size_t n, leat_error *err)
{
    void *p = leat__alloc(n, err);
    return p ? memset(p, 0, n) : NULL;
}

void *leat__calloc(size_t n, size_t size, leat_error *err)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        leat__fail(err, LEAT_ENOMEM, "no memory for %zu elements of %zu bytes",
                   n, size);
        return NULL;
    }
    return leat__zalloc(all, err);
}

void leat__free(void *p)
{
    if (p)
        leat__sys->alloc(leat__sys->arg, p, 0);
}

char *leat__strdup(const char *s, leat_error *err)
{
    size_t n = strlen(s) + 1;
    char *p = leat__alloc(n, err);
    return p ? memcpy(p, s, n) : NULL;
}

void leat__free_secret(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    leat__free(s);
}

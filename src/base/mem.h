/*
 * mem.h: memory, through the system table.  Lack of memory is the world's
 * failure: it is reported, never fatal.
 */
#ifndef LEAT_BASE_MEM_H
#define LEAT_BASE_MEM_H

#include "base/error.h"
#include <stddef.h>

/* NULL on failure, with *err filled.  zalloc is zeroed. */
void *leat__alloc(size_t n, leat_error *err);
void *leat__zalloc(size_t n, leat_error *err);

/* n elements of that size, refused on overflow; zeroed. */
void *leat__calloc(size_t n, size_t size, leat_error *err);

/* As realloc: on failure old is still valid. */
void *leat__realloc(void *old, size_t n, leat_error *err);

/* NULL is accepted. */
void leat__free(void *p);

char *leat__strdup(const char *s, leat_error *err);

/* Overwrite a secret so that the compiler keeps the write, then free. */
void leat__free_secret(char *s);

#endif

/*
 * park.c: a binary heap by due time.
 */
#include "stream/park.h"
#include "base/mem.h"

#include <assert.h>

enum { FIRST = 64 };

void leat__stream_park_release(stream_park *p)
{
    leat__free(p->heap);
    *p = (stream_park){ 0 };
}

static bool grow(stream_park *p)
{
    size_t cap = p->cap ? 2 * p->cap : FIRST;
    if (p->count >= LEAT__STREAM_PARK_MAX)
        return false;
    stream_parked *heap = leat__realloc(p->heap, cap * sizeof *heap, NULL);
    if (!heap)
        return false;
    p->heap = heap;
    p->cap = cap;
    return true;
}

bool leat__stream_park_add(stream_park *p, const stream_parked *e)
{
    if (p->count == p->cap && !grow(p))
        return false;
    size_t i = p->count++;
    for (; i > 0 && p->heap[(i - 1) / 2].due_ns > e->due_ns; i = (i - 1) / 2)
        p->heap[i] = p->heap[(i - 1) / 2];
    p->heap[i] = *e;
    return true;
}

int64_t leat__stream_park_due(const stream_park *p)
{
    return p->count > 0 ? p->heap[0].due_ns : INT64_MAX;
}

stream_parked leat__stream_park_pop(stream_park *p)
{
    assert(p->count > 0);
    stream_parked first = p->heap[0], last = p->heap[--p->count];
    size_t i = 0;
    for (size_t c; (c = 2 * i + 1) < p->count; i = c) {
        if (c + 1 < p->count && p->heap[c + 1].due_ns < p->heap[c].due_ns)
            c++;
        if (p->heap[c].due_ns >= last.due_ns)
            break;
        p->heap[i] = p->heap[c];
    }
    if (p->count > 0)
        p->heap[i] = last;
    return first;
}

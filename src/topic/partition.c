/*
 * partition.c: which partition a message goes to.
 */
#include "topic/partition.h"
#include "base/javahash.h"
#include "base/murmur2.h"
#include "base/system.h"

/* These are stored with a topic. */
static const char *const names[] = {
    [LEAT_PARTITION_MURMUR2] = "murmur2",
    [LEAT_PARTITION_JAVA] = "java",
    [LEAT_PARTITION_RING] = "ring",
    [LEAT_PARTITION_ROUND_ROBIN] = "round-robin",
    [LEAT_PARTITION_RANDOM] = "random",
    [LEAT_PARTITION_OWN] = "own",
};
enum { NAMES = sizeof names / sizeof names[0] };

const char *leat__partitioner_name(leat_partitioner p)
{
    return (unsigned)p < NAMES ? names[p] : NULL;
}

bool leat__partitioner_find(leat_bytes name, leat_partitioner *out)
{
    for (int i = 0; i < NAMES; i++) {
        if (leat_bytes_eq(name, leat_str(names[i]))) {
            *out = (leat_partitioner)i;
            return true;
        }
    }
    return false;
}

leat_code leat__chooser_init(leat__chooser *c, leat_partitioner how,
                             uint32_t partitions, leat_partition_fn *fn,
                             void *arg, leat_error *err)
{
    uint64_t turn;
    leat_code rc = leat__random(&turn, sizeof turn, err);
    if (rc != LEAT_OK)
        return rc;
    *c = (leat__chooser){
        .how = how, .partitions = partitions, .fn = fn, .arg = arg
    };
    atomic_init(&c->turn, turn);
    if (how == LEAT_PARTITION_RING &&
        !(c->ring = leat__ring_new(partitions, err)))
        return LEAT_ENOMEM;
    return LEAT_OK;
}

void leat__chooser_release(leat__chooser *c)
{
    leat__ring_free(c->ring);
    c->ring = NULL;
}

static uint64_t next_turn(leat__chooser *c)
{
    return atomic_fetch_add_explicit(&c->turn, 1, memory_order_relaxed);
}

/* SplitMix64 of a counter: even, and without a lock. */
static uint64_t next_random(leat__chooser *c)
{
    uint64_t z = next_turn(c) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static leat_code ask(const leat__chooser *c, const leat_msg *m, uint32_t *p,
                     leat_error *err)
{
    if (!c->fn)
        return leat__fail(err, LEAT_EINVAL,
                          "the topic's partitioner is the program's own, set "
                          "partition_fn when opening it");
    *p = c->fn(c->arg, m, c->partitions);
    if (*p < c->partitions)
        return LEAT_OK;
    return leat__fail(err, LEAT_EINVAL,
                      "partition_fn answered %u, the topic has %u partitions "
                      "counted from 0",
                      *p, c->partitions);
}

leat_code leat__choose(leat__chooser *c, const leat_msg *m, uint32_t *partition,
                       leat_error *err)
{
    if (c->how == LEAT_PARTITION_OWN)
        return ask(c, m, partition, err);
    if (c->partitions == 1)
        *partition = 0;
    else if (c->how == LEAT_PARTITION_RANDOM)
        *partition = (uint32_t)(next_random(c) % c->partitions);
    else if (m->key.n == 0 || c->how == LEAT_PARTITION_ROUND_ROBIN)
        *partition = (uint32_t)(next_turn(c) % c->partitions);
    else if (c->how == LEAT_PARTITION_JAVA)
        *partition = leat__java_partition(m->key, c->partitions);
    else if (c->how == LEAT_PARTITION_RING)
        *partition = leat__ring_of(c->ring, m->key);
    else
        *partition = leat__murmur2_partition(m->key, c->partitions);
    return LEAT_OK;
}

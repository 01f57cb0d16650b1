/*
 * partition.h: which partition a message goes to.
 */
#ifndef LEAT_TOPIC_PARTITION_H
#define LEAT_TOPIC_PARTITION_H

#include "topic/ring.h"
#include <leat/topic.h>
#include <stdatomic.h>

/* Threads: shared. */
typedef struct leat__chooser {
    leat_partitioner how;
    uint32_t partitions;
    leat_partition_fn *fn; /* of LEAT_PARTITION_OWN */
    void *arg;
    leat__ring *ring;      /* of LEAT_PARTITION_RING */
    _Atomic uint64_t turn; /* whose it is, and the random numbers' state;    */
                           /* begins anywhere, so that many producers of one */
                           /* message each do not all choose the same        */
} leat__chooser;

/* fn may be NULL: then LEAT_PARTITION_OWN chooses nothing. */
leat_code leat__chooser_init(leat__chooser *c, leat_partitioner how,
                             uint32_t partitions, leat_partition_fn *fn,
                             void *arg, leat_error *err);
void leat__chooser_release(leat__chooser *c);

leat_code leat__choose(leat__chooser *c, const leat_msg *m, uint32_t *partition,
                       leat_error *err);

const char *leat__partitioner_name(leat_partitioner p);

/* False: there is none of that name. */
bool leat__partitioner_find(leat_bytes name, leat_partitioner *out);

#endif

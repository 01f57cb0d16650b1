/*
 * topic.h: the inside of a topic handle.
 */
#ifndef LEAT_TOPIC_TOPIC_H
#define LEAT_TOPIC_TOPIC_H

#include "topic/keys.h"

typedef struct leat__producer leat__producer;

/* What is known of a topic, read from its meta key. */
typedef struct leat__topic_meta {
    uint32_t partitions;
    leat_partitioner partitioner;
    bool legacy; /* a bare stream, no meta */
    int64_t created_ms, updated_ms;
} leat__topic_meta;

struct leat_topic {
    leat_client *client; /* borrowed */
    char *name;
    char prefix[LEAT__PREFIX_MAX + 1];
    leat_topic_opts opts; /* with the defaults filled in */
    leat__topic_meta meta;
    leat__producer *producer; /* made at first use, by leat__producer_of */
};

/* LEAT_ENOENT: neither meta nor a stream of that name. */
leat_code leat__topic_lookup(leat_client *c, const char *prefix,
                             const char *name, leat__topic_meta *out,
                             leat_error *err);

const char *leat__partitioner_name(leat_partitioner p);

#endif

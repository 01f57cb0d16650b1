/*
 * lanes.h: the producers of a topic.  See lanes.c.
 */
#ifndef LEAT_TOPIC_LANES_H
#define LEAT_TOPIC_LANES_H

#include "topic/producer.h"

/* Publish by whichever producer it is, making what is missing. */
leat_code leat__lanes_publish(leat_topic *t, const uint32_t *partition,
                              const leat_msg *m, size_t n,
                              leat_published_fn *fn, void *arg,
                              leat_error *err);

leat_code leat__lanes_publish_later(leat_topic *t, const leat_msg *m,
                                    int64_t delay_ms, leat_published_fn *fn,
                                    void *arg, leat_error *err);

leat_code leat__lanes_flush(leat__lanes *l, int64_t timeout_ms,
                            leat_error *err);

/* NULL is accepted. */
void leat__lanes_close(leat__lanes *l);

#endif

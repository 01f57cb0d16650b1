/* cluster_help.h: a cluster's keys and commands in a test's words. */
#ifndef CLUSTER_HELP_H
#define CLUSTER_HELP_H

#include "redis/bundle.h"
#include "redis/client.h"
#include "support/rig.h"

enum { LONG_MS = 60000 };

/* A key of this slot's tag: "{tag}name", whose node is `node`. */
static inline char *key_on(int node, const char *name, char *buf, size_t size)
{
    for (int i = 0; i < 10000; i++) {
        snprintf(buf, size, "{%d}%s", i, name);
        if (cluster_owner_of(rig, buf) == node)
            return buf;
    }
    fail_msg("node %d has no slots", node);
    return buf;
}

/* The text of a key, wherever it is; asked from the side. */
static inline int64_t value_at(int node, const char *key)
{
    redisReply *r = redis_raw(cluster_node(rig, node), "GET %s", key);
    int64_t v = r && r->type == REDIS_REPLY_STRING ? atoll(r->str) : -1;
    if (r)
        freeReplyObject(r);
    return v;
}

static inline leat_code say(leat_conn *conn, const char *verb, const char *key,
                            const char *value, leat_error *err)
{
    return leat_conn_call(
        conn, LEAT_ARGS(leat_str(verb), leat_str(key), leat_str(value)), NULL,
        NULL, err);
}

/* A command until it passes: weather is waited out. */
static inline void say_until_done(leat_client *c, const char *verb,
                                  const char *key, const char *value)
{
    must(leat_client_call(
        c, LEAT_ARGS(leat_str(verb), leat_str(key), leat_str(value)),
        &(leat_call_opts){ .idempotent = true, .timeout_ms = LONG_MS }, NULL,
        err));
}

#endif

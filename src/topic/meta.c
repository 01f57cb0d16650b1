/*
 * meta.c: what is known of a topic on the server.
 *
 *   leat:topics       set    the names of all topics
 *   leat:topic:<t>    hash   partitions, partitioner, created, updated (both ms
 *                            since 1970 on the server's clock), u, gone and
 *                            marked as in identity.c, and what is kept of it:
 *                            retention.c
 *
 * The hash is the topic: it is made by one script and never changed by another
 * maker.  The set is an index for people and tools, entered after it.  A crash
 * between the two leaves a topic that works and is not listed; every open
 * enters it again, so the next one mends that.  Partitions need no making:
 * their streams come to be with the first message.
 *
 * A topic without hash whose bare name is a stream is a legacy topic.
 */
#include "redis/script.h"
#include "redis/server_error.h"
#include "redis/shape.h"
#include "topic/topic.h"

#include <string.h>

static leat_code unreadable(const char *name, const char *what,
                            leat_bytes value, leat_error *err)
{
    char quoted[48];
    leat__escape(quoted, sizeof quoted, value.p, value.n);
    return leat__fail(err, LEAT_EDECODE,
                      "topic '%s' has the %s '%s', which this leat does not "
                      "know: another version or program made it",
                      name, what, quoted);
}

enum { FACTS = 7, VALUES = FACTS + LEAT__RETENTION_FIELDS };

static bool is_there(const leat_reply *r)
{
    return leat_reply_kind(r) != LEAT_REPLY_NIL;
}

/* From the values of the hash. */
static leat_code read_meta(const char *name, leat_reply_iter values,
                           leat__topic_meta *out, leat_error *err)
{
    const leat_reply *partitions = leat_reply_step(&values);
    const leat_reply *partitioner = leat_reply_step(&values);
    const leat_reply *created = leat_reply_step(&values);
    const leat_reply *updated = leat_reply_step(&values);
    leat_bytes u = leat_reply_bytes(leat_reply_step(&values));
    bool gone = is_there(leat_reply_step(&values));
    bool marked = is_there(leat_reply_step(&values));
    int64_t n = leat_reply_int(partitions);
    leat_bytes bad;
    *out = (leat__topic_meta){ .gone = gone, .marked = marked };
    if (n < 1 || n > LEAT_PARTITIONS_MAX)
        return unreadable(name, "partition count", leat_reply_bytes(partitions),
                          err);
    if (!leat__partitioner_find(leat_reply_bytes(partitioner),
                                &out->partitioner))
        return unreadable(name, "partitioner", leat_reply_bytes(partitioner),
                          err);
    if (u.n > LEAT__INCARNATION)
        return unreadable(name, "id", u, err);
    if (u.n > 0)
        memcpy(out->u, u.p, u.n);
    out->partitions = (uint32_t)n;
    out->created_ms = leat_reply_int(created);
    out->updated_ms = leat_reply_int(updated);
    if (!leat__retention_read(values, &out->retention, &bad))
        return unreadable(name, "retention", bad, err);
    return LEAT_OK;
}

leat_code leat__topic_check(const char *prefix, const char *name,
                            leat_error *err)
{
    leat_code rc = leat__name_check("topic", name, err);
    return rc == LEAT_OK ? leat__prefix_check(prefix, err) : rc;
}

static leat_code call(leat_client *c, const leat_bytes *argv, size_t n,
                      leat_reply_type want, leat_reply **r, leat_error *err)
{
    leat_call_opts again = { .idempotent = true };
    leat_code rc = leat_client_call(c, argv, n, &again, r, err);
    if (rc == LEAT_OK && leat_reply_kind(*r) != want) {
        leat_reply_free(*r);
        *r = NULL;
        rc = leat__fail(err, LEAT_EPROTO, "the server answered %.*s strangely",
                        (int)argv[0].n, (const char *)argv[0].p);
    }
    return rc;
}

/* Who may not look at the bare name has no use for a stream there. */
static leat_code look_for_stream(leat_client *c, const char *name,
                                 leat__topic_meta *out, leat_error *err)
{
    leat_reply *r;
    leat_error e = { 0 };
    leat_code rc = call(c, LEAT_ARGS(leat_str("TYPE"), leat_str(name)),
                        LEAT_REPLY_STATUS, &r, &e);
    if (rc == LEAT_EAUTH && leat__error_is_noperm(&e))
        return leat__fail(err, LEAT_ENOENT,
                          "there is no topic '%s', and whether the name is "
                          "that of a plain stream may not be looked at: make "
                          "it with leat_topic_create, or open it with "
                          "auto_create",
                          name);
    if (rc != LEAT_OK) {
        if (err)
            *err = e;
        return rc;
    }
    bool stream = leat_bytes_eq(leat_reply_bytes(r), leat_str("stream"));
    leat_reply_free(r);
    *out = (leat__topic_meta){ .partitions = 1, .legacy = true };
    return stream ? LEAT_OK
                  : leat__fail(err, LEAT_ENOENT,
                               "there is no topic '%s': make it with "
                               "leat_topic_create, or open it with auto_create",
                               name);
}

leat_code leat__topic_lookup(leat_client *c, const char *prefix,
                             const char *name, leat__topic_meta *out,
                             leat_error *err)
{
    leat_reply *r;
    leat__key key;
    leat__key_meta(&key, prefix, name);
    leat_bytes argv[2 + VALUES] = {
        leat_str("HMGET"),       leat__key_bytes(&key), leat_str("partitions"),
        leat_str("partitioner"), leat_str("created"),   leat_str("updated"),
        leat_str("u"),           leat_str("gone"),      leat_str("marked")
    };
    leat__retention_names(argv + 2 + FACTS);
    leat_code rc = call(c, argv, 2 + VALUES, LEAT_REPLY_ARRAY, &r, err);
    if (rc != LEAT_OK)
        return rc;
    if (leat_reply_len(r) != VALUES || !leat__reply_fits(r, "[(o)]"))
        rc = leat__fail(err, LEAT_EPROTO,
                        "the server answered HMGET strangely");
    else if (leat_reply_kind(leat_reply_at(r, 0)) == LEAT_REPLY_NIL)
        rc = look_for_stream(c, name, out, err);
    else
        rc = read_meta(name, leat_reply_each(r), out, err);
    leat_reply_free(r);
    return rc;
}

leat_code leat__topic_whole(const char *name, const leat__topic_meta *m,
                            leat_error *err)
{
    if (!m->gone)
        return LEAT_OK;
    return leat__fail(err, LEAT_EBUSY,
                      "topic '%s' is being removed, or that was cut off: "
                      "remove it again, to the end",
                      name);
}

/* EVAL with the body: topics are made rarely, and the client's call knows when
 * to try again. */
leat_code leat__topic_make(leat_client *c, const char *prefix, const char *name,
                           const leat__topic_meta *as, bool again,
                           leat__topic_meta *out, bool *made, leat_error *err)
{
    enum { WORDS = 7 + 2 * LEAT__RETENTION_FIELDS };
    const leat__script *s = &leat__script_topic_make;
    char text[LEAT__NUMBER];
    char more[LEAT__RETENTION_FIELDS][LEAT__RETENTION_NUMBER];
    leat_reply *r;
    leat__key key;
    leat__key_meta(&key, prefix, name);
    leat_bytes argv[WORDS] = {
        leat_str("EVAL"),
        leat_mem(s->body, s->body_size),
        leat_str("1"),
        leat__key_bytes(&key),
        leat__arg_int(text, as->partitions),
        leat_str(leat__partitioner_name(as->partitioner)),
        leat_str(as->u),
    };
    leat__retention_pairs(&as->retention, argv + 7, more);
    leat_code rc = leat_client_call(
        c, argv, WORDS, &(leat_call_opts){ .idempotent = again }, &r, err);
    if (rc != LEAT_OK)
        return rc;
    leat_reply_iter it = leat_reply_each(r);
    if (it.left == 1 + VALUES) {
        *made = leat_reply_int(leat_reply_step(&it)) == 1;
        rc = read_meta(name, it, out, err);
    } else {
        rc = leat__fail(err, LEAT_EUNKNOWN,
                        "the server answered EVAL strangely");
    }
    leat_reply_free(r);
    return rc == LEAT_OK ? leat__topic_whole(name, out, err) : rc;
}

leat_code leat__topic_list(leat_client *c, const char *prefix, const char *name,
                           leat_error *err)
{
    leat__key key;
    leat__key_topics(&key, prefix);
    return leat_client_call(
        c, LEAT_ARGS(leat_str("SADD"), leat__key_bytes(&key), leat_str(name)),
        &(leat_call_opts){ .idempotent = true }, NULL, err);
}

/*
 * topic.c: making and opening topics.  See meta.c for what is on the server.
 */
#include "base/fork.h"
#include "base/log.h"
#include "base/mem.h"
#include "redis/client.h"
#include "topic/identity.h"
#include "topic/lanes.h"

#include <stdio.h>

enum {
    WINDOW = 1024,
    MAX_QUEUED = 65536,
    MAX_QUEUED_BYTES = 64 << 20,
    MAX_WAIT_MS = 30 * 1000,
    MAX_MESSAGE = 1 << 20,
    TIMEOUT_MS = 30 * 1000,
    REPLICAS_MS = 1000
};

static leat_code check_partitions(int n, leat_partitioner how, leat_error *err)
{
    if (n < 0 || n > LEAT_PARTITIONS_MAX)
        return leat__fail(err, LEAT_EINVAL,
                          "%d partitions: a topic has 1 to %d", n,
                          LEAT_PARTITIONS_MAX);
    if (!leat__partitioner_name(how))
        return leat__fail(err, LEAT_EINVAL, "there is no partitioner %d",
                          (int)how);
    return LEAT_OK;
}

/* A stream of that name is a topic to whoever opens it: a second of the same
 * name would hide it. */
static leat_code none_there(leat_client *c, const char *prefix,
                            const char *name, leat_error *err)
{
    leat_error e;
    leat__topic_meta m;
    leat_code rc = leat__topic_lookup(c, prefix, name, &m, &e);
    if (rc == LEAT_ENOENT)
        return LEAT_OK;
    if (rc != LEAT_OK) {
        if (err)
            *err = e;
        return rc;
    }
    if (m.legacy)
        return leat__fail(err, LEAT_EEXIST,
                          "there is a stream '%s', which is opened as a topic "
                          "of one partition",
                          name);
    rc = leat__topic_whole(name, &m, err);
    if (rc != LEAT_OK)
        return rc;
    (void)leat__topic_list(c, prefix, name, NULL); /* its maker may have died */
    return leat__fail(err, LEAT_EEXIST,
                      "there is a topic '%s' with %u partitions", name,
                      m.partitions);
}

leat_code leat_topic_create(leat_client *c, const char *name,
                            const leat_topic_spec *spec, leat_error *err)
{
    leat_topic_spec s = spec ? *spec : (leat_topic_spec){ 0 };
    leat__topic_meta m;
    leat_error e;
    bool made = false;
    leat_code rc = leat__topic_check(s.prefix, name, err);
    if (rc == LEAT_OK)
        rc = check_partitions(s.partitions, s.partitioner, err);
    if (rc == LEAT_OK)
        rc = leat__retention_check(&s.retention, err);
    if (rc == LEAT_OK)
        rc = none_there(c, s.prefix, name, err);
    m = (leat__topic_meta){ .partitions = s.partitions ? (uint32_t)s.partitions
                                                       : 1,
                            .partitioner = s.partitioner,
                            .retention = s.retention };
    if (rc == LEAT_OK)
        rc = leat__incarnation_new(m.u, err);
    if (rc == LEAT_OK)
        rc = leat__topic_make(c, s.prefix, name, &m, false, &m, &made, err);
    if (rc != LEAT_OK)
        return rc;
    if (!made)
        return leat__fail(err, LEAT_EEXIST,
                          "topic '%s' was made by another at the same time",
                          name);
    const leat__topic_at at = {
        .client = c, .prefix = s.prefix, .name = name, .meta = m
    };
    if (leat__topic_mark(&at, &e) != LEAT_OK ||
        leat__topic_list(c, s.prefix, name, &e) != LEAT_OK)
        return leat__fail(err, LEAT_EUNKNOWN,
                          "topic '%s' was made, but is not whole until "
                          "somebody opens it: %.100s",
                          name, e.msg);
    return LEAT_OK;
}

/* ---- opening ---------------------------------------------------------- */

static leat_code check_options(const leat_topic_opts *o, leat_error *err)
{
    leat_code rc = check_partitions(o->partitions, o->partitioner, err);
    if (rc == LEAT_OK)
        rc = leat__retention_check(&o->retention, err);
    if (rc != LEAT_OK)
        return rc;
    if (o->window < 0 || o->max_queued < 0 || o->linger_ms < 0 ||
        o->max_wait_ms < 0 || o->timeout_ms < 0 || o->replicas < 0 ||
        o->replicas_ms < 0)
        return leat__fail(err, LEAT_EINVAL,
                          "window, bounds, times and replicas cannot be "
                          "negative");
    return LEAT_OK;
}

static void fill_options(leat_topic_opts *o)
{
    o->partitions = o->partitions ? o->partitions : 1;
    o->codec = o->codec ? o->codec : &leat_codec_native;
    o->window = o->window ? o->window : WINDOW;
    o->max_queued = o->max_queued ? o->max_queued : MAX_QUEUED;
    o->max_queued_bytes = o->max_queued_bytes ? o->max_queued_bytes
                                              : MAX_QUEUED_BYTES;
    o->max_wait_ms = o->max_wait_ms ? o->max_wait_ms : MAX_WAIT_MS;
    o->max_message = o->max_message ? o->max_message : MAX_MESSAGE;
    o->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    if (o->replicas > 0 && o->replicas_ms == 0)
        o->replicas_ms = REPLICAS_MS;
}

static leat_code find(leat_topic *t, leat_error *err)
{
    leat_error e;
    bool made;
    leat_code rc = leat__topic_lookup(t->client, t->prefix, t->name, &t->meta,
                                      &e);
    leat__topic_meta as = { .partitions = (uint32_t)t->opts.partitions,
                            .partitioner = t->opts.partitioner,
                            .retention = t->opts.retention };
    if (rc == LEAT_OK)
        return leat__topic_whole(t->name, &t->meta, err);
    if (rc == LEAT_ENOENT && t->opts.auto_create) {
        rc = leat__incarnation_new(as.u, err);
        return rc == LEAT_OK ? leat__topic_make(t->client, t->prefix, t->name,
                                                &as, true, &t->meta, &made, err)
                             : rc;
    }
    if (err)
        *err = e;
    return rc;
}

/* What was asked for and is otherwise holds as it is: the messages that are
 * there were placed by it. */
static void compare(const leat_topic *t, const leat_topic_opts *asked)
{
    const leat__topic_meta *m = &t->meta;
    if (asked->partitions && (uint32_t)asked->partitions != m->partitions)
        leat__log(&t->opts.log, LEAT_LOG_WARN,
                  "topic '%s' has %u partitions, not the %d asked for", t->name,
                  m->partitions, asked->partitions);
    if (asked->partitioner && asked->partitioner != m->partitioner)
        leat__log(&t->opts.log, LEAT_LOG_WARN,
                  "topic '%s' has the partitioner %s, not the %s asked for",
                  t->name, leat__partitioner_name(m->partitioner),
                  leat__partitioner_name(asked->partitioner));
    static const leat_retention any;
    if (!leat__retention_same(&asked->retention, &any) &&
        !leat__retention_same(&asked->retention, &m->retention))
        leat__log(&t->opts.log, LEAT_LOG_WARN,
                  "topic '%s' has another retention than the one asked for, "
                  "which leat_topic_alter would set",
                  t->name);
}

/* Messages go to it and come from it though it is not listed, or lacks an id:
 * a full server, or one that lets us only read, is no reason not to open it. */
static void enter(leat_topic *t)
{
    leat_error e;
    const leat__topic_at at = { .client = t->client,
                                .prefix = t->prefix,
                                .name = t->name,
                                .meta = t->meta };
    if (leat__topic_mark(&at, &e) != LEAT_OK)
        leat__log(&t->opts.log, LEAT_LOG_WARN,
                  "topic '%s' may lack its id beside some logs: %s", t->name,
                  e.msg);
    if (!t->meta.legacy &&
        leat__topic_list(t->client, t->prefix, t->name, &e) != LEAT_OK)
        leat__log(&t->opts.log, LEAT_LOG_WARN,
                  "topic '%s' may not be listed: %s", t->name, e.msg);
}

static leat_topic *topic_new(leat_client *c, const char *name,
                             const leat_topic_opts *o, leat_error *err)
{
    leat_topic *t = leat__zalloc(sizeof *t, err);
    if (!t)
        return NULL;
    t->client = c;
    t->forks = leat__fork_count();
    t->name = leat__strdup(name, err);
    if (!t->name || leat__client_keep(c, LEAT__A_TOPIC, err) != LEAT_OK) {
        leat__free(t->name);
        leat__free(t);
        return NULL;
    }
    pthread_mutex_init(&t->lock, NULL);
    snprintf(t->prefix, sizeof t->prefix, "%s",
             o->prefix && *o->prefix ? o->prefix : "leat");
    t->opts = *o;
    t->opts.prefix = t->prefix;
    fill_options(&t->opts);
    leat__client_inherit(c, &t->opts.log, &t->opts.metrics);
    return t;
}

leat_topic *leat_topic_open(leat_client *c, const char *name,
                            const leat_topic_opts *opts, leat_error *err)
{
    leat_topic_opts o = opts ? *opts : (leat_topic_opts){ 0 };
    if (leat__topic_check(o.prefix, name, err) != LEAT_OK ||
        check_options(&o, err) != LEAT_OK)
        return NULL;
    leat_topic *t = topic_new(c, name, &o, err);
    if (!t)
        return NULL;
    if (find(t, err) != LEAT_OK)
        goto fail;
    if (t->meta.legacy)
        t->meta.partitioner = o.partitioner;
    leat__retention_begin(t);
    if (leat__chooser_init(&t->chooser, t->meta.partitioner, t->meta.partitions,
                           o.partition_fn, o.partition_arg, err) != LEAT_OK)
        goto fail;
    compare(t, &o);
    enter(t);
    return t;

fail:
    leat_topic_close(t);
    return NULL;
}

/* In a forked child neither the locks nor the thread are ours. */
void leat_topic_close(leat_topic *t)
{
    if (!t || leat__topic_own(t, NULL) != LEAT_OK)
        return;
    leat__lanes_close(atomic_load(&t->lanes));
    pthread_mutex_destroy(&t->lock);
    leat__chooser_release(&t->chooser);
    leat_client *c = t->client;
    leat__free(t->name);
    leat__free(t);
    leat__client_drop(c, LEAT__A_TOPIC);
}

leat_code leat__topic_own(const leat_topic *t, leat_error *err)
{
    if (t->forks == leat__fork_count())
        return LEAT_OK;
    return leat__fail(err, LEAT_EFORK,
                      "topic '%s' belongs to the parent process, open a client "
                      "and the topic after fork",
                      t->name);
}

const char *leat_topic_name(const leat_topic *t)
{
    return t->name;
}

uint32_t leat_topic_partitions(const leat_topic *t)
{
    return t->meta.partitions;
}

bool leat_topic_legacy(const leat_topic *t)
{
    return t->meta.legacy;
}

leat_code leat_topic_partition_of(leat_topic *t, const leat_msg *m,
                                  uint32_t *partition, leat_error *err)
{
    return leat__choose(&t->chooser, m, partition, err);
}

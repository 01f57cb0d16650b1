/*
 * standing.c: what has become of a topic that is open.
 *
 * Whoever uses a topic looks at its hash every few seconds, for its retention.
 * The same look says whether it is still the one that was opened:
 *
 *   there      it is, or it is another of that name with as many partitions and
 *              the same partitioner: producers go on with that one, members
 *              begin anew in it (heard.c), and it is logged
 *   reshaped   another one, which this handle does not fit: publishing is
 *              refused, members end; whoever opens it again goes on
 *   doomed     it is being removed: publishing is refused
 *   away       it is not there.  With auto_create it is made again as it was,
 *              with the same incarnation: the server may have lost it.
 *              Without, publishing is refused until somebody makes one
 *
 * What was sent between two looks went to who had the name.
 */
#include "topic/standing.h"
#include "base/log.h"
#include "redis/script.h"

#include <string.h>

static const char *const names[LEAT__STANDING_FIELDS] = { "partitions",
                                                          "partitioner", "u",
                                                          "gone" };

void leat__standing_names(leat_bytes out[LEAT__STANDING_FIELDS])
{
    for (int i = 0; i < LEAT__STANDING_FIELDS; i++)
        out[i] = leat_str(names[i]);
}

void leat__standing_hurry(leat_topic *t)
{
    atomic_store(&t->retention.read_ns, 0);
}

void leat__standing_u(leat_topic *t, char out[LEAT__INCARNATION + 1])
{
    pthread_mutex_lock(&t->lock);
    memcpy(out, t->u, sizeof t->u);
    pthread_mutex_unlock(&t->lock);
}

/* ---- a look ----------------------------------------------------------- */

/* True: it is another than before, and is the one from now on. */
static bool adopt(leat_topic *t, leat_bytes u)
{
    pthread_mutex_lock(&t->lock);
    bool another = !leat_bytes_eq(u, leat_str(t->u));
    if (another) {
        memset(t->u, 0, sizeof t->u);
        if (u.n > 0)
            memcpy(t->u, u.p, u.n);
        atomic_fetch_add(&t->incarnations, 1);
    }
    pthread_mutex_unlock(&t->lock);
    return another;
}

static bool fits(const leat_topic *t, int64_t partitions, leat_bytes by)
{
    leat_partitioner how;
    return partitions == (int64_t)t->meta.partitions &&
           leat__partitioner_find(by, &how) && how == t->meta.partitioner;
}

static void say(const leat_topic *t, leat__standing now)
{
    static const char *const words[] = {
        [LEAT__TOPIC_THERE] = "is there again",
        [LEAT__TOPIC_RESHAPED] = ("was removed and made again with other "
                                  "partitions: nothing is published to it or "
                                  "read until it is opened again"),
        [LEAT__TOPIC_DOOMED] = "is being removed: nothing is published to it",
        [LEAT__TOPIC_AWAY] = ("is gone: it was removed, or the server has lost "
                              "it"),
    };
    leat__log(&t->opts.log,
              now == LEAT__TOPIC_THERE ? LEAT_LOG_INFO : LEAT_LOG_WARN,
              "topic '%s' %s", t->name, words[now]);
}

static void stand(leat_topic *t, leat__standing now)
{
    if (atomic_exchange(&t->standing, now) != now)
        say(t, now);
}

void leat__standing_take(leat_topic *t, leat_reply_iter *it)
{
    const leat_reply *partitions = leat_reply_step(it);
    leat_bytes by = leat_reply_bytes(leat_reply_step(it));
    leat_bytes u = leat_reply_bytes(leat_reply_step(it));
    bool gone = leat_reply_kind(leat_reply_step(it)) != LEAT_REPLY_NIL;
    if (leat_reply_kind(partitions) == LEAT_REPLY_NIL) {
        stand(t, LEAT__TOPIC_AWAY);
    } else if (gone) {
        stand(t, LEAT__TOPIC_DOOMED);
    } else if (!fits(t, leat_reply_int(partitions), by) ||
               u.n > LEAT__INCARNATION) {
        stand(t, LEAT__TOPIC_RESHAPED);
    } else {
        if (adopt(t, u))
            leat__log(&t->opts.log, LEAT_LOG_WARN,
                      "topic '%s' was removed and made again: what is "
                      "published, and was since then, goes to the new one",
                      t->name);
        stand(t, LEAT__TOPIC_THERE);
    }
    atomic_fetch_add(&t->looks, 1);
}

/* ---- publishing ------------------------------------------------------- */

leat_code leat__standing_refuse(const leat_topic *t, leat_error *err)
{
    leat__standing now = leat__standing_of(t);
    if (now == LEAT__TOPIC_RESHAPED)
        return leat__fail(err, LEAT_ESTALE,
                          "topic '%s' was removed and made again with other "
                          "partitions: open it again",
                          t->name);
    if (now == LEAT__TOPIC_DOOMED ||
        (now == LEAT__TOPIC_AWAY && !t->opts.auto_create))
        return leat__fail(err, LEAT_ENOENT,
                          "topic '%s' was removed: it is published to again "
                          "when there is one",
                          t->name);
    return LEAT_OK;
}

/* ---- making it again -------------------------------------------------- */

bool leat__standing_lost(const leat_topic *t)
{
    return t->opts.auto_create && leat__standing_of(t) == LEAT__TOPIC_AWAY;
}

static leat__topic_meta as_it_was(leat_topic *t)
{
    leat__topic_meta m = t->meta;
    leat__topic_retention(t, &m.retention);
    leat__standing_u(t, m.u);
    leat__log(&t->opts.log, LEAT_LOG_WARN, "topic '%s' is made again", t->name);
    return m;
}

static void on_made(void *arg, const leat_reply *r, const leat_error *e)
{
    (void)r;
    if (!e)
        leat__standing_hurry(arg);
}

/* The next look sees whether it was made. */
void leat__standing_restore(leat_topic *t, leat_conn *c)
{
    enum { WORDS = 3 + 2 * LEAT__RETENTION_FIELDS };
    char text[LEAT__NUMBER];
    char more[LEAT__RETENTION_FIELDS][LEAT__RETENTION_NUMBER];
    leat__key key;
    const leat__topic_meta m = as_it_was(t);
    leat_bytes args[WORDS] = { leat__arg_int(text, m.partitions),
                               leat_str(leat__partitioner_name(m.partitioner)),
                               leat_str(m.u) };
    leat__retention_pairs(&m.retention, args + 3, more);
    leat__key_meta(&key, t->prefix, t->name);
    const leat_bytes k = leat__key_bytes(&key);
    (void)!leat__script_send(c, &leat__script_topic_make, &k, 1, args, WORDS,
                             &(leat_send_opts){ .fn = on_made, .arg = t },
                             NULL);
}

void leat__standing_restore_wait(leat_topic *t)
{
    bool made;
    leat__topic_meta m = as_it_was(t);
    if (leat__topic_make(t->client, t->prefix, t->name, &m, true, &m, &made,
                         NULL) == LEAT_OK)
        leat__standing_hurry(t);
}

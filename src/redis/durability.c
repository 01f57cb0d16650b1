/*
 * durability.c: what a server keeps, judged by what was seen of it.
 *
 *   class        of the server                            behind each write
 *   executed     nothing but that it does not evict
 *   logged       appendonly yes, appendfsync not no
 *   synced       appendonly yes, and appendfsync always
 *                without pauses, or else WAITAOF          WAITAOF 1 0
 *   replicated   synced, min-replicas-to-write n, n       WAIT n, or
 *                replicas that follow                     WAITAOF 1 n
 *   outbox       as executed: the truth is elsewhere
 *
 * min-replicas-to-write is a part of it because WAIT alone tells only
 * afterwards: a master that was cut off would go on acknowledging to whoever
 * does not ask.
 */
#include "redis/durability.h"
#include "redis/facts.h"

#include <stdio.h>
#include <string.h>

enum { WAIT_MS = 1000, SYNC_WAIT_MS = 5000, WINDOW_MS = 2000 };

static const char *const names[] = { "executed", "logged", "synced",
                                     "replicated", "outbox" };

const char *leat_durability_name(leat_durability d)
{
    return (unsigned)d <= LEAT_OUTBOX ? names[d] : "?";
}

bool leat__durability_parse(leat_bytes text, leat_durability *out)
{
    for (unsigned i = 0; i <= LEAT_OUTBOX; i++) {
        const char digit = (char)('0' + i);
        if (leat_bytes_eq(text, leat_str(names[i])) ||
            leat_bytes_eq(text, leat_mem(&digit, 1))) {
            *out = (leat_durability)i;
            return true;
        }
    }
    return false;
}

/* ---- what is lacking -------------------------------------------------- */

static leat__lack lacks(char *why, size_t room, const char *text)
{
    snprintf(why, room, "%s", text);
    return LEAT__LACKS;
}

#define CONFIG_REFUSED                                                         \
    "CONFIG GET is refused, so %s is not known, allow "                        \
    "+config|get"

static leat__lack lacks_log(const leat_server *s, char *why, size_t room)
{
    if (!s->version[0])
        return lacks(why, room,
                     "INFO is refused, so appendonly is not known, allow "
                     "+info");
    if (!s->aof)
        return lacks(why, room,
                     "appendonly is no, set appendonly yes (redis.conf or "
                     "CONFIG SET)");
    return LEAT__LACKS_NOTHING;
}

static leat__lack lacks_policy(const leat_server *s, const char *wanted,
                               char *why, size_t room)
{
    if (s->appendfsync[0])
        snprintf(why, room,
                 "appendfsync is %s, set appendfsync %s (redis.conf or CONFIG "
                 "SET)",
                 s->appendfsync, wanted);
    else
        snprintf(why, room, CONFIG_REFUSED, "appendfsync");
    return LEAT__LACKS;
}

static leat__lack lacks_logged(const leat_server *s, char *why, size_t room)
{
    leat__lack lack = lacks_log(s, why, room);
    if (lack)
        return lack;
    if (strcmp(s->appendfsync, "everysec") == 0 ||
        strcmp(s->appendfsync, "always") == 0)
        return LEAT__LACKS_NOTHING;
    return lacks_policy(s, "everysec or always", why, room);
}

/* A server that saves or rewrites would leave syncing alone meanwhile. */
static bool syncs_always(const leat_server *s)
{
    return strcmp(s->appendfsync, "always") == 0 && !s->no_sync_on_rewrite;
}

static leat__lack lacks_synced(const leat_server *s, char *why, size_t room)
{
    leat__lack lack = lacks_log(s, why, room);
    if (lack || syncs_always(s) || s->has_waitaof)
        return lack;
    if (strcmp(s->appendfsync, "always") == 0)
        return lacks(why, room,
                     "no-appendfsync-on-rewrite is yes, set "
                     "no-appendfsync-on-rewrite no (redis.conf or CONFIG SET)");
    return lacks_policy(s, "always", why, room);
}

static leat__lack lacks_minimum(const leat_server *s, int n, char *why,
                                size_t room)
{
    if (!s->config_seen)
        snprintf(why, room, CONFIG_REFUSED, "min-replicas-to-write");
    else if (s->min_replicas < n)
        snprintf(why, room,
                 "min-replicas-to-write is %d, set min-replicas-to-write %d "
                 "(redis.conf or CONFIG SET)",
                 s->min_replicas, n);
    else if (s->min_replicas_lag_s <= 0)
        snprintf(why, room,
                 "min-replicas-max-lag is 0, which switches "
                 "min-replicas-to-write off, set min-replicas-max-lag 10");
    else
        return LEAT__LACKS_NOTHING;
    return LEAT__LACKS;
}

static leat__lack lacks_replicated(const leat_server *s, int n, char *why,
                                   size_t room)
{
    leat__lack lack = lacks_synced(s, why, room);
    if (!lack && s->wait_refused)
        lack = lacks(why, room, "WAIT is refused, allow +wait");
    if (!lack)
        lack = lacks_minimum(s, n, why, room);
    if (lack || s->replicas_online >= n)
        return lack;
    snprintf(why, room, "%d of %d replicas follow, wait for them or start more",
             s->replicas_online, n);
    return LEAT__LACKS_NOW;
}

leat__lack leat__durability_lack(const leat_server *s, leat_durability d,
                                 int replicas, char *why, size_t room)
{
    if (room > 0)
        *why = '\0';
    switch (d) {
    case LEAT_LOGGED:
        return lacks_logged(s, why, room);
    case LEAT_SYNCED:
        return lacks_synced(s, why, room);
    case LEAT_REPLICATED:
        return lacks_replicated(s, replicas > 0 ? replicas : 1, why, room);
    case LEAT_EXECUTED:
    case LEAT_OUTBOX:
        break;
    }
    return LEAT__LACKS_NOTHING;
}

/* ---- judging ---------------------------------------------------------- */

leat_code leat__durability_judge(const leat_server *s, const leat__demand *d,
                                 leat_error *err)
{
    char why[200];
    if (leat__facts_evicts(s) && !d->evicting)
        return leat__fail(err, LEAT_EUNSAFE,
                          "the server may evict messages (maxmemory-policy "
                          "%s), set it to noeviction or allow eviction",
                          s->maxmemory_policy);
    leat__lack lack = leat__durability_lack(s, d->asked, d->replicas, why,
                                            sizeof why);
    if (lack == LEAT__LACKS_NOTHING || d->weak)
        return LEAT_OK;
    return leat__fail_retriable(err, LEAT_EUNSAFE, lack == LEAT__LACKS_NOW,
                                "durability '%s' is not given: %s",
                                leat_durability_name(d->asked), why);
}

leat__proof leat__durability_proof(const leat_server *s, const leat__demand *d)
{
    leat__proof p = { 0 };
    if (d->asked == LEAT_REPLICATED)
        p.replicas = d->replicas;
    if (d->asked == LEAT_REPLICATED)
        p.synced = s->has_waitaof && s->aof;
    else if (d->asked == LEAT_SYNCED)
        p.synced = s->has_waitaof && s->aof && !syncs_always(s);
    p.ms = d->wait_ms                     ? d->wait_ms
           : p.synced && !syncs_always(s) ? SYNC_WAIT_MS
           : p.synced || p.replicas > 0   ? WAIT_MS
                                          : 0;
    return p;
}

/* ---- telling ---------------------------------------------------------- */

static leat_durability best(const leat_server *s, int replicas)
{
    char why[200];
    leat_durability d = LEAT_REPLICATED;
    while (d > LEAT_EXECUTED &&
           leat__durability_lack(s, d, replicas, why, sizeof why))
        d--;
    return d;
}

/* Without asking for anything an acknowledgement is worth what the server does
 * by itself before it answers. */
static leat_durability given(const leat_server *s, const leat__demand *d)
{
    char why[200];
    if (!leat__durability_lack(s, d->asked, d->replicas, why, sizeof why) &&
        d->asked >= LEAT_SYNCED)
        return d->asked;
    if (lacks_logged(s, why, sizeof why))
        return LEAT_EXECUTED;
    return syncs_always(s) ? LEAT_SYNCED : LEAT_LOGGED;
}

static const char *meaning(const leat_server *s, leat_durability d)
{
    switch (d) {
    case LEAT_LOGGED:
        return "what is acknowledged reaches the disk within some seconds: a "
               "crash may take back the last two seconds, and more where the "
               "disk is slow";
    case LEAT_SYNCED:
        return "what is acknowledged is on the server's disk: a crash, a power "
               "cut or a full disk takes nothing back, the loss of the disk "
               "everything";
    case LEAT_REPLICATED:
        return "what is acknowledged is on the server's disk and has reached "
               "its replicas: the failure of one node takes nothing back";
    case LEAT_OUTBOX:
        return "what is acknowledged may be lost here; a loss is found, told "
               "and published again from where the truth is";
    case LEAT_EXECUTED:
        break;
    }
    if (!s->version[0])
        return "what is acknowledged has been done; whether it outlives the "
               "server cannot be seen";
    if (s->aof)
        return "what is acknowledged reaches the disk when the operating "
               "system likes: a crash of the machine may take back the last "
               "half minute";
    if (s->snapshots)
        return "what is acknowledged is in the server's memory: a crash takes "
               "back everything since the last snapshot";
    return "what is acknowledged is in the server's memory: a crash or a "
           "restart takes back everything";
}

void leat__durability_describe(const leat_server *s, const leat__demand *d,
                               leat_durability_report *out)
{
    *out = (leat_durability_report){ .asked = d->asked,
                                     .replicas = d->replicas ? d->replicas
                                                             : 1 };
    out->given = given(s, d);
    out->best = best(s, out->replicas);
    out->means = meaning(s, out->given);
    out->forgets_ms = out->given == LEAT_LOGGED     ? WINDOW_MS
                      : out->given == LEAT_EXECUTED ? -1
                                                    : 0;
    leat_durability next = out->best < LEAT_REPLICATED ? out->best + 1
                                                       : LEAT_REPLICATED;
    if (d->asked < LEAT_OUTBOX && d->asked > out->best)
        next = d->asked;
    leat__durability_lack(s, next, out->replicas, out->lacks,
                          sizeof out->lacks);
}

const char *leat__durability_remark(const leat_server *s, const leat__demand *d,
                                    leat_level *level)
{
    *level = LEAT_LOG_WARN;
    if (!s->version[0])
        return "INFO is refused: cannot see whether the server evicts or keeps "
               "its data";
    if (d->asked == LEAT_OUTBOX)
        return NULL;
    if (!s->aof)
        return "appendonly is off: a restart of the server may forget "
               "messages, set appendonly yes";
    if (strcmp(s->appendfsync, "no") == 0)
        return "appendfsync is no: a crash of the machine may forget half a "
               "minute of messages, set appendfsync everysec or always";
    *level = LEAT_LOG_INFO;
    if (d->asked == LEAT_EXECUTED && strcmp(s->appendfsync, "everysec") == 0)
        return "appendfsync is everysec: a crash of the server may forget the "
               "messages of some seconds, ask for durability 'synced' if that "
               "is too much";
    return NULL;
}

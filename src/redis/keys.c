/*
 * keys.c: the table of commands whose keys are not just the first argument.
 */
#include "redis/keys.h"
#include "base/crc16.h"

#include <stdlib.h>
#include <strings.h>

typedef enum where {
    NONE,     /* no keys                                          */
    ALL,      /* 1 ...                                            */
    PAIRS,    /* 1, 3, 5 ...                                      */
    TWO,      /* 1 and 2                                          */
    BUT_LAST, /* 1 ... without the last                           */
    SECOND,   /* 2: behind a subcommand                           */
    FROM_2,   /* 2 ...                                            */
    COUNT_1,  /* their number at 1, then they                     */
    COUNT_2,  /* their number at 2, then they                     */
    STORE,    /* 1; their number at 2, then they                  */
    THIRD,    /* 3                                                */
    STREAMS   /* behind the word STREAMS, the first half          */
} where;

/* Sorted, for bsearch. */
static const struct command {
    const char *name;
    where where;
} table[] = {
    { "ACL", NONE },
    { "ASKING", NONE },
    { "AUTH", NONE },
    { "BGREWRITEAOF", NONE },
    { "BGSAVE", NONE },
    { "BITOP", FROM_2 },
    { "BLMOVE", TWO },
    { "BLMPOP", COUNT_2 },
    { "BLPOP", BUT_LAST },
    { "BRPOP", BUT_LAST },
    { "BRPOPLPUSH", TWO },
    { "BZMPOP", COUNT_2 },
    { "BZPOPMAX", BUT_LAST },
    { "BZPOPMIN", BUT_LAST },
    { "CLIENT", NONE },
    { "CLUSTER", NONE },
    { "COMMAND", NONE },
    { "CONFIG", NONE },
    { "COPY", TWO },
    { "DBSIZE", NONE },
    { "DEBUG", NONE },
    { "DEL", ALL },
    { "DISCARD", NONE },
    { "ECHO", NONE },
    { "EVAL", COUNT_2 },
    { "EVAL_RO", COUNT_2 },
    { "EVALSHA", COUNT_2 },
    { "EVALSHA_RO", COUNT_2 },
    { "EXEC", NONE },
    { "EXISTS", ALL },
    { "FAILOVER", NONE },
    { "FCALL", COUNT_2 },
    { "FCALL_RO", COUNT_2 },
    { "FLUSHALL", NONE },
    { "FLUSHDB", NONE },
    { "FUNCTION", NONE },
    { "GEOSEARCHSTORE", TWO },
    { "HELLO", NONE },
    { "INFO", NONE },
    { "KEYS", NONE },
    { "LASTSAVE", NONE },
    { "LATENCY", NONE },
    { "LCS", TWO },
    { "LMOVE", TWO },
    { "LMPOP", COUNT_1 },
    { "LOLWUT", NONE },
    { "MEMORY", SECOND },
    { "MGET", ALL },
    { "MIGRATE", THIRD },
    { "MODULE", NONE },
    { "MONITOR", NONE },
    { "MSET", PAIRS },
    { "MSETNX", PAIRS },
    { "MULTI", NONE },
    { "OBJECT", SECOND },
    { "PFCOUNT", ALL },
    { "PFMERGE", ALL },
    { "PING", NONE },
    { "PSUBSCRIBE", NONE },
    { "PUBLISH", NONE },
    { "PUBSUB", NONE },
    { "PUNSUBSCRIBE", NONE },
    { "QUIT", NONE },
    { "RANDOMKEY", NONE },
    { "READONLY", NONE },
    { "READWRITE", NONE },
    { "RENAME", TWO },
    { "RENAMENX", TWO },
    { "REPLICAOF", NONE },
    { "RESET", NONE },
    { "ROLE", NONE },
    { "RPOPLPUSH", TWO },
    { "SAVE", NONE },
    { "SCAN", NONE },
    { "SCRIPT", NONE },
    { "SDIFF", ALL },
    { "SDIFFSTORE", ALL },
    { "SELECT", NONE },
    { "SHUTDOWN", NONE },
    { "SINTER", ALL },
    { "SINTERCARD", COUNT_1 },
    { "SINTERSTORE", ALL },
    { "SLAVEOF", NONE },
    { "SLOWLOG", NONE },
    { "SMOVE", TWO },
    { "SSUBSCRIBE", ALL },
    { "SUBSCRIBE", NONE },
    { "SUNION", ALL },
    { "SUNIONSTORE", ALL },
    { "SUNSUBSCRIBE", ALL },
    { "SWAPDB", NONE },
    { "TIME", NONE },
    { "TOUCH", ALL },
    { "UNLINK", ALL },
    { "UNSUBSCRIBE", NONE },
    { "UNWATCH", NONE },
    { "WAIT", NONE },
    { "WAITAOF", NONE },
    { "WATCH", ALL },
    { "XGROUP", SECOND },
    { "XINFO", SECOND },
    { "XREAD", STREAMS },
    { "XREADGROUP", STREAMS },
    { "ZDIFF", COUNT_1 },
    { "ZDIFFSTORE", STORE },
    { "ZINTER", COUNT_1 },
    { "ZINTERCARD", COUNT_1 },
    { "ZINTERSTORE", STORE },
    { "ZMPOP", COUNT_1 },
    { "ZRANGESTORE", TWO },
    { "ZUNION", COUNT_1 },
    { "ZUNIONSTORE", STORE },
};

enum { COMMANDS = sizeof table / sizeof table[0] };

static int compare(const void *name, const void *entry)
{
    const leat_bytes *b = name;
    const char *s = ((const struct command *)entry)->name;
    size_t n = strlen(s);
    int d = strncasecmp(b->p, s, b->n);
    return d ? d : b->n < n ? -1 : b->n > n;
}

static const leat__keys none = { .step = 1 };

static leat__keys range(size_t first, size_t end, size_t n)
{
    if (end > n)
        end = n;
    return first < end ? (leat__keys){ .first = first, .end = end, .step = 1 }
                       : none;
}

/* The number at argv[at], which the keys follow.  What is no number the server
 * refuses, wherever it is sent. */
static leat__keys counted(const leat_bytes *argv, size_t n, size_t at)
{
    size_t count = 0;
    if (at >= n || argv[at].n == 0 || argv[at].n > 9)
        return none;
    for (size_t i = 0; i < argv[at].n; i++) {
        char d = ((const char *)argv[at].p)[i];
        if (d < '0' || d > '9')
            return none;
        count = count * 10 + (size_t)(d - '0');
    }
    return range(at + 1, at + 1 + count, n);
}

static bool is_word(leat_bytes b, const char *word)
{
    return b.n == strlen(word) && strncasecmp(b.p, word, b.n) == 0;
}

static leat__keys behind_streams(const leat_bytes *argv, size_t n)
{
    /* A group or a consumer may be named so. */
    size_t i = is_word(argv[0], "XREADGROUP") ? 4 : 1;
    while (i < n && !is_word(argv[i], "STREAMS"))
        i++;
    return i < n ? range(i + 1, i + 1 + (n - i - 1) / 2, n) : none;
}

leat__keys leat__keys_of(const leat_bytes *argv, size_t n)
{
    leat__keys k = none;
    if (n == 0)
        return k;
    const struct command *c = argv[0].n ? bsearch(&argv[0], table, COMMANDS,
                                                  sizeof table[0], compare)
                                        : NULL;
    if (!c)
        return range(1, 2, n);
    switch (c->where) {
    case NONE:
        return none;
    case ALL:
        return range(1, n, n);
    case TWO:
        return range(1, 3, n);
    case BUT_LAST:
        return range(1, n - 1, n);
    case SECOND:
        return range(2, 3, n);
    case FROM_2:
        return range(2, n, n);
    case THIRD:
        return range(3, 4, n);
    case COUNT_1:
        return counted(argv, n, 1);
    case COUNT_2:
        return counted(argv, n, 2);
    case STREAMS:
        return behind_streams(argv, n);
    case PAIRS:
        k = range(1, n, n);
        k.step = 2;
        return k;
    case STORE:
        k = counted(argv, n, 2);
        k.also = n > 1 ? 1 : 0;
        return k;
    }
    return none;
}

static leat_code crossing(leat_bytes a, int sa, leat_bytes b, int sb,
                          leat_error *err)
{
    char x[49], y[49];
    leat__escape(x, sizeof x, a.p, a.n);
    leat__escape(y, sizeof y, b.p, b.n);
    return leat__fail(err, LEAT_EINVAL,
                      "keys '%s' and '%s' are in different slots (%d and %d), "
                      "on a cluster use a common {tag}",
                      x, y, sa, sb);
}

/* One key more, which must agree with the first. */
static leat_code join(leat_bytes key, int *slot, leat_bytes *first,
                      leat_error *err)
{
    int s = (int)leat__crc16_slot(key);
    if (*slot < 0) {
        *slot = s;
        *first = key;
    }
    return s == *slot ? LEAT_OK : crossing(*first, *slot, key, s, err);
}

leat_code leat__keys_slot(const leat_bytes *argv, size_t n, int *slot,
                          leat_bytes *key, leat_error *err)
{
    leat__keys k = leat__keys_of(argv, n);
    leat_code rc = LEAT_OK;
    *slot = -1;
    *key = leat_mem("", 0);
    if (k.also)
        rc = join(argv[k.also], slot, key, err);
    for (size_t i = k.first; i < k.end && rc == LEAT_OK; i += k.step)
        rc = join(argv[i], slot, key, err);
    return rc;
}

leat_code leat__keys_same(const leat_bytes *keys, size_t n, int *slot,
                          leat_error *err)
{
    leat_bytes first = leat_mem("", 0);
    leat_code rc = LEAT_OK;
    *slot = -1;
    for (size_t i = 0; i < n && rc == LEAT_OK; i++)
        rc = join(keys[i], slot, &first, err);
    return rc;
}

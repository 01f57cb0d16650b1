/*
 * queue_raw.c: what queues are measured against.
 *
 * Three scripts each, by hiredis, as little around them as can be.  A receipt
 * is what the script of a receive names.
 */
#include "queue.h"

#include <stdio.h>
#include <string.h>

enum { SEND, TAKE, ACK, HEAD = 6 };

static const char *const scripts[SHAPES_][3] = {
    [LEAN] = {
        [SEND] =
            "local list = {} "
            "for i = 1, #ARGV, 2 do list[#list + 1] = ARGV[i] end "
            "redis.call('HSET', KEYS[2], unpack(ARGV)) "
            "return redis.call('RPUSH', KEYS[1], unpack(list))",
        [TAKE] =
            "local ids = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1) "
            "if #ids == 0 then return {} end "
            "redis.call('LTRIM', KEYS[1], #ids, -1) "
            "local t = redis.call('TIME') "
            "local due, args = t[1] * 1000 + 30000, {} "
            "for i = 1, #ids do "
            "  args[2 * i - 1] = due args[2 * i] = ids[i] "
            "end "
            "redis.call('ZADD', KEYS[3], unpack(args)) "
            "return { ids, redis.call('HMGET', KEYS[2], unpack(ids)) }",
        [ACK] =
            "local n = 0 "
            "for i = 1, #ARGV do "
            "  n = n + redis.call('ZREM', KEYS[3], ARGV[i]) "
            "end "
            "redis.call('HDEL', KEYS[2], unpack(ARGV)) "
            "return n",
    },
    [USUAL] = {
        [SEND] =
            "local n "
            "for i = 1, #ARGV, 2 do "
            "  redis.call('HSET', KEYS[2] .. ARGV[i], 'body', ARGV[i + 1], "
            "    'receives', 0) "
            "  n = redis.call('RPUSH', KEYS[1], ARGV[i]) "
            "end return n",
        [TAKE] =
            "local t = redis.call('TIME') "
            "local due, ids, bodies = t[1] * 1000 + 30000, {}, {} "
            "for i = 1, ARGV[1] do "
            "  local id = redis.call('LPOP', KEYS[1]) "
            "  if not id then break end "
            "  local key = KEYS[2] .. id "
            "  local n = redis.call('HINCRBY', key, 'receives', 1) "
            "  local receipt = id .. '.' .. t[2] .. '.' .. n "
            "  redis.call('HSET', key, 'receipt', receipt) "
            "  redis.call('ZADD', KEYS[3], due, id) "
            "  ids[i] = receipt "
            "  bodies[i] = redis.call('HGET', key, 'body') "
            "end "
            "if #ids == 0 then return {} end "
            "return { ids, bodies }",
        [ACK] =
            "local n = 0 "
            "for i = 1, #ARGV do "
            "  local id = string.sub(ARGV[i], 1, 36) "
            "  if redis.call('HGET', KEYS[2] .. id, 'receipt') == ARGV[i] then "
            "    redis.call('ZREM', KEYS[3], id) "
            "    n = n + redis.call('DEL', KEYS[2] .. id) "
            "  end "
            "end return n",
    },
};

bool other_open(other *o, const work *w, shape s)
{
    *o = (other){ .c = redisConnectUnix(w->socket) };
    for (int i = 0; i < 3 && o->c && !o->c->err; i++) {
        redisReply *r = redisCommand(o->c, "SCRIPT LOAD %s", scripts[s][i]);
        if (r && r->type == REDIS_REPLY_STRING)
            snprintf(o->sha[i], sizeof o->sha[i], "%s", r->str);
        freeReplyObject(r);
    }
    return o->c && !o->c->err;
}

void other_close(other *o)
{
    if (o->c)
        redisFree(o->c);
    o->c = NULL;
}

void other_clear(const work *w)
{
    redis_int(w->server, "EVAL %s 0",
              "for _, k in ipairs(redis.call('KEYS', 'raw:*')) do "
              "redis.call('UNLINK', k) end return 1");
}

static redisReply *call(other *o, int which, int argc, const char **argv,
                        const size_t *len)
{
    const char *all[HEAD + 2 * MOST] = {
        "EVALSHA", o->sha[which], "3", "raw:ready", "raw:body", "raw:due"
    };
    size_t sizes[HEAD + 2 * MOST] = { 7, 40, 1, 9, 8, 7 };
    for (int i = 0; i < argc; i++) {
        all[HEAD + i] = argv[i];
        sizes[HEAD + i] = len[i];
    }
    return redisCommandArgv(o->c, HEAD + argc, all, sizes);
}

static void next_id(other *o, char id[40])
{
    snprintf(id, 40, "01234567-89ab-7cde-8f01-%012llx",
             (unsigned long long)o->next++);
}

bool other_send(other *o, int batch, int count)
{
    char ids[MOST][40];
    const char *argv[2 * MOST];
    size_t len[2 * MOST];
    for (int i = 0; i < count; i += batch) {
        for (int k = 0; k < batch; k++) {
            next_id(o, ids[k]);
            argv[2 * k] = ids[k];
            len[2 * k] = 36;
            argv[2 * k + 1] = bench_body;
            len[2 * k + 1] = BODY;
        }
        redisReply *r = call(o, SEND, 2 * batch, argv, len);
        bool ok = r && r->type == REDIS_REPLY_INTEGER;
        freeReplyObject(r);
        if (!ok)
            return false;
    }
    return true;
}

bool other_hold(other *o, int count)
{
    char max[16];
    const char *argv[] = { max };
    snprintf(max, sizeof max, "%d", count);
    size_t len = strlen(max);
    if (count == 0)
        return true;
    if (!other_send(o, count, count))
        return false;
    redisReply *r = call(o, TAKE, 1, argv, &len);
    bool ok = r && r->elements == 2 && r->element[0]->elements == (size_t)count;
    freeReplyObject(r);
    return ok;
}

bool other_take(other *o, int batch, int count)
{
    char max[16];
    const char *argv[MOST];
    size_t len[MOST];
    snprintf(max, sizeof max, "%d", batch);
    for (int done = 0; done < count;) {
        argv[0] = max;
        len[0] = strlen(max);
        redisReply *r = call(o, TAKE, 1, argv, len);
        int n = r && r->elements == 2 ? (int)r->element[0]->elements : 0;
        for (int i = 0; i < n; i++) {
            argv[i] = r->element[0]->element[i]->str;
            len[i] = r->element[0]->element[i]->len;
        }
        if (n > 0)
            freeReplyObject(call(o, ACK, n, argv, len));
        freeReplyObject(r);
        if (n == 0 && o->c->err)
            return false;
        done += n;
    }
    return true;
}

/* ---- rsmq ------------------------------------------------------------- */

/* One sorted set by when a message is visible, one hash for all there is to
 * know; the queue's settings are asked for before each call. */
static const char rsmq_receive[] =
    "local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', "
    "0, 1)[1] "
    "if not id then return {} end "
    "redis.call('ZADD', KEYS[1], ARGV[2], id) "
    "redis.call('HINCRBY', KEYS[2], 'totalrecv', 1) "
    "local body = redis.call('HGET', KEYS[2], id) "
    "local n = redis.call('HINCRBY', KEYS[2], id .. ':rc', 1) "
    "if n == 1 then redis.call('HSET', KEYS[2], id .. ':fr', ARGV[1]) end "
    "return { id, body, n }";

bool rsmq_open(other *o, const work *w)
{
    *o = (other){ .c = redisConnectUnix(w->socket) };
    redisReply *r = o->c && !o->c->err
                        ? redisCommand(o->c, "SCRIPT LOAD %s", rsmq_receive)
                        : NULL;
    if (r && r->type == REDIS_REPLY_STRING)
        snprintf(o->sha[TAKE], sizeof o->sha[TAKE], "%s", r->str);
    freeReplyObject(r);
    return r != NULL;
}

/* These commands, in one round trip; the last answer, or NULL. */
static redisReply *replies(other *o, int n)
{
    redisReply *r = NULL;
    for (int i = 0; i < n; i++) {
        freeReplyObject(r);
        r = NULL;
        if (redisGetReply(o->c, (void **)&r) != REDIS_OK)
            return NULL;
    }
    return r;
}

static bool settings(other *o)
{
    redisAppendCommand(o->c, "MULTI");
    redisAppendCommand(o->c, "HMGET raw:q:Q vt delay maxsize");
    redisAppendCommand(o->c, "TIME");
    redisAppendCommand(o->c, "EXEC");
    redisReply *r = replies(o, 4);
    freeReplyObject(r);
    return r != NULL;
}

bool rsmq_send(other *o, int count)
{
    char id[40];
    for (int i = 0; i < count; i++) {
        next_id(o, id);
        if (!settings(o))
            return false;
        redisAppendCommand(o->c, "MULTI");
        redisAppendCommand(o->c, "ZADD raw:q %d %s", i, id);
        redisAppendCommand(o->c, "HSET raw:q:Q %s %b", id, bench_body,
                           (size_t)BODY);
        redisAppendCommand(o->c, "HINCRBY raw:q:Q totalsent 1");
        redisAppendCommand(o->c, "EXEC");
        redisReply *r = replies(o, 5);
        freeReplyObject(r);
        if (!r)
            return false;
    }
    return true;
}

static bool rsmq_delete(other *o, const char *id)
{
    redisAppendCommand(o->c, "MULTI");
    redisAppendCommand(o->c, "ZREM raw:q %s", id);
    redisAppendCommand(o->c, "HDEL raw:q:Q %s %s:rc %s:fr", id, id, id);
    redisAppendCommand(o->c, "EXEC");
    redisReply *r = replies(o, 4);
    freeReplyObject(r);
    return r != NULL;
}

bool rsmq_take(other *o, int count)
{
    for (int done = 0; done < count;) {
        if (!settings(o))
            return false;
        redisReply *r = redisCommand(
            o->c, "EVALSHA %s 2 raw:q raw:q:Q 1000000 2000000", o->sha[TAKE]);
        bool ok = r != NULL;
        if (ok && r->elements == 3) {
            ok = rsmq_delete(o, r->element[0]->str);
            done++;
        }
        freeReplyObject(r);
        if (!ok)
            return false;
    }
    return true;
}

-- owl_back.lua: messages whose time is over, or that were given back.
--
-- To the head of ready those that were received, the first of them first; to its
-- tail those that were not, which were only delayed; dead letters to the head of
-- the dead letters.  A receipt whose message is gone is forgotten.
local function push_front(list, ids)
    for i = #ids, 1, -1 do
        call('LPUSH', list, ids[i])
    end
end

local function give_back(ids)
    push_front(ready, ids)
    for i = 1, #ids do
        tell('requeued', ids[i])
    end
end

-- What is due, at most so many of each; how many came back.  All is read before
-- the first write: a message that somebody else overwrote stops it there.  A
-- receipt is in both sets when a Go process hid a dead letter that leat received.
local function reap(limit)
    local back, late, dead, seen = {}, {}, {}, {}
    local due = call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, limit)
    local over = call('ZRANGEBYSCORE', hidden, '-inf', now, 'LIMIT', 0, limit)
    for i = 1, #due + #over do
        local r = due[i] or over[i - #due]
        local id = not seen[r] and call('HGET', receipt, r)
        local rc = id and call('HGET', base .. 'msg:' .. id, 'rc')
        local to = i > #due and dead or rc == '0' and late or back
        if rc or id and call('EXISTS', base .. 'msg:' .. id) == 1 then
            to[#to + 1] = id
        end
        seen[r] = true
    end
--#include "redis/may.lua"
    may(inflight, 'HDEL LPUSH RPUSH ZREM ZRANGE')
    if #due > 0 then
        call('ZREM', inflight, unpack(due))
        call('HDEL', receipt, unpack(due))
    end
    if #over > 0 then
        call('ZREM', hidden, unpack(over))
        call('HDEL', receipt, unpack(over))
    end
    for i = 1, #late do
        call('RPUSH', ready, late[i])
        tell('requeued', late[i])
    end
    push_front(dlq, dead)
    give_back(back)
    return #back + #late + #dead
end

-- In how many ms something is due; -1: nothing is hidden.
local function left(zset)
    local head = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    return head[2] and math.max(0, math.ceil(head[2] - now)) or -1
end

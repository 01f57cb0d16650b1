--#include "topic/same.lua"
--#include "redis/clock.lua"
--#include "topic/kept.lua"
-- replay.lua: dead letters of one group and partition become retries that are
-- due.
--
-- KEYS  1 dlq     stream of dead letters, see admin/dlq.h
--       2 kept    3 due   4 lane   of the group, as in kept.lua
--       5 cursor  of the group
-- ARGV  1 "1": only tell what would be done
--       2 group
--       3 partition: with the id, the name under which it is remembered
--       4... ids of dead letters
-- The last of KEYS and of ARGV are as in topic/same.lua.
-- result for each id:
--       "1"  it is moved
--       "0"  there is none, or it is another group's
--       "2"  its message waits for a retry already
--       "3"  the group is gone, or this is another of its name
--       "4"  there is no message in it
-- states dead  ->  kept and due, as if it was never handed out
--
-- The same again finds "0": nothing is moved twice.

local MOST = 100 -- LEAT__DLQ_PAGE
if #ARGV > 3 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local DLQ, KEPT, DUE, LANE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local dry, group, partition = ARGV[1] == '1', ARGV[2], ARGV[3]
local known = redis.call('EXISTS', KEYS[5]) == 1
local incarnation = redis.call('HGET', KEYS[5], 'u') or ''
local now = math.floor(now_us() / 1000)
redis.call('ZCARD', DUE) -- is there anything else of that name?
--#include "redis/may.lua"
may(KEPT, 'HSET ZADD')

-- Very many were packed, see few in move.lua.  A field of that name may also be
-- somebody else's, and what nobody can unpack would hold up all that is due.
local function unpacked(fields)
    if #fields == 2 and fields[1] == '@packed' then
        return kept_fields(fields[2]) or fields
    end
    return fields
end

-- Its head by name, and the message's fields; nil: it is no dead letter.
local function open(entry)
    local head, fields, inside = {}, {}, false
    for i = 1, #entry, 2 do
        if inside then
            fields[#fields + 1] = entry[i]
            fields[#fields + 1] = entry[i + 1]
        else
            head[entry[i]] = entry[i + 1]
            inside = entry[i] == 'c'
        end
    end
    return inside and head or nil, unpacked(fields)
end

local function replay(id)
    local found = redis.call('XRANGE', DLQ, id, id)[1]
    if not found then
        return '0'
    end
    local head, fields = open(found[2])
    if not head or not string.match(head.i or '', '^%d+%-%d+$') or
       #fields == 0 then
        return '4'
    end
    if head.g ~= group then
        return '0'
    end
    if not known or (head.u or '') ~= incarnation then
        return '3'
    end
    if redis.call('HEXISTS', KEPT, head.i) == 1 then
        return '2'
    end
    if dry then
        return '1'
    end
    redis.call('XDEL', DLQ, id) -- first: Redis allows it when it is full
    redis.call('HSET', KEPT, head.i, cmsgpack.pack(fields))
    kept_put(KEPT, DUE, LANE, head.i,
             {0, 0, 0, 0, '', '', '', now, partition .. ':' .. id, ''})
    return '1'
end

local out = {}
for i = 4, #ARGV do
    out[#out + 1] = replay(ARGV[i])
end
return out

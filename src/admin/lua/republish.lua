--#include "topic/same.lua"
--#include "topic/append.lua"
-- republish.lua: dead letters of one partition become new messages of its log,
-- for every group.
--
-- KEYS  1 dlq   stream of dead letters, see admin/dlq.h
--       2 log   3 bodies   4 large   as in append.lua
-- ARGV  1 "1": only tell what would be done
--       2 how many entries the log may have; 0: any number
--       3 how many it keeps at about, settled or not; 0: all
--       4 longer values than this go beside the log; 0: none
--       5... for each: id, number of fields, and their names and values
-- The last of KEYS and of ARGV are as in topic/same.lua.
-- result for each id:
--       "1"  it is moved
--       "0"  there is none
--       "5"  the log is full
--       "6"  the server refuses to add to the log
-- states dead  ->  log
--
-- The same again finds "0": nothing is published twice.

local MOST, PAIRS = 100, 3000 -- LEAT__DLQ_PAGE, LEAT__DLQ_FIELDS_MOST
local DLQ, LOG, BODIES, LARGE = unpack(KEYS)
local dry, cap = ARGV[1] == '1', tonumber(ARGV[2])
local maxlen, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
local length = redis.call('XLEN', LOG)
local room = cap > 0 and cap - length or math.huge
redis.call('HLEN', BODIES) -- is there anything else of these names?
redis.call('ZCARD', LARGE)
may(DLQ, 'HDEL HSET XDEL XRANGE ZADD ZRANGEBYSCORE ZREM')

local function republish(id, fields)
    if #redis.call('XRANGE', DLQ, id, id) == 0 then
        return '0'
    end
    if room < 1 then
        return '5'
    end
    room = room - 1
    if dry then
        return '1'
    end
    local body = take_large(fields, limit)
    local at, refused = append(LOG, BODIES, LARGE, maxlen, fields, body)
    if not at then
        return '6', refused
    end
    redis.call('XDEL', DLQ, id)
    return '1'
end

-- All that is given is looked at before the first write.
local n, at = 0, 5
while at < #ARGV do
    local count = tonumber(ARGV[at + 1])
    n, at = n + 1, at + 2 + 2 * count
    if n > MOST or count > PAIRS or at > #ARGV + 1 then
        return redis.error_reply('ERR more than one call may have')
    end
end

local out, i = {}, 5
while i < #ARGV do
    local count, fields = tonumber(ARGV[i + 1]), {}
    for k = 1, 2 * count do
        fields[k] = ARGV[i + 1 + k]
    end
    local answer, refused = republish(ARGV[i], fields)
    if refused and i == 5 then
        return refused
    end
    out[#out + 1] = answer
    i = i + 2 + 2 * count
end
return out

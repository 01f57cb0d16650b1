--#include "redis/clock.lua"
--#include "topic/append.lua"
-- ripe.lua: delayed messages whose time has come go to the log.
--
-- KEYS   1 log   2 bodies   3 large   as in append.lua
--        4 later   5 laters   6 since as in later.lua
-- ARGV   1 how many at most
--        2 bytes of fields after which no more are moved
--        3 longer values than this go beside the log; 0: none
--        4 how many entries the log keeps at about, settled or not; 0: all
-- result {moved, wait}
--        wait  milliseconds until the next is due; 0: some are now; "" none
--              waits
--
-- States: waiting -> in the log, each once, in the order of their times.  Who
-- runs it does not matter, nor how many do: it is one step.  It works without
-- free memory, too: what is moved needs about as much in the log.  What was
-- accepted is moved though the log may be full by its cap.
--
-- What was sent at a time that is yet to come was so by a clock that was ahead.
-- It waits anew: late by what it has waited already, not by how far the clock
-- was ahead.

local log, bodies, large, later, laters, since = unpack(KEYS)
local most, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, maxlen = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = math.floor(now_us() / 1000)

local function number(n)
    return string.format('%.0f', n)
end

local ahead = redis.call('ZRANGEBYSCORE', since, '(' .. number(now), '+inf',
                         'WITHSCORES', 'LIMIT', 0, most)
redis.call('HLEN', laters)
redis.call('HLEN', bodies)
redis.call('ZCARD', large)
redis.call('XLEN', log)
may(laters, 'HGET HSET XADD ZADD ZCARD ZRANGE ZREM ZSCORE' ..
    (maxlen > 0 and ' XRANGE' or ''))
if #ahead > 0 then
    redis.call('HDEL', laters, '')
end
for i = 1, #ahead, 2 do
    local token = ahead[i]
    local due = redis.call('ZSCORE', later, token)
    if due then
        redis.call('ZADD', later, number(now + due - ahead[i + 1]), token)
    end
    redis.call('ZADD', since, number(now), token)
end

local due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, most)
local moved = 0
if #due > 0 then
    redis.call('HDEL', laters, '') -- allows what follows without free memory
end
for _, token in ipairs(due) do
    if bytes <= 0 then
        break
    end
    local packed = redis.call('HGET', laters, token)
    if packed then
        local fields = cmsgpack.unpack(packed)
        local body = take_large(fields, limit)
        local id, refused = append(log, bodies, large, maxlen, fields, body)
        if not id then
            return refused
        end
        bytes = bytes - #packed
        moved = moved + 1
    end
    redis.call('ZREM', later, token)
    redis.call('ZREM', since, token)
    redis.call('HDEL', laters, token)
end

local first = redis.call('ZRANGE', later, 0, 0, 'WITHSCORES')
if not first[2] then
    return {moved, ''}
end
local wait = math.max(tonumber(first[2]) - now, 0)
return {moved, number(#ahead < 2 * most and wait or 0)}

--#include "redis/clock.lua"
--#include "topic/append.lua"
-- ripe.lua: delayed messages whose time has come go to the log.
--
-- KEYS   1 log   2 bodies   3 large   as in append.lua
--        4 later   5 laters   6 since as in later.lua
--        7 dlq                        as in move.lua
-- ARGV   1 how many at most
--        2 bytes of fields after which no more are moved
--        3 longer values than this go beside the log; 0: none
--        4 how many entries the log keeps at about, settled or not; 0: all
-- result {moved, wait, aside}
--        wait  milliseconds until the next is due; 0: some are now; "" none
--              waits
--        aside how many were set aside
--
-- States: waiting -> in the log, each once, in the order of their times.  Who
-- runs it does not matter, nor how many do: it is one step.  It works without
-- free memory, too: what is moved needs about as much in the log.  What was
-- accepted is moved though the log may be full by its cap.
--
-- What a log cannot take, of another program or an earlier version (more names
-- and values than Lua passes on, or none that can be read), is set aside: it
-- becomes a dead letter, which is packed, and what is behind it is not held up.
--
-- What was sent at a time that is yet to come was so by a clock that was ahead.
-- It waits anew: late by what it has waited already, not by how far the clock
-- was ahead.

local MOST = 200 -- RIPE_MOST of ripen.c
local log, bodies, large, later, laters, since, dlq = unpack(KEYS)
local most, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local limit, maxlen = tonumber(ARGV[3]), tonumber(ARGV[4])
local now = math.floor(now_us() / 1000)
if most > MOST then
    return redis.error_reply('ERR more than one call may have')
end

local function number(n)
    return string.format('%.0f', n)
end

local ahead = redis.call('ZRANGEBYSCORE', since, '(' .. number(now), '+inf',
                         'WITHSCORES', 'LIMIT', 0, most)
redis.call('HLEN', laters)
redis.call('HLEN', bodies)
redis.call('ZCARD', large)
redis.call('XLEN', log)
redis.call('XLEN', dlq)
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

-- The fields of a message that a log can take; nil: it is none.
local function fields_of(packed)
    local good, fields = pcall(cmsgpack.unpack, packed)
    if not good or type(fields) ~= 'table' or #fields == 0 or
       #fields % 2 ~= 0 or #fields > FIELDS then
        return nil
    end
    for _, f in ipairs(fields) do
        if type(f) ~= 'string' then
            return nil
        end
    end
    return fields
end

local function set_aside(token, packed)
    local group, id = string.match(token, '^(%S+) (%d+%-%d+)$')
    local why = 'a log cannot take it: it has too many fields, or none'
    redis.call('XADD', dlq, '*', 'g', group or '', 'i', id or '0-0', 'n', 0,
               'f', 0, 'fm', now, 'lm', now, 'fe', why, 'le', why, 'e', '',
               'r', '', 'x', '', 'u', '', 'c', 1, '@packed', packed)
end

local due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, most)
local moved, aside = 0, 0
if #due > 0 then
    redis.call('HDEL', laters, '') -- allows what follows without free memory
end
for _, token in ipairs(due) do
    if bytes <= 0 then
        break
    end
    local packed = redis.call('HGET', laters, token)
    local fields = packed and fields_of(packed)
    if packed and not fields then
        set_aside(token, packed)
        aside = aside + 1
    elseif packed then
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
    return {moved, '', aside}
end
local wait = math.max(tonumber(first[2]) - now, 0)
return {moved, number(#ahead < 2 * most and wait or 0), aside}

--#include "topic/same.lua"
--#include "redis/clock.lua"
--#include "topic/mirror.lua"
-- seek.lua: a group reads a partition from another place on.
--
-- KEYS  1 lease   2 cursor   3 log   as in take.lua
--       4 kept    5 due      6 lane  as in kept.lua
--       7 joined  hash: group -> incarnation, see joined.lua
--       8 id      as in topic/same.lua
-- ARGV  1 where   "start", "end", or an id: the cursor, beyond the end: the end
--       2 n       entries ever added up to that id, or "" not known
--       3 group
--       4 whose lease may be taken away: a nonce, "" nobody's, "*" anybody's
--       5 milliseconds after which a forgotten lease is swept away
--       6 channel on which the change is told
--       7 "1": what is put by is forgotten, too
--       8 incarnation of the group
--       9 incarnation of the topic, as in topic/same.lua
-- result {"1", c}      done, and this is the cursor
--        {"0", nonce}  the lease is this one's: nothing was done
--        {"2"}         it is another group of that name: nothing was done
-- states ours | another's | free  ->  free, with a higher epoch: whoever had it
--        is refused from now on, and the next to take it reads on from c
--
-- Twice is as good as once.

local where, count = ARGV[1], ARGV[2]
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
local here = redis.call('HGET', KEYS[7], ARGV[3])
if not here and redis.call('EXISTS', KEYS[2]) == 1 then
    here = redis.call('HGET', KEYS[2], 'u') or ''
end
if here and here ~= ARGV[8] then
    return {'2'}
end
local owner = lease[1] or ''
if owner ~= '' and ARGV[4] ~= '*' and owner ~= ARGV[4] then
    return {'0', owner}
end

local facts = {}
if redis.call('EXISTS', KEYS[3]) == 1 then
    local flat = redis.call('XINFO', 'STREAM', KEYS[3])
    for i = 1, #flat, 2 do
        facts[flat[i]] = flat[i + 1]
    end
end
local last, added = facts['last-generated-id'] or '0-0', facts['entries-added']

local function above(x, y)
    local xm, xs = string.match(x, '^(%d+)-(%d+)$')
    local ym, ys = string.match(y, '^(%d+)-(%d+)$')
    if xm ~= ym then
        return tonumber(xm) > tonumber(ym)
    end
    return tonumber(xs) > tonumber(ys)
end

local c, n = where, count
if where == 'start' then
    c = '0-0'
    n = added and string.format('%.0f', added - facts['length']) or ''
elseif where == 'end' or above(where, last) then
    c = last
    n = added and string.format('%.0f', added) or ''
end

local cursor = redis.call('HMGET', KEYS[2], 'e', 'g', 'c')
local mirror = mirror_is(cursor[2], KEYS[3], ARGV[3], cursor[3])
local epoch = string.format('%.0f', math.max(
    (tonumber(lease[2]) or 0) + 1, (tonumber(cursor[1]) or 0) + 1, now_us()))

--#include "redis/may.lua"
may(KEYS[2], 'HSET' .. (ARGV[7] == '1' and ' UNLINK' or ''))
-- First a write that Redis allows when it is full.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HSET', KEYS[1], 'o', '', 'e', epoch, 'to', '', 'w', 'seek',
           'v', string.format('%.0f', now_us() / 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HSET', KEYS[2], 'e', epoch, 'q', '0', 'c', c, 'm', c, 'n', n,
           's', '', 't', '', 'b', c)
if ARGV[8] ~= '' then
    redis.call('HSET', KEYS[2], 'u', ARGV[8])
end
redis.call('HSET', KEYS[2], 'g', mirror)
local set = mirror == '1' and
            redis.pcall('XGROUP', 'SETID', KEYS[3], ARGV[3], c)
if set and set.err then -- somebody destroyed it, or there is no log yet
    redis.pcall('XGROUP', 'CREATE', KEYS[3], ARGV[3], c)
end
if ARGV[7] == '1' then
    redis.call('UNLINK', KEYS[4], KEYS[5], KEYS[6])
end
redis.pcall('PUBLISH', ARGV[6], '')
return {'1', c}

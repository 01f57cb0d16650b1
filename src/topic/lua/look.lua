--#include "redis/clock.lua"
-- look.lua: what there is to be seen of a partition, and of a group on it.
--
-- KEYS  1 log      2 bodies   3 dlq     4 later
--       5 cursor   6 lease    7 kept    8 due    9 lane   of the group; or none
-- ARGV  1 how many of the newest entries tell the rate, at most
--       2 bytes of entries that may be read for it
-- result {now, length, added, first, last, end, deleted, bytes, dead, later,
--         newest, since}
--         now      milliseconds
--         added    entries ever; "" before Redis 7
--         first, last   ids of entries, "" where there is none
--         end      the last id ever given; deleted the highest that was deleted
--         bytes    of memory, of log and bodies, by samples; "" refused
--         newest   so many entries came since `since` (ms); "" they are too
--                  large to look at
--        and for a group
--        {..., begun, c, m, n, s, t, owner, epoch, why, when,
--         kept, waiting, due, laned}
--         begun    "1": it has a cursor
--         kept     messages put by; of these `waiting` for their time, `due` of
--                  them now; `laned` are in lanes, the first of each included
-- states none changes
--
-- XINFO has the first and the last entry whole; only their ids leave here.

local function number(v)
    return v and string.format('%.0f', v) or ''
end

local now = math.floor(now_us() / 1000)
local out = {number(now)}
local function tell(v)
    out[#out + 1] = v or ''
end

local function memory(key)
    local n = redis.pcall('MEMORY', 'USAGE', key)
    if type(n) == 'table' then
        return nil
    end
    return n or 0
end

local facts = {}
if redis.call('EXISTS', KEYS[1]) == 1 then
    local flat = redis.call('XINFO', 'STREAM', KEYS[1])
    for i = 1, #flat, 2 do
        facts[flat[i]] = flat[i + 1]
    end
else
    facts['length'], facts['entries-added'] = 0, 0
end
local first, last = facts['first-entry'], facts['last-entry']
tell(number(facts['length']))
tell(number(facts['entries-added']))
tell(first and first[1])
tell(last and last[1])
tell(facts['last-generated-id'])
tell(facts['max-deleted-entry-id'])

local log, bodies = memory(KEYS[1]), memory(KEYS[2])
tell(log and bodies and number(log + bodies))
tell(number(redis.call('XLEN', KEYS[3])))
tell(number(redis.call('ZCARD', KEYS[4])))

-- The larger they are, the fewer are looked at.
local most = math.min(tonumber(ARGV[1]), facts['length'])
if most > 0 and log then
    most = math.min(most, math.floor(tonumber(ARGV[2]) /
                                     (log / facts['length'])))
end
if facts['length'] == 0 then
    tell('0')
    tell('0')
elseif most == 0 then
    tell('')
    tell('')
else
    local some = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', most)
    tell(number(#some))
    tell(string.match(some[#some][1], '^%d+'))
end

if not KEYS[5] then
    return out
end
local cursor = redis.call('HMGET', KEYS[5], 'c', 'm', 'n', 's', 't')
tell(cursor[1] and '1' or '0')
for i = 1, 5 do
    tell(cursor[i])
end
local lease = redis.call('HMGET', KEYS[6], 'o', 'e', 'w', 'v')
for i = 1, 4 do
    tell(lease[i])
end
tell(number(math.floor(redis.call('HLEN', KEYS[7]) / 2)))
tell(number(redis.call('ZCARD', KEYS[8])))
tell(number(redis.call('ZCOUNT', KEYS[8], '-inf', now)))
tell(number(redis.call('ZCARD', KEYS[9])))
return out

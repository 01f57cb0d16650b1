--#include "redis/clock.lua"
-- alter.lua: change what the members of a group share.
--
-- KEYS   1 groups   2 group   as in enter.lua
-- ARGV   1 name     2 incarnation
--        3 channel on which the change is told
--        4... names and values of settings, in turn; "" stays as it is
--        then as many names and values once more: what they are where the
--        group has none
-- result 1 changed, 0 there is no such group, or another of that name, 2 a delay
--        would be above the longest one, and nothing was done
--
-- Twice is as good as once, and of two changes at once neither undoes the other.
-- lease_before is the longest lease by which a member may still beat, and
-- lease_at when it was replaced: see beat.lua.

local MOST = 100 -- settings
if #ARGV > 3 + 2 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 or
   (redis.call('HGET', KEYS[2], 'u') or '') ~= ARGV[2] then
    return 0
end
local n, names = (#ARGV - 3) / 4, {}
for i = 1, n do
    names[i] = ARGV[2 + 2 * i]
end
local had, will, new = redis.call('HMGET', KEYS[2], unpack(names)), {}, {}
for i = 1, n do
    local asked, usual = ARGV[3 + 2 * i], ARGV[3 + 2 * i + 2 * n]
    will[names[i]] = asked ~= '' and asked or had[i] or usual
    had[names[i]] = had[i]
    new[2 * i - 1], new[2 * i] = names[i], will[names[i]]
end
if (tonumber(will.delay) or 0) > (tonumber(will.max_delay) or 0) then
    return 2
end

local now = math.floor(now_us() / 1000)
local told = redis.call('HMGET', KEYS[2], 'lease_before', 'lease_at')
local lease, before, at = tonumber(had.lease), tonumber(told[1]),
                          tonumber(told[2])
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
if lease and lease ~= tonumber(will.lease) then
    if before and at and now - at < 2 * before then
        lease = math.max(lease, before)
    end
    new[#new + 1], new[#new + 2] = 'lease_before', string.format('%.0f', lease)
    new[#new + 1], new[#new + 2] = 'lease_at', string.format('%.0f', now)
end
redis.call('HSET', KEYS[2], unpack(new))
redis.pcall('PUBLISH', ARGV[3], '')
return 1

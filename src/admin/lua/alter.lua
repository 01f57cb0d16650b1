--#include "redis/clock.lua"
-- alter.lua: change what the members of a group share.
--
-- KEYS   1 groups   2 group   as in enter.lua
-- ARGV   1 name     2 incarnation
--        3 channel on which the change is told
--        4... names and values of settings, in turn; "lease" is the first
-- result 1 changed, 0 there is no such group, or another of that name
--
-- Twice is as good as once.  lease_before is the longest lease by which a member
-- may still beat, and lease_at when it was replaced: see beat.lua.

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 or
   (redis.call('HGET', KEYS[2], 'u') or '') ~= ARGV[2] then
    return 0
end
local now = math.floor(now_us() / 1000)
local had = redis.call('HMGET', KEYS[2], 'lease', 'lease_before', 'lease_at')
local lease, before, at = tonumber(had[1]), tonumber(had[2]), tonumber(had[3])
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
if lease and lease ~= tonumber(ARGV[5]) then
    if before and at and now - at < 2 * before then
        lease = math.max(lease, before)
    end
    redis.call('HSET', KEYS[2], 'lease_before', string.format('%.0f', lease),
               'lease_at', string.format('%.0f', now))
end
redis.call('HSET', KEYS[2], unpack(ARGV, 4))
redis.pcall('PUBLISH', ARGV[3], '')
return 1

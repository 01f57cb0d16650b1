--#include "redis/clock.lua"
-- pause.lua: a group is paused, or goes on.
--
-- KEYS   1 paused   string: since when, ms
--        2 group    hash: u incarnation
-- ARGV   1 "1" pause, "0" go on
--        2 channel on which the change is told
--        3 incarnation of the group
-- result 1 changed, 0 it was so already, -1 it is another of that name: nothing
--        was done
-- states running <-> paused
--
-- Twice is as good as once: the time of the first stays.

if (redis.call('HGET', KEYS[2], 'u') or '') ~= ARGV[3] then
    return -1
end
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
local n
if ARGV[1] == '1' then
    n = redis.call('SETNX', KEYS[1], string.format('%.0f', now_us() / 1000))
else
    n = redis.call('DEL', KEYS[1])
end
redis.pcall('PUBLISH', ARGV[2], '')
return n

--#include "redis/clock.lua"
-- hand.lua: give a lease up.
--
-- KEYS   1 lease
-- ARGV   1 our nonce
--        2 our epoch
--        3 nonce it is promised to, or ""
--        4 channel on which the change is told
--        5 milliseconds after which a forgotten lease is swept away
-- result 1 given up, 0 it was not ours any more
-- states ours -> free | promised
--
-- Late it does no harm: another owner or another epoch of our own refuses it.

local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return 0
end
-- First a write that Redis allows when it is full.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HSET', KEYS[1], 'o', '', 'to', ARGV[3], 'w', 'handed',
           'v', string.format('%.0f', now_us() / 1000))
redis.pcall('PUBLISH', ARGV[4], ARGV[1])
return 1

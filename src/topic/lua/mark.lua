-- mark.lua: a group has got so far.
--
-- KEYS   1 groups   2 group   as in enter.lua
-- ARGV   1 name     2 incarnation
--        3 "joined": it is noted beside every log
--          "gone": it is being removed, and nobody joins it any more
-- result 1 it is so, 0 there is no such group, or another of that name
-- states known -> joined;  known | joined | gone -> gone

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 or
   (redis.call('HGET', KEYS[2], 'u') or '') ~= ARGV[2] then
    return 0
end
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[3], '1')
return 1

-- whole.lua: a group is noted beside every log.
--
-- KEYS   1 groups   2 group   as in enter.lua
-- ARGV   1 name     2 incarnation
-- result 1 done, 0 it was removed meanwhile
-- states known -> joined

if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 0 or
   (redis.call('HGET', KEYS[2], 'u') or '') ~= ARGV[2] then
    return 0
end
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[2], 'joined', '1')
return 1

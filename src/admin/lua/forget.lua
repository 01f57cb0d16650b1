-- forget.lua: a group whose keys on the partitions are gone is no more.
--
-- KEYS   1 groups    2 group   as in enter.lua
--        3 members   4 beats   5 paused
-- ARGV   1 name      2 incarnation   3 "gone", as in mark.lua
-- result 1 it is gone, 0 it was already, or is another of that name
-- states gone -> unknown

if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 0 or
   (redis.call('HGET', KEYS[2], 'u') or '') ~= ARGV[2] then
    return 0
end
redis.call('SREM', KEYS[1], '') -- may we?  nothing is called so
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
redis.call('SREM', KEYS[1], ARGV[1])
return 1

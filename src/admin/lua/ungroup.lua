--#include "topic/mirror.lua"
-- ungroup.lua: what a group has on a partition goes for good.
--
-- KEYS   1 joined   hash: group -> incarnation, see joined.lua
--        2 cursor   3 log   4 lease   as in take.lua
--        5 kept     6 due   7 lane    as in kept.lua
-- ARGV   1 group    2 its incarnation
--        3 "1": also its mirror on the log, if it is leat's
-- result 1 it is gone, 0 what is here is another group's of that name: nothing
--        was done
-- states joined | known | unknown here -> unknown here
--
-- A late one finds the incarnation of whoever came meanwhile.

local here = redis.call('HGET', KEYS[1], ARGV[1])
if not here and redis.call('EXISTS', KEYS[2]) == 1 then
    here = redis.call('HGET', KEYS[2], 'u') or ''
end
if here and here ~= ARGV[2] then
    return 0
end
local cursor = redis.call('HMGET', KEYS[2], 'g', 'c')
local mirror = ARGV[3] == '1' and
    mirror_is(cursor[1], KEYS[3], ARGV[1], cursor[2])
redis.call('HDEL', KEYS[1], '') -- may we?  nothing is called so
redis.call('UNLINK', KEYS[2], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
redis.call('HDEL', KEYS[1], ARGV[1])
if mirror == '1' then
    redis.pcall('XGROUP', 'DESTROY', KEYS[3], ARGV[1]) -- there may be neither
end
return 1

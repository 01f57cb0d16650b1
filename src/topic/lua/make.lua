--#include "redis/clock.lua"
-- make.lua: make a topic, unless it is there.
--
-- KEYS   1 the topic's meta hash
-- ARGV   1 partitions   2 the partitioner's name
--        3... names and values of further fields, in turn
-- result [made, partitions, partitioner, created, updated, value...]: made is 1
--        when this call made it, the others are what is there now, the last
--        those of the further fields
--
-- States: absent -> there.  It is one write, so it happens whole or not at all;
-- of two makers one wins, and both are told what holds.
local made = 0
if redis.call('EXISTS', KEYS[1]) == 0 then
--#include "redis/may.lua"
    may(KEYS[1], 'HMGET')
    local now = string.format('%.0f', math.floor(now_us() / 1000))
    redis.call('HSET', KEYS[1], 'partitions', ARGV[1], 'partitioner', ARGV[2],
               'created', now, 'updated', now, unpack(ARGV, 3))
    made = 1
end
local names = {'partitions', 'partitioner', 'created', 'updated'}
for i = 3, #ARGV, 2 do
    names[#names + 1] = ARGV[i]
end
return {made, unpack(redis.call('HMGET', KEYS[1], unpack(names)))}

--#include "redis/clock.lua"
-- alter.lua: change what is kept of a topic.
--
-- KEYS   1 the topic's meta hash
-- ARGV   names and values of fields, in turn
-- result 1 changed, 0 there is no such topic
--
-- It is one write, and twice is as good as once, but for the time of it.
if redis.call('EXISTS', KEYS[1]) == 0 then
    return 0
end
redis.call('HSET', KEYS[1], 'updated',
           string.format('%.0f', math.floor(now_us() / 1000)), unpack(ARGV))
return 1

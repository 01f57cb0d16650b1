--#include "redis/clock.lua"
-- alter.lua: change what is kept of a topic.
--
-- KEYS   1 the topic's meta hash
-- ARGV   1 its incarnation
--        2... names and values of fields, in turn
-- result 1 changed, 0 it is no more, is being removed, or is another of that
--        name: nothing was done
--
-- It is one write, and twice is as good as once, but for the time of it.
local MOST = 100 -- fields
if #ARGV > 1 + 2 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local had = redis.call('HMGET', KEYS[1], 'partitions', 'u', 'gone')
if not had[1] or (had[2] or '') ~= ARGV[1] or had[3] then
    return 0
end
redis.call('HSET', KEYS[1], 'updated',
           string.format('%.0f', math.floor(now_us() / 1000)),
           unpack(ARGV, 2))
return 1

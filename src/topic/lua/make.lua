--#include "redis/clock.lua"
-- make.lua: make a topic, unless it is there.
--
-- KEYS   1 the topic's meta hash
-- ARGV   1 partitions   2 the partitioner's name
--        3 incarnation of one that is made; "" it gets none
--        4... names and values of further fields, in turn
-- result [made, partitions, partitioner, created, updated, u, gone, marked,
--        value...]: made is 1 when this call made it, the others are what is
--        there now, the last those of the further fields; where gone is not nil
--        it is being removed, and nothing was done
--
-- States: absent -> there.  It is one write, so it happens whole or not at all;
-- of two makers one wins, and both are told what holds.
local MOST = 100 -- fields
if #ARGV > 3 + 2 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local made = 0
if redis.call('EXISTS', KEYS[1]) == 0 then
--#include "redis/may.lua"
    may(KEYS[1], 'HMGET')
    local now = string.format('%.0f', math.floor(now_us() / 1000))
    local new = {'partitions', ARGV[1], 'partitioner', ARGV[2], 'created', now,
                 'updated', now, unpack(ARGV, 4)}
    if ARGV[3] ~= '' then
        new[#new + 1], new[#new + 2] = 'u', ARGV[3]
    end
    redis.call('HSET', KEYS[1], unpack(new))
    made = 1
end
local names = {'partitions', 'partitioner', 'created', 'updated', 'u', 'gone',
               'marked'}
for i = 4, #ARGV, 2 do
    names[#names + 1] = ARGV[i]
end
return {made, unpack(redis.call('HMGET', KEYS[1], unpack(names)))}

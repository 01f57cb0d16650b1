-- mark_topic.lua: a topic has got so far.
--
-- KEYS   1 the topic's meta hash
-- ARGV   1 its incarnation
--        2 "marked": that is beside every log
--          "gone": it is being removed, and nobody opens or makes it any more
-- result 1 it is so, 0 there is none, or another of that name, or for "marked"
--        one that is being removed
-- states there -> marked;  there | marked | gone -> gone

local had = redis.call('HMGET', KEYS[1], 'partitions', 'u', 'gone')
if not had[1] or (had[2] or '') ~= ARGV[1] or
   (had[3] and ARGV[2] ~= 'gone') then
    return 0
end
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[2], '1')
return 1

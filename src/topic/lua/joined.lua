--#include "topic/same.lua"
-- joined.lua: a group is noted beside a log.
--
-- KEYS   1 joined   hash: group -> incarnation
--        2 id       as in same.lua
-- ARGV   1 group    2 its incarnation
--        3 the topic's, as in same.lua
-- result 1
-- states unknown here -> noted: no trim overlooks it from now on
--
-- Twice is as good as once.

-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1

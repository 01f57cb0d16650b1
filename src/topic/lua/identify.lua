-- identify.lua: say beside a log, or beside the groups, whose they are.
--
-- KEYS   1 id   string: the topic's incarnation
-- ARGV   1 what is there, as far as is known; "" nothing
--        2 the incarnation; "" there is none to be said
-- result what is there then
-- states none | another that is no more -> ours;  ours -> none
--
-- A late one finds something else there than it was told, and leaves it.

local here = redis.call('GET', KEYS[1]) or ''
if here ~= ARGV[1] then
    return here
end
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
if ARGV[2] == '' then
    redis.call('UNLINK', KEYS[1])
else
    redis.call('SET', KEYS[1], ARGV[2])
end
return ARGV[2]

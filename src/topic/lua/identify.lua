-- identify.lua: say beside a log whose it is.
--
-- KEYS   1 id   string: the topic's incarnation
-- ARGV   1 what is there, as far as is known; "" nothing
--        2 the incarnation
-- result what is there then
-- states none | another that is no more -> ours
--
-- A late one finds something else there than it was told, and leaves it.

local here = redis.call('GET', KEYS[1]) or ''
if here ~= ARGV[1] then
    return here
end
-- First a write that Redis allows when it is full.
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2])
return ARGV[2]

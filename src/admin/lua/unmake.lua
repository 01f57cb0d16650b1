-- unmake.lua: a topic whose partitions and groups are gone is no more.
--
-- KEYS   1 the topic's meta hash
-- ARGV   1 its incarnation
-- result 1 it is gone, 0 it was already, or is another of that name
-- states gone -> absent

local had = redis.call('HMGET', KEYS[1], 'u', 'gone')
if not had[2] or (had[1] or '') ~= ARGV[1] then
    return 0
end
redis.call('UNLINK', KEYS[1])
return 1

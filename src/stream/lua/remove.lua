-- remove.lua: forget a consumer that has nothing pending.
--
-- KEYS   1 the stream
-- ARGV   1 group, 2 consumer
-- result 1 removed, 0 it has entries pending
--
-- known, nothing pending -> unknown.  XGROUP DELCONSUMER alone would lose what
-- is pending.
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then
    return 0
end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return 1

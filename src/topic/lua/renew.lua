-- renew.lua: is the lease still ours?
--
-- KEYS   1 lease
-- ARGV   1 our nonce
--        2 our epoch
--        3 milliseconds after which a forgotten lease is swept away
-- result 1 ours, 0 another's
--
-- Late it does no harm: it prolongs nothing but its own epoch, and that only
-- against being swept away; who lives is told by the beats.

local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1

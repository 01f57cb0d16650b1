-- leave.lua: a member that has handed over everything goes.
--
-- KEYS   1 members of the group
-- ARGV   1 our nonce
-- result 1 deleted, 0 it was gone
--
-- Late it does no harm: a nonce is one life, which does not come back.

local n = redis.call('HDEL', KEYS[1], ARGV[1])
redis.pcall('PUBLISH', KEYS[1], ARGV[1])
return n

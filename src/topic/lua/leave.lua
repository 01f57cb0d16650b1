-- leave.lua: a member that has handed over everything goes.
--
-- KEYS   1 members of the group
--        2 beats of the group; may be left out
-- ARGV   1 our nonce
-- result 1 deleted, 0 it was gone
--
-- Late it does no harm: a nonce is one life, which does not come back.

if KEYS[2] then -- is there anything else of that name?
    redis.call('HLEN', KEYS[2])
end
local n = redis.call('HDEL', KEYS[1], ARGV[1])
if KEYS[2] then
    redis.call('HDEL', KEYS[2], ARGV[1])
end
redis.pcall('PUBLISH', KEYS[1], ARGV[1])
return n

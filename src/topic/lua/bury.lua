-- bury.lua: delete the record of a member that is long dead.
--
-- KEYS   1 members of the group
--        2 beats of the group; may be left out
-- ARGV   1 its nonce
--        2 its record, as it was when it was judged
-- result 1 deleted, 0 it is gone or has beaten since
--
-- Late it does no harm: whoever has beaten has another record.  A member that
-- comes back from the dead makes its record again.

if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
    return 0
end
if KEYS[2] then
    redis.call('HDEL', KEYS[2], ARGV[1])
end
return redis.call('HDEL', KEYS[1], ARGV[1])

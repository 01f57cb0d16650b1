-- same.lua: is it the topic that is meant?  For scripts that include it before
-- anything else.
--
-- The last of KEYS is the id of the partition, or of the groups, the last of
-- ARGV the one that is meant; both are taken off, so that all others keep their
-- places.  A topic that an earlier version made has none, which is "" and the
-- same as no other.
--
-- An error that begins with STALE says that it is another: nothing was done.

local ID, MEANT = table.remove(KEYS), table.remove(ARGV)
if (redis.call('GET', ID) or '') ~= MEANT then
    return redis.error_reply('STALE the topic is another of that name by now')
end

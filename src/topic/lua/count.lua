-- count.lua: how many entries of a log are in a range, some at a time.
--
-- KEYS   1 log
-- ARGV   1 first id   2 last id
--        3 how many to count at most, and one more
-- result {count, id}: entries from the first id on, and the last of these; with
--        as many as asked for there may be more, from that one on
-- states none changes
--
-- The entries stay where they are.
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT',
                         tonumber(ARGV[3]))
return {#found, #found > 0 and found[#found][1] or ''}

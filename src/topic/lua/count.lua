--#include "topic/ids.lua"
-- count.lua: how many entries of a log are in a range, some at a time.
--
-- KEYS   1 log
-- ARGV   1 first id   2 last id
--        3 how many to count at most; fewer are where they are large
-- result {count, id, more}: entries from the first id on, and the last of these;
--        more is "1" where there may be some behind it, else "0"
-- states none changes
--
-- The entries stay where they are; but they are read, so no call takes many that
-- are large: then a node of the stream has one.
local MOST = 500 -- COUNT_PIECE
if tonumber(ARGV[3]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local facts = stream_facts(KEYS[1])
if not facts then
    return {0, '', '0'}
end
local dense = tonumber(facts['length']) /
              math.max(tonumber(facts['radix-tree-keys']), 1)
local most = math.min(tonumber(ARGV[3]),
                      dense < 2 and 5 or math.ceil(10 * dense))
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', most)
return {#found, #found > 0 and found[#found][1] or '',
        #found == most and '1' or '0'}

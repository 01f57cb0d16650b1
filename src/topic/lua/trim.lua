--#needs redis 6.2
-- trim.lua: trimming.lua, for servers that cut up to an id.
--
-- KEYS, ARGV, result, states: as said there.

local NODES = 500 -- at most in a call

-- Whole nodes of the stream whose entries are all below the id, at most so many
-- entries; how many went.
local function cut_nodes(log, id, most)
    return redis.call('XTRIM', log, 'MINID', '~', id, 'LIMIT', most)
end

--#include "topic/trimming.lua"

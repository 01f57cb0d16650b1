--#include "topic/same.lua"
-- unlog.lua: a partition of a topic goes for good.
--
-- KEYS   all that it has for all groups, and as in same.lua its id
-- ARGV   as in same.lua
-- result 1
-- states there | gone -> gone
--
-- A late one finds the id of whichever topic took the name meanwhile.

local MOST = 20 -- keys
if #KEYS > MOST then
    return redis.error_reply('ERR more than one call may have')
end
redis.call('UNLINK', ID, unpack(KEYS))
return 1

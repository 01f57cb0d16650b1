--#include "topic/same.lua"
-- discard.lua: dead letters go for good.
--
-- KEYS  1 dlq   stream of dead letters, see admin/dlq.h
-- ARGV  1 "1": only tell what would be done
--       2... ids of dead letters
-- The last of KEYS and of ARGV are as in topic/same.lua.
-- result for each id:
--       "1"  it is gone
--       "0"  there is none
-- states dead  ->  nowhere

local MOST = 100 -- LEAT__DLQ_PAGE
if #ARGV > 1 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out = {}
for i = 2, #ARGV do
    local n
    if ARGV[1] == '1' then
        n = #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])
    else
        n = redis.call('XDEL', KEYS[1], ARGV[i])
    end
    out[#out + 1] = tostring(n)
end
return out

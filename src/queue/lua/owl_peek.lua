--#include "queue/owl_base.lua"
--#include "queue/owl_fetch.lua"
-- owl_peek.lua: look at messages of a redowl queue without receiving them.
--
-- KEYS   1 inflight
-- ARGV   as peek.lua
-- result [0, 0, '-', message, '-', message, ...]
--
-- Reads only.
local dead, MOST = ARGV[3] == '1', 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[2]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local got = call('LRANGE', dead and dlq or ready, 0, ARGV[2] - 1)
local out = { 0, 0 }
for i = 1, #got do
    local m = fetch(got[i])
    if m then
        put(out, '-', m, dead)
    end
end
return out

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
local ROOM = 33554432 -- bytes of an answer are enough, but a message at least
if tonumber(ARGV[2]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local got = call('LRANGE', dead and dlq or ready, 0, ARGV[2] - 1)
local out, bytes = { 0, 0 }, 0
for i = 1, #got do
    local m = fetch(got[i])
    bytes = bytes + (m and #m.body + #m.attrs or 0)
    if bytes > ROOM and i > 1 then
        break
    end
    if m then
        put(out, '-', m, dead)
    end
end
return out

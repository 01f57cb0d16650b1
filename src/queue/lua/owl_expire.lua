--#include "queue/owl_base.lua"
local how = ARGV[2]
--#include "queue/owl_tell.lua"
--#include "queue/owl_back.lua"
-- owl_expire.lua: what a reaper does for a redowl queue.
--
-- KEYS   1 inflight
-- ARGV   as expire.lua; no lease is kept, as Go processes reap without one
-- result as expire.lua
--
-- in flight -> ready; dead in flight -> dead.
local function left(zset)
    local head = call('ZRANGE', zset, 0, 0, 'WITHSCORES')
    return head[2] and math.max(0, math.ceil(head[2] - now))
end
local MOST = 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[1]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
call('PERSIST', inflight)
local n = reap(ARGV[1])
local a, b = left(inflight), left(hidden)
return with_told({ n, math.min(a or b or -1, b or a or -1), '1', 0 })

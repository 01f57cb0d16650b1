--#include "queue/owl_base.lua"
local how, queue = ARGV[2], sub(base, #ARGV[6] + 2, -2)
--#include "queue/owl_tell.lua"
--#include "queue/owl_back.lua"
-- owl_expire.lua: what a reaper does for a redowl queue.
--
-- KEYS   1 inflight
-- ARGV   as expire.lua, and 6 the prefix of its keys; no lease is kept, as Go
--        processes reap without one
-- result as expire.lua
--
-- in flight -> ready; dead in flight -> dead.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[1]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
call('PERSIST', inflight)
local n = reap(ARGV[1])
local a, b = left(inflight), left(hidden)
return with_told({ n, a < 0 and b or b < 0 and a or math.min(a, b), '1', 0 })

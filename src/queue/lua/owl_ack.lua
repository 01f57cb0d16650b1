--#include "queue/owl_base.lua"
local how = ARGV[2]
--#include "queue/owl_tell.lua"
-- owl_ack.lua: messages of a redowl queue are done.
--
-- KEYS   1 inflight
-- ARGV   as ack.lua; the ids are not known to the caller and empty
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> done.  Asked again, a receipt that is gone counts as done: it was
-- there when it was asked first, or its message is in the queue anyway.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if #ARGV > 5 + 2 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out, ids, bad, seen = {}, {}, 0, {}
local last = 5 + (#ARGV - 5) / 2
local found = call('HMGET', receipt, unpack(ARGV, 6, last))
for i = 1, #found do
    local r, n = ARGV[5 + i], 1
    if found[i] and not seen[r] then
        ids[#ids + 1] = found[i]
    elseif ARGV[3] ~= '1' then
        n = 0
        bad = bad + 1
    end
    seen[r] = true
    out[i] = n
end
if #ids > 0 then
--#include "redis/may.lua"
    may(inflight, 'DEL HDEL ZREM')
    call('HDEL', receipt, unpack(ARGV, 6, last))
    call('ZREM', inflight, unpack(ARGV, 6, last))
    call('ZREM', hidden, unpack(ARGV, 6, last))
    local keys = {}
    for i = 1, #ids do
        keys[i] = base .. 'msg:' .. ids[i]
    end
    call('DEL', unpack(keys))
end
for i = 1, #ids do
    tell('acked', ids[i])
end
return with_told(bad > 0 and out or {})

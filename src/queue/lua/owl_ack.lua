--#include "queue/owl_base.lua"
local how, queue = ARGV[4], ARGV[1]
local was = call('GET', base .. 'lane:' .. ARGV[2])
--#include "queue/lane.lua"
--#include "queue/owl_tell.lua"
-- owl_ack.lua: messages of a redowl queue are done.
--
-- KEYS   1 inflight
-- ARGV   1 queue   2 lane   3 number of the call   4 events   5... receipts
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> done.  A receipt whose message is gone is stale, and forgotten.
-- What came of a call is noted in its lane, so that a lost answer is asked for
-- again: the receipt alone would not tell "done" from "expired meanwhile".
local MOST = 1000 -- LEAT_QUEUE_BATCH
if #ARGV > 4 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out, bad, done_ids = {}, 0, {}
if done then
    for i = 5, done == '' and 0 or #ARGV do
        out[i - 4] = sub(done, i - 4, i - 4) == '1' and 1 or 0
    end
    return out
end
local found, some = call('HMGET', receipt, unpack(ARGV, 5)), false
for i = 1, #found do
    some = some or found[i]
end
if some then
--#include "redis/may.lua"
    may(inflight, 'DEL HDEL SET ZREM')
    call('HDEL', receipt, unpack(ARGV, 5))
    call('ZREM', inflight, unpack(ARGV, 5))
    call('ZREM', hidden, unpack(ARGV, 5))
end
for i = 1, #found do
    local id = found[i]
    out[i] = id and call('DEL', base .. 'msg:' .. id) or 0
    if out[i] == 1 then
        done_ids[#done_ids + 1] = id
    else
        bad = bad + 1
    end
end
if #done_ids > 0 then
    call('SET', base .. 'lane:' .. ARGV[2], ARGV[3] .. ' ' ..
         (bad > 0 and table.concat(out) or ''), 'PX', LANE_MS)
end
for i = 1, #done_ids do
    tell('acked', done_ids[i])
end
return with_told(bad > 0 and out or {})

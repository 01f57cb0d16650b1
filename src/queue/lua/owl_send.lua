--#include "queue/owl_base.lua"
local how, queue = ARGV[4], ARGV[1]
local was = call('GET', base .. 'lane:' .. ARGV[2])
--#include "queue/lane.lua"
--#include "queue/owl_lane.lua"
--#include "queue/owl_tell.lua"
-- owl_send.lua: messages into a redowl queue.
--
-- KEYS   1 inflight
-- ARGV   as send_each.lua, where a message is "<length of attrs>\n<attrs><body>"
--        and a delay is never the queue's; there are no incarnations
-- result [0, ms until the last is visible, n, id, ...]  n: which was not sent, as
--        there is a message of that id
--
-- nothing -> ready, or delayed: that is in flight without having been received,
-- so that redowl, too, brings it to the queue when its time has come.  At
-- maxmemory the first HSET is refused.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if #ARGV > 6 + 6 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out, new, delays, seen = { 0, 0 }, {}, {}, {}
for i = 7, #ARGV, 6 do
    local id, delay = ARGV[i], tonumber(ARGV[i + 4])
    if delay > out[2] then
        out[2] = delay
    end
    if not done and ARGV[i + 5] == '1' and
        (seen[id] or call('EXISTS', base .. 'msg:' .. id) == 1) then
        out[#out + 1] = (i - 7) / 6
        out[#out + 1] = id
    else
        new[#new + 1] = i
        delays[i] = delay
    end
    seen[id] = true
end
if done or #new == 0 then
    return out
end

--#include "redis/may.lua"
may(ready, 'HSET RPUSH SET ZADD')
local list = {}
for j = 1, #new do
    local i = new[j]
    local id, value = ARGV[i], ARGV[i + 1]
    local p = find(value, '\n', 1, true)
    local q = p + sub(value, 1, p - 1)
    call('HSET', base .. 'msg:' .. id, 'body', sub(value, q + 1), 'attrs',
         sub(value, p + 1, q), 'rc', '0', 'created_at_ms', now)
    if delays[i] > 0 then
        call('HSET', receipt, receipt_of(j), id)
        call('ZADD', inflight, now + delays[i], receipt_of(j))
    else
        list[#list + 1] = id
    end
end
if #list > 0 then
    call('RPUSH', ready, unpack(list))
end
call('SET', base .. 'lane:' .. ARGV[2], ARGV[3] .. ' ', 'PX', LANE_MS)
for j = 1, #new do
    tell('sent', ARGV[new[j]])
end
return with_told(out)

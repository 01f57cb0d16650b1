--#include "queue/owl_base.lua"
local how, queue = ARGV[4], ARGV[1]
local was = call('GET', base .. 'lane:' .. ARGV[2])
--#include "queue/lane.lua"
--#include "queue/owl_tell.lua"
-- owl_redrive.lua: dead letters of a redowl queue back to it, the oldest first.
--
-- KEYS   1 inflight
-- ARGV   as redrive.lua
-- result [how many, how many were looked at]
--
-- dead -> ready, at the tail, received 0 times.  An id without message is
-- dropped.
if done then
    return { tonumber(done) or 0, 1 }
end
local MOST = 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[5]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
--#include "redis/may.lua"
may(dlq, 'HDEL HLEN HSET LRANGE LTRIM RPUSH SET')
local got, list = call('LRANGE', dlq, 0, ARGV[5] - 1), {}
for i = 1, #got do
    if call('HLEN', base .. 'msg:' .. got[i]) > 0 then
        list[#list + 1] = got[i]
    end
end
call('LTRIM', dlq, #got, -1)
for i = 1, #list do
    call('HSET', base .. 'msg:' .. list[i], 'rc', '0')
    call('HDEL', base .. 'msg:' .. list[i], 'reason')
end
if #list > 0 then
    call('RPUSH', ready, unpack(list))
    call('SET', base .. 'lane:' .. ARGV[2], ARGV[3] .. ' ' .. #list, 'PX',
         LANE_MS)
end
for i = 1, #list do
    tell('dlq_redriven', list[i], 0)
end
return with_told({ #list, #got })

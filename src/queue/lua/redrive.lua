--#include "queue/base.lua"
local kept, was = unpack(call('MGET', base .. 'clock', base .. 's:' .. ARGV[2]))
--#include "queue/clock.lua"
--#include "queue/lane.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- redrive.lua: dead letters back to their queue, the oldest first.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events   5 at most so many
--        6 the incarnation that is meant
-- result [how many, how many were looked at], or [-1]: no such queue, or [-4]: another one of that name
--
-- dead -> ready, received 0 times; where old messages are dropped, sent now.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[5]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local queue = ARGV[1]
local key = base .. queue
local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'ttl', 'fifo',
                  'events', 'u')
if done then
    return { tonumber(done) or 0, 1 }
elseif not conf[1] or conf[2] then
    return { -1 }
elseif (conf[6] or conf[1]) ~= ARGV[6] then
    return { -4 }
end
local fifo, log = conf[4] == '1', conf[5] == '1'
call('LLEN', key .. ':ready')
call('HLEN', key .. ':stat')
call('HLEN', key .. ':busy')
local got = call('LRANGE', key .. ':dead', 0, ARGV[5] - 1)
if #got == 0 then
    return { 0, 0 }
end
local list, ids = {}, {}
for i = 1, #got do
    local sent, rest = match(got[i], '^%d+/(%d+)(.*)$')
    local group, id = parts(got[i], fifo)
    if id ~= '' then -- else somebody else put it there, and it is no message
        list[#list + 1] = '0/' .. (conf[3] ~= '0' and now or sent) .. rest
        ids[#list] = { group, id }
    end
    if group then
        call('LLEN', key .. ':g:' .. group)
    end
end
--#include "redis/may.lua"
may(key, 'HEXISTS HINCRBY LTRIM RPUSH SET')
call('LTRIM', key .. ':dead', #got, -1)
save_clock()
if fifo then
    for i = 1, #list do
        put_in_group(queue, ids[i][1], list[i], false)
    end
elseif #list > 0 then
    stand(queue, false, list)
    if push(false, key .. ':ready', list) then
        wake(queue, key .. ':ready')
    end
end
try('HINCRBY', key .. ':stat', 'redriven', #list)
for i = 1, #ids do
    try('HDEL', key .. ':why', ids[i][2])
end
call('SET', base .. 's:' .. ARGV[2], ARGV[3] .. ' ' .. #list, 'PX', LANE_MS)
for i = 1, #ids do
    tell(ARGV[4], log, 'dlq_redriven', queue, ids[i][2], 0)
end
return with_told({ #list, #got })

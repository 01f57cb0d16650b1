--#include "queue/base.lua"
local kept, was = unpack(call('MGET', base .. 'clock', base .. 's:' .. ARGV[2]))
--#include "queue/clock.lua"
--#include "queue/lane.lua"
-- send.lua: messages without anything of their own, into a queue that is not
-- fifo.  See send_each.lua for the others.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events
--        5 delay in ms, -1: the queue's
--        6... id, message: ids are new ones
-- result [0, ms until they are visible]   sent, by this call or by an earlier
--                                         one of the same number
--        [-1] no such queue   [-2, n, max] message n is too big
--        [-3] it is a fifo queue
--
-- nothing -> ready or delayed.  HINCRBY is refused at maxmemory before anything
-- was done; a key that holds something else undoes what was.
local queue = ARGV[1]
local key = base .. queue
local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'delay', 'max',
                  'fifo', 'events')
if not conf[1] or conf[2] then
    return { -1 }
end
if conf[5] == '1' then
    return { -3 }
end
local delay = tonumber(ARGV[5])
if delay < 0 then
    delay = tonumber(conf[3])
end
if done then
    return { 0, delay }
end
local max = tonumber(conf[4])
for i = 7, #ARGV, 2 do
    if #ARGV[i] > max then
        return { -2, (i - 7) / 2, max }
    end
end

local n = (#ARGV - 5) / 2
call('HINCRBY', key .. ':stat', 'sent', n)
local r = try('HSET', key .. ':body', unpack(ARGV, 6))
if type(r) == 'number' then
    local rest, list = '0/' .. now .. '/', {}
    if delay > 0 then
        rest = 'd/' .. queue .. '/' .. rest
        local when = string.format('%.0f', now + delay)
        for i = 6, #ARGV, 2 do
            list[i - 5] = when
            list[i - 4] = rest .. ARGV[i]
        end
        r = try('ZADD', KEYS[1], unpack(list))
    else
        for i = 6, #ARGV, 2 do
            list[(i - 4) / 2] = rest .. ARGV[i]
        end
        r = try('RPUSH', key .. ':ready', unpack(list))
    end
    if type(r) ~= 'number' then
        for i = 6, #ARGV, 2 do
            call('HDEL', key .. ':body', ARGV[i])
        end
    end
end
if type(r) ~= 'number' then
    call('HINCRBY', key .. ':stat', 'sent', -n)
    return r
end
if delay > 0 then
    call('HINCRBY', key .. ':stat', 'late', n)
elseif r == n then
    try('PUBLISH', key .. ':ready', '')
    if call('ZADD', base .. 'work', 'NX', now, queue) == 1 then
        try('PUBLISH', sub(base, 1, find(base, ':{q/', 1, true)) .. 'work', '')
    end
end
call('SET', base .. 's:' .. ARGV[2], ARGV[3] .. ' ', 'PX', LANE_MS)
if ticked then
    call('SET', base .. 'clock', at .. ' ' .. off)
end
local log, how = conf[6] == '1', ARGV[4]
--#include "queue/heard.lua"
if telling then
--#include "queue/tell.lua"
    for i = 6, #ARGV, 2 do
        tell(ARGV[4], log, 'sent', queue, ARGV[i])
    end
    return with_told({ 0, delay })
end
return { 0, delay }

--#include "queue/base.lua"
local lane = base .. 's:' .. ARGV[2]
local both = call('MGET', base .. 'clock', lane)
local kept, was = both[1], both[2]
--#include "queue/clock.lua"
--#include "queue/lane.lua"
-- send.lua: messages without anything of their own, into a queue that is not
-- fifo.  See send_each.lua for the others.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events
--        5 delay in ms, -1: the queue's
--        6 '1' if it is asked again, else '0', and the incarnation that is meant
--        7... id, message: ids are new ones
-- result [0, ms until they are visible]   sent, by this call or by an earlier
--                                         one of the same number
--        [-1] no such queue   [-2, n, max] message n is too big
--        [-3] it is a fifo queue   [-4] it is asked again, and there is another
--                                       queue of that name
--
-- nothing -> ready or delayed.  HINCRBY is refused at maxmemory before anything
-- was done; a key that holds something else, or a right that is missing, undoes
-- what was.
--
-- Who waits looks every 5 s at least, and knows then what will be due: of what is
-- due sooner it is told, whoever sent that.
local SOON_MS, MOST = 5000, 1000 -- LEAT_QUEUE_BATCH
if #ARGV > 6 + 2 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local queue = ARGV[1]
local key = base .. queue
--#include "queue/usual.lua"
local log = false
if not hide then
    local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'delay',
                      'max', 'fifo', 'events')
    if not conf[1] or conf[2] then
        return { -1 }
    elseif conf[5] == '1' then
        return { -3 }
    end
    delay, limit, log = tonumber(conf[3]), tonumber(conf[4]), conf[6] == '1'
end
local argv, how = ARGV, ARGV[4]
if argv[5] ~= '-1' then
    delay = tonumber(argv[5])
end
if done then
    return { 0, delay }
end
if sub(argv[6], 1, 1) == '1' then
    -- Perhaps the first one is in the queue that was there before.
    local who = call('HMGET', key .. ':conf', 'u', 'created')
    if (who[1] or who[2]) ~= sub(argv[6], 2) then
        return { -4 }
    end
end
if not was and argv[3] ~= '1' then
    -- The lane's memory is gone, after an hour or more of rest or by a clock
    -- that went ahead.  One that is there shows that this is not the first time.
    for i = 7, #argv, 2 do
        if call('HEXISTS', key .. ':body', argv[i]) == 1 then
            return { 0, delay }
        end
    end
end
for i = 8, #argv, 2 do
    if #argv[i] > limit then
        return { -2, (i - 8) / 2, limit }
    end
end

local n = (#argv - 6) / 2
-- Numbers are dear as arguments.
local stamp = format('%d', now)
call('HINCRBY', key .. ':stat', 'sent', format('%d', n))
local note, r = argv[3] .. ' ' .. age, nil
if was and sub(was, -#age) == age then
    r = try('SET', lane, note, 'KEEPTTL')
else
    r = try('SET', lane, note, 'PX', LANE_MS)
end
local noted = not r.err
r = noted and try('HSET', key .. ':body', unpack(argv, 7)) or r
if type(r) == 'number' then
    local rest = '0/' .. stamp .. '/'
    if delay > 0 then
        local list, when = {}, format('%d', now + delay)
        rest = 'd/' .. queue .. '/' .. rest
        for i = 7, #argv, 2 do
            list[i - 6] = when
            list[i - 5] = rest .. argv[i]
        end
        r = try('ZADD', KEYS[1], unpack(list))
    else
        -- A table that need not grow is much cheaper.
        local list = { unpack(argv, 7, 6 + n) }
        for i = 1, n do
            list[i] = rest .. argv[2 * i + 5]
        end
        r = try('RPUSH', key .. ':ready', unpack(list))
    end
    if type(r) ~= 'number' then
        for i = 7, #ARGV, 2 do
            call('HDEL', key .. ':body', ARGV[i])
        end
    end
end
if type(r) ~= 'number' then
    call('HINCRBY', key .. ':stat', 'sent', -n)
    if noted and was then
        call('SET', lane, was, 'PX', LANE_MS)
    elseif noted then
        call('DEL', lane)
    end
    return r
end
if delay > 0 then
    try('HINCRBY', key .. ':stat', 'late', n)
    if delay < SOON_MS then
        try('PUBLISH', key .. ':ready', '')
    end
elseif r == n then
    try('PUBLISH', key .. ':ready', '')
    if try('ZADD', base .. 'work', 'NX', stamp, queue) == 1 then
        try('PUBLISH', sub(base, 1, find(base, ':{q/', 1, true)) .. 'work', '')
    end
end
if ticked then
    call('SET', base .. 'clock', ticked)
end
if log or how ~= '0' then
--#include "queue/heard.lua"
    if not telling then
        return { 0, delay, {} }
    end
--#include "queue/tell.lua"
    for i = 7, #argv, 2 do
        tell(how, log, 'sent', queue, argv[i])
    end
    return with_told({ 0, delay })
end
return { 0, delay }

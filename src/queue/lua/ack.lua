--#include "queue/base.lua"
-- ack.lua: messages are done.
--
-- KEYS   1 due
-- ARGV   1 queue   2 events   3 '1': asked before, and the answer was lost
--        4 '1': a fifo queue's
--        5 how many of them are dead letters; '+' behind it: some were received
--          more than once
--        6... n members, then their n ids, of a fifo queue then their n groups
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> done.  Asked again, a message that is gone counts as done, unless
-- it is known to be another receipt's doing: by whom one is done that had several
-- is kept for a minute.
local BY_MS = '60000'
local argv, due = ARGV, KEYS[1]
local queue, how, fifo = argv[1], argv[2], argv[4] == '1'
local key = base .. queue
local n = (#argv - 5) / (fifo and 3 or 2)
local log, MOST = false, 1000 -- LEAT_QUEUE_BATCH
if n > MOST then
    return redis.error_reply('ERR more than one call may have')
end
if fifo or not call('HGET', key .. ':conf', 'usual') then
    local conf = call('HMGET', key .. ':conf', 'created', 'fifo', 'events')
    if not conf[1] or (conf[2] == '1') ~= fifo then
        local none = {}
        for i = 1, n do
            none[i] = 0
        end
        return none
    end
    log = conf[3] == '1'
end
if fifo then
    -- All that can hold something else is looked at before the first write.
--#include "redis/may.lua"
    may(key .. ':busy', 'HDEL HINCRBY LLEN MGET RPUSH TIME ZREM')
    call('LLEN', key .. ':ready')
    call('HLEN', key .. ':busy')
    for i = 6 + 2 * n, #argv do
        call('LLEN', key .. ':g:' .. argv[i])
    end
end

-- One by one, which tells which were there; to ask before they are removed
-- together costs more.  `mine` are those that were, nil: all.
local mine
for i = 1, n do
    if call('ZREM', due, argv[5 + i]) == 1 then
        if mine then
            mine[#mine + 1] = i
        end
    elseif not mine then
        mine = {}
        for k = 1, i - 1 do
            mine[k] = k
        end
    end
end
-- Their ids are so many of `ids`, behind `from`.
local ids, from, count = argv, 5 + n, n
local dead, out = tonumber(argv[5]), {}
local several = not dead
dead = dead or tonumber(sub(argv[5], 1, -2))
if mine then
    local bad = 0
    for i = 1, n do
        local again = argv[3] == '1' and
            call('HEXISTS', key .. ':body', ids[from + i]) == 0
        if again then
            local by = call('MGET', key .. ':by:' .. ids[from + i])[1]
            again = not by or by == match(argv[5 + i], '[^/]*$')
        end
        out[i] = again and 1 or 0
    end
    ids, from, count, dead = {}, 0, #mine, 0
    for j = 1, count do
        local i = mine[j]
        out[i], ids[j] = 1, argv[5 + n + i]
        dead = dead + (sub(argv[5 + i], 1, 1) == 'x' and 1 or 0)
    end
    for i = 1, n do
        bad = bad + 1 - out[i]
    end
    out = bad > 0 and out or {}
    if count == 0 then
        return out
    end
end

local r = try('HDEL', key .. ':body', unpack(ids, from + 1, from + count))
if type(r) == 'table' then
    -- It holds something else: they are in flight again, and due now.
    for j = 1, count do
        call('ZADD', due, 0, argv[5 + (mine and mine[j] or j)])
    end
    return r
end
for j = 1, several and count or 0 do
    local m = argv[5 + (mine and mine[j] or j)]
    if sub(m, 1, 1) == 'x' or sub(m, #queue + 4, #queue + 5) ~= '1/' then
        try('SET', key .. ':by:' .. ids[from + j], match(m, '[^/]*$'), 'PX',
            BY_MS)
    end
end
if count > dead then
    try('HINCRBY', key .. ':stat', 'acked', format('%d', count - dead))
end
if several or dead > 0 then
    try('HDEL', key .. ':why', unpack(ids, from + 1, from + count))
end
if dead > 0 then
    try('HINCRBY', key .. ':stat', 'dacked', dead)
end
local telling = log or how ~= '0'
if telling and not fifo then
--#include "queue/heard.lua"
    if not telling then
        out[#out + 1] = {}
        return out
    end
end
if telling or fifo then
    if try('TIME').err or try('MGET', base .. 'clock').err then
        return out -- done, and not told
    end
    local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
--#include "queue/tell.lua"
    for i = 1, count do
        tell(how, log, 'acked', queue, ids[from + i])
    end
    if fifo then
--#include "queue/back.lua"
        for j = 1, count do
            local group = argv[5 + 2 * n + (mine and mine[j] or j)]
            if group ~= '' then
                free_group(queue, group, false)
            end
        end
    end
    return with_told(out)
end
return out

--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
--#include "queue/back.lua"
-- peek.lua: look at messages without receiving them.
--
-- KEYS   1 due
-- ARGV   1 queue   2 at most so many   3 '1': the dead letters
-- result [0, 0, member, message, ...] as take.lua, but that the members are no
--        receipts
--        [-1] no such queue
--
-- Reads only, but for the clock, and no more than makes an answer of 32 MiB.
-- Of a fifo queue: of each group that may be served, its first.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[2]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local queue = ARGV[1]
local key = base .. queue
local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'fifo')
if not conf[1] or conf[2] then
    return { -1 }
end
local dead, fifo = ARGV[3] == '1', conf[3] == '1'
local got = call('LRANGE', key .. (dead and ':dead' or ':ready'), 0,
                 ARGV[2] - 1)
local out, room = { 0, 0 }, 33554432
for i = 1, #got do
    local entry = room > 0 and got[i]
    if entry and fifo and not dead then
        entry = call('LINDEX', key .. ':g:' .. entry, 0)
    end
    if entry then
        local _, id = parts(entry, fifo)
        local body = call('HGET', key .. ':body', id)
        if body then
            room = room - #body
            out[#out + 1] = (dead and 'x/' or 'v/') .. queue .. '/' .. entry ..
                '/-'
            out[#out + 1] = body
            if dead then
                out[#out + 1] = call('HGET', key .. ':why', id) or ''
            end
        end
    end
end
return out

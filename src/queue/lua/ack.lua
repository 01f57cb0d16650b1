--#include "queue/base.lua"
-- ack.lua: messages are done.
--
-- KEYS   1 due
-- ARGV   1 queue   2 events   3 '1': asked before, and the answer was lost
--        4 '1': a fifo queue's
--        5 how many of them are dead letters
--        6... n members, then their n ids, of a fifo queue then their n groups
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> done.  Asked again, a message that is gone counts as done.
local queue = ARGV[1]
local key = base .. queue
local fifo = ARGV[4] == '1'
local n = (#ARGV - 5) / (fifo and 3 or 2)
local conf = call('HMGET', key .. ':conf', 'created', 'fifo', 'events')
if not conf[1] or (conf[2] == '1') ~= fifo then
    local none = {}
    for i = 1, n do
        none[i] = 0
    end
    return none
end

-- All at once, if all are there: that is seen by changing their deadlines, which
-- counts, before they are removed, which would not tell which.
local mark = {}
for i = 1, n do
    mark[2 * i - 1], mark[2 * i] = '-1', ARGV[5 + i]
end
local all = n > 1 and try('ZADD', KEYS[1], 'XX', 'CH', unpack(mark)) == n
local out, ids, members, groups, bad, dead = {}, {}, {}, {}, 0, 0
if all then
    call('ZREM', KEYS[1], unpack(ARGV, 6, 5 + n))
    ids = { unpack(ARGV, 6 + n, 5 + 2 * n) }
    dead = tonumber(ARGV[5])
end
for i = 1, all and 0 or n do
    local there = call('ZREM', KEYS[1], ARGV[5 + i])
    if there == 1 then
        ids[#ids + 1] = ARGV[5 + n + i]
        members[#members + 1] = ARGV[5 + i]
        dead = dead + (sub(ARGV[5 + i], 1, 1) == 'x' and 1 or 0)
        groups[#groups + 1] = ARGV[5 + 2 * n + i]
    elseif ARGV[3] == '1' and
        call('HEXISTS', key .. ':body', ARGV[5 + n + i]) == 0 then
        there = 1
    else
        bad = bad + 1
    end
    out[i] = there
end
if all and fifo then
    groups = { unpack(ARGV, 6 + 2 * n) }
end
if #ids == 0 then
    return bad > 0 and out or {}
end

local r = try('HDEL', key .. ':body', unpack(ids))
if type(r) == 'table' then
    -- It holds something else: they are in flight again, and due now.
    members = all and { unpack(ARGV, 6, 5 + n) } or members
    for i = 1, #members do
        call('ZADD', KEYS[1], 0, members[i])
    end
    return r
end
if #ids > dead then
    try('HINCRBY', key .. ':stat', 'acked', #ids - dead)
end
if dead > 0 then
    try('HDEL', key .. ':why', unpack(ids))
    try('HINCRBY', key .. ':stat', 'dacked', dead)
end
local log, how = conf[3] == '1', ARGV[2]
--#include "queue/heard.lua"
if telling or fifo then
    local kept = call('GET', base .. 'clock')
--#include "queue/clock.lua"
--#include "queue/tell.lua"
    for i = 1, #ids do
        tell(how, log, 'acked', queue, ids[i])
    end
    if fifo then
--#include "queue/back.lua"
        for i = 1, #groups do
            if groups[i] ~= '' then
                free_group(queue, groups[i], false)
            end
        end
    end
    return with_told(bad > 0 and out or {})
end
return bad > 0 and out or {}

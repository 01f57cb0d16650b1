--#include "queue/base.lua"
-- done.lua: messages of many queues of a shard are done.
--
-- KEYS   1 due
-- ARGV   1 events   2 '1': asked before, and the answer was lost
--        3 '1': tell other pools of queues that may be served again
--        4... for each queue: its name, what ('f', 'l' as in serve.lua, '+' some
--        were received more than once), '1': none of it is in flight here any
--        more, n, n members, their n ids, of a fifo queue their n groups
-- result [how many of the queues wait to be served again] all are done; else
--        followed for each message by 1 done, 0 the receipt is stale
--
-- in flight -> done.  Asked again, a message that is gone counts as done, unless
-- by another receipt.  See ack.lua, which does it for one queue.
local BY_MS, SETTLE_MAX = '60000', 4096 -- POOL_SETTLE_MAX of pool.h
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
local work, how = base .. 'work', ARGV[1]
local lots, mark, members, total, fifos, logged = {}, {}, {}, 0, false, false
local argv, i, wrong = ARGV, 4, false
while i <= #argv do
    local n, what = tonumber(argv[i + 3]), argv[i + 1]
    local lot = { queue = argv[i], free = argv[i + 2] == '1', n = n, at = i + 3,
                  fifo = false, log = false, several = false, wrong = false }
    lots[#lots + 1] = lot
    for j = i + 4, i + 3 + n do
        local m = argv[j]
        total = total + 1
        mark[2 * total - 1], mark[2 * total], members[total] = '-1', m, m
    end
    if what ~= '' then
        lot.fifo = find(what, 'f', 1, true)
        lot.log = find(what, 'l', 1, true)
        lot.several = find(what, '+', 1, true)
        fifos, logged = fifos or lot.fifo, logged or lot.log
    end
    if lot.fifo then
        -- A key that holds something else would stop it half way.
        local key = base .. lot.queue
        lot.wrong = type(try('LLEN', key .. ':ready')) ~= 'number' or
            type(try('HLEN', key .. ':busy')) ~= 'number'
        for j = 1, n do
            lot.wrong = lot.wrong or type(try('LLEN', key .. ':g:' ..
                argv[i + 3 + 2 * n + j])) ~= 'number'
        end
        wrong = wrong or lot.wrong
    end
    i = i + 4 + (lot.fifo and 3 or 2) * n
end

--#include "redis/may.lua"
may(KEYS[1], 'ZREM' .. (fifos and ' HDEL LLEN RPUSH' or ''))
if total > SETTLE_MAX then
    return redis.error_reply('ERR more than are settled at once')
end

-- All at once, if all are there: that is seen by changing their deadlines, which
-- counts, before they are removed, which would not tell which.
--#include "redis/chunks.lua"
local marked = 0
in_chunks(wrong and 0 or 2 * total, function(from, to)
    local n = try('ZADD', KEYS[1], 'XX', 'CH', unpack(mark, from, to))
    marked = marked + (type(n) == 'number' and n or 0)
end)
local all = not wrong and marked == total
in_chunks(all and total or 0, function(from, to)
    call('ZREM', KEYS[1], unpack(members, from, to))
end)
local out, o, bad, served, acks = { 0 }, 1, false, {}, {}

-- One by one; those that were there go to `acks`.
local function look_at(lot, key)
    local ids, mine = {}, {}
    for j = 1, lot.n do
        local id, m = argv[lot.at + lot.n + j], argv[lot.at + j]
        local there = all and 1 or lot.wrong and 0 or call('ZREM', KEYS[1], m)
        if there == 1 then
            ids[#ids + 1], mine[#mine + 1] = id, j
        elseif ARGV[2] == '1' and
            type(try('HEXISTS', key .. ':body', id)) == 'number' and
            call('HEXISTS', key .. ':body', id) == 0 then
            local by = call('MGET', key .. ':by:' .. id)[1]
            there = (not by or by == match(m, '[^/]*$')) and 1 or 0
        end
        bad = bad or there == 0
        out[o + j] = there
    end
    local r = true
    in_chunks(#ids, function(from, to)
        r = try('HDEL', key .. ':body', unpack(ids, from, to))
    end)
    if type(r) == 'table' then
        -- It holds something else: they are in flight again, and due now.
        bad = true
        for k = 1, #mine do
            call('ZADD', KEYS[1], 0, argv[lot.at + mine[k]])
            out[o + mine[k]] = 0
        end
    elseif #ids > 0 then
        try('HINCRBY', key .. ':stat', 'acked', #ids)
        acks[#acks + 1] = { lot, ids, mine }
        for k = 1, lot.several and #ids or 0 do
            local m = argv[lot.at + mine[k]]
            if sub(m, #lot.queue + 4, #lot.queue + 5) ~= '1/' then
                try('SET', key .. ':by:' .. ids[k], match(m, '[^/]*$'), 'PX',
                    BY_MS)
                try('HDEL', key .. ':why', ids[k])
            end
        end
    end
end

local time = format('%.0f', now)
local plain = all and not fifos and not logged and how == '0'
for l = 1, #lots do
    local lot = lots[l]
    local key, at, n = base .. lot.queue, lot.at, lot.n
    local r = plain and not lot.several and n <= CHUNK and
        try('HDEL', key .. ':body', unpack(argv, at + n + 1, at + 2 * n))
    if type(r) == 'number' then
        try('HINCRBY', key .. ':stat', 'acked', argv[at])
    else
        look_at(lot, key)
    end
    o = o + n
    if lot.free then
        served[#served + 1] = time
        served[#served + 1] = lot.queue
    end
end
if fifos then
--#include "queue/tell.lua"
--#include "queue/back.lua"
    for t = 1, #acks do
        local lot, mine = acks[t][1], acks[t][3]
        for k = 1, lot.fifo and #mine or 0 do
            local group = argv[lot.at + 2 * lot.n + mine[k]]
            free_group(lot.queue, group, false)
        end
    end
end
if #served > 0 then
    in_chunks(#served, function(from, to)
        local n = try('ZADD', work, 'XX', 'CH', unpack(served, from, to))
        out[1] = out[1] + (type(n) == 'number' and n or 0)
    end)
    if out[1] > 0 and ARGV[3] == '1' then
        try('PUBLISH', sub(base, 1, find(base, ':{q/', 1, true)) .. 'work', '')
    end
end

local telling = logged or how == '2'
if how == '1' and not logged and #acks > 0 then
    local channels = { sub(base, 1, find(base, ':{q/', 1, true)) .. 'events' }
    for t = 1, #acks do
        channels[t + 1] = base .. acks[t][1].queue .. ':events'
    end
    telling = try('PUBSUB', 'NUMPAT') ~= 0
    in_chunks(#channels, function(from, to)
        local s = try('PUBSUB', 'NUMSUB', unpack(channels, from, to))
        telling = telling or s.err
        for k = 2, s.err and 0 or #s, 2 do
            telling = telling or s[k] ~= 0
        end
    end)
end
if telling then
--#include "queue/tell.lua"
    for t = 1, #acks do
        local lot, ids = acks[t][1], acks[t][2]
        for k = 1, #ids do
            tell(how, lot.log, 'acked', lot.queue, ids[k])
        end
    end
end
if not bad then
    return { out[1] }
end
for j = 2, total + 1 do
    out[j] = out[j] or 1
end
return out

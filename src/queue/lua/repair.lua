--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
--#include "redis/chunks.lua"
-- repair.lua: messages that have a body and stand nowhere get a place again.
--
-- KEYS   1 due
-- ARGV   1 events
-- result [how many, '1' a long queue is being looked through: go on soon]
--
-- nowhere -> ready, at the head; of a fifo queue, whose group nobody knows any
-- more, dead, but for one that its group waits for.  No script leaves a message
-- so; a script of an earlier version that failed half way did.
--
-- A queue is looked into only where it has more bodies than entries: then all
-- its places are read at once, so that what is in flight, delayed or done is
-- never taken for lost.  Some queues of the shard are looked at in a call, and
-- so many places and bodies.  A queue that has more is looked through over
-- several calls, at most once an hour: see search.lua.
local QUEUES, PLACES, BODIES, REPAIRS, STEP = 20, 4000, 20000, 1000, 1000
local how, left, found = ARGV[1], PLACES, 0

local function id_of(member)
    local kind, queue, entry = open(member)
    local _, id = parts(entry, conf_of(queue).fifo)
    return queue, kind, id
end

-- What is in flight or delayed, by queue; nil: too much.
local function all_due()
    if call('ZCARD', KEYS[1]) > PLACES then
        return nil
    end
    local by = {}
    for _, m in ipairs(call('ZRANGE', KEYS[1], 0, -1)) do
        local queue, kind, id = id_of(m)
        local q = by[queue] or { ids = {}, n = 0, flying = 0 }
        by[queue] = q
        q.ids[id], q.n = true, q.n + 1
        q.flying = q.flying + (kind == 'v' and 1 or 0)
    end
    return by
end

-- The lists that hold a queue's entries, and how many entries they have; nil: a
-- key holds something else, or there are too many.
local function lists_of(key, fifo)
    local lists, n = { key .. ':dead' }, call('LLEN', key .. ':dead')
    if not fifo then
        lists[2] = key .. ':ready'
        return lists, n + call('LLEN', lists[2])
    end
    local groups = call('LLEN', key .. ':ready') + call('HLEN', key .. ':busy')
    if groups > left then
        return nil, groups
    end
    local seen = {}
    for _, from in ipairs({ call('LRANGE', key .. ':ready', 0, -1),
                            call('HKEYS', key .. ':busy') }) do
        for _, group in ipairs(from) do
            local list = key .. ':g:' .. group
            local length = not seen[group] and try('LLEN', list)
            if type(length) == 'table' then
                return nil, 0
            elseif length then
                lists[#lists + 1], n = list, n + length
            end
            seen[group] = true
        end
    end
    return lists, n
end

-- The ids of bodies that are nowhere, at most so many.
local function strays(key, lists, due, fifo)
    local there, out = {}, {}
    for _, list in ipairs(lists) do
        for _, entry in ipairs(call('LRANGE', list, 0, -1)) do
            local _, id = parts(entry, fifo)
            there[id] = true
        end
    end
    for _, id in ipairs(call('HKEYS', key .. ':body')) do
        if not there[id] and not due.ids[id] and #out < REPAIRS then
            out[#out + 1] = id
        end
    end
    return out
end

-- Groups that wait for one of them, by its id.
local function waiting(key, fifo)
    local by, busy = {}, fifo and call('HGETALL', key .. ':busy') or {}
    for i = 1, #busy, 2 do
        by[busy[i + 1]] = busy[i]
    end
    return by
end

local function restore(queue, c, ids, groups)
    local back, dead = {}, {}
    local head = '0/' .. format('%.0f', now) .. '/'
    for _, id in ipairs(ids) do
        local group = groups[id]
        if not c.fifo then
            back[#back + 1] = head .. id
        elseif group then
            back[#back + 1] = head .. #group .. '/' .. group .. '/' .. id
        else
            dead[#dead + 1] = head .. #id .. '/' .. id .. '/' .. id
        end
    end
    if #back > 0 then
        give_back(queue, c, back, how)
    end
    if #dead > 0 then
        bury(queue, c, dead, how, 'it was found in no list')
    end
end

-- In flight is what is counted so, and pools wait for that; nil: it is not known,
-- but is not below 0.
local function set_flying(key, flying)
    local st = call('HMGET', key .. ':stat', 'recv', 'acked', 'back')
    local counted = (st[1] or 0) - (st[2] or 0) - (st[3] or 0)
    flying = flying or counted > 0 and counted or 0
    if counted ~= flying then
        try('HINCRBY', key .. ':stat', 'back', format('%.0f', counted - flying))
    end
end

--#include "queue/search.lua"
local function look_into(queue, due)
    local key, c = base .. queue, conf_of(queue)
    local bodies = c.sound and try('HLEN', key .. ':body')
    if type(bodies) ~= 'number' or
        type(try('HLEN', key .. ':stat')) ~= 'number' then
        return
    end
    local lists, n = lists_of(key, c.fifo)
    if due and bodies <= n + due.n then
        return
    end
    if not due or n > PLACES or bodies > BODIES then
        begin_search(queue)
    elseif lists and n <= left then
        left = left - n
        local ids = strays(key, lists, due, c.fifo)
        if #ids > 0 then
            restore(queue, c, ids, waiting(key, c.fifo))
            set_flying(key, due.flying)
            found = found + #ids
        end
    end
end

local names = call('SRANDMEMBER', base .. 'queues', QUEUES)
open_search()
local due = #names > 0 and all_due()
if #names > 0 or search then
--#include "redis/may.lua"
    may(KEYS[1], 'HDEL HEXISTS HGET HGETALL HKEYS HMGET HSCAN HSET LLEN LPUSH ' ..
        'LRANGE RPUSH SADD SET SISMEMBER SPOP SREM UNLINK ZSCAN')
    call('PERSIST', KEYS[1])
    save_clock()
end
go_on()
-- Each of few queues is the first at times: the others are left for later when
-- there is much to read.
local first = #names > 0 and math.floor(now / 1000) % #names or 0
for i = 1, left > 0 and #names or 0 do
    local queue = names[(first + i) % #names + 1]
    look_into(queue, due and (due[queue] or { ids = {}, n = 0, flying = 0 }))
end
return with_told({ found, search and '1' or '0' })

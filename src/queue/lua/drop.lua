--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- drop.lua: one step of emptying a queue, and of removing it.
--
-- KEYS   1 due
-- ARGV   1 queue   2 what: 'ready', 'dead', 'due' (in flight and delayed),
--        'look' (which one is it), 'mark' (refuse everything from now on),
--        'end' (the rest)
--        3 at most so many   4 the cursor of 'due', '0' at first
--        5 of 'due', '1': also the dead letters in flight; '2': only those
--        6 the incarnation that is meant, of 'look' ''
-- result [how many were dropped, how many more or the next cursor, of 'look' the
--        incarnation], or [-1]: no such queue, or [-4]: another one of that name
--
-- any -> dropped.  Each step can be repeated; a removal that was cut short is
-- gone on with by beginning again.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[3]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local queue, what = ARGV[1], ARGV[2]
local key = base .. queue
local conf = call('HMGET', key .. ':conf', 'created', 'fifo', 'u')
if not conf[1] then
    return { -1, 0 }
end
local who = conf[3] or conf[1]
if what == 'look' then
    return { 0, who }
elseif who ~= ARGV[6] then
    return { -4, 0 }
end
local fifo = conf[2] == '1'
-- All that can hold something else is looked at before the first write.
call('HLEN', key .. ':body')
call('LLEN', key .. ':ready')
call('LLEN', key .. ':dead')
call('HLEN', key .. ':busy')
--#include "redis/may.lua"
may(key, what == 'end' and 'DEL UNLINK' or what == 'mark' and 'HDEL HSET' or
    'HDEL LLEN LREM LTRIM RPUSH ZREM')

--#include "redis/chunks.lua"
-- A scan may bring more than it was asked for.
local function forget(entries)
    local ids = {}
    for i = 1, #entries do
        local _, id = parts(entries[i], fifo)
        ids[i] = id
    end
    in_chunks(#ids, function(from, to)
        call('HDEL', key .. ':body', unpack(ids, from, to))
        try('HDEL', key .. ':why', unpack(ids, from, to))
    end)
    if #ids > 0 then
        try('HINCRBY', key .. ':stat', 'purged', #ids)
    end
end

local max = tonumber(ARGV[3])
local function shorten(list, most)
    local got = call('LRANGE', list, 0, most - 1)
    call('LTRIM', list, #got, -1)
    forget(got)
    return #got
end

-- In flight ones were dropped before, so all groups stand in ready.
local function groups()
    local dropped, all = 0, call('LRANGE', key .. ':ready', 0, 99)
    for i = 1, #all do
        if dropped >= max then
            break
        end
        local list = key .. ':g:' .. all[i]
        dropped = dropped + shorten(list, max - dropped)
        if call('LLEN', list) == 0 then
            call('LREM', key .. ':ready', 1, all[i])
        end
    end
    return { dropped, call('LLEN', key .. ':ready') }
end

local function unlist()
    if call('LLEN', key .. ':ready') == 0 then
        try('ZREM', base .. 'work', queue)
    end
end

if what == 'mark' then
    call('HSET', key .. ':conf', 'gone', 1)
    call('HDEL', key .. ':conf', 'usual')
    try('ZREM', base .. 'work', queue)
    return { 0, 0 }
elseif what == 'dead' then
    return { shorten(key .. ':dead', max), call('LLEN', key .. ':dead') }
elseif what == 'ready' then
    local out = fifo and groups() or
        { shorten(key .. ':ready', max), call('LLEN', key .. ':ready') }
    unlist()
    return out
elseif what == 'due' then
    local page = call('ZSCAN', KEYS[1], ARGV[4], 'COUNT', ARGV[3])
    local lot, back, late, dback = {}, 0, 0, 0
    for i = 1, #page[2], 2 do
        local m = page[2][i]
        local kind = sub(m, 1, 1)
        local wanted = sub(m, 2, #queue + 3) == '/' .. queue .. '/' and
            (kind == 'x' and ARGV[5] ~= '0' or kind ~= 'x' and ARGV[5] ~= '2')
        if wanted and call('ZREM', KEYS[1], m) == 1 then
            local _, _, entry = open(m)
            local group = kind == 'v' and parts(entry, fifo)
            late = late + (kind == 'd' and 1 or 0)
            back = back + (kind == 'v' and 1 or 0)
            dback = dback + (kind == 'x' and 1 or 0)
            lot[#lot + 1] = entry
            if group then
                free_group(queue, group, false)
            end
        end
    end
    forget(lot)
    try('HINCRBY', key .. ':stat', 'back', back)
    try('HINCRBY', key .. ':stat', 'dback', dback)
    try('HINCRBY', key .. ':stat', 'late', -late)
    return { #lot, page[1] }
end
call('UNLINK', key .. ':ready', key .. ':body', key .. ':dead', key .. ':busy',
     key .. ':stat', key .. ':log', key .. ':why')
try('SREM', base .. 'queues', queue)
call('DEL', key .. ':conf')
return { 0, 0 }

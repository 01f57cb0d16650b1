--#include "queue/base.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- take.lua: receive.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events
--        5 at most so many   6 hidden for so many ms, 0: the queue's
--        7 expired ones to give back first if there is nothing; 0: none
--        8 '1': from the dead letters
-- result [0, hidden for ms, member, message, member, message, ...]; a member of
--        due is the receipt: see back.lua
--        [-1] no such queue
--
-- ready -> in flight, dead (too many receives) or dropped (too old); dead ->
-- in flight.  All members of a call have one score and end by lane and number:
-- whoever asks again with the same finds what he was given.
local queue = ARGV[1]
local key = base .. queue
local max, dead = tonumber(ARGV[5]), ARGV[8] == '1'
local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'hide',
                  'receives', 'ttl', 'fifo', 'events')
if not conf[1] or conf[2] then
    return { -1 }
end
local hide = tonumber(ARGV[6])
if hide == 0 then
    hide = tonumber(conf[3])
end
local nonce = '/' .. ARGV[2] .. '.' .. ARGV[3]
local head = (dead and 'x/' or 'v/') .. queue .. '/'
local fifo, log = conf[6] == '1', conf[7] == '1'

-- Asked before: once more what is still there of it.
local done = lane_done(ARGV[2], ARGV[3])
if done then
    local out = { 0, hide }
    if done == 'late' then
        return out
    end
    local all = call('ZRANGEBYSCORE', KEYS[1], done, done)
    for i = 1, #all do
        local m = all[i]
        if sub(m, -#nonce) == nonce and sub(m, 1, #head) == head then
            local _, id = parts(sub(m, #head + 1, -#nonce - 1), fifo)
            local body = call('HGET', key .. ':body', id)
            if body then
                out[#out + 1] = m
                out[#out + 1] = body
            end
        end
    end
    if #out > 2 then
        return out
    end
end

local DROPPED_AT_ONCE = 1000
local most, ttl = tonumber(conf[4]), tonumber(conf[5])
local entries, ids, old, worn = {}, {}, {}, {}

-- What becomes of an entry that was at the head; true: it is received.
local function sort_out(entry)
    local p = find(entry, '/', 1, true)
    local q = find(entry, '/', p + 1, true)
    if dead then
        entries[#entries + 1] = entry
    elseif ttl > 0 and now - sub(entry, p + 1, q - 1) > ttl then
        old[#old + 1] = entry
        return false
    else
        local rc = tonumber(sub(entry, 1, p - 1))
        if most > 0 and rc >= most then
            worn[#worn + 1] = entry
            return false
        end
        entries[#entries + 1] = (rc + 1) .. sub(entry, p)
    end
    if fifo then
        local _, id = parts(entry, true)
        ids[#ids + 1] = id
    else
        ids[#ids + 1] = sub(entry, q + 1)
    end
    return true
end

local list = key .. (dead and ':dead' or ':ready')
local grouped = fifo and not dead
local function look()
    local got = call('LRANGE', list, 0, max - 1)
    if #got == 0 then
        return 0
    end
    if grouped then
        for i = 1, #got do
            call('LLEN', key .. ':g:' .. got[i])
        end
    end
    call('LTRIM', list, #got, -1)
    for i = 1, #got do
        local entry = got[i]
        if grouped then
            repeat
                entry = call('LPOP', key .. ':g:' .. got[i])
            until not entry or sort_out(entry)
            if entry then
                call('HSET', key .. ':busy', got[i], ids[#ids])
            end
        else
            sort_out(entry)
        end
    end
    return #got
end

-- All that can hold something else is looked at before the first write.
call('HLEN', key .. ':body')
call('HLEN', key .. ':stat')
call('ZCARD', KEYS[1])
call('LLEN', key .. ':dead')
call('PERSIST', KEYS[1])
local got = look()
if got == 0 and ARGV[7] ~= '0' and expire(ARGV[7], ARGV[4]) > 0 then
    got = look()
end
if not dead and got < max then
    call('ZREM', base .. 'work', queue)
end
if got == 0 then
    return with_told({ 0, hide })
end
-- What is dropped on the way does not make an empty answer.
while #ids == 0 and got > 0 and #old + #worn < DROPPED_AT_ONCE do
    got = look()
end
save_clock()

local out, due, lost = { 0, hide }, {}, 0
if #ids > 0 then
    local bodies = call('HMGET', key .. ':body', unpack(ids))
    local n = 2
    for i = 1, #ids do
        local body = bodies[i]
        if body then
            local member = head .. entries[i] .. nonce
            due[n - 1] = now + hide
            due[n] = member
            out[n + 1] = member
            out[n + 2] = body
            n = n + 2
        else
            lost = lost + 1
            if grouped then
                free_group(queue, parts(entries[i], true), false)
            end
        end
    end
end
local stat = key .. ':stat'
if #due > 0 then
    call('ZADD', KEYS[1], unpack(due))
    call('HINCRBY', stat, dead and 'drecv' or 'recv', #due / 2)
    lane_save(ARGV[2], ARGV[3], now + hide)
end
if lost > 0 then
    call('HINCRBY', stat, 'lost', lost)
end
if #old > 0 then
    for i = 1, #old do
        local _, id = parts(old[i], fifo)
        call('HDEL', key .. ':body', id)
    end
    call('HINCRBY', stat, 'expired', #old)
end
if #worn > 0 then
    call('RPUSH', key .. ':dead', unpack(worn))
    call('HINCRBY', stat, 'dead', #worn)
    try('PUBLISH', key .. ':dead', '')
end
if ARGV[4] ~= '0' or log then
    for i = 1, #worn do
        local _, id = parts(worn[i], fifo)
        tell(ARGV[4], log, 'to_dlq', queue, id, receives(worn[i]))
    end
    for i = 1, #ids do
        tell(ARGV[4], log, dead and 'dlq_received' or 'received', queue, ids[i],
             receives(entries[i]))
    end
end
return with_told(out)

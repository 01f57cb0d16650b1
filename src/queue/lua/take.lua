--#include "queue/base.lua"
local lane = base .. 's:' .. ARGV[2]
local both = call('MGET', base .. 'clock', lane)
local kept, was = both[1], both[2]
--#include "queue/clock.lua"
--#include "queue/lane.lua"
-- take.lua: receive.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events
--        5 at most so many   6 hidden for so many ms, 0: the queue's
--        7 expired ones to give back first if there is nothing; 0: none
--        8 '1': from the dead letters
-- result [0, hidden for ms, member, message, member, message, ...]; a member of
--        due is the receipt: see back.lua.  From the dead letters each message
--        is followed by why it is there, or ''
--        [1, ...] there is more, though none came with this one
--        [2, ms] nothing; a deadline of the shard is over after so long, and
--        whoever waits looks again then
--        [-1] no such queue
--
-- ready -> in flight, dead (too many receives) or dropped (too old); dead ->
-- in flight.  A queue that is paused has nothing, but for its dead letters.  All
-- members of a call have one score and end by lane and number: whoever asks again
-- with the same finds what he was given, and gets nothing else.
--
-- The usual case, no fifo and nothing special, none received too often, is plain
-- code at the end; it writes once it has read all it needs.  An answer has a bound
-- of bytes, too: there may be more than came with it.  Redis refuses ZADD at
-- maxmemory unless something was written before: then a PERSIST, which changes
-- nothing, is.
local queue = ARGV[1]
local key = base .. queue
--#include "queue/usual.lua"
local MOST = 1000 -- LEAT_QUEUE_BATCH
local max, dead, how = tonumber(ARGV[5]), ARGV[8] == '1', ARGV[4]
local ttl, fifo, log, paused = 0, false, false, false
if max > MOST or tonumber(ARGV[7]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local ROOM = 33554432
if not hide then
    local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'hide',
                      'receives', 'ttl', 'fifo', 'events', 'max', 'paused')
    if not conf[1] or conf[2] then
        return { -1 }
    end
    hide, most, ttl = tonumber(conf[3]), tonumber(conf[4]), tonumber(conf[5])
    fifo, log = conf[6] == '1', conf[7] == '1'
    limit, paused = tonumber(conf[8]), conf[9]
end
if ARGV[6] ~= '0' then
    hide = tonumber(ARGV[6])
end
local nonce = '/' .. ARGV[2] .. '.' .. ARGV[3]
local head = (dead and 'x/' or 'v/') .. queue .. '/'
local list = key .. (dead and ':dead' or ':ready')
local grouped = fifo and not dead
local stat = key .. ':stat'
local score = format('%d', now + hide)

-- Asked before: once more what is still there of it.
if done then
    local out = { 0, hide }
    if done ~= 'late' then
--#include "queue/again.lua"
        give_again(out, tonumber(match(done, '^%d+')), head, key, fifo, dead)
    end
    return out
end

if paused and not dead then
    return { 0, hide }
end

-- Numbers are dear as arguments: where they are known as strings, as such.
local got = call('LRANGE', list, '0', format('%d', max - 1))
if #got == 0 then
    local left = false
    if ARGV[7] ~= '0' then
        local head = call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')
        left = head[2] and math.floor(head[2]) - now
    end
    if not left or left > 0 then
        if not dead then
            try('ZREM', base .. 'work', queue)
        end
        return left and { 2, left } or { 0, hide }
    end
end
local some, choosy = #got > 0, grouped or (not dead and ttl > 0)
if choosy then
    got = {} -- which pick reads for itself
end
--#include "queue/entries.lua"
if choosy or worn or not some then
    local spread, moved = false, false
--#include "queue/tell.lua"
--#include "queue/back.lua"
--#include "queue/pick.lua"
    if not some then
        -- What would fail afterwards fails before.
        call('HLEN', key .. ':body')
        call('HLEN', stat)
        -- And what fails all the same is not said with the answer to this,
        -- which changed something, but to who asks again.
        moved = expire(ARGV[7], ARGV[4]) > 0 and with_told({ 1, hide })
        some = call('LLEN', list) > 0
    end
    if not some then
        local left = next_due()
        return with_told(left < 0 and { 0, hide } or { 2, left })
    elseif dead then
        return moved -- they are there now, for who asks again
    end
    local good, out = pcall(pick, max * limit > ROOM and ROOM)
    if not good then -- before it wrote; a text would lose its first word
        return moved or error(type(out) == 'table' and out or { err = out })
    end
    if call('LLEN', list) == 0 then
        try('ZREM', base .. 'work', queue)
    end
    return out
end

local bodies, all = nil, #got
if all * limit <= ROOM then
    bodies = call('HMGET', key .. ':body', unpack(ids))
else
    local step = math.ceil(ROOM / 2 / limit)
--#include "queue/bodies.lua"
end
local seen, n = #ids, 0
for i = 1, seen do
    local body = bodies[i]
    if body then
        n = n + 1
        if n < i then
            ids[n], got[n], bodies[n] = ids[i], got[i], body
        end
    end
end
local why = dead and n > 0 and
    call('HMGET', key .. ':why', unpack(ids, 1, n))
-- One table for the arguments of ZADD, score and member in turn, and for the
-- answer, member and message in turn, which lies one further.  Those that need
-- not grow are much cheaper: it has room for ten.
local out = { 0, score, nil, score, nil, score, nil, score, nil, score, nil,
              score, nil, score, nil, score, nil, score, nil, score, nil, nil }
for i = 1, n do
    out[2 * i + 1] = got[i]
end
for i = 11, n do
    out[2 * i] = score
end
if n > 0 then
    local r = try('ZADD', KEYS[1], unpack(out, 2, 2 * n + 1))
    if type(r) == 'table' then
        call('PERSIST', KEYS[1])
        call('ZADD', KEYS[1], unpack(out, 2, 2 * n + 1))
    end
    local count = dead and 'drecv' or 'recv'
    r = try('HINCRBY', stat, count, n == max and ARGV[5] or n)
    local failed = type(r) == 'table' and 1
    if not failed then
        local note = ARGV[3] .. ' ' .. score .. ' ' .. age
        if was and sub(was, -#age) == age then
            r = try('SET', lane, note, 'KEEPTTL')
        else
            r = try('SET', lane, note, 'PX', LANE_MS)
        end
        failed = r.err and 2
    end
    if not failed then
        r = try('LTRIM', list, seen == max and ARGV[5] or seen, '-1')
        failed = r.err and 3
    end
    if failed then
        -- A key holds something else, or a right is missing: back to where it
        -- was.
        for i = 1, n do
            call('ZREM', KEYS[1], got[i])
        end
        if failed > 1 then
            call('HINCRBY', stat, count, -n)
        end
        if failed > 2 and was then
            call('SET', lane, was, 'PX', LANE_MS)
        elseif failed > 2 then
            call('DEL', lane)
        end
        return r
    end
elseif seen > 0 then
    call('LTRIM', list, seen, '-1')
end
if all < max and all == seen and not dead then
    try('ZREM', base .. 'work', queue)
end
if n < seen then
    try('HINCRBY', stat, 'lost', seen - n)
end
if ticked then
    call('SET', base .. 'clock', ticked)
end
out[2] = hide
for i = 1, n do
    out[2 * i + 2] = bodies[i]
end
for i = 2 * n + 4, 20, 2 do
    out[i] = nil
end
if dead then
    out = { 0, hide }
    for i = 1, n do
        out[3 * i], out[3 * i + 1] = got[i], bodies[i]
        out[3 * i + 2] = why[i] or ''
    end
end
if log or how ~= '0' then
--#include "queue/heard.lua"
    if not telling then
        out[#out + 1] = {}
        return out
    end
--#include "queue/tell.lua"
    for i = 1, n do
        tell(how, log, dead and 'dlq_received' or 'received', queue, ids[i],
             match(got[i], '^[^/]*/[^/]*/(%d+)'))
    end
    return with_told(out)
end
return out

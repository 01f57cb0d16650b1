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
-- in flight.  All members of a call have one score and end by lane and number:
-- whoever asks again with the same finds what he was given, and gets nothing
-- else.
--
-- The usual case, no fifo and nothing special, is plain code at the end; it
-- writes once it has read all it needs.  An answer has a bound of bytes, too:
-- there may be more than came with it.  Redis refuses ZADD at maxmemory unless
-- something was written before: then a PERSIST, which changes nothing, is.
local queue = ARGV[1]
local key = base .. queue
--#include "queue/usual.lua"
local max, dead, how = tonumber(ARGV[5]), ARGV[8] == '1', ARGV[4]
local most, ttl, fifo, log = 0, 0, false, false
local ROOM = 33554432
if not hide then
    local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'hide',
                      'receives', 'ttl', 'fifo', 'events', 'max')
    if not conf[1] or conf[2] then
        return { -1 }
    end
    hide, most, ttl = tonumber(conf[3]), tonumber(conf[4]), tonumber(conf[5])
    fifo, log = conf[6] == '1', conf[7] == '1'
    limit = tonumber(conf[8])
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
    end
    return out
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
local spread = false
local choosy = grouped or (not dead and (ttl > 0 or most > 0))
if choosy or #got == 0 then
--#include "queue/tell.lua"
--#include "queue/back.lua"
--#include "queue/pick.lua"
    if #got == 0 then
        -- What would fail afterwards fails before.
        call('HLEN', key .. ':body')
        call('HLEN', stat)
        expire(ARGV[7], ARGV[4])
        got = call('LRANGE', list, 0, max - 1)
    end
    if #got == 0 then
        local left = next_due()
        return with_told(left < 0 and { 0, hide } or { 2, left })
    elseif choosy then
        local out = pick(max * limit > ROOM and ROOM)
        if call('LLEN', list) == 0 then
            try('ZREM', base .. 'work', queue)
        end
        return out
    end
end

--#include "queue/entries.lua"
-- Tables that need not grow are much cheaper: these have room for ten.
local due = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
              nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }
local out = { 0, hide, nil, nil, nil, nil, nil, nil, nil, nil, nil,
              nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }
local bodies, all = nil, #got
if all * limit <= ROOM then
    bodies = call('HMGET', key .. ':body', unpack(ids))
else
    local step = math.ceil(ROOM / 2 / limit)
--#include "queue/bodies.lua"
end
local n = 0
for i = 1, #ids do
    if bodies[i] then
        n = n + 2
        due[n - 1], due[n] = score, got[i]
        out[n + 1], out[n + 2] = got[i], bodies[i]
    end
end
if dead then
    local why = call('HMGET', key .. ':why', unpack(ids))
    out = { 0, hide }
    for i = 1, #ids do
        if bodies[i] then
            out[#out + 1] = got[i]
            out[#out + 1] = bodies[i]
            out[#out + 1] = why[i] or ''
        end
    end
end
if n > 0 then
    local r = try('ZADD', KEYS[1], unpack(due, 1, n))
    if type(r) == 'table' then
        call('PERSIST', KEYS[1])
        call('ZADD', KEYS[1], unpack(due, 1, n))
    end
    r = try('HINCRBY', stat, dead and 'drecv' or 'recv',
            n / 2 == max and ARGV[5] or n / 2)
    if type(r) == 'table' then
        for i = 2, n, 2 do
            call('ZREM', KEYS[1], due[i])
        end
        return r
    end
end
call('LTRIM', list, #got == max and ARGV[5] or #got, '-1')
if n > 0 then
    local note = ARGV[3] .. ' ' .. score .. ' ' .. age
    if was and sub(was, -#age) == age then
        call('SET', lane, note, 'KEEPTTL')
    else
        call('SET', lane, note, 'PX', LANE_MS)
    end
end
if all < max and all == #got and not dead then
    try('ZREM', base .. 'work', queue)
end
if n < 2 * #ids then
    call('HINCRBY', stat, 'lost', #ids - n / 2)
end
if ticked then
    call('SET', base .. 'clock', ticked)
end
if log or how ~= '0' then
--#include "queue/heard.lua"
    if not telling then
        out[#out + 1] = {}
        return out
    end
--#include "queue/tell.lua"
    for i = 1, #ids do
        if bodies[i] then
            tell(how, log, dead and 'dlq_received' or 'received', queue,
                 ids[i], match(got[i], '^[^/]*/[^/]*/(%d+)'))
        end
    end
    return with_told(out)
end
return out

--#include "queue/base.lua"
local kept, was = unpack(call('MGET', base .. 'clock', base .. 's:' .. ARGV[2]))
--#include "queue/clock.lua"
--#include "queue/lane.lua"
-- serve.lua: a turn for the queues of a shard that were served longest ago.
--
-- KEYS   1 due
-- ARGV   1 so many queues   2 lane   3 number of the call   4 events
--        5 hidden for so many ms, 0: as each queue says
--        6 so many of a queue are handled at once; 1: in their order, and
--          nothing of it is in flight elsewhere
--        7 so many messages of a queue   8 so many of all
--        9 so many bytes of all are enough, but a message at least
--        10... queue, messages: those with a number of their own
-- result [queue, what, age, messages, ...]: messages as take.lua tells them;
--        what: '' or 'f' a fifo queue, 'l' its events are logged, 'e' it cannot
--        be served and messages is why; age: for how many ms it waited
--
-- ready -> in flight, dead (too many receives) or dropped (too old).  A queue
-- that has more, or is found busy, stays in `work` and is put off until what is
-- in flight is settled, or for a while; one that is empty or paused leaves it.
-- What was received before and came back is given out alone: should it be that
-- which kills its handler, then no other is blamed.
local BUSY_MS, WRONG_MS, ROUNDS = 500, 5000, 4
-- As in pool.h: POOL_QUEUES_MAX, POOL_TURN_MAX, POOL_TAKE_MAX, POOL_CANDIDATES.
local QUEUES_MAX, TURN_MAX, TAKE_MAX, OWN_MAX = 2000, 256, 4096, 4096
local AT_ONCE = 33554432 -- bytes that are read and may be left
local work, byte = base .. 'work', string.byte
local at_once, each, room = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local bytes = tonumber(ARGV[9])
local nonce = '/' .. ARGV[2] .. '.' .. ARGV[3]
local dead, spread, how = false, true, ARGV[4]
local out, names, due, put, gone, quiet = {}, {}, {}, {}, {}, {}
-- Numbers are dear as arguments: their text is made once.
local logged, texts = false, {}
local function text(n)
    local t = texts[n]
    if not t then
        t = format('%.0f', n)
        texts[n] = t
    end
    return t
end
local busy_at = text(now + BUSY_MS)

-- Of a usual queue only three may differ.
local plain_conf = { '1', false, false, '0', '0', '0', '0', false, false }
local function settings(key)
--#include "queue/usual.lua"
    if hide then
        plain_conf[3], plain_conf[4] = hide, most == 0 and '0' or most
        plain_conf[8] = limit
        return plain_conf
    end
    return call('HMGET', key .. ':conf', 'created', 'gone', 'hide', 'receives',
                'ttl', 'fifo', 'events', 'max', 'paused')
end

local function add(queue, fifo, log, age, messages)
    out[#out + 1] = queue
    out[#out + 1] = (fifo and 'f' or '') .. (log and 'l' or '')
    out[#out + 1] = age
    out[#out + 1] = messages
end

-- Asked before: once more what is still there of it.
if done then
--#include "queue/again.lua"
    local function remember(queue, first)
        local key, head = base .. queue, 'v/' .. queue .. '/'
        local conf = settings(key)
        if not conf[1] or conf[2] then
            return
        end
        local hide = tonumber(ARGV[5])
        hide = hide > 0 and hide or tonumber(conf[3])
        local fifo, lot = conf[6] == '1', { 0, hide }
        give_again(lot, first + hide, head, key, fifo, false)
        if #lot > 2 then
            add(queue, fifo, conf[7] == '1', 0, lot)
        end
    end
    local first
    for word in string.gmatch(done == 'late' and '' or done, '[^ ]+') do
        if first then
            remember(word, first)
        end
        first = first or tonumber(word)
    end
    return out
end

local function later(queue, score)
    put[#put + 1] = score
    put[#put + 1] = queue
end

-- One that is given out with care: see pick.lua.
local function choose(queue, key, list, stat, head, conf, hide, max)
    local score, fifo, log = now + hide, conf[6] == '1', conf[7] == '1'
    local grouped, most, ttl = fifo, tonumber(conf[4]), tonumber(conf[5])
--#include "queue/tell.lua"
--#include "queue/back.lua"
--#include "queue/pick.lua"
    return pick(max * tonumber(conf[8]) > bytes and bytes)
end

-- The usual one.  What is taken together expires in its order, a thousandth
-- after another: `orders` has the deadlines of a lot by the first of them.
local orders = {}
local function take(queue, key, list, stat, head, got, hide, limit)
    local fifo, most, n, ROOM = false, 0, 0, bytes
    -- What need not grow is cheaper: it has room for four.
    local lot = { 0, hide, nil, nil, nil, nil, nil, nil, nil, nil }
--#include "queue/entries.lua"
    local bodies
    if #ids * limit <= ROOM then
        bodies = call('HMGET', key .. ':body', unpack(ids))
    else
        local step = math.ceil(AT_ONCE / limit)
--#include "queue/bodies.lua"
    end
    local first, d, all = now + hide, #due, #ids
    local order = orders[first] or {}
    orders[first] = order
    for i = 1, all do
        local body = bodies[i]
        if body then
            local m, when = got[i], order[n]
            if not when then
                when = text(first) .. format('.%03d', n)
                order[n] = when
            end
            due[d + 1] = when
            due[d + 2] = m
            lot[2 * n + 3] = m
            lot[2 * n + 4] = body
            n, d = n + 1, d + 2
        end
    end
    if n > 0 then
        try('HINCRBY', stat, 'recv', text(n))
    end
    call('LTRIM', list, text(all), '-1')
    if n < all then
        try('HINCRBY', stat, 'lost', all - n)
    end
    return lot
end

local own, most = {}, each
for i = 10, #ARGV, 2 do
    local n = tonumber(ARGV[i + 1])
    own[ARGV[i]] = n
    most = n > most and n or most
end
if tonumber(ARGV[1]) > QUEUES_MAX or most > TURN_MAX or room > TAKE_MAX or
    #ARGV > 9 + 2 * OWN_MAX then
    return redis.error_reply('ERR more than a turn may have')
end

-- How many of it may be given out now; 0: it was put off or is gone.
local function allowed(queue, key, stat, conf)
    if not conf[1] or conf[2] then
        -- Kept: its keys may be on their way to another node.
        later(queue, text(now + WRONG_MS))
        return 0
    elseif conf[9] then
        gone[#gone + 1] = queue -- who resumes it enters it again
        return 0
    end
    local st = call('HMGET', stat, 'recv', 'acked', 'back', 'wait')
    local fly = (st[1] or 0) - (st[2] or 0) - (st[3] or 0)
    if fly > 0 and st[4] and tonumber(st[4]) > now then
        later(queue, st[4])
        return 0
    elseif fly >= at_once then
        later(queue, busy_at)
        return 0
    end
    local max = own[queue] or each
    max = at_once > 1 and max > at_once - fly and at_once - fly or max
    return max < room and max or room, fly
end

local function turn(queue, score)
    local key = base .. queue
    local list, stat, head = key .. ':ready', key .. ':stat', 'v/' .. queue .. '/'
    local conf = settings(key)
    local max, fly = allowed(queue, key, stat, conf)
    if max == 0 then
        return
    end
    local hide = tonumber(ARGV[5])
    hide = hide > 0 and hide or tonumber(conf[3])
    local got, fifo = call('LRANGE', list, '0', text(max)), conf[6] == '1'
    local more, lot, plain = #got > max, nil, false
    if #got == 0 then
        gone[#gone + 1] = queue
        return
    end
    if more then
        got[#got] = nil
    end
    local fresh = 0 -- of no receive: they begin by '0'
    for i = 1, #got do
        if byte(got[i]) ~= 48 then
            break
        end
        fresh = i
    end
    if fifo or conf[5] ~= '0' or (conf[4] ~= '0' and fresh == 0) then
        lot = choose(queue, key, list, stat, head, conf, hide,
                     (fifo or at_once > 1 or fresh > 0) and max or 1)
        more = call('LLEN', list) > 0
    else
        local n = at_once > 1 and conf[4] == '0' and #got or
            fresh > 0 and fresh or 1
        more = more or n < #got
        for i = #got, n + 1, -1 do
            got[i] = nil
        end
        lot = take(queue, key, list, stat, head, got, hide, tonumber(conf[8]))
        more, plain = more or #got < n, true
    end
    local n = (#lot - 2) / 2
    if more then
        later(queue, (n == 0 or (at_once > 1 and fly + n < at_once)) and
              text(now + 1) or busy_at)
    else
        gone[#gone + 1] = queue
    end
    local left = bytes
    for i = 4, #lot, 2 do
        left = left - #lot[i]
    end
    bytes = left
    if n > 0 then
        room = room - n
        names[#names + 1] = queue
        logged = logged or conf[7] == '1'
        quiet[#out + 4] = plain
        add(queue, fifo, conf[7] == '1', math.floor(now - score), lot)
    end
end

local function flush()
    if #put > 0 then
        call('ZADD', work, 'XX', unpack(put))
    end
    if #gone > 0 then
        call('ZREM', work, unpack(gone))
    end
    put, gone = {}, {}
end

call('ZCARD', KEYS[1])
call('ZCARD', work)
--#include "redis/may.lua"
may(KEYS[1], 'HINCRBY LTRIM SET ZADD ZREM')
call('PERSIST', KEYS[1])
local want = tonumber(ARGV[1])
for _ = 1, ROUNDS do
    local left = want - #names
    local all = left > 0 and room > 0 and bytes > 0 and
        call('ZRANGEBYSCORE', work, '-inf', text(now), 'WITHSCORES', 'LIMIT',
             '0', text(left)) or {}
    for i = 1, #all, 2 do
        local ok, e = pcall(turn, all[i], all[i + 1])
        if not ok then
            later(all[i], now + WRONG_MS)
            out[#out + 1] = all[i]
            out[#out + 1] = 'e'
            out[#out + 1] = 0
            out[#out + 1] = type(e) == 'table' and e.err or tostring(e)
        end
        if room == 0 or bytes <= 0 then
            break
        end
    end
    flush()
    if #all == 0 then
        break
    end
end
if #names == 0 then
    return out
end
--#include "redis/chunks.lua"
in_chunks(#due, function(from, to)
    call('ZADD', KEYS[1], unpack(due, from, to))
end)
call('SET', base .. 's:' .. ARGV[2], ARGV[3] .. ' ' ..
     text(now) .. ' ' .. table.concat(names, ' '), 'PX',
     LANE_MS)
if ticked then
    call('SET', base .. 'clock', ticked)
end

-- Events, of what was not told of with care.
local telling = logged or how == '2'
if how == '1' and not logged then
    local channels = { sub(base, 1, find(base, ':{q/', 1, true)) .. 'events' }
    for i = 1, #names do
        channels[i + 1] = base .. names[i] .. ':events'
    end
    local s = try('PUBSUB', 'NUMSUB', unpack(channels))
    telling = s.err or try('PUBSUB', 'NUMPAT') ~= 0
    for i = 2, s.err and 0 or #s, 2 do
        telling = telling or s[i] ~= 0
    end
end
if telling then
--#include "queue/tell.lua"
    for i = 1, #out, 4 do
        local lot = out[i + 3]
        for j = 3, quiet[i + 3] and #lot or 0, 2 do
            local rc, id = match(lot[j], '^v/[^/]*/(%d+)/%d+/(.*)/[^/]*$')
            tell(how, find(out[i + 1], 'l', 1, true), 'received', out[i], id, rc)
        end
    end
end
return out

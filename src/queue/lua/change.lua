--#include "queue/base.lua"
local kept, was = unpack(call('MGET', base .. 'clock', base .. 's:' .. ARGV[2]))
--#include "queue/clock.lua"
--#include "queue/lane.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- change.lua: hide messages for another time, give them back, or bury them.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events
--        5 '1': a fifo queue's
--        6 how: 'hide', 'back' (dead after too many receives), 'fail' (hide, but
--          dead after too many receives), 'free' (the receive does not count),
--          'bury', 'wait' (as 'fail', and pools do not serve its queue until
--          then), 'late' (as 'fail', but delayed: the queue goes on; not of a
--          fifo queue)
--        7 hide for so many ms; '~' and a number below a million, which is
--          chance: one that failed, as the queue's policy says
--        8 why it failed or is a dead letter, or ''
--        9... members
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> in flight, delayed, ready, dead.  A message that left its receipt
-- does not tell by whose doing, so a call that did something is noted in its
-- lane, and asked again answers what it did then.  To hide twice is as good as
-- once: that has no lane, which is ''.
local MOST = 4096 -- POOL_SETTLE_MAX
if #ARGV > 8 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local queue, how = ARGV[1], ARGV[6]
local key = base .. queue
local out, entries, lie, worn = {}, {}, {}, {}
local bad = 0
if done == '' then
    return out
end
local c = conf_of(queue)
if done or not c.there or c.fifo ~= (ARGV[5] == '1') then
    for i = 9, #ARGV do
        out[i - 8] = done and sub(done, i - 8, i - 8) == '1' and 1 or 0
    end
    return out
end

local function entry_of(member)
    return match(sub(member, #queue + 4), '^(.*)/[^/]*$')
end

-- How long one waits.  With jitter, which is any time up to that, each has
-- another share of it.
local SHARE = 0.6180339887
local chance = match(ARGV[7], '^~(%d+)$')
local policy = chance and
    call('HMGET', key .. ':conf', 'retry', 'retrymax', 'backoff', 'jitter')
local function wait_of(entry, i)
    if not chance then
        return tonumber(ARGV[7])
    end
    local ms, longest = tonumber(policy[1]) or 1000, tonumber(policy[2]) or 60000
    ms = policy[3] == '2' and ms or ms * 2 ^ (receives(entry) - 1)
    ms = ms < longest and ms or longest
    if policy[4] ~= '2' then
        ms = (ms + 1) * ((chance / 1000000 + i * SHARE) % 1)
    end
    return math.floor(ms)
end

-- All that can hold something else is looked at before the first write.
local right = c.sound
for i = 9, c.fifo and #ARGV or 0 do
    right = right and sound_group(queue, parts(entry_of(ARGV[i]), true))
end
if not right and how ~= 'hide' then
    return redis.error_reply('WRONGTYPE a key of the queue is something else')
end
--#include "redis/may.lua"
may(KEYS[1], 'LPUSH RPUSH SET ZADD ZREM ZSCORE' ..
    (c.fifo and ' HDEL HEXISTS LLEN' or ''))
call('PERSIST', KEYS[1])
save_clock()
local last, late, again = now, 0, {}
local function worn_out(entry)
    return c.max > 0 and receives(entry) >= c.max
end
for i = 9, #ARGV do
    local m = ARGV[i]
    local entry = entry_of(m)
    local n = 1
    local failed = (how == 'fail' or how == 'wait' or how == 'late') and
                   (sub(m, 1, 1) == 'x' or not worn_out(entry))
    local ms = (how == 'hide' or failed) and wait_of(entry, i) or 0
    local till = now + ms
    last = till > last and till or last
    if how == 'hide' or ms > 0 then
        -- Should they expire, they do so in this order.
        if not call('ZSCORE', KEYS[1], m) then
            n = 0
        elseif how == 'late' then
            call('ZREM', KEYS[1], m)
            call('ZADD', KEYS[1], till, 'd/' .. queue .. '/' .. entry)
            stand(queue, false, { entry })
            late = late + 1
        else
            local after = i < 1000 and (i - 9) / 1000 or 0.998
            call('ZADD', KEYS[1], 'XX', till + after, m)
        end
        if failed and n == 1 then
            again[#again + 1] = entry
        end
    else
        n = call('ZREM', KEYS[1], m)
        if n == 1 then
            if sub(m, 1, 1) == 'x' then
                lie[#lie + 1] = entry
            elseif how == 'bury' or how ~= 'free' and worn_out(entry) then
                worn[#worn + 1] = entry
            else
                if how == 'free' then
                    local p = find(entry, '/', 1, true)
                    entry = (receives(entry) - 1) .. sub(entry, p)
                end
                entries[#entries + 1] = entry
            end
        end
    end
    bad = bad + 1 - n
    out[#out + 1] = n
end
if #entries > 0 then
    give_back(queue, c, entries, ARGV[4])
    note_why(queue, c, how ~= 'free' and entries or {}, ARGV[8])
end
note_why(queue, c, again, ARGV[8])
if #lie > 0 then
    lie_again(queue, c, lie)
    note_why(queue, c, lie, ARGV[8])
end
if #worn > 0 then
    bury(queue, c, worn, ARGV[4], ARGV[8])
end
if late > 0 then
    try('HINCRBY', key .. ':stat', 'back', late)
    try('HINCRBY', key .. ':stat', 'late', late)
elseif how == 'wait' and last > now then
    try('HSET', key .. ':stat', 'wait', last)
end
-- A pool that found it busy put it off.
local turn = how ~= 'hide' and try('ZSCORE', base .. 'work', queue)
if type(turn) == 'string' and tonumber(turn) > now then
    call('ZADD', base .. 'work', 'XX', how == 'wait' and last or now, queue)
end
if ARGV[2] ~= '' and bad < #out then
    call('SET', base .. 's:' .. ARGV[2], ARGV[3] .. ' ' ..
         (bad > 0 and table.concat(out) or ''), 'PX', LANE_MS)
end
return with_told(bad > 0 and out or {})

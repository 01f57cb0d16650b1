--#include "queue/base.lua"
local kept, was = unpack(call('MGET', base .. 'clock', base .. 's:' .. ARGV[2]))
--#include "queue/clock.lua"
--#include "queue/lane.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- send_each.lua: messages that each say how they are to be sent.
--
-- KEYS   1 due
-- ARGV   1 queue   2 lane   3 number of the call   4 events   5 group: '1' a
--        fifo queue's   6 as of send.lua   7... six for each message: id, message,
--        group, dedup id ('': none), delay in ms (-1: the queue's), '1': the id
--        may be there
-- result [0, ms until the last is visible, n, id, n, id, ...]  n: which was not
--        sent, being a duplicate of that id
--        [-1] no such queue   [-2, n, max] message n is too big
--        [-3] it is fifo or not, other than the caller thinks
--        [-4] it is asked again, and there is another queue of that name
--
-- nothing -> ready or delayed.  A delayed message of a fifo queue enters its
-- group when its time has come, numbered, and never before an earlier one.
local MOST = 400 -- LEAT__QUEUE_LOT
if #ARGV > 6 + 6 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local queue = ARGV[1]
local key = base .. queue
local conf = call('HMGET', key .. ':conf', 'created', 'gone', 'delay', 'max',
                  'fifo', 'events', 'dedup', 'u')
if not conf[1] or conf[2] then
    return { -1 }
end
local fifo = conf[5] == '1'
if fifo ~= (ARGV[5] == '1') then
    return { -3 }
end
if not done and sub(ARGV[6], 1, 1) == '1' and
    (conf[8] or conf[1]) ~= sub(ARGV[6], 2) then
    return { -4 }
end
local max = tonumber(conf[4])
for i = 8, #ARGV, 6 do
    if #ARGV[i] > max then
        return { -2, (i - 8) / 6, max }
    end
end
-- All that can hold something else is looked at before the first write.
call('HLEN', key .. ':body')
call('HLEN', key .. ':stat')
call('LLEN', key .. ':ready')
call('HLEN', key .. ':busy')
call('ZCARD', KEYS[1])
local memory, groups = {}, {}
local remember = key .. ':dd:' .. (conf[8] or conf[1]) .. ':'
for i = 7, #ARGV, 6 do
    local dedup, group = ARGV[i + 3], ARGV[i + 2]
    if dedup ~= '' then
        memory[#memory + 1] = remember .. dedup
    end
    if fifo and not groups[group] then
        call('LLEN', key .. ':g:' .. group)
        groups[group] = true
    end
end

-- The first ids, as long as they are to be remembered: the key's own time is
-- that of a clock that may have been ahead for a moment.
local remembered = #memory > 0 and call('MGET', unpack(memory)) or {}
for i = 1, #memory do
    local found = remembered[i]
    local p = found and find(found, '/', 1, true)
    remembered[i] = p and tonumber(sub(found, 1, p - 1)) > now and
        sub(found, p + 1)
end

-- The duplicates; of a call that was done before, those it found then.  A lane
-- whose memory is gone (see send.lua) may have sent any of them before.
local forgot = not was and ARGV[3] ~= '1'
local out, new, seen, ids, longest, k = { 0, 0 }, {}, {}, {}, 0, 0
for i = 7, #ARGV, 6 do
    local id, dedup, first = ARGV[i], ARGV[i + 3], false
    if dedup ~= '' then
        k = k + 1
        local known = remembered[k]
        first = seen[dedup] or not (done and known == id) and known
        seen[dedup] = seen[dedup] or id
    end
    if not first and (ARGV[i + 5] == '1' or forgot) and not done and
        (ids[id] or call('HEXISTS', key .. ':body', id) == 1) then
        first = id
    end
    ids[id] = true
    local delay = tonumber(ARGV[i + 4])
    delay = delay < 0 and tonumber(conf[3]) or delay
    longest = delay > longest and delay or longest
    if first then
        out[#out + 1] = (i - 7) / 6
        out[#out + 1] = first
    else
        new[#new + 1] = i
        seen[i] = delay
    end
end
out[2] = longest
if done or #new == 0 then
    return out
end

--#include "redis/may.lua"
may(key, 'HGET HMGET HSET RPUSH SET ZADD')
call('HINCRBY', key .. ':stat', 'sent', #new)
save_clock()
-- See send.lua.
local SOON_MS, soonest = 5000, math.huge
local list, begun, bodies, late = {}, {}, {}, 0
-- What is behind one that is delayed waits, too.
local after = fifo and tonumber(call('HGET', key .. ':stat', 'late') or '0') > 0
local function hide(entry, delay)
    local when, number = now + delay, ''
    if fifo then
        local last = tonumber(call('HGET', key .. ':stat', 'last') or '0')
        when = when < last and last or when
        out[2] = when - now > out[2] and when - now or out[2]
        after = true
        call('HSET', key .. ':stat', 'last', when)
        number = format('%016.0f/',
                        call('HINCRBY', key .. ':stat', 'number', 1))
    end
    call('ZADD', KEYS[1], when, 'd/' .. queue .. '/' .. number .. entry)
    late = late + 1
    soonest = when - now < soonest and when - now or soonest
end
for j = 1, #new do
    bodies[2 * j - 1], bodies[2 * j] = ARGV[new[j]], ARGV[new[j] + 1]
end
call('HSET', key .. ':body', unpack(bodies))
local sent, till = '0/' .. now .. '/', format('%.0f/', now + conf[7])
for j = 1, #new do
    local i = new[j]
    local id, group, dedup, delay = ARGV[i], ARGV[i + 2], ARGV[i + 3], seen[i]
    local entry = fifo and sent .. #group .. '/' .. group .. '/' .. id or
        sent .. id
    if dedup ~= '' then
        call('SET', remember .. dedup, till .. id, 'PX', conf[7])
    end
    if delay > 0 or after then
        hide(entry, delay)
    elseif not fifo then
        list[#list + 1] = entry
    elseif call('RPUSH', key .. ':g:' .. group, entry) == 1 then
        begun[#begun + 1] = group
    end
end
-- As put_in_group does it for one.
local busy = #begun > 0 and call('HMGET', key .. ':busy', unpack(begun))
for j = 1, #begun do
    if not busy[j] then
        list[#list + 1] = begun[j]
    end
end
if #list > 0 and call('RPUSH', key .. ':ready', unpack(list)) == #list then
    wake(queue, key .. ':ready')
end
if late > 0 then
    call('HINCRBY', key .. ':stat', 'late', late)
    if soonest < SOON_MS then
        try('PUBLISH', key .. ':ready', '')
    end
end
call('SET', base .. 's:' .. ARGV[2], ARGV[3] .. ' ' .. '', 'PX', LANE_MS)
for j = 1, #new do
    tell(ARGV[4], conf[6] == '1', 'sent', queue, ARGV[new[j]])
end
return with_told(out)

--#include "redis/clock.lua"
--#include "topic/kept.lua"
--#include "topic/letter.lua"
-- due.lua: which kept messages are to be handed out now, and when the next is.
--
-- KEYS  1 lease   2 kept   3 due   4 lane   5 dlq   6 cursor
-- ARGV  1 nonce   2 epoch
--       3 how many at most
--       4 bytes of fields after which no more are given
--       5 group
--       6... ids that the owner has in hand already
-- result {}  the lease is another's
--        {wait, total, aside, entry...}
--        wait   milliseconds until the next one that is not given is due; "0":
--               more are due now; "" none waits
--        total  how many are kept in all, those behind others in a lane too
--        aside  how many were set aside
--        entry  {id, fields, n, f, lane, replayed}; fields as in an entry of a
--               log
-- states kept -> dead, for what nobody can read; else none changes
--
-- What is due and is none of ours (another program's, or a broken version's)
-- becomes a dead letter with all that there is of it, so that it holds up
-- nothing behind it; where nothing is there, the time alone goes.
--
-- Behind the first of a lane come those that follow it, so that a long lane is
-- not a round trip for each; but not behind one that failed before, which may do
-- so again, nor one that may have killed its handlers, nor such a one itself.
--
-- A clock that was ahead for a while leaves times behind that are far away, and
-- these are the last.  One that never failed has nothing to wait for; and if the
-- clock has gone back by more than a message was to wait, it has waited: so it
-- comes late by its own delay at most, and never earlier than the clock went.

local MOST = 64 -- LEAT__KEPT_MAX
local FOLLOW = 16 -- of one lane
local ASTRAY = 16 -- looked for in a call
local ASIDE = 16 -- set aside in a call

if tonumber(ARGV[3]) > MOST or #ARGV > 5 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return {}
end
local now = math.floor(now_us() / 1000)
local most, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local mine, count = {}, #ARGV - 5
for i = 6, #ARGV do
    mine[ARGV[i]] = true
end

local found = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf',
                         'WITHSCORES', 'LIMIT', 0, most + count + 1)
local out, wait = {'', redis.call('HLEN', KEYS[2]) / 2, 0}, nil

-- False: it cannot be read.
local function give(id, meta)
    local packed = meta and string.find(id, '^%d+%-%d+$') and
                   redis.call('HGET', KEYS[2], id)
    local fields = packed and kept_fields(packed)
    if not fields then
        return false
    end
    out[#out + 1] = {id, fields, tostring(meta[META.n]),
                     tostring(meta[META.f]), meta[META.lane],
                     meta[META.replayed]}
    most, bytes = most - 1, bytes - #packed
    return true
end

local function is_fresh(meta)
    return meta[META.f] == 0 and meta[META.n] < 2
end

local function is_astray(meta)
    return meta[META.f] == 0 or
           meta[META.last_ms] - now > meta[META.due_ms] - meta[META.last_ms]
end

local lanes, odd = {}, {}
local function give_first(id, meta)
    if not give(id, meta) then
        odd[#odd + 1] = id
    elseif meta[META.lane] ~= '' and is_fresh(meta) then
        lanes[#lanes + 1] = {meta[META.lane], id}
    end
end

for i = 1, #found, 2 do
    local id, at = found[i], tonumber(found[i + 1])
    if not mine[id] then
        if at > now or most == 0 or bytes <= 0 then
            wait = math.max(at - now, 0)
            break
        end
        give_first(id, (kept_meta(KEYS[2], id)))
    end
end
if wait and wait > 0 then
    for _, id in ipairs(redis.call('ZREVRANGE', KEYS[3], 0,
                                   count + ASTRAY - 1)) do
        local meta = not mine[id] and kept_meta(KEYS[2], id)
        if meta and meta[META.due_ms] > now and is_astray(meta) and
           most > 0 and bytes > 0 then
            give_first(id, meta)
            wait = 0
        end
    end
end
for _, l in ipairs(lanes) do
    local lane, id = l[1], l[2]
    for _, member in ipairs(redis.call('ZRANGEBYLEX', KEYS[4],
                                       '(' .. lane_member(lane, id),
                                       '(' .. lane .. '0', 'LIMIT', 0,
                                       math.min(FOLLOW, most))) do
        local behind = lane_id(lane, member)
        local meta = kept_meta(KEYS[2], behind)
        if mine[behind] or not meta or not is_fresh(meta) or bytes <= 0 or
           not give(behind, meta) then
            break
        end
    end
end

local function set_aside(id)
    local why = 'what was put by cannot be read: another program or version ' ..
                'wrote it'
    local packed = redis.call('HGET', KEYS[2], id)
    local meta, there = kept_meta(KEYS[2], id)
    if packed or there then
        local name = string.match(id, '^%d+%-%d+$') or '0-0'
        write_letter(KEYS[5], {
            'g', ARGV[5], 'i', name, 'n', meta and meta[META.n] or 0,
            'f', meta and meta[META.f] or 0, 'fm', now, 'lm', now, 'fe', why,
            'le', why, 'e', ARGV[2], 'r', meta and meta[META.replayed] or '',
            'x', '', 'u', redis.call('HGET', KEYS[6], 'u') or ''},
            packed and (kept_fields(packed) or {'@packed', packed}))
        out[3] = out[3] + 1
    end
    kept_drop(KEYS[2], KEYS[3], KEYS[4], id, meta)
end

--#include "redis/may.lua"
if #odd > 0 then
    redis.call('ZCARD', KEYS[4])
    redis.call('XLEN', KEYS[5])
    redis.call('HLEN', KEYS[6])
    may(KEYS[2], 'HDEL XADD ZADD ZRANGE ZRANGEBYLEX ZREM')
    redis.call('HDEL', KEYS[2], '') -- allows what follows without free memory
    for i = 1, math.min(#odd, ASIDE) do
        set_aside(odd[i])
    end
    wait = 0 -- there may be more
end
out[1] = wait and string.format('%.0f', wait) or ''
return out

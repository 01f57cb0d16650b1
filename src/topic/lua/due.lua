--#include "redis/clock.lua"
--#include "topic/kept.lua"
-- due.lua: which kept messages are to be handed out now, and when the next is.
--
-- KEYS  1 lease   2 kept   3 due   4 lane
-- ARGV  1 nonce   2 epoch
--       3 how many at most
--       4 bytes of fields after which no more are given
--       5... ids that the owner has in hand already
-- result {}  the lease is another's
--        {wait, total, entry...}
--        wait   milliseconds until the next one that is not given is due; "0":
--               more are due now; "" none waits
--        total  how many are kept in all, those behind others in a lane too
--        entry  {id, fields, n, f, lane, replayed}; fields as in an entry of a
--               log
-- states none changes
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

if tonumber(ARGV[3]) > MOST or #ARGV > 4 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return {}
end
local now = math.floor(now_us() / 1000)
local most, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local mine, count = {}, #ARGV - 4
for i = 5, #ARGV do
    mine[ARGV[i]] = true
end

local found = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '+inf',
                         'WITHSCORES', 'LIMIT', 0, most + count + 1)
local out, wait = {'', redis.call('HLEN', KEYS[2]) / 2}, nil
local function give(id, meta)
    local packed = redis.call('HGET', KEYS[2], id)
    if packed then
        out[#out + 1] = {id, cmsgpack.unpack(packed),
                         tostring(meta[META.n]), tostring(meta[META.f]),
                         meta[META.lane], meta[META.replayed]}
        most, bytes = most - 1, bytes - #packed
    end
end

local function is_fresh(meta)
    return meta[META.f] == 0 and meta[META.n] < 2
end

local function is_astray(meta)
    return meta[META.f] == 0 or
           meta[META.last_ms] - now > meta[META.due_ms] - meta[META.last_ms]
end

local lanes = {}
local function give_first(id, meta)
    give(id, meta)
    if meta[META.lane] ~= '' and is_fresh(meta) then
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
        local meta = kept_meta(KEYS[2], id)
        if meta then
            give_first(id, meta)
        end
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
        if mine[behind] or not meta or not is_fresh(meta) or bytes <= 0 then
            break
        end
        give(behind, meta)
    end
end
out[1] = wait and string.format('%.0f', wait) or ''
return out

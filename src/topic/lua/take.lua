--#include "topic/same.lua"
--#include "redis/clock.lua"
--#include "topic/ids.lua"
--#include "topic/mirror.lua"
-- take.lua: take the lease of a partition, and read where its group stands.
--
-- KEYS   1 lease   hash: o owner's nonce or "", e epoch, to promised nonce or "",
--                  w why it last changed hands: "start", "handed", "dead",
--                  "superseded", "again" or "seek", v when, in milliseconds
--        2 cursor  hash: e epoch, c last settled position, m read mark,
--                  n entries ever added up to c ("" unknown), s settled ranges,
--                  t attempts, q number of the last save, k of the last step,
--                  b c at the start, u incarnation of the group, o order, g
--                  as in mirror.lua, i and x as in trimming.lua
--        3 log     stream
--        4 joined  hash: group -> incarnation, see joined.lua
--        5 kept    6 due   7 lane   of the group, as in kept.lua
--        8 id      as in same.lua
-- ARGV   1 our nonce
--        2 nonce judged dead, or ""
--        3 where a new group starts: "start", "end", "MS-SEQ", "@MS"
--        4 name of the group, mirrored for the server's own tools
--        5 milliseconds after which a forgotten lease is swept away
--        6 position that we know the group to have reached, or ""
--        7 why the nonce of ARGV 2 has to go: "dead", if it is left out, or
--          "superseded"
--        8 incarnation of the group
--        9 the highest epoch that we know: ours will be higher
--       10 order of the group: what is put by keeps the one it was put by in
--       11 incarnation of the topic, as in same.lua
-- result {"1", epoch, c, m, n, s, t, b, f, w, g, h, o}   it is ours
--             f last id of the log, if that has fallen behind the group, which
--             was at w; else both ""
--             g how many entries were trimmed that are not settled, "0" some
--             may have been, up to h; else both ""
--        {"0", nonce}                  it is this one's, or promised to it
--        {"2", incarnation}            another group of that name has joined
-- states free | promised to us or to the dead | the dead's | ours  ->  ours,
--        always with a higher epoch, which fences all who had it before
--
-- Late it does no harm that would not be noticed: who has the lease by then and
-- is not the one judged dead keeps it; if it was free we own what we do not
-- know of, and find out by taking it once more.  A member judged dead that came
-- back meanwhile is fenced at its next step: nothing is settled twice.
--
-- A log can lose its end, by a crash or a failover, and what is written next may
-- then get ids that the group believes to be behind it.  So the group goes back
-- with the log, and somewhat more: what was written since then is among the
-- last entries, and better read twice than not at all.

local me, dead, start = ARGV[1], ARGV[2], ARGV[3]
local known = ARGV[6] or ''
local lease = redis.call('HMGET', KEYS[1], 'o', 'e', 'to', 'w')
local cur = redis.call('HMGET', KEYS[2], 'c', 'm', 'n', 's', 't', 'e', 'b', 'x')

-- A group that was removed and made again begins anew, and its namesake's
-- members, who do not know yet, take nothing of it.
local incarnation = ARGV[8] or ''
local joined = redis.call('HGET', KEYS[4], ARGV[4])
if joined and joined ~= incarnation then
    return {'2', joined}
end
local of_another = (redis.call('HGET', KEYS[2], 'u') or '') ~= incarnation
local mirror = mirror_is(redis.call('HGET', KEYS[2], 'g'), KEYS[3], ARGV[4],
                         cur[1])
if of_another then
    cur = {[6] = cur[6]}
end
local order = ARGV[10] or ''
if redis.call('HLEN', KEYS[5]) > 0 and not of_another then
    order = redis.call('HGET', KEYS[2], 'o') or order
end

local function yields(nonce)
    return not nonce or nonce == '' or nonce == me or
           (dead ~= '' and nonce == dead)
end
local owner, to = lease[1], lease[3]
if not yields(owner) then
    return {'0', owner}
end
if (not owner or owner == '') and not yields(to) then
    return {'0', to}
end

local facts = stream_facts(KEYS[3])

-- A new group's position and how many entries were added up to it.
local function begin()
    if start == 'start' or start == 'end' then
        if not facts then
            return '0-0', '0'
        end
        local added = tonumber(facts['entries-added'])      -- Redis 7
        if start == 'end' then
            return facts['last-generated-id'],
                   added and string.format('%.0f', added) or ''
        end
        return '0-0', added and
               string.format('%.0f', added - tonumber(facts['length'])) or ''
    end
    local ms = tonumber(string.match(start, '^@(%d+)$'))
    if ms then
        return ms == 0 and '0-0' or
               string.format('%.0f-18446744073709551615', ms - 1), ''
    end
    return string.match(start, '^%d+%-%d+$'), ''
end

local c, n, new = cur[1], cur[3], not cur[1]
local m, s, t, b = cur[2] or c, cur[4], cur[5], cur[7]
if new then
    if known ~= '' then
        c, n = known, ''
    else
        c, n = begin()
    end
    if not c then
        return redis.error_reply('ERR not a position to start from')
    end
    m, s, t, b = c, '', '', c
end

-- A cursor that went may have gone with its log, and the entries there are then
-- another's: if the one that we were at is not among them, what is new may begin
-- before it.
local last, fell, was = facts and facts['last-generated-id'] or '0-0', '', ''
local top, forgot = above(c, m) and c or m, new and known ~= ''
local function strange()
    return forgot and facts and
           #redis.call('XRANGE', KEYS[3], '-', top, 'COUNT', 1) > 0 and
           #redis.call('XRANGE', KEYS[3], top, top) == 0
end

-- Where it started it may be ahead of the log without having lost anything.
local OVERLAP_MS = 10000
local ahead = above(top, last) and (top ~= b or forgot)
if ahead then
    fell, was = last, top
end
if ahead or strange() then
    local from = ahead and last or top
    local ms = tonumber(string.match(from, '^%d+')) - OVERLAP_MS
    c = string.format('%.0f-0', math.max(ms, 0))
    if b and not forgot and above(b, c) then
        c = above(b, last) and last or b
    end
    m, n, s, t = c, '', '', ''
    b = forgot and c or b
end

-- How many behind the cursor are gone, by no doing of the group's: what the log
-- ever had and has not.  Where the oldest entry is not behind the cursor that is
-- not known before it was read; where the server does not count, only that a
-- group which was detached may have missed some.
local function gone()
    local first = facts and facts['first-entry']
    local oldest = first and first[1] or last
    if new or fell ~= '' or not facts or (first and not above(oldest, c)) then
        return '', ''
    end
    local added, at = tonumber(facts['entries-added']), tonumber(n)
    if not added or not at then
        local some = cur[8] and above(last, c)
        return some and '0' or '', some and oldest or ''
    end
    local lost = added - at - tonumber(facts['length'])
    if lost <= 0 then
        return '', ''
    end
    return string.format('%.0f', lost), oldest
end
local missing, upto = gone()

local epoch = string.format('%.0f', math.max(
    (tonumber(lease[2]) or 0) + 1, (tonumber(cur[6]) or 0) + 1,
    (tonumber(ARGV[9]) or 0) + 1, now_us()))

local function why()
    if owner == me then
        return 'again'
    elseif owner and owner ~= '' then
        return ARGV[7] or 'dead'
    end
    return owner and lease[4] or 'start'
end

--#include "redis/may.lua"
may(KEYS[2], 'HDEL HSET')
-- First a write that Redis allows when it is full.
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HSET', KEYS[4], ARGV[4], incarnation)
if of_another then
    redis.call('UNLINK', KEYS[2], KEYS[5], KEYS[6], KEYS[7])
end
redis.call('HSET', KEYS[1], 'o', me, 'e', epoch, 'to', '', 'w', why(),
           'v', string.format('%.0f', now_us() / 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('HSET', KEYS[2], 'e', epoch, 'q', '0', 'k', '0')
if incarnation ~= '' then
    redis.call('HSET', KEYS[2], 'u', incarnation)
end
redis.call('HSET', KEYS[2], 'o', order)
redis.call('HDEL', KEYS[2], 'i', 'x')
if new then
    redis.call('HSET', KEYS[2], 'b', c)
end
if new or fell ~= '' then
    redis.call('HSET', KEYS[2], 'c', c, 'm', m, 'n', n, 's', s, 't', t)
end
redis.call('HSET', KEYS[2], 'g', mirror)
if mirror == '1' then -- BUSYGROUP says that it is there
    redis.pcall('XGROUP', 'CREATE', KEYS[3], ARGV[4], c, 'MKSTREAM')
end
return {'1', epoch, c, m or c, n or '', s or '', t or '', b or '', fell, was,
        missing, upto, order}

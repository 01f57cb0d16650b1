--#include "queue/owl_base.lua"
local how, queue = ARGV[4], ARGV[1]
local was = call('GET', base .. 'lane:' .. ARGV[2])
--#include "queue/lane.lua"
--#include "queue/owl_lane.lua"
--#include "queue/owl_tell.lua"
--#include "queue/owl_back.lua"
--#include "queue/owl_fetch.lua"
-- owl_take.lua: receive from a redowl queue.
--
-- KEYS   1 inflight
-- ARGV   as take.lua, but 6 is never the queue's, and
--        9 how often a message is received before it is a dead letter; 0: ever
--        10 '1': in order, nothing while one that was received is in flight
-- result [0, hidden for ms, receipt, message, receipt, message, ...], or there is
--        nothing: [2, ms until something that is hidden is due, -1: none is]
--
-- ready -> in flight or dead; dead -> in flight.  An id without message is
-- dropped.  As redowl does, what expired comes back first, and a message is dead
-- when it would be received once too often.
local LOOKED_AT_ONCE, MOST = 1000, 1000 -- LEAT_QUEUE_BATCH
local ROOM = 33554432 -- bytes of an answer are enough, but a message at least
local LATE_MAX = 1000 -- delayed ones, before one in flight is not looked for
local max, hide, dead = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[8] == '1'
local most = tonumber(ARGV[9])
if max > MOST or tonumber(ARGV[7]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local list, zset = dead and dlq or ready, dead and hidden or inflight
local out = { 0, hide }

-- Asked before: once more what is still there of it, and nothing else.
if done == 'late' then
    return out
end
for i = 1, tonumber(done or '0') do
    local id = call('HGET', receipt, receipt_of(i))
    local m = id and fetch(id)
    if m then
        put(out, receipt_of(i), m, dead)
    end
end
if done then
    return out
end

-- What stands at the head, read before the first write: where somebody else
-- wrote over a message the receive fails there, later it ends there.
--#include "redis/may.lua"
may(inflight, 'HDEL HGET HMGET HSET LPUSH LRANGE LTRIM RPUSH SET ZADD')
local head = call('LINDEX', list, 0)
if head then
    call('HLEN', base .. 'msg:' .. head)
end
call('PERSIST', inflight)
if ARGV[7] ~= '0' then
    reap(ARGV[7])
end

-- What is delayed was never received, and keeps nobody back.
local function received_one_flies()
    local all = call('ZRANGE', inflight, 0, LATE_MAX - 1)
    local ids = #all > 0 and call('HMGET', receipt, unpack(all)) or {}
    for i = 1, #ids do
        local rc = ids[i] and try('HGET', base .. 'msg:' .. ids[i], 'rc')
        if rc and rc ~= '0' then
            return true
        end
    end
end
if ARGV[10] == '1' and received_one_flies() then
    return with_told({ 2, left(zset) })
end
local taken, worn, looked, bytes = {}, {}, 0, 0
repeat
    local got, all = call('LRANGE', list, 0, max - 1), {}
    for i = 1, #got do
        local m = fetch(got[i])
        all[i] = m
        bytes = bytes + (m and #m.body + #m.attrs or 0)
        if m == false or (bytes > ROOM and i > 1) then
            got = { unpack(got, 1, i - 1) }
            break
        end
    end
    call('LTRIM', list, #got, -1)
    for i = 1, #got do
        local m = all[i]
        if m and not dead then
            m.rc = m.rc + 1
            call('HSET', base .. 'msg:' .. m.id, 'rc', m.rc)
        end
        if m and not dead and most > 0 and m.rc > most then
            call('RPUSH', dlq, m.id)
            worn[#worn + 1] = m
        elseif m then
            taken[#taken + 1] = m
        end
    end
    looked = looked + #got
until #taken > 0 or #got == 0 or looked >= LOOKED_AT_ONCE

local where, due = {}, {}
for i = 1, #taken do
    local r = receipt_of(i)
    where[2 * i - 1], where[2 * i] = r, taken[i].id
    due[2 * i - 1], due[2 * i] = now + hide, r
    put(out, r, taken[i], dead)
end
if #taken > 0 then
    call('HSET', receipt, unpack(where))
    call('ZADD', zset, unpack(due))
    call('SET', base .. 'lane:' .. ARGV[2], ARGV[3] .. ' ' .. #taken, 'PX',
         LANE_MS)
end
if #taken == 0 then
    out = { looked >= LOOKED_AT_ONCE and 1 or 2, left(zset) }
end
for i = 1, #worn do
    tell('to_dlq', worn[i].id, worn[i].rc)
end
for i = 1, #taken do
    tell(dead and 'dlq_received' or 'received', taken[i].id, taken[i].rc)
end
return with_told(out)

--#include "queue/owl_base.lua"
local how = ARGV[4]
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
-- result [0, hidden for ms, receipt, message, receipt, message, ...]
--
-- ready -> in flight or dead; dead -> in flight.  An id without message is
-- dropped.  As redowl does, what expired comes back first, and a message is dead
-- when it would be received once too often.
local LOOKED_AT_ONCE, MOST = 1000, 1000 -- LEAT_QUEUE_BATCH
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
local taken, worn, looked = {}, {}, 0
repeat
    local got, all = call('LRANGE', list, 0, max - 1), {}
    for i = 1, #got do
        all[i] = fetch(got[i])
        if all[i] == false then
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
for i = 1, #worn do
    tell('to_dlq', worn[i].id, worn[i].rc)
end
for i = 1, #taken do
    tell(dead and 'dlq_received' or 'received', taken[i].id, taken[i].rc)
end
return with_told(out)

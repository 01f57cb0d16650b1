--#include "queue/owl_base.lua"
local how, queue = ARGV[4], ARGV[1]
local was = call('GET', base .. 'lane:' .. ARGV[2])
--#include "queue/lane.lua"
--#include "queue/owl_tell.lua"
--#include "queue/owl_back.lua"
-- owl_change.lua: hide messages of a redowl queue for another time, give them
-- back, or bury them.
--
-- KEYS   1 inflight
-- ARGV   as change.lua
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> in flight, ready, dead; dead in flight -> dead.  That a message
-- given back is a dead letter is seen when it is received again, as in redowl.
local MOST = 1000 -- LEAT_QUEUE_BATCH
if #ARGV > 8 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local what, bad = ARGV[6], 0
local hiding = what == 'hide' or what == 'fail' or what == 'wait' or
    what == 'late'
local out, back, worn, lie = {}, {}, {}, {}
if done then
    for i = 9, done == '' and 0 or #ARGV do
        out[i - 8] = sub(done, i - 8, i - 8) == '1' and 1 or 0
    end
    return out
end

-- Kept with the message, which redowl does not mind.
local function note_why(id)
    local key = base .. 'msg:' .. id
    if ARGV[8] ~= '' and call('EXISTS', key) == 1 then
        call('HSET', key, 'reason', ARGV[8])
    end
end

local function hide(r)
    local zset = call('ZSCORE', hidden, r) and hidden or inflight
    call('ZADD', zset, now + tonumber(ARGV[7]), r)
end

local function leave(r, id, rc)
    local key = base .. 'msg:' .. id
    call('HDEL', receipt, r)
    call('ZREM', inflight, r)
    local dead = call('ZREM', hidden, r) == 1
    if call('EXISTS', key) == 0 then
        return
    elseif dead then
        lie[#lie + 1] = id
    elseif what == 'bury' then
        worn[#worn + 1] = id
    else
        rc = tonumber(rc) or 0
        if what == 'free' and rc > 0 then
            call('HSET', key, 'rc', rc - 1)
        end
        back[#back + 1] = id
    end
end

-- All is read before the first write: see reap.
local ids, rcs, seen = {}, {}, {}
for i = 9, #ARGV do
    local r = ARGV[i]
    local id = (hiding or not seen[r]) and call('HGET', receipt, r)
    ids[i] = id
    rcs[i] = id and call('HGET', base .. 'msg:' .. id, 'rc')
    seen[r] = true
end
--#include "redis/may.lua"
may(inflight, 'EXISTS HDEL HGET HSET LPUSH RPUSH SET ZADD ZREM ZSCORE')
call('PERSIST', inflight)
for i = 9, #ARGV do
    local r, id, n = ARGV[i], ids[i], 1
    if id then
        note_why(id)
    end
    if id and hiding then
        hide(r)
    elseif id then
        leave(r, id, rcs[i])
    else
        n = 0
        bad = bad + 1
    end
    out[#out + 1] = n
end
push_front(dlq, lie)
give_back(back)
for i = 1, #worn do
    call('RPUSH', dlq, worn[i])
    tell('to_dlq', worn[i], call('HGET', base .. 'msg:' .. worn[i], 'rc') or '0')
end
if ARGV[2] ~= '' and bad < #out then
    call('SET', base .. 'lane:' .. ARGV[2], ARGV[3] .. ' ' ..
         (bad > 0 and table.concat(out) or ''), 'PX', LANE_MS)
end
return with_told(bad > 0 and out or {})

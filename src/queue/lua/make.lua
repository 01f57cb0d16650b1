--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
-- make.lua: make a queue unless it is there, change its settings, or pause it.
--
-- KEYS   1 due
-- ARGV   1 queue
--        2 how: 'open' make it if it is new, 'find' only look, 'alter' change,
--          'pause' it hands out nothing from now on, 'resume' it does again
--        3 of 'open' the incarnation that a new queue becomes, of 'alter',
--          'pause' and 'resume' the one that is meant: see keys.h
--        4... field, value: of a new queue all of them, of 'alter' the changed
-- result the fields and values of conf; empty: there is no such queue, or it is
--        being removed ('gone' is among the fields then)
--
-- absent -> there, by one write; of two makers one wins.  The registry is
-- entered before it, so that no queue is unlisted.  `usual` is what the frequent
-- scripts read, all in one: see usual.lua.
local MOST, FIELDS = 50, 100 -- settings in a call, and of a queue
local key = base .. ARGV[1] .. ':conf'
if #ARGV > 3 + 2 * MOST or call('HLEN', key) > FIELDS then
    return redis.error_reply('ERR more than one call may have')
end
local there = call('EXISTS', key) == 1

-- Tell whoever waits: as `wake` of back.lua, where there is something.
local function resume()
    local list = base .. ARGV[1] .. ':ready'
    local n = try('LLEN', list)
    if type(n) == 'number' and n > 0 then
        try('PUBLISH', list, '')
        try('ZADD', base .. 'work', 'NX', now, ARGV[1])
        try('PUBLISH', sub(base, 1, find(base, ':{q/', 1, true)) .. 'work', '')
    end
end

if ARGV[2] ~= 'find' then
--#include "redis/may.lua"
    may(key, 'HDEL HEXISTS HGETALL HMGET HSET SADD SET')
end
if ARGV[2] == 'open' and not there then
    call('SADD', base .. 'queues', ARGV[1])
    call('HSET', key, 'created', now, 'u', unpack(ARGV, 3))
    if ticked then
        call('SET', base .. 'clock', ticked)
    end
elseif ARGV[2] ~= 'find' and there then
    local was = call('HMGET', key, 'gone', 'u', 'created', 'paused')
    local meant = not was[1] and (was[2] or was[3]) == ARGV[3]
    if meant and ARGV[2] == 'alter' and #ARGV > 3 then
        call('HSET', key, unpack(ARGV, 4))
    elseif meant and ARGV[2] == 'pause' and not was[4] then
        call('HSET', key, 'paused', format('%.0f', now))
    elseif meant and ARGV[2] == 'resume' and was[4] then
        call('HDEL', key, 'paused')
        resume()
    end
end
local c = call('HMGET', key, 'hide', 'max', 'delay', 'receives', 'ttl', 'fifo',
               'events', 'gone', 'usual', 'paused')
local special = not c[1] or c[8] or c[10]
for i = 5, 7 do
    special = special or c[i] ~= '0'
end
local usual = not special and c[1] .. ' ' .. c[2] .. ' ' .. c[3] ..
    (c[4] == '0' and '' or ' ' .. c[4])
if c[9] and not usual then
    call('HDEL', key, 'usual')
elseif usual ~= c[9] then
    call('HSET', key, 'usual', usual)
end
return call('HGETALL', key)

--#include "queue/base.lua"
local kept = call('GET', base .. 'clock')
--#include "queue/clock.lua"
-- make.lua: make a queue unless it is there, or change its settings.
--
-- KEYS   1 due
-- ARGV   1 queue
--        2 how: 'open' make it if it is new, 'find' only look, 'alter' change
--        3... field, value: of a new queue all of them, of 'alter' the changed
-- result the fields and values of conf; empty: there is no such queue, or it is
--        being removed ('gone' is among the fields then)
--
-- absent -> there, by one write; of two makers one wins.  The registry is
-- entered before it, so that no queue is unlisted.
local key = base .. ARGV[1] .. ':conf'
local there = call('EXISTS', key) == 1
if ARGV[2] == 'open' and not there then
    call('SADD', base .. 'queues', ARGV[1])
    call('HSET', key, 'created', now, unpack(ARGV, 3))
    call('SET', base .. 'clock', at .. ' ' .. off)
elseif ARGV[2] == 'alter' and there and #ARGV > 2 and
    call('HEXISTS', key, 'gone') == 0 then
    call('HSET', key, unpack(ARGV, 3))
end
return call('HGETALL', key)

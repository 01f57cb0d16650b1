--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
-- stats.lua: the figures of a queue.
--
-- KEYS   1 due
-- ARGV   1 queue
-- result [[conf], [stat], now, length of ready, length of dead, the entry that
--        is served next or '']: conf and stat are fields and values
--
-- Reads only, but for the clock.
local key, FIELDS = base .. ARGV[1], 100
if call('HLEN', key .. ':conf') > FIELDS or
    call('HLEN', key .. ':stat') > FIELDS then
    return redis.error_reply('ERR more than one call may have')
end
local head = call('LINDEX', key .. ':ready', 0)
if head and call('HGET', key .. ':conf', 'fifo') == '1' then
    head = call('LINDEX', key .. ':g:' .. head, 0)
end
return { call('HGETALL', key .. ':conf'), call('HGETALL', key .. ':stat'), now,
         call('LLEN', key .. ':ready'), call('LLEN', key .. ':dead'),
         head or '' }

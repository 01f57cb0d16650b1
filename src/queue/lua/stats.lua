--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
-- stats.lua: the figures of a queue.
--
-- KEYS   1 due
-- ARGV   1 queue   2 so many deadlines of the shard were looked at before
-- result [[conf], [stat], now, length of ready, length of dead, the entry that
--        is served next or '', how many in flight are over, how many of these
--        are dead letters by that, how many delayed ones are over, when the
--        oldest of them was sent or '', how many deadlines were looked at or 0:
--        all that are over]: conf and stat are fields and values
--
-- Reads only, but for the clock.  What is over and was not given back yet is in
-- flight only by the counters: it is told apart, as many deadlines as a call may
-- read, and whoever asks goes on behind them.
local key, FIELDS, LOOKED, PAGE = base .. ARGV[1], 100, 4000, 1000
if call('HLEN', key .. ':conf') > FIELDS or
    call('HLEN', key .. ':stat') > FIELDS then
    return redis.error_reply('ERR more than one call may have')
end
local conf = call('HMGET', key .. ':conf', 'fifo', 'receives')
local fifo, most = conf[1] == '1', tonumber(conf[2] or '0') or 0
local head = call('LINDEX', key .. ':ready', 0)
if head and fifo then
    head = call('LINDEX', key .. ':g:' .. head, 0)
end

local over, worn, late, oldest = 0, 0, 0, nil
local mine = '/' .. ARGV[1] .. '/'
local entry, numbered = '^%a/[^/]*/(%d+)/(%d+)/', '^%a/[^/]*/%d+/(%d+)/(%d+)/'
local function look_at(m)
    local kind = sub(m, 1, 1)
    if kind == 'x' or sub(m, 2, #mine + 1) ~= mine then
        return
    end
    local rc, sent = match(m, kind == 'd' and fifo and numbered or entry)
    if not rc then
        return -- somebody else put it there
    elseif kind == 'd' then
        late = late + 1
    else
        over = over + 1
    end
    if kind == 'v' and most > 0 and tonumber(rc) >= most then
        worn = worn + 1
    elseif not oldest or tonumber(sent) < tonumber(oldest) then
        oldest = sent
    end
end

local from, n = tonumber(ARGV[2]) or 0, PAGE
local till, last = from + LOOKED, format('%.3f', now + 0.999)
while n == PAGE and from < till do
    local some = call('ZRANGEBYSCORE', KEYS[1], '-inf', last, 'LIMIT', from,
                      PAGE)
    n = #some
    from = from + n
    for i = 1, n do
        look_at(some[i])
    end
end
return { call('HGETALL', key .. ':conf'), call('HGETALL', key .. ':stat'), now,
         call('LLEN', key .. ':ready'), call('LLEN', key .. ':dead'),
         head or '', over, worn, late, oldest or '', n == PAGE and from or 0 }

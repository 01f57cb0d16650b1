--#include "queue/owl_base.lua"
-- owl_drop.lua: one step of emptying a redowl queue, and of removing it.
--
-- KEYS   1 inflight
-- ARGV   as drop.lua, but there are no incarnations; 'look' tells whether there
--        is such a queue, and 'mark' does nothing, as there is nothing by which
--        others would be refused
-- result as drop.lua
--
-- any -> dropped.  What redowl received from the dead letters has a receipt and
-- no deadline, and is dropped with them.
local what, MOST = ARGV[2], 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[3]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
--#include "redis/may.lua"
may(inflight, 'LLEN UNLINK ZREM ZSCORE')

local function shorten(list)
    local got = call('LRANGE', list, 0, ARGV[3] - 1)
    call('LTRIM', list, #got, -1)
    for i = 1, #got do
        call('UNLINK', base .. 'msg:' .. got[i])
    end
    return { #got, call('LLEN', list) }
end

if what == 'look' then
    local n = call('EXISTS', ready, dlq, inflight, receipt, hidden)
    return { n > 0 and 0 or -1, '' }
elseif what == 'mark' then
    return { 0, 0 }
elseif what == 'dead' then
    return shorten(dlq)
elseif what == 'ready' then
    return shorten(ready)
elseif what == 'due' then
    local page = call('HSCAN', receipt, ARGV[4], 'COUNT', ARGV[3])
    local n = 0
    for i = 1, #page[2], 2 do
        local r, id = page[2][i], page[2][i + 1]
        local dead = not call('ZSCORE', inflight, r)
        local wanted = ARGV[5] == '1' or dead == (ARGV[5] == '2')
        if wanted and call('HDEL', receipt, r) == 1 then
            call('ZREM', inflight, r)
            call('ZREM', hidden, r)
            n = n + call('UNLINK', base .. 'msg:' .. id)
        end
    end
    return { n, page[1] }
end
call('UNLINK', ready, dlq, inflight, receipt, hidden)
return { 0, 0 }

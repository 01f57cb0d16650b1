--#include "queue/owl_base.lua"
local how = ARGV[2]
--#include "queue/owl_tell.lua"
-- owl_ack.lua: messages of a redowl queue are done.
--
-- KEYS   1 inflight
-- ARGV   as ack.lua; the ids are not known to the caller and empty
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> done.  Asked again, a receipt that is gone counts as done: it was
-- there when it was asked first, or its message is in the queue anyway.
local out, ids, bad = {}, {}, 0
for i = 6, 5 + (#ARGV - 5) / 2 do
    local r, n = ARGV[i], 1
    local id = call('HGET', receipt, r)
    if id then
        call('HDEL', receipt, r)
        call('ZREM', inflight, r)
        call('ZREM', hidden, r)
        call('DEL', base .. 'msg:' .. id)
        ids[#ids + 1] = id
    elseif ARGV[3] ~= '1' then
        n = 0
        bad = bad + 1
    end
    out[#out + 1] = n
end
for i = 1, #ids do
    tell('acked', ids[i])
end
return with_told(bad > 0 and out or {})

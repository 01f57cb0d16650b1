--#include "queue/base.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- ack.lua: messages are done.
--
-- KEYS   1 due
-- ARGV   1 queue   2 events   3 '1': asked before, and the answer was lost
--        4 '1': a fifo queue's
--        5... member, id, group ('': none)
-- result [] all are done; else for each 1 done, 0 the receipt is stale
--
-- in flight -> done.  Asked again, a message that is gone counts as done.
local queue = ARGV[1]
local key = base .. queue
local conf = call('HMGET', key .. ':conf', 'created', 'fifo', 'events')
if not conf[1] or (conf[2] == '1') ~= (ARGV[4] == '1') then
    local none = {}
    for i = 5, #ARGV, 3 do
        none[#none + 1] = 0
    end
    return none
end
call('HLEN', key .. ':body')
call('LLEN', key .. ':ready')

local out, ids, bad, dead = {}, {}, 0, 0
for i = 5, #ARGV, 3 do
    local n = call('ZREM', KEYS[1], ARGV[i])
    if n == 1 then
        ids[#ids + 1] = ARGV[i + 1]
        if sub(ARGV[i], 1, 1) == 'x' then
            dead = dead + 1
        elseif ARGV[i + 2] ~= '' then
            free_group(queue, ARGV[i + 2], false)
        end
    elseif ARGV[3] == '1' and
        call('HEXISTS', key .. ':body', ARGV[i + 1]) == 0 then
        n = 1
    else
        bad = bad + 1
    end
    out[#out + 1] = n
end
if #ids > 0 then
    call('HDEL', key .. ':body', unpack(ids))
    if #ids > dead then
        try('HINCRBY', key .. ':stat', 'acked', #ids - dead)
    end
    if dead > 0 then
        try('HINCRBY', key .. ':stat', 'dacked', dead)
    end
    local log = conf[3] == '1'
    if ARGV[2] ~= '0' or log then
        for i = 1, #ids do
            tell(ARGV[2], log, 'acked', queue, ids[i])
        end
    end
end
return with_told(bad > 0 and out or {})

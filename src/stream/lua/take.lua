-- take.lua: give pending entries to this consumer, with what is in them.
--
-- KEYS   1 the stream
-- ARGV   1 group, 2 consumer,
--        3 take what was idle for so many ms, whoever has it; -1: take what is
--          this consumer's own,
--        4 1 to count it as a delivery, else 0,
--        5... ids
-- result for each id {id, state, fields}: state is the delivery count, from 1,
--        with the fields; without them 0 for an entry that was deleted, which
--        is settled here; -1 not to be had; -2 ours, but not idle long enough
--
-- pending of anybody -> pending of ours, or settled.  Neither XCLAIM nor XACK
-- needs memory, so no harmless write has to come before them.
local MOST = 100 -- STREAM_CHUNK
if #ARGV > 4 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local min, add = tonumber(ARGV[3]), tonumber(ARGV[4])
local out = {}
--#include "redis/may.lua"
may(KEYS[1], 'XACK XCLAIM')
for i = 5, #ARGV do
    local id = ARGV[i]
    local p = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
    local ours = p and p[2] == ARGV[2]
    local item
    if not p or (min < 0 and not ours) then
        item = { id, -1 }
    elseif p[3] < min then
        item = { id, ours and -2 or -1 }
    else
        local e = redis.call('XRANGE', KEYS[1], id, id)[1]
        if e then
            local count = math.max(p[4] + add, 1)
            redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id,
                'RETRYCOUNT', count, 'JUSTID')
            item = { id, count, e[2] }
        else
            redis.call('XACK', KEYS[1], ARGV[1], id)
            item = { id, 0 }
        end
    end
    out[#out + 1] = item
end
return out

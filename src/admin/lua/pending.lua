--#include "topic/kept.lua"
-- pending.lua: some of what a group has put by or parked on a partition,
-- without the messages themselves.
--
-- KEYS  1 kept   2 due   3 lane
-- ARGV  1 "retry"   what waits for its time
--         "parked"  what waits in lanes; the first of each is among the others
--       2 rank of the first
--       3 how many at most
-- result {looked, entry...}
--         looked  how many there were to look at
--         entry   {id, n, f, due, last_error, lane, replayed}
-- states none changes

local KEPT, DUE, LANE = KEYS[1], KEYS[2], KEYS[3]
local rank, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local MOST = 200 -- LOOK_PAGE
if most > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out = {'0'}

local function entry(id, due)
    local meta = kept_meta(KEPT, id)
    if meta then
        out[#out + 1] = {id, tostring(meta[META.n]), tostring(meta[META.f]),
                         due, meta[META.last_error], meta[META.lane],
                         meta[META.replayed]}
    end
end

if ARGV[1] == 'retry' then
    local found = redis.call('ZRANGE', DUE, rank, rank + most - 1,
                             'WITHSCORES')
    for i = 1, #found, 2 do
        entry(found[i], found[i + 1])
    end
    out[1] = tostring(#found / 2)
    return out
end

local found = redis.call('ZRANGE', LANE, rank, rank + most - 1)
for _, member in ipairs(found) do
    local lane = string.match(member, '^(.*)/%d+$')
    local id = lane and lane_id(lane, member)
    if id and not redis.call('ZSCORE', DUE, id) then
        entry(id, '')
    end
end
out[1] = tostring(#found)
return out

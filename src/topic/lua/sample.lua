--#include "redis/clock.lua"
-- sample.lua: how long, how old and how large a partition is, for gauges.
--
-- KEYS   1 log   2 kept   3 dlq   4 bodies
-- ARGV   1 id of the first that may be unsettled in the log
-- result {length, added, age, kept, dead, bytes}
--        length  entries in the log
--        added   entries ever in it; -1: an old server does not know
--        age     milliseconds since the first unsettled one was added; 0: none
--        kept    put by for the group
--        dead    dead letters, of all groups
--        bytes   memory of these keys, estimated; -1: not allowed to ask
-- states none changes

if #KEYS > 4 then
    return redis.error_reply('ERR more than one call may have')
end
local length, added, age = 0, 0, 0
if redis.call('EXISTS', KEYS[1]) == 1 then
    local flat = redis.call('XINFO', 'STREAM', KEYS[1])
    added = -1
    for i = 1, #flat, 2 do
        if flat[i] == 'length' then
            length = flat[i + 1]
        elseif flat[i] == 'entries-added' then      -- Redis 7
            added = flat[i + 1]
        end
    end
    local first = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', 1)[1]
    if first then
        local ms = tonumber(string.match(first[1], '^%d+'))
        age = math.max(math.floor(now_us() / 1000) - ms, 0)
    end
end

local bytes = 0
for _, key in ipairs(KEYS) do
    local used = redis.pcall('MEMORY', 'USAGE', key)
    if type(used) == 'table' then
        bytes = -1
        break
    end
    bytes = bytes + (used or 0)
end
return {length, added, age, redis.call('HLEN', KEYS[2]) / 2,
        redis.call('XLEN', KEYS[3]), bytes}

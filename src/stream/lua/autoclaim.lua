--#needs redis 6.2
-- autoclaim.lua: take over what was idle too long, and say how often each
-- entry was delivered, which XAUTOCLAIM does not.
--
-- KEYS   1 the stream
-- ARGV   1 group, 2 consumer, 3 idle for so many ms, 4 begin at that id,
--        5 how many at most; the server looks at ten times as many
-- result {id to go on with, "0-0" at the end,
--         number of entries that were deleted and are now pending here,
--         {{id, delivery count, fields}..., {id, 0}... for deleted entries
--          that are settled}}
--
-- pending of anybody -> pending of ours, or settled.  XAUTOCLAIM needs no
-- memory, so no harmless write has to come before it.
local MOST = 100 -- STREAM_CHUNK
if tonumber(ARGV[5]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
--#include "redis/may.lua"
may(KEYS[1], 'XPENDING')
local r = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4],
    'COUNT', ARGV[5])
local out, lost = {}, 0
for _, e in ipairs(r[2]) do
    if e then
        local p = redis.call('XPENDING', KEYS[1], ARGV[1], e[1], e[1], 1)[1]
        out[#out + 1] = { e[1], p[4], e[2] }
    else
        lost = lost + 1
    end
end
for _, id in ipairs(r[3] or {}) do
    out[#out + 1] = { id, 0 }
end
return { r[1], lost, out }

--#include "redis/clock.lua"
-- alive.lua: when the members of a group last beat, and whether it is paused.
--
-- KEYS   1 beats    hash: nonce -> "<when, ms> <lease, ms>"
--        2 paused   string: since when, ms
-- result {now, paused or "", nonce, beat, nonce, beat, ...}
-- states none changes

local MOST = 10000 -- LEAT__MEMBERS_MAX
if redis.call('HLEN', KEYS[1]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out = {string.format('%.0f', now_us() / 1000),
             redis.call('GET', KEYS[2]) or ''}
for i, v in ipairs(redis.call('HGETALL', KEYS[1])) do
    out[2 + i] = v
end
return out

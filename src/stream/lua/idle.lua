-- idle.lua: set the idle time of entries that are still this consumer's.
--
-- KEYS   1 the stream
-- ARGV   1 group, 2 consumer, then for each entry: id, idle time in ms,
--        delivery count or -1 to leave it
-- result for each entry: 1 done, 0 not ours, 2 ours, but its entry was deleted
--
-- pending of ours -> pending of ours.  Idle 0 keeps an entry (extend); the
-- group's threshold gives it back (nack, release); less gives it back later.
-- XCLAIM passes at maxmemory, so no harmless write has to come before it.
local MOST = 100 -- STREAM_CHUNK
if #ARGV > 2 + 3 * MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out = {}
for i = 3, #ARGV, 3 do
    local id = ARGV[i]
    local p = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
    local n = #out + 1
    if not p or p[2] ~= ARGV[2] then
        out[n] = 0
    else
        local count = ARGV[i + 2]
        if count == '-1' then
            count = p[4]
        end
        local r = redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id,
            'IDLE', ARGV[i + 1], 'RETRYCOUNT', count, 'JUSTID')
        out[n] = #r > 0 and 1 or 2
    end
end
return out

-- ack.lua: acknowledge entries that are still this consumer's.
--
-- KEYS   1 the stream
-- ARGV   1 group, 2 consumer, 3... ids
-- result for each id: 1 acknowledged, 0 not pending, -1 another's
--
-- pending of ours -> settled.  XACK itself does not look whose an entry is.
-- XACK passes at maxmemory, so no harmless write has to come before it.
local MOST = 100 -- STREAM_CHUNK
if #ARGV > 2 + MOST then
    return redis.error_reply('ERR more than one call may have')
end
local out, ours = {}, {}
for i = 3, #ARGV do
    local p = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
    if not p then
        out[i - 2] = 0
    elseif p[2] ~= ARGV[2] then
        out[i - 2] = -1
    else
        out[i - 2] = 1
        ours[#ours + 1] = ARGV[i]
    end
end
if #ours > 0 then
    redis.call('XACK', KEYS[1], ARGV[1], unpack(ours))
end
return out

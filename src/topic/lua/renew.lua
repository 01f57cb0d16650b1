-- renew.lua: is the lease still ours?
--
-- KEYS   1 lease
--        2 log, only with ARGV 4
-- ARGV   1 our nonce
--        2 our epoch
--        3 milliseconds after which a forgotten lease is swept away
--        4 position up to which we have read it: has it fallen behind?
-- result 1 ours, 0 another's, or the log's last id: ours and it has
--
-- Late it does no harm: it prolongs nothing but its own epoch, and that only
-- against being swept away; who lives is told by the beats.

local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if not ARGV[4] then
    return 1
end
local ms, seq = '0', '0'
if redis.call('EXISTS', KEYS[2]) == 1 then
    local flat = redis.call('XINFO', 'STREAM', KEYS[2])
    for i = 1, #flat, 2 do
        if flat[i] == 'last-generated-id' then
            ms, seq = string.match(flat[i + 1], '^(%d+)-(%d+)$')
        end
    end
end
local our_ms, our_seq = string.match(ARGV[4], '^(%d+)-(%d+)$')
if tonumber(our_ms) > tonumber(ms) or
   (our_ms == ms and tonumber(our_seq) > tonumber(seq)) then
    return ms .. '-' .. seq
end
return 1

-- lanes.lua: which lanes of a partition have something in them, page by page.
--
-- KEYS  1 lease   2 lane  as in kept.lua
-- ARGV  1 nonce   2 epoch
--       3 the last lane of the page before, or ""
--       4 how many at most
-- result {}            the lease is another's
--        {more, lane...}  in the order of their names; more "1": there may be
--                      others behind them
-- states none changes

local MOST = 1000 -- PAGE of park.c
if tonumber(ARGV[4]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return {}
end
local out, from = {'0'}, '-'
if ARGV[3] ~= '' then
    from = '[' .. ARGV[3] .. '0' -- '0' comes after '/'
end
for _ = 1, tonumber(ARGV[4]) do
    local found = redis.call('ZRANGEBYLEX', KEYS[2], from, '+', 'LIMIT', 0, 1)[1]
    if not found then
        return out
    end
    local lane = string.match(found, '^[^/]*')
    out[#out + 1] = lane
    from = '[' .. lane .. '0'
end
out[1] = '1'
return out

--#include "topic/beginning.lua"
-- there.lua: which of these entries a log still has, and what it says of itself.
--
-- KEYS   1 log
-- ARGV   1 how many bytes of an entry to give at most
--        2... ids
-- result {}  there is no such stream
--        {length, last id ever given, id of the first entry or "",
--         entries ever added or "", highest id that was deleted or "",
--         beginning...}
--        with for each id how its entry begins, "$<length>\r\n<bytes>\r\n" of
--        each name and value, or "" when there is none; what only Redis 7 knows
--        is "" before
-- states none changes
--
-- Bodies stay where they are: only that an entry is the same is of interest.

local MOST, BYTES = 500, 128 -- ASK_MOST, LEAT__PRINT_BYTES
if #ARGV > 1 + MOST or tonumber(ARGV[1]) > BYTES then
    return redis.error_reply('ERR more than one call may have')
end
if redis.call('EXISTS', KEYS[1]) == 0 then
    return {}
end
local flat, facts = redis.call('XINFO', 'STREAM', KEYS[1]), {}
for i = 1, #flat, 2 do
    facts[flat[i]] = flat[i + 1]
end
local first, added = facts['first-entry'], facts['entries-added']
local out = {
    facts['length'], facts['last-generated-id'], first and first[1] or '',
    added and string.format('%.0f', added) or '',
    facts['max-deleted-entry-id'] or '',
}

local most = tonumber(ARGV[1])
for i = 2, #ARGV do
    local found = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
    out[#out + 1] = found and beginning(found[2], most) or ''
end
return out

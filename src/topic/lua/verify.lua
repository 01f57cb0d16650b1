--#include "topic/beginning.lua"
--#include "topic/ids.lua"
-- verify.lua: is this the log that a member has read from?
--
-- KEYS   1 lease
--        2 cursor
--        3 log
-- ARGV   1 our nonce
--        2 our epoch
--        3 position up to which we have read
--        4 how many bytes of an entry to give at most
-- result {ours, first, last, beginning, c, deleted}
--           ours      "1", or "0": the lease is another's
--           first     id of the first entry, or ""
--           last      last id ever given
--           beginning of the entry at the position, or "": there is none
--           c         the group's cursor, or ""
--           deleted   highest id that was deleted, or "": none, or nobody knows
-- states none changes

local BYTES = 128 -- LEAT__PRINT_BYTES
if tonumber(ARGV[4]) > BYTES then
    return redis.error_reply('ERR more than one call may have')
end
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
local ours = lease[1] == ARGV[1] and lease[2] == ARGV[2] and '1' or '0'
local c = redis.call('HGET', KEYS[2], 'c') or ''
local facts = stream_facts(KEYS[3])
if not facts then
    return {ours, '', '0-0', '', c, ''}
end
local first = facts['first-entry']
local found = redis.call('XRANGE', KEYS[3], ARGV[3], ARGV[3])[1]
return {ours, first and first[1] or '', facts['last-generated-id'],
        found and beginning(found[2], tonumber(ARGV[4])) or '', c,
        facts['max-deleted-entry-id'] or ''}

--#include "topic/append.lua"
-- add.lua: publish one message where the log is bounded, or its body is large.
--
-- KEYS   1 log                as in append.lua
--        2 later              as in later.lua
--        3 bodies   4 large   as in append.lua; left out where the body is not
--                             large
-- ARGV   1 how many entries log and waiting ones together may have; 0: any
--          number
--        2 how many it keeps at about, settled or not; 0: all
--        3 the value that is kept beside the log, if it has one
--        4... names and values of the entry's fields
-- result its id
--        a number: so many are there already, and nothing was done
--
-- States: not there -> in the log, with its body.  Sent twice it is there twice,
-- as with XADD: who has no answer does not know.

local cap = tonumber(ARGV[1])
if cap > 0 then
    local length = redis.call('XLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2])
    if length >= cap then
        return length
    end
end
local fields = {}
for i = 4, #ARGV do
    fields[#fields + 1] = ARGV[i]
end
local id, refused = append(KEYS[1], KEYS[3], KEYS[4], tonumber(ARGV[2]), fields,
                           KEYS[3] and ARGV[3])
return id or refused

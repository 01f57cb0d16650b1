--#include "topic/same.lua"
--#include "redis/clock.lua"
-- edit.lua: a dead letter gets another message.
--
-- KEYS  1 dlq   stream of dead letters, see admin/dlq.h
-- ARGV  1 id of the dead letter
--       2... names and values of the message's new fields
-- The last of KEYS and of ARGV are as in topic/same.lua.
-- result the new id; "" there is none
-- states dead  ->  dead, the last of the stream, all but the message as it was
--
-- An entry of a stream cannot be changed, so it is a new one.

local MOST = 7000 -- names and values, with those around the message
local DLQ, id = KEYS[1], ARGV[1]
local found = redis.call('XRANGE', DLQ, id, id)[1]
if not found then
    return ''
end
local entry, old = {}, found[2]
for i = 1, #old, 2 do
    if old[i] == 'c' then
        break
    end
    if old[i] ~= 'ed' then
        entry[#entry + 1] = old[i]
        entry[#entry + 1] = old[i + 1]
    end
end
entry[#entry + 1] = 'ed'
entry[#entry + 1] = math.floor(now_us() / 1000)
entry[#entry + 1] = 'c'
entry[#entry + 1] = (#ARGV - 1) / 2
for i = 2, #ARGV do
    entry[#entry + 1] = ARGV[i]
end
if #entry > MOST then
    return redis.error_reply('ERR a dead letter of so many fields')
end
-- First what may be refused.
--#include "redis/may.lua"
may(DLQ, 'XDEL')
local now = redis.call('XADD', DLQ, '*', unpack(entry))
redis.call('XDEL', DLQ, id)
return now

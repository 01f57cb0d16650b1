--#include "redis/clock.lua"
--#include "topic/append.lua"
-- later.lua: publish one message that is to be in the log later.
--
-- KEYS   1 later   zset: tokens by the time at which they are due
--        2 laters  hash: token -> names and values of the fields, packed
--        3 since   zset: tokens by the time at which they were sent
--        4 log
-- ARGV   1 token   made for this message; the same one again changes nothing
--        2 milliseconds from now
--        3 how many entries log and waiting ones together may have; 0: any
--          number
--        4... names and values of the fields, the body among them
-- result "0-0"     it waits: no place in the log yet
--        a number: so many are there already, and nothing was done
--
-- States: not there -> waiting.  ripe.lua takes it from here to the log.

if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then
    return '0-0'
end
local cap = tonumber(ARGV[3])
if cap > 0 then
    local length = redis.call('XLEN', KEYS[4]) + redis.call('ZCARD', KEYS[1])
    if length >= cap then
        return length
    end
end
local fields = {}
for i = 4, #ARGV do
    fields[#fields + 1] = ARGV[i]
end
if #fields > FIELDS then
    return {err = 'ERR an entry of so many fields'}
end
local now = math.floor(now_us() / 1000)
redis.call('HLEN', KEYS[2]) -- is there anything else of that name?
redis.call('ZCARD', KEYS[3])
may(KEYS[2], 'HSET')
local put = redis.pcall('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
if type(put) == 'table' then
    return refusal(put.err)
end
redis.call('ZADD', KEYS[3], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(fields))
return '0-0'

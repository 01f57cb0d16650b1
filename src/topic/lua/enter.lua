--#include "topic/same.lua"
-- enter.lua: a group is known from here on.
--
-- KEYS   1 groups of the topic
--        2 group   hash: u incarnation, joined and gone as in join.c
--        3 id      of the topic, as in same.lua
-- ARGV   1 its name
--        2 incarnation of one that is new
--        3... names and values of settings, for one that has none
--        last the topic's incarnation, as in same.lua
-- result {state, u, joined, value...}
--        state   "1" it is new, "0" it was known, "2" it is being removed, and
--                nothing was done
--        joined  "1" it is noted beside every log
--        value   of each setting, as it is now
--
-- States: unknown -> known.  Twice is as good as once.  A late one finds the id
-- of whichever topic took the name meanwhile, or none.  A group that an earlier
-- version made has no incarnation, and gets none.

local SETTINGS, GROUPS = 100, 10000 -- of a group, LEAT__GROUPS_MAX
if #ARGV > 2 + 2 * SETTINGS then
    return redis.error_reply('ERR more than one call may have')
end
local function answer(state)
    local names = {'u', 'joined'}
    for i = 3, #ARGV, 2 do
        names[#names + 1] = ARGV[i]
    end
    local out = redis.call('HMGET', KEYS[2], unpack(names))
    for i = 1, #names do
        out[i] = out[i] or ''
    end
    return {state, unpack(out)}
end

local known = redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1
local had = answer('2')
if not known and redis.call('SCARD', KEYS[1]) >= GROUPS then
    return redis.error_reply('ERR the topic has as many groups as it may')
end
if redis.call('HEXISTS', KEYS[2], 'gone') == 1 then
    return had
end
-- First a write that Redis allows when it is full: a group that comes may be the
-- one that settles what fills it.
redis.call('PERSIST', KEYS[1])
local new = {}
if not known and had[2] == '' then
    new = {'u', ARGV[2]}
end
if had[4] == '' then
    for i = 3, #ARGV do
        new[#new + 1] = ARGV[i]
    end
end
if #new > 0 then
    redis.call('HSET', KEYS[2], unpack(new))
end
if not known then
    local added = redis.pcall('SADD', KEYS[1], ARGV[1])
    if type(added) == 'table' then -- we may not: as if nothing had been done
        for i = 1, #new, 2 do
            redis.call('HDEL', KEYS[2], new[i])
        end
        return added
    end
end
return answer(known and '0' or '1')

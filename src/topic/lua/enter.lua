-- enter.lua: a group is known from here on.
--
-- KEYS   1 groups of the topic
--        2 group   hash: u incarnation, joined and gone as in join.c
-- ARGV   1 its name
--        2 incarnation of one that is new
-- result {state, u, joined}
--        state   "1" it is new, "0" it was known, "2" it is being removed, and
--                nothing was done
--        joined  "1" it is noted beside every log
--
-- States: unknown -> known.  Twice is as good as once.  A group that an earlier
-- version made has no incarnation, and gets none.

local function values()
    local had = redis.call('HMGET', KEYS[2], 'u', 'joined')
    return had[1] or '', had[2] or ''
end

local known = redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1
if redis.call('HEXISTS', KEYS[2], 'gone') == 1 then
    return {'2', values()}
end
-- First a write that Redis allows when it is full: a group that comes may be the
-- one that settles what fills it.
redis.call('PERSIST', KEYS[1])
if not known then
    redis.call('HSETNX', KEYS[2], 'u', ARGV[2])
    redis.call('SADD', KEYS[1], ARGV[1])
end
return {known and '0' or '1', values()}

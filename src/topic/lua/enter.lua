-- enter.lua: a group is known from here on.
--
-- KEYS   1 groups of the topic
-- ARGV   1 its name
-- result 1 it is new, 0 it was known
--
-- States: unknown -> known.  Twice is as good as once.

-- First a write that Redis allows when it is full: a group that comes may be the
-- one that settles what fills it.
redis.call('PERSIST', KEYS[1])
return redis.call('SADD', KEYS[1], ARGV[1])

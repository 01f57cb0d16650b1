-- base.lua: what every script of a queue begins with.
--
-- KEYS[1] is the shard's index of deadlines, P:{q/<s>}:due; all other keys
-- carry the same tag and are derived from it: see queue/keys.h.
--
-- Those of these pieces that the frequent scripts include are plain code: to
-- make a function costs the server more than to run it once.
local call, try = redis.call, redis.pcall
local sub, find, match = string.sub, string.find, string.match
local base = sub(KEYS[1], 1, -4)

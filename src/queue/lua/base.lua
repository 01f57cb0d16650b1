-- base.lua: what every script of a queue begins with.
--
-- KEYS[1] is the shard's index of deadlines, P:{q/<s>}:due; all other keys
-- carry the same tag and are derived from it: see queue/keys.h.  They are not
-- named, as a script of a shard does not know beforehand whose they are; a
-- cluster runs it only where the slot is whole, as it also names a key that is
-- nowhere.
--
-- Those of these pieces that the frequent scripts include are plain code: to
-- make a function costs the server more than to run it once.
local call, try = redis.call, redis.pcall
local lib = string
local sub, find, match, format = lib.sub, lib.find, lib.match, lib.format
local base = sub(KEYS[1], 1, -4)

--#include "redis/clock.lua"
-- beat.lua: a member says that it lives, and reads what all say.
--
-- KEYS   1 members of the group (hash: nonce -> record)
--        2 beats of the group (hash: nonce -> "<when, ms> <lease, ms>"), for
--          who looks from outside and has not watched; may be left out
--        3 since when the group is paused (string); may be left out
--        4 the group (hash), see join.c; may be left out
-- ARGV   1 our nonce
--        2 our record, "1 <beat> <born> <rest>"; born is 0 in the first beats,
--          then the number we were given; "+<born>" makes the record again
--          where it is gone
--        3 milliseconds after which a forgotten group is swept away
--        4 our lease in milliseconds, with KEYS 2
-- result nonce, record, nonce, record, ...: all members; ours is missing where
--        it was gone and was not to be made again; then "paused", since when,
--        if it is; then, of KEYS 4, "." before the name of each field, and its
--        value, and ".judge", the lease by which others are to be judged
--
-- born orders the lives of one name.  It is the server's clock, but above that
-- of every other record: a clock that ran back makes no new life an old one.
--
-- A beat that arrives late does no harm: its number is not above the one that
-- is written, so it only reads; and without "+" or 0 it makes no record of a
-- member that has left.  A late first beat can: that record never beats again,
-- has no partitions and is buried as a dead one's.

local MOST = 10000 -- LEAT__MEMBERS_MAX
local shape = '^(%d+) (%d+) (%+?)(%d+) (.*)$'
local version, beat, again, born, rest = string.match(ARGV[2], shape)
if not version then
    return redis.error_reply('ERR not a record of a member')
end
local old = redis.call('HGET', KEYS[1], ARGV[1])
local write, told = true, true
if old then
    local _, old_beat, _, old_born, old_rest = string.match(old, shape)
    write = not old_beat or tonumber(old_beat) < tonumber(beat)
    told = old_rest ~= rest
    if born == '0' and old_born then
        born = old_born
    end
elseif redis.call('HLEN', KEYS[1]) >= MOST then
    return redis.error_reply('ERR the group has as many members as it may')
elseif born == '0' then
    local latest = now_us()
    for _, text in ipairs(redis.call('HVALS', KEYS[1])) do
        local _, _, _, other = string.match(text, shape)
        latest = math.max(latest, other and tonumber(other) + 1 or 0)
    end
    born = string.format('%.0f', latest)
else
    write = again == '+'
end

-- What can fail is looked at before the first write.
local paused = KEYS[3] and redis.call('GET', KEYS[3])
if KEYS[2] then
    redis.call('HLEN', KEYS[2])
end
--#include "redis/may.lua"
may(KEYS[1], 'HGETALL HSET')
-- First a write that Redis allows when it is full.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if write then
    redis.call('HSET', KEYS[1], ARGV[1],
               version .. ' ' .. beat .. ' ' .. born .. ' ' .. rest)
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    if KEYS[2] then
        redis.call('HSET', KEYS[2], ARGV[1],
                   string.format('%.0f ', now_us() / 1000) .. ARGV[4])
        redis.call('PEXPIRE', KEYS[2], ARGV[3])
    end
    -- Only a hint, so that a user without rights to the channel lacks nothing.
    if told then
        redis.pcall('PUBLISH', KEYS[1], ARGV[1])
    end
end
local out = redis.call('HGETALL', KEYS[1])
if paused then
    out[#out + 1], out[#out + 2] = 'paused', paused
end
-- Until all can know of a shorter lease they are judged by the one before.
local group = KEYS[4] and redis.call('HGETALL', KEYS[4]) or {}
local field = {}
for i = 1, #group, 2 do
    field[group[i]] = group[i + 1]
    out[#out + 1], out[#out + 2] = '.' .. group[i], group[i + 1]
end
local before, at = tonumber(field.lease_before), tonumber(field.lease_at)
if before and at and now_us() / 1000 - at < 2 * before then
    out[#out + 1], out[#out + 2] = '.judge', field.lease_before
end
return out

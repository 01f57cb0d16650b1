-- unstream.lua: remove a plain stream, and no key of another kind.
--
-- KEYS   1 the stream
-- result what the key was: stream, none, or the type of the key that stays
-- states stream -> none

local kind = redis.call('TYPE', KEYS[1])['ok']
if kind == 'stream' then
    redis.call('UNLINK', KEYS[1])
end
return kind

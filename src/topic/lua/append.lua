-- append.lua: an entry's way into a log, for scripts that include it.
--
--   log     stream  entries; where a value is kept beside the log, the last pair
--                   is "@large" and the name of its field
--   bodies  hash    id of an entry -> that value
--   large   zset    those ids, by their milliseconds

--#include "redis/may.lua"
local SWEEP, FIELDS = 100, 7000 -- names and values that Lua passes on

-- What the server says when it refuses a write, as it says it of a command:
-- Redis 6 puts the place in the script before it.
local function refusal(why)
    for _, word in ipairs({'OOM ', 'READONLY ', 'MISCONF ', 'NOREPLICAS '}) do
        local at = string.find(why, word, 1, true)
        if at then
            why = string.sub(why, at)
        end
    end
    return {err = (string.gsub(why, '[\r\n]+', ' '))}
end

-- Bodies of entries that the log has dropped by itself.
local function sweep(log, bodies, large)
    local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
    local ms = first and string.match(first[1], '^%d+')
    if not ms then
        return
    end
    local old = redis.call('ZRANGEBYSCORE', large, '-inf', '(' .. ms, 'LIMIT',
                           0, SWEEP)
    if #old > 0 then
        redis.call('HDEL', bodies, unpack(old))
        redis.call('ZREM', large, unpack(old))
    end
end

-- The longest value, if it is over the limit, with its name in its stead; a limit
-- of 0 is none.
local function take_large(fields, limit)
    local at = nil
    for i = 2, #fields, 2 do
        if limit > 0 and #fields[i] > limit and
           (not at or #fields[i] > #fields[at]) then
            at = i
        end
    end
    if not at then
        return nil
    end
    local name, body = fields[at - 1], fields[at]
    table.remove(fields, at)
    table.remove(fields, at - 1)
    fields[#fields + 1] = '@large'
    fields[#fields + 1] = name
    return body
end

-- Add one entry; body is the value that is kept beside the log, or nil.  maxlen
-- 0 is none.  The id; or nil and the refusal, and nothing was done.
local function append(log, bodies, large, maxlen, fields, body)
    local args = {}
    if maxlen > 0 then
        args = {'MAXLEN', '~', maxlen}
    end
    args[#args + 1] = '*'
    for _, f in ipairs(fields) do
        args[#args + 1] = f
    end
    if #fields > FIELDS then
        return nil, {err = 'ERR an entry of so many fields'}
    end
    if body then -- is there anything else of that name?
        redis.call('HLEN', bodies)
        redis.call('ZCARD', large)
        may(bodies, 'HSET ZADD' ..
            (maxlen > 0 and ' HDEL XRANGE ZRANGEBYSCORE ZREM' or ''))
    end
    local id = redis.pcall('XADD', log, unpack(args))
    if type(id) == 'table' then
        return nil, refusal(id.err)
    end
    if body then
        redis.call('HSET', bodies, id, body)
        redis.call('ZADD', large, string.match(id, '^%d+'), id)
        if maxlen > 0 then
            sweep(log, bodies, large)
        end
    end
    return id
end

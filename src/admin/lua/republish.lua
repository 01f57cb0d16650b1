-- republish.lua: dead letters of one partition become new messages of its log,
-- for every group.
--
-- KEYS  1 dlq     stream of dead letters, see admin/dlq.h
--       2 log     stream
--       3 bodies  hash: id of a log's entry -> its large body
--       4 large   zset: those ids by their milliseconds
-- ARGV  1 "1": only tell what would be done
--       2 entries that the log may have; "0": any number
--       3 bytes above which a value is a large body; "0": none is
--       4... for each: id, number of fields, and their names and values
-- result for each id:
--       "1"  it is moved
--       "0"  there is none
--       "5"  the log is full
--       "6"  the server refuses to add to the log
-- states dead  ->  log
--
-- The same again finds "0": nothing is published twice.

local DLQ, LOG = KEYS[1], KEYS[2]
local dry, cap, most = ARGV[1] == '1', tonumber(ARGV[2]), tonumber(ARGV[3])
local length = redis.call('XLEN', LOG)
local room = cap > 0 and cap - length or math.huge
redis.call('HLEN', KEYS[3]) -- is there anything else of these names?
redis.call('ZCARD', KEYS[4])

-- Take the first value that is too large out of the fields: its name is the
-- last, and the value is returned.
local function lift(fields)
    for i = 1, #fields, 2 do
        if most > 0 and #fields[i + 1] > most then
            local name, value = fields[i], fields[i + 1]
            table.remove(fields, i)
            table.remove(fields, i)
            fields[#fields + 1] = '@large'
            fields[#fields + 1] = name
            return value
        end
    end
    return nil
end

local function republish(id, fields)
    if #redis.call('XRANGE', DLQ, id, id) == 0 then
        return '0'
    end
    if room < 1 then
        return '5'
    end
    room = room - 1
    if dry then
        return '1'
    end
    local body = lift(fields)
    local at = redis.pcall('XADD', LOG, '*', unpack(fields))
    if type(at) == 'table' then
        return '6'
    end
    redis.call('XDEL', DLQ, id)
    if body then
        redis.call('HSET', KEYS[3], at, body)
        redis.call('ZADD', KEYS[4], string.match(at, '^%d+'), at)
    end
    return '1'
end

local out, i = {}, 4
while i < #ARGV do
    local count, fields = tonumber(ARGV[i + 1]), {}
    for k = 1, 2 * count do
        fields[k] = ARGV[i + 1 + k]
    end
    out[#out + 1] = republish(ARGV[i], fields)
    i = i + 2 + 2 * count
end
return out

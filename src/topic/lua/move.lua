--#include "redis/clock.lua"
--#include "topic/kept.lua"
--#include "topic/letter.lua"
-- move.lua: a save (see save.lua), and with it messages change their place.
--
-- KEYS  1 lease   2 cursor   3 log   as in save.lua
--       4 kept    5 due      6 lane  as in kept.lua
--       7 dlq     stream: dead letters of the partition, of all groups
--       8 bodies  hash: id of a log's entry -> its large body
--       9 later   10 laters   11 since   as in later.lua
-- ARGV  1-11      as in save.lua
--       12        how many bytes of an error to keep
--       13        lanes that are asked about, with spaces between them
--       14...     steps, 8 arguments each:
--          1 number    grows within an epoch, without gaps from 1
--          2 what      "keep" "begin" "done" "dead" "again"
--          3 id        of the log's entry
--          4 n         times handed out
--          5 f         failures told
--          6 delay     keep, again: milliseconds until it is due
--          7 error     keep, dead: the last; "" leaves the one before
--          8 lane      keep: as in kept.lua
--             dead: names and values to be kept with the dead letter, packed
--             as "<length>:<bytes>" one after another
--             again: names and values of the new entry's fields, likewise
--
-- keep   from the log, or back: it waits for its time, or for its lane
-- begin  a kept one is about to be handed out for the n-th time
-- done   a kept one is settled
-- dead   from the log, or kept: now a dead letter
-- again  the same, but what follows it is a new message, which waits to be in
--        the log
--
-- result {"1", lane...}  saved, and of the lanes asked about these are empty
--        {"0"}           as in save.lua: nothing was done
--        {"2"}           a later save of the same owner is there already:
--                        nothing was done
--
-- Every step is carried out once: those up to the number `k` of the cursor were
-- by an earlier try whose answer was lost or is under way.  Until a step is known
-- to be carried out, every save carries it, so that none says of a message that
-- it is settled before its step says where it went.
local KEPT, DUE, LANE, DLQ = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return {'0'}
end
local cursor = redis.call('HMGET', KEYS[2], 'q', 'c', 'k', 'u', 'g')
if tonumber(cursor[1] or '0') >= tonumber(ARGV[3]) then
    return {'2'}
end
local applied = tonumber(cursor[3] or '0') or 0
if applied < tonumber(ARGV[11]) then
    return {'0'}
end
local now = math.floor(now_us() / 1000)
local group, most = ARGV[9], tonumber(ARGV[12])

-- What the steps carry is looked at before the first write.
local STEPS = 100 -- LEAT__MOVE_MAX
local KNOWN = ' keep begin done dead again '
local carried, count = {}, select(2, string.gsub(ARGV[13], '%S+', ''))

local function unpack_text(text)
    local list, at = {}, 1
    while at and at <= #text and #list <= FIELDS do
        local size, from = string.match(text, '^(%d+):()', at)
        at = size and from + size
        list[#list + 1] = size and string.sub(text, from, at - 1)
    end
    return at and at == #text + 1 and #list > 0 and #list % 2 == 0 and
           #list <= FIELDS and list
end

local right = #ARGV <= 13 + 8 * STEPS and (#ARGV - 13) % 8 == 0 and
              count <= STEPS
for i = 14, right and #ARGV or 0, 8 do
    local what = ARGV[i + 1]
    if what == 'again' then
        carried[i] = unpack_text(ARGV[i + 7])
    end
    right = right and string.find(KNOWN, ' ' .. what .. ' ', 1, true) and
            (what ~= 'again' or carried[i])
end
if not right then
    return redis.error_reply('ERR not steps that one save may carry')
end

-- What is of another type is so before anything was written.
redis.call('HLEN', KEPT)
redis.call('ZCARD', DUE)
redis.call('ZCARD', LANE)
redis.call('XLEN', DLQ)
redis.call('HLEN', KEYS[8])
redis.call('ZCARD', KEYS[9])
redis.call('HLEN', KEYS[10])
redis.call('ZCARD', KEYS[11])
--#include "redis/may.lua"
may(KEPT, 'HDEL HEXISTS HGET HSET XADD XRANGE ZADD ZRANGE ZRANGEBYLEX ZREM')
redis.call('PEXPIRE', KEYS[1], ARGV[10])

-- The fields of the message, wherever they are, its large body among them unless
-- that is gone; nil: somebody deleted the entry.  What cannot be read is given
-- as it is.
local function fields_of(id)
    local packed = redis.call('HGET', KEPT, id)
    if packed then
        return kept_fields(packed) or {'@packed', packed}
    end
    local found = redis.call('XRANGE', KEYS[3], id, id)[1]
    if not found then
        return nil
    end
    local fields = found[2]
    local body = fields[#fields - 1] == '@large' and
                 redis.call('HGET', KEYS[8], id)
    if body then
        fields[#fields - 1], fields[#fields] = fields[#fields], body
    end
    return fields
end

-- With this step's counts and error, as it was or new.
local function meta_of(s)
    local meta = kept_meta(KEPT, s.id) or
                 {0, 0, 0, 0, '', '', s.lane, 0, '', ''}
    meta[META.n], meta[META.f] = s.n, s.f
    if s.error ~= '' then
        local text = string.sub(s.error, 1, most)
        if meta[META.first_error] == '' then
            meta[META.first_error], meta[META.first_ms] = text, now
        end
        meta[META.last_error], meta[META.last_ms] = text, now
    end
    return meta
end

-- A dead letter is of one group alone; what becomes of it may be for all.
local function bury(s, fields, meta)
    if fields and fields[1] == '@again' then
        table.remove(fields, 1)
        table.remove(fields, 1)
    end
    write_letter(DLQ, {'g', group, 'i', s.id, 'n', s.n, 'f', s.f,
                       'fm', meta[META.first_ms], 'lm', now,
                       'fe', meta[META.first_error],
                       'le', meta[META.last_error],
                       'e', ARGV[2], 'r', meta[META.replayed], 'x', s.lane,
                       'u', cursor[4] or ''}, fields)
end

local steps = {}
function steps.keep(s)
    local meta = meta_of(s)
    if redis.call('HEXISTS', KEPT, s.id) == 0 then
        local fields = fields_of(s.id)
        if not fields then
            meta[META.last_error] = 'the entry was deleted from the log'
            s.lane = ''
            bury(s, nil, meta)
            return
        end
        redis.call('HSET', KEPT, s.id, cmsgpack.pack(fields))
    end
    meta[META.lane], meta[META.due_ms] = s.lane, now + s.delay
    kept_put(KEPT, DUE, LANE, s.id, meta)
end

function steps.begin(s)
    local meta = kept_meta(KEPT, s.id)
    if meta then
        meta[META.n] = s.n
        redis.call('HSET', KEPT, s.id .. 'm', cmsgpack.pack(meta))
    end
end

function steps.done(s)
    local meta, there = kept_meta(KEPT, s.id)
    if there then
        kept_drop(KEPT, DUE, LANE, s.id, meta)
    end
end

function steps.dead(s)
    local fields, meta = fields_of(s.id), meta_of(s)
    if not fields and meta[META.last_error] == '' then
        meta[META.last_error] = 'the entry was deleted from the log'
    end
    bury(s, fields, meta)
    steps.done(s)
end

function steps.again(s)
    local token = group .. ' ' .. s.id
    redis.call('ZADD', KEYS[9], string.format('%.0f', now + s.delay), token)
    redis.call('ZADD', KEYS[11], string.format('%.0f', now), token)
    redis.call('HSET', KEYS[10], token, cmsgpack.pack(s.fields))
    steps.done(s)
end

for i = 14, #ARGV, 8 do
    local number = tonumber(ARGV[i])
    if number > applied then
        steps[ARGV[i + 1]]({id = ARGV[i + 2], n = tonumber(ARGV[i + 3]),
                            f = tonumber(ARGV[i + 4]),
                            delay = tonumber(ARGV[i + 5]),
                            error = ARGV[i + 6], lane = ARGV[i + 7],
                            fields = carried[i]})
        applied = number
    end
end

redis.call('HSET', KEYS[2], 'q', ARGV[3], 'c', ARGV[4], 'm', ARGV[5],
           'n', ARGV[6], 's', ARGV[7], 't', ARGV[8], 'k', applied)
if cursor[2] ~= ARGV[4] and cursor[5] == '1' then -- see mirror.lua
    local set = redis.pcall('XGROUP', 'SETID', KEYS[3], group, ARGV[4])
    if set.err then -- somebody destroyed it
        redis.pcall('XGROUP', 'CREATE', KEYS[3], group, ARGV[4])
    end
end
local result = {'1'}
for lane in string.gmatch(ARGV[13], '%S+') do
    if not lane_first(LANE, lane) then
        result[#result + 1] = lane
    end
end
return result

-- kept.lua: messages that have left the log for one group and are not settled,
-- for scripts that include it.
--
--   kept   hash    <id>   the fields of the log's entry, packed; never rewritten
--                  <id>m  {n, f, first_ms, last_ms, first_error, last_error,
--                         lane, due_ms, replayed, dead_id}, packed
--   due    zset    ids by the time at which they are to be handed out: those
--                  without a lane, and of each lane the first
--   lane   zset    "<lane>/<id, both halves of 20 digits>", all scored 0: what
--                  has a lane, in the order of ids
--
-- n is how often it was handed out, f how often that ended with a failure told:
-- the difference is how often whoever had it died, but for one that is out.
-- <id> is that of the log's entry.  lane is "" where nothing waits for it, "*"
-- where all of the partition does, else 16 hex digits, a hash of its key.
--
-- Every message of a group is in one place: the log behind the cursor, here, or
-- among the dead letters.
--
-- What is here and cannot be read, of another program or another version, is
-- taken for none: due.lua sets it aside when it is due.

local META = {n = 1, f = 2, first_ms = 3, last_ms = 4, first_error = 5,
              last_error = 6, lane = 7, due_ms = 8, replayed = 9, dead_id = 10}

local function is_lane(lane)
    return lane == '' or lane == '*' or
           (#lane == 16 and string.find(lane, '^[%da-f]*[13579bdf]$') ~= nil)
end

-- Of these types, each at its place in META; the rest may be missing.
local TYPES = {'number', 'number', 'number', 'number', 'string', 'string',
               'string', 'number'}
local function is_meta(meta)
    for i, wanted in ipairs(TYPES) do
        local v = meta[i]
        if type(v) ~= wanted or
           (wanted == 'number' and not (v >= 0 and v < 2 ^ 53)) then
            return false
        end
    end
    return meta[META.n] % 1 == 0 and meta[META.f] % 1 == 0 and
           is_lane(meta[META.lane])
end

-- The table that was packed; nil: it is none.
local function kept_unpack(packed)
    local good, list = pcall(cmsgpack.unpack, packed)
    return good and type(list) == 'table' and list or nil
end

-- The meta, nil if there is none that can be read; and what is there, or false.
local function kept_meta(kept, id)
    local packed = redis.call('HGET', kept, id .. 'm')
    local meta = packed and kept_unpack(packed)
    if not meta or not is_meta(meta) then
        return nil, packed
    end
    if type(meta[META.replayed]) ~= 'string' then
        meta[META.replayed] = ''
    end
    return meta, packed
end

-- The names and values of a message; nil: they are none.
local function kept_fields(packed)
    local fields = kept_unpack(packed)
    if not fields or #fields == 0 or #fields % 2 ~= 0 then
        return nil
    end
    for _, f in ipairs(fields) do
        if type(f) ~= 'string' then
            return nil
        end
    end
    return fields
end

local function lane_member(lane, id)
    local ms, seq = string.match(id, '^(%d+)-(%d+)$')
    return lane .. '/' .. string.rep('0', 20 - #ms) .. ms ..
           string.rep('0', 20 - #seq) .. seq
end

-- The id that a member of the lane stands for.
local function lane_id(lane, member)
    local function number(digits)
        local short = string.gsub(digits, '^0+', '')
        return short == '' and '0' or short
    end
    local at = #lane + 2
    return number(string.sub(member, at, at + 19)) .. '-' ..
           number(string.sub(member, at + 20))
end

-- The id of the first in the lane; nil: there is none.
local function lane_first(lanes, lane)
    local found = redis.call('ZRANGEBYLEX', lanes, '[' .. lane .. '/',
                             '(' .. lane .. '0', 'LIMIT', 0, 1)[1]
    return found and lane_id(lane, found) or nil
end

-- Write the meta and index it; the fields must be there.
local function kept_put(kept, due, lanes, id, meta)
    local lane = meta[META.lane]
    redis.call('HSET', kept, id .. 'm', cmsgpack.pack(meta))
    if lane == '' then
        redis.call('ZADD', due, meta[META.due_ms], id)
        return
    end
    local before = lane_first(lanes, lane)
    redis.call('ZADD', lanes, 0, lane_member(lane, id))
    local first = lane_first(lanes, lane)
    if first == id then
        if before and before ~= id then
            redis.call('ZREM', due, before)
        end
        redis.call('ZADD', due, meta[META.due_ms], id)
    end
end

-- The lane of one whose meta does not say it, and its member there; "": none,
-- among so many as are looked at.
local LOOKED = 10000
local function lane_of(lanes, id)
    for _, member in ipairs(redis.call('ZRANGE', lanes, 0, LOOKED - 1)) do
        local lane = string.match(member, '^(.-)/')
        if lane and lane_id(lane, member) == id then
            return lane, member
        end
    end
    return ''
end

-- It leaves.  The next of its lane, if there is one, takes its place.  meta nil:
-- it cannot be read.
local function kept_drop(kept, due, lanes, id, meta)
    local lane, member
    if meta then
        lane = meta[META.lane]
        member = lane ~= '' and lane_member(lane, id)
    else
        lane, member = lane_of(lanes, id)
    end
    redis.call('HDEL', kept, id, id .. 'm')
    redis.call('ZREM', due, id)
    if not member then
        return
    end
    redis.call('ZREM', lanes, member)
    local next_id = lane_first(lanes, lane)
    if next_id then
        local follows = kept_meta(kept, next_id)
        redis.call('ZADD', due, follows and follows[META.due_ms] or 0, next_id)
    end
end

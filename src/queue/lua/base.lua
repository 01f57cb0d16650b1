-- base.lua: what every script of a queue begins with.
--
-- KEYS[1] is the shard's index of deadlines, P:{q/<s>}:due; all other keys
-- carry the same tag and are derived from it: see queue/keys.h.
--
-- The clock is logical: the server's plus an offset that grows by as much as
-- the server's runs back, so that a deadline is never put off by that.  What was
-- seen last is written down once a second: a smaller step back goes unnoticed,
-- and delays what is due by no more than that.
local call, try = redis.call, redis.pcall
local sub, find, match = string.sub, string.find, string.match
local base = sub(KEYS[1], 1, -4)

local t = call('TIME')
local at = t[1] * 1000 + math.floor(t[2] / 1000)
local kept = call('GET', base .. 'clock')
local off, ticked = 0, not kept
if kept then
    local p = find(kept, ' ', 1, true)
    local last = tonumber(sub(kept, 1, p - 1))
    off = tonumber(sub(kept, p + 1))
    if at < last then
        -- Written at once: until then it would stand still.
        off = off + last - at
        call('PERSIST', base .. 'clock')
        call('SET', base .. 'clock', at .. ' ' .. off)
    else
        ticked = at - last > 1000
    end
end
local now = at + off

-- After the first write, which at maxmemory must be another one.
local function save_clock()
    if ticked then
        call('SET', base .. 'clock', at .. ' ' .. off)
    end
end

-- A lane has one call under way.  A call that comes twice is done once; one
-- that comes after a later one is not done at all.
local LANE_MS = 3600000
local function lane_key(lane)
    return base .. 's:' .. lane
end

-- Was it done?  The rest of what it wrote down, or false.
local function lane_done(lane, seq)
    local was = call('GET', lane_key(lane))
    if not was then
        return false
    end
    local p = find(was, ' ', 1, true)
    local last = tonumber(sub(was, 1, p - 1))
    if last < tonumber(seq) then
        return false
    end
    return last == tonumber(seq) and sub(was, p + 1) or 'late'
end

local function lane_save(lane, seq, what)
    call('SET', lane_key(lane), seq .. ' ' .. what, 'PX', LANE_MS)
end

-- Tell whoever waits for the list, and list the queue among those with work.
local function wake(queue, list)
    try('PUBLISH', list, '')
    call('ZADD', base .. 'work', 'NX', now, queue)
end

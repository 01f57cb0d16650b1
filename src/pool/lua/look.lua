-- look.lua: which shards have queues to serve.
--
-- KEYS   1... the index of deadlines of each shard that is asked for
-- ARGV   1 so many queues are wanted   2 tell of every so manieth that waits
--        3 '1': and its name
--        4 does anybody hear events on these channels?  A pattern, '' not asked
-- result [1 somebody does, or it is not known, 0 nobody; then for each shard with
--        anything: [which, counted from 0, ms until its next deadline or -1, ms
--        until a queue that was put off is to be looked at or -1, how many wait,
--        then for every so manieth of them, the first first, for how many ms it
--        does, and its name if asked for]]
--
-- Reads only.  A queue's score is when it came or was served last; one that lies
-- ahead belongs to a queue that was put off.  As queues of all shards are
-- compared, ages are told: clocks of nodes differ.
-- LEAT__QUEUE_SHARDS, POOL_QUEUES_MAX
local SHARDS, MOST = 64, 2000
if #KEYS > SHARDS or tonumber(ARGV[1]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
local call = redis.call
local sub, find = string.sub, string.find
local t = call('TIME')
local at = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
local most, step, named, out = tonumber(ARGV[1]), tonumber(ARGV[2]),
    ARGV[3] == '1', { 1 }
if ARGV[4] ~= '' then
    local s = redis.pcall('PUBSUB', 'CHANNELS', ARGV[4])
    local deaf = not s.err and #s == 0 and redis.pcall('PUBSUB', 'NUMPAT') == 0
    out[1] = deaf and 0 or 1
end

-- See queue/clock.lua.
local function clock(kept)
    if not kept or kept == t[1] then
        return at < 1e12 and at + 1e12 or at
    end
    local p = find(kept, ' ', 1, true) or #kept + 1
    local last = tonumber(sub(kept, 1, p - 1))
    last = last < 1e12 and last * 1000 or last
    return (at < last and last or at) + (tonumber(sub(kept, p + 1)) or 0)
end

local clocks = {}
for k = 1, #KEYS do
    clocks[k] = sub(KEYS[k], 1, -4) .. 'clock'
end
clocks = call('MGET', unpack(clocks))
for k = 1, #KEYS do
    local base = sub(KEYS[k], 1, -4)
    if call('EXISTS', KEYS[k], base .. 'work') > 0 then
        local now = clock(clocks[k])
        local due, later = -1, -1
        local head = call('ZRANGE', KEYS[k], 0, 0, 'WITHSCORES')
        if head[2] then
            due = math.ceil(head[2] - now)
            due = due > 0 and due or 0
        end
        local work, time = base .. 'work', string.format('%.0f', now)
        local n = call('ZCOUNT', work, '-inf', time)
        if n < most then
            local next = call('ZRANGEBYSCORE', work, '(' .. time, '+inf',
                              'WITHSCORES', 'LIMIT', 0, 1)
            later = next[2] and math.ceil(next[2] - now) or -1
        end
        n = n < most and n or most
        local one = { k - 1, due, later, n }
        local all = step == 1 and n > 0 and
            call('ZRANGE', work, 0, n - 1, 'WITHSCORES')
        for i = 0, n - 1, step do
            local at, nth = all and 2 * i + 1 or 1, tostring(i)
            local some = all or call('ZRANGE', work, nth, nth, 'WITHSCORES')
            one[#one + 1] = math.floor(now - some[at + 1])
            if named then
                one[#one + 1] = some[at]
            end
        end
        out[#out + 1] = one
    end
end
return out

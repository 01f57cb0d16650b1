-- look.lua: which shards have queues to serve.
--
-- KEYS   1... the index of deadlines of each shard that is asked for
-- ARGV   1 tell of so many queues of a shard   2 '1': and their names
-- result for each shard with anything: [which, counted from 0, ms until its next
--        deadline or -1, ms until a queue that was put off is to be looked at or
--        -1, then for each queue that waits, the longest first, for how many ms,
--        and its name if asked for]
--
-- Reads only.  A queue's score is when it came or was served last; one that lies
-- ahead belongs to a queue that was put off.  As queues of all shards are
-- compared, ages are told: clocks of nodes differ.
local call = redis.call
local sub, find = string.sub, string.find
local t = call('TIME')
local at = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
local most, named, out = ARGV[1] - 1, ARGV[2] == '1', {}

-- See queue/clock.lua.
local function clock(kept)
    if not kept then
        return at < 1e12 and at + 1e12 or at
    end
    local p = find(kept, ' ', 1, true)
    local last = sub(kept, 1, p - 1) * 1000
    return (at < last and last or at) + sub(kept, p + 1)
end

for k = 1, #KEYS do
    local base = sub(KEYS[k], 1, -4)
    if call('EXISTS', KEYS[k], base .. 'work') > 0 then
        local now = clock(call('GET', base .. 'clock'))
        local due, later = -1, -1
        local head = call('ZRANGE', KEYS[k], 0, 0, 'WITHSCORES')
        if head[2] then
            due = math.ceil(head[2] - now)
            due = due > 0 and due or 0
        end
        local all = call('ZRANGE', base .. 'work', 0, most, 'WITHSCORES')
        local one = { k - 1, due, later }
        for i = 2, #all, 2 do
            local age = now - all[i]
            if age < 0 then
                one[3] = math.ceil(-age)
                break
            end
            one[#one + 1] = math.floor(age)
            if named then
                one[#one + 1] = all[i - 1]
            end
        end
        out[#out + 1] = one
    end
end
return out

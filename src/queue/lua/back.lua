-- back.lua: messages that come back, by their time or given back by hand.
--
-- Entries are "<receives>/<sent ms>/<id>", of a fifo queue
-- "<receives>/<sent ms>/<length of group>/<group>/<id>".  Members of the index of
-- deadlines are
--
--   v/<queue>/<entry>/<nonce>       in flight
--   x/<queue>/<entry>/<nonce>       in flight from the dead letters
--   d/<queue>/<entry>               delayed
--   d/<queue>/<number>/<entry>      delayed, of a fifo queue, in order
local RETRY_MS = 60000

local function save_clock()
    if ticked then
        call('SET', base .. 'clock', ticked)
    end
end

-- Tell whoever waits for the list, and list the queue among those with work.
local function wake(queue, list)
    try('PUBLISH', list, '')
    if try('ZADD', base .. 'work', 'NX', now, queue) == 1 then
        try('PUBLISH', sub(base, 1, find(base, ':{q/', 1, true)) .. 'work', '')
    end
end

-- Do a queue's keys, and those of a message group, hold what they should?  What
-- is looked at before the first write cannot fail after it.
local function sound(queue, fifo)
    local key = base .. queue
    return type(try('LLEN', key .. ':ready')) == 'number' and
        type(try('LLEN', key .. ':dead')) == 'number' and
        (not fifo or type(try('HLEN', key .. ':busy')) == 'number')
end

local function sound_group(queue, group)
    return not group or
        type(try('LLEN', base .. queue .. ':g:' .. group)) == 'number'
end

local confs = {}
local function conf_of(queue)
    local c = confs[queue]
    if not c then
        local v = try('HMGET', base .. queue .. ':conf', 'created', 'gone',
                      'receives', 'fifo', 'events')
        c = { there = v[1] and not v[2], max = tonumber(v[3] or '0') or 0,
              fifo = v[4] == '1', log = v[5] == '1' }
        c.sound = c.there and sound(queue, c.fifo)
        confs[queue] = c
    end
    return c
end

-- The group and the id of a fifo entry, or nil and the id.  What is no entry, so
-- that somebody else put it there, is of nobody's group and of no message: ''.
local function parts(entry, fifo)
    local rest = match(entry, '^%d+/%d+/(.*)$') or ''
    if not fifo then
        return nil, rest
    end
    local n, p = match(rest, '^(%d+)/()')
    if not n or #rest < p + n then
        return nil, ''
    end
    return sub(rest, p, p + n - 1), sub(rest, p + n + 1)
end

-- Is the queue one that is looked through for what stands nowhere?  Then what
-- comes to a place that may have been read is struck out of what is looked for,
-- and a group that does so is noted: see search.lua.
local function stand(queue, fifo, entries)
    if try('HGET', base .. 'lost', 'queue') == queue then
        for i = 1, #entries do
            local _, id = parts(entries[i], fifo)
            try('SREM', base .. 'lost:ids', id)
        end
    end
end

local function note_group(queue, group)
    if try('HGET', base .. 'lost', 'queue') == queue and
        try('SISMEMBER', base .. 'lost:read', group) == 0 then
        try('SADD', base .. 'lost:groups', group)
    end
end

local function receives(entry)
    return tonumber(sub(entry, 1, find(entry, '/', 1, true) - 1))
end

local function lay(front, list, what)
    if front then
        return call('LPUSH', list, what)
    end
    return call('RPUSH', list, what)
end

-- A group that has messages, none of them in flight, stands in ready, once.
local function free_group(queue, group, front)
    local key = base .. queue
    call('HDEL', key .. ':busy', group)
    if call('LLEN', key .. ':g:' .. group) > 0 then
        note_group(queue, group)
        if lay(front, key .. ':ready', group) == 1 then
            wake(queue, key .. ':ready')
        end
    end
end

-- A message of a group, at the head where it comes back, else at the tail.
local function put_in_group(queue, group, entry, front)
    local key = base .. queue
    stand(queue, true, { entry })
    local n = lay(front, key .. ':g:' .. group, entry)
    if front then
        free_group(queue, group, true)
    elseif n == 1 and call('HEXISTS', key .. ':busy', group) == 0 and
        call('RPUSH', key .. ':ready', group) == 1 then
        wake(queue, key .. ':ready')
    end
end

local function reverse(list)
    local out, n = {}, #list
    for i = 1, n do
        out[i] = list[n + 1 - i]
    end
    return out
end

-- Whether the list was empty.
local function push(front, list, entries)
    if front then
        return call('LPUSH', list, unpack(reverse(entries))) == #entries
    end
    return call('RPUSH', list, unpack(entries)) == #entries
end

-- Why they are dead letters, where somebody said so.
local function note_why(queue, c, entries, reason)
    for i = 1, reason and reason ~= '' and #entries or 0 do
        local _, id = parts(entries[i], c.fifo)
        try('HSET', base .. queue .. ':why', id, reason)
    end
end

-- From flight to the dead letters.
local function bury(queue, c, entries, how, reason)
    stand(queue, c.fifo, entries)
    local first = push(false, base .. queue .. ':dead', entries)
    try('HINCRBY', base .. queue .. ':stat', 'dead', #entries)
    try('HINCRBY', base .. queue .. ':stat', 'back', #entries)
    note_why(queue, c, entries, reason)
    if first then
        try('PUBLISH', base .. queue .. ':dead', '')
    end
    for i = 1, #entries do
        local group, id = parts(entries[i], c.fifo)
        if group then
            free_group(queue, group, false)
        end
        tell(how, c.log, 'to_dlq', queue, id, receives(entries[i]))
    end
end

-- To the head of the queue, the first of them first.
local function give_back(queue, c, entries, how)
    local key = base .. queue
    if c.fifo then
        for i = #entries, 1, -1 do
            put_in_group(queue, parts(entries[i], true), entries[i], true)
        end
    else
        stand(queue, false, entries)
        if push(true, key .. ':ready', entries) then
            wake(queue, key .. ':ready')
        end
    end
    try('HINCRBY', key .. ':stat', 'back', #entries)
    try('HINCRBY', key .. ':stat', 'requeued', #entries)
    for i = 1, #entries do
        local _, id = parts(entries[i], c.fifo)
        tell(how, c.log, 'requeued', queue, id)
    end
end

-- Their delay is over.
local function arrive(queue, c, entries)
    local key = base .. queue
    if c.fifo then
        for i = 1, #entries do
            put_in_group(queue, parts(entries[i], true), entries[i], false)
        end
    else
        stand(queue, false, entries)
        if push(false, key .. ':ready', entries) then
            wake(queue, key .. ':ready')
        end
    end
    try('HINCRBY', key .. ':stat', 'late', -#entries)
end

-- Back among the dead letters, at the head.
local function lie_again(queue, c, entries)
    stand(queue, c.fifo, entries)
    local first = push(true, base .. queue .. ':dead', entries)
    try('HINCRBY', base .. queue .. ':stat', 'dback', #entries)
    if first then
        try('PUBLISH', base .. queue .. ':dead', '')
    end
end

-- The kind, queue and entry of a member of the index; entry is '' where there is
-- none in it.
local function open(member)
    local kind, queue, entry = match(member, '^([dvx])/([^/]*)/(.*)$')
    if not kind then
        return '', '', ''
    elseif kind ~= 'd' then
        entry = match(entry, '^(.*)/[^/]*$')
    elseif conf_of(queue).fifo then
        entry = match(entry, '^%d+/(.*)$')
    end
    return kind, queue, entry or ''
end

-- Sort one member of the index into what becomes of it, or to `wrong`: keys of
-- its queue hold something else, or somebody else put it there.
local function sort_in(all, wrong, member)
    local kind, queue, entry = open(member)
    local c = conf_of(queue)
    local group, id = parts(entry, c.fifo)
    if id == '' or not c.sound or not sound_group(queue, group) then
        wrong[#wrong + 1] = member
        return
    end
    local to = kind == 'd' and 'arrive' or kind == 'x' and 'lie' or
        c.max > 0 and receives(entry) >= c.max and 'bury' or 'back'
    local q = all[queue]
    if not q then
        q = {}
        all[queue] = q
        all[#all + 1] = queue
    end
    local lot = q[to]
    if not lot then
        lot = {}
        q[to] = lot
    end
    lot[#lot + 1] = entry
end

-- Of a millisecond in which more than `limit` are due: delayed ones, which come
-- first and go to the tails of their queues, from the first on; then the others,
-- which go to the heads, from the last on, so that all of them end up in their
-- order.  Those of one receive are 1000 at most, of a fifo queue 400, and come
-- back together: else whoever receives meanwhile would get the last of them
-- before the first.
local TOGETHER, TOGETHER_FIFO = 1000, 400
local function part_of(ms, head)
    local n = 0
    while n < #head and sub(head[n + 1], 1, 1) == 'd' do
        n = n + 1
    end
    if n > 0 then
        return { unpack(head, 1, n) }
    end
    local all = call('ZREVRANGEBYSCORE', KEYS[1], format('%.3f', ms + 0.999),
                     format('%.0f', ms), 'LIMIT', 0, TOGETHER)
    for i = TOGETHER_FIFO + 1, #all do
        local _, queue = open(all[i])
        if conf_of(queue).fifo then
            return reverse({ unpack(all, 1, i - 1) })
        end
    end
    return reverse(all)
end

-- What is due, of all queues of the shard: whole milliseconds, up to `limit`, or
-- a part of one.
local function due_now(limit)
    local due = call('ZRANGEBYSCORE', KEYS[1], '-inf', format('%.3f', now + 0.999),
                     'LIMIT', 0, limit)
    if #due < limit then
        return due
    end
    local first = math.floor(call('ZSCORE', KEYS[1], due[1]))
    local last = math.floor(call('ZSCORE', KEYS[1], due[#due]))
    if first < last then
        return call('ZRANGEBYSCORE', KEYS[1], '-inf', format('(%.0f', last))
    end
    return part_of(last, due)
end

-- Give it back; how many, which is 0 only if nothing is due, and how many of
-- these were wrong.  Those are never dropped but put off: somebody may set their
-- keys right, and one who removes the queue looks for them here.
local function expire(limit, how)
    limit = tonumber(limit)
    local due = limit > 0 and due_now(limit) or {}
    if #due == 0 then
        return 0, 0
    end
    local all, wrong = {}, {}
    for i = 1, #due do
        sort_in(all, wrong, due[i])
    end
--#include "redis/may.lua"
    may(KEYS[1], 'HDEL HEXISTS HMGET LLEN LPUSH RPUSH SET ZADD ZRANGE ZREM')
    call('ZREM', KEYS[1], unpack(due))
    save_clock()
    for i = 1, #wrong do
        call('ZADD', KEYS[1], now + RETRY_MS, wrong[i])
    end
    for i = 1, #all do
        local queue = all[i]
        local q, c = all[queue], conf_of(queue)
        if q.arrive then
            arrive(queue, c, q.arrive)
        end
        if q.back then
            give_back(queue, c, q.back, how)
        end
        if q.lie then
            lie_again(queue, c, q.lie)
        end
        if q.bury then
            bury(queue, c, q.bury, how)
        end
    end
    return #due, #wrong
end

-- Milliseconds until the next deadline of the shard; -1: there is none.
local function next_due()
    local head = call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
    if not head[2] then
        return -1
    end
    local left = math.ceil(tonumber(head[2]) - now)
    return left > 0 and left or 0
end

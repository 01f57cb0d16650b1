--#include "topic/same.lua"
--#include "redis/clock.lua"
--#include "topic/ids.lua"
-- trimming.lua: take from a log what need not be kept, some of it at a time; the
-- whole of trim.lua and trim60.lua, but for how they cut in bulk.
--
-- KEYS   1 log      stream
--        2 bodies   hash: id of an entry -> its large body
--        3 large    zset: those ids by their milliseconds
--        4 joined   hash: groups of the topic -> incarnation, see joined.lua
--        5, 6...    cursor and lease of each group of the topic
--        last       id, as in same.lua
-- ARGV   1 max_age      milliseconds; "" none
--        2 max_entries  "" none
--        3 forget       "never" "all" "first"
--        4 abandoned    "pin" "alarm" "detach"
--        5 after        milliseconds without a member, for that
--        6 keep         milliseconds that a lease is given when it is renewed
--        7 most         entries to take in this call, fewer where they are
--                       large; 0: nothing is changed
--        8 how          "" | "force": also what groups have not settled |
--                       "others": groups that are not leat's count, too
--        9 groups       how many names of groups follow that have keys above
--       10...           their names; then those of groups that the server has
--                       and that are no groups of the topic, and of joined
--                       ones that are not, as "<name> <incarnation>"
--       last            incarnation of the topic, as in same.lua
-- result {"?", name...}   there are groups that were not named, as above: read
--                         the names again; nothing was done
--        {taken, more, length, holder, limit, cut, wait, want, state...}
--        taken   entries that went
--        more    "1" there may be more to take now, else "0"
--        length  entries that are left
--        holder  the group that is furthest behind, "" none counts
--        limit   the last id that may go by age and number, "" none
--        cut     the last id that is to go whatever the number, "" none
--        wait    milliseconds until the oldest will be too old, "" unknown
--        want    what cut would be if no group held anything back
--        state   of each group: "0" counts, "1" abandoned and counts, "2"
--                detached now, "3" detached before
-- states the oldest entries and their bodies -> gone; a group -> detached
--
-- Nothing goes that is behind the cursor of a group that counts, but by force
-- and by "first".  Whoever calls this late does no harm: the cursors are read
-- here, and a group that came meanwhile has joined here, or is among the
-- server's own.  Of a group that was removed meanwhile nothing is written.
--
-- Fields of a cursor that are this script's, and take.lua's to remove:
--   i   since when the group is seen to be without a member, in milliseconds
--   x   since when it is detached: its messages may go
--
-- A lease tells when it was last renewed by how long it will live.  So that a
-- server that was away for long does not think that all groups were, one is
-- abandoned only when it was seen to be for a while.

local LOG, BODIES, LARGE = KEYS[1], KEYS[2], KEYS[3]
local SEEN_MS = 60000
local max_age, max_entries = tonumber(ARGV[1]), tonumber(ARGV[2])
local forget, policy, after = ARGV[3], ARGV[4], tonumber(ARGV[5])
local keep, most, how = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local groups = tonumber(ARGV[9])
local now = math.floor(now_us() / 1000)

local TAKEN, GROUPS = 5000, 10000 -- LEAT__TRIM_BULK, LEAT__GROUPS_MAX
if most > TAKEN or groups > GROUPS or #ARGV > 9 + 2 * GROUPS or
   redis.call('HLEN', KEYS[4]) > GROUPS then
    return redis.error_reply('ERR more than one call may have')
end
local length, large = redis.call('XLEN', LOG), redis.call('ZCARD', LARGE) > 0
if length == 0 and redis.call('EXISTS', LOG) == 0 then
    return {0, '0', 0, '', '', '', '', ''}
end

-- ---- who counts -----------------------------------------------------------

local named, ours = {}, {}
for i = 10, #ARGV do
    named[ARGV[i]] = true
    ours[ARGV[i]] = i < 10 + groups
end
-- Only what could be the name of one of ours.
local strangers = {'?'}
local others = redis.call('XINFO', 'GROUPS', LOG)
if #others > GROUPS then
    return redis.error_reply('ERR the log has more groups than it may')
end
for i, flat in ipairs(others) do
    others[i] = pairs_of(flat)
    local name = others[i].name
    if not named[name] and #name <= 200 and
       string.match(name, '^[%w._-]+$') then
        strangers[#strangers + 1] = name
    end
end
local joined = pairs_of(redis.call('HGETALL', KEYS[4]))
for name, incarnation in pairs(joined) do
    local text = name .. ' ' .. incarnation
    if not ours[name] and not named[text] and #name <= 200 and
       string.match(text, '^[%w._-]+ %x*$') then
        strangers[#strangers + 1] = text
    end
end
if #strangers > 1 then
    return strangers
end

-- What can fail is looked at before the first write, which is one that Redis
-- allows when it is full.
--#include "redis/may.lua"
redis.call('HLEN', BODIES)
for g = 1, groups do
    redis.call('HLEN', KEYS[3 + 2 * g])
end
if most > 0 then
    may(LOG, 'EXISTS HDEL HMGET HSET PTTL XPENDING XRANGE XTRIM ' ..
        'ZRANGEBYSCORE ZREM')
    redis.call('PERSIST', LOG)
end

local function note(cursor, field)
    if most > 0 then
        redis.call('HSET', cursor, field, string.format('%.0f', now))
    end
end

-- Has nobody had the partition for the group for too long?
local function abandoned(cursor, lease, begun, since)
    local left, idle = redis.call('PTTL', lease), 0
    if left >= 0 then
        idle = keep - left
    elseif left == -2 then
        idle = (begun and keep or 0) + now - (since or now)
    end
    if idle < after and left ~= -2 then
        if since and most > 0 then
            redis.call('HDEL', cursor, 'i')
        end
        return false
    end
    if not since then
        note(cursor, 'i')
    end
    return idle >= after and now - (since or now) >= math.min(after, SEEN_MS)
end

local function state_of(name, cursor, lease, cur)
    local here = cur[1] or cur[2] or cur[3] or joined[name]
    if policy == 'pin' or not here then
        return '0'
    end
    if cur[2] and policy == 'detach' then
        return '3'
    end
    if not abandoned(cursor, lease, cur[1], tonumber(cur[3])) then
        return '0'
    end
    if policy == 'detach' then
        note(cursor, 'x')
        return '2'
    end
    return '1'
end

local low, high, holder, states, foreign = nil, nil, '', {}, {}
local function counts(name, at)
    if not low or above(low, at) then
        low, holder = at, name
    end
end

for g = 1, groups do
    local cursor, lease = KEYS[3 + 2 * g], KEYS[4 + 2 * g]
    local cur = redis.call('HMGET', cursor, 'c', 'x', 'i', 'g')
    states[g] = state_of(ARGV[9 + g], cursor, lease, cur)
    if states[g] < '2' then
        counts(ARGV[9 + g], cur[1] or '0-0')
    end
    foreign[ARGV[9 + g]] = cur[4] == '0' -- see mirror.lua
    if cur[1] and (not high or above(cur[1], high)) then
        high = cur[1]
    end
end

-- The id before this one.
local function before(id)
    local ms, seq = string.match(id, '^(%d+)-(%d+)$')
    if tonumber(seq) > 0 then
        return string.format('%s-%.0f', ms, tonumber(seq) - 1)
    end
    return string.format('%.0f-%s', math.max(tonumber(ms) - 1, 0), LAST_SEQ)
end

if how == 'others' then
    for _, other in ipairs(others) do
        if not ours[other.name] or foreign[other.name] then
            local pending = redis.call('XPENDING', LOG, other.name)
            counts(other.name, pending[1] > 0 and before(pending[2]) or
                               other['last-delivered-id'])
        end
    end
end

-- ---- what is to go --------------------------------------------------------

-- What the stream says of itself is dear; mostly there is nothing to take.
local want, limit = '', how ~= 'force' and low or ''
if max_age and now > max_age then
    want = string.format('%.0f-%s', now - max_age - 1, LAST_SEQ)
end
local PAGE
if want ~= '' or forget ~= 'never' or
   (max_entries and length > max_entries) then
    local facts = stream_facts(LOG)
    limit = limit ~= '' and limit or facts['last-generated-id']
    -- So that no call takes long: a node has some kilobytes, or one entry that
    -- may be large.
    local dense = length / math.max(tonumber(facts['radix-tree-keys']), 1)
    PAGE = dense < 2 and 5 or math.min(100, math.ceil(10 * dense))
    most = math.min(most, math.ceil(dense < 2 and NODES / 8 or NODES * dense))
end
local cut = want ~= '' and above(want, limit) and limit or want
local function up_to(id)
    cut = (cut == '' or above(id, cut)) and id or cut
    want = (want == '' or above(id, want)) and id or want
end

if forget == 'all' and low then
    up_to(low)
end
if forget == 'first' and high then
    up_to(high)
end

-- Up to this id, that one included, at most so many.  Where whole nodes can be
-- cut nothing is read; what is left of the last node is counted.
local function take(id, count)
    local taken = 0
    while taken < count do
        local n = cut_nodes(LOG, id, count - taken)
        local page = math.min(PAGE, count - taken)
        if n == 0 then
            n = #redis.call('XRANGE', LOG, '-', id, 'COUNT', page)
            if n > 0 then
                redis.call('XTRIM', LOG, 'MAXLEN', length - n)
            end
            if n < page then
                count = 0
            end
        end
        taken, length = taken + n, length - n
    end
    return taken
end

local taken = 0
if cut ~= '' and most > 0 then
    taken = take(cut, most)
end
local over = max_entries and length - max_entries or 0
if over > 0 and taken < most then
    taken = taken + take(limit, math.min(over, most - taken))
end

-- ---- what went with it ----------------------------------------------------

local first = (large or max_age) and
    redis.call('XRANGE', LOG, '-', '+', 'COUNT', 1)[1]

-- Bodies of entries that are gone, also of those that somebody deleted; how
-- many.  To free a hundred takes a millisecond.
local BODIES_MOST = 100
local function drop_bodies()
    local newest = first and string.match(first[1], '^%d+') or '+inf'
    local ids, dropped = redis.call('ZRANGEBYSCORE', LARGE, '-inf', newest,
                                    'LIMIT', 0, BODIES_MOST), 0
    for _, id in ipairs(ids) do
        if not first or above(first[1], id) then
            redis.call('HDEL', BODIES, id)
            redis.call('ZREM', LARGE, id)
            dropped = dropped + 1
        end
    end
    return dropped
end

local dropped = most > 0 and large and drop_bodies() or 0
local wait = ''
if first and max_age and not above(first[1], limit) then
    local ms = tonumber(string.match(first[1], '^%d+'))
    wait = string.format('%.0f', math.max(ms + max_age - now + 1, 0))
end
local more = most > 0 and (taken >= most or dropped >= BODIES_MOST)
local out = {taken, more and '1' or '0', length, holder, limit, cut, wait, want}
for g = 1, groups do
    out[8 + g] = states[g]
end
return out

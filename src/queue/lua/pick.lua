-- pick.lua: a receive that looks at each message: of a fifo queue, or where
-- some are too old or were received too often.  A part of take.lua, behind
-- tell.lua and back.lua.  `spread`: they are to expire in their order; `room`:
-- the bytes that are enough for an answer, nil: it cannot be too large.
--
-- Those that are dropped on the way do not make an empty answer, but where they
-- are very many: then the answer is [1, ...] and there is more.
local DROPPED_AT_ONCE = 1000
local function pick(room)
    local entries, ids, old, worn, lost = {}, {}, {}, {}, 0

    local function enough()
        return #old + #worn + lost >= DROPPED_AT_ONCE or room and room <= 0
    end

    -- What becomes of an entry that was at the head; true: it is received.
    local function sort_out(entry)
        local rc, p, sent = match(entry, '^(%d+)()/(%d+)/')
        local _, id = parts(entry, fifo)
        rc = tonumber(rc)
        if id == '' then -- somebody else put it there, and it is no message
            lost = lost + 1
            return false
        end
        if ttl > 0 and now - sent > ttl then
            old[#old + 1] = entry
            return false
        end
        if most > 0 and rc >= most then
            worn[#worn + 1] = entry
            return false
        end
        entries[#entries + 1] = (rc + 1) .. sub(entry, p)
        ids[#ids + 1] = id
        room = room and room - call('HSTRLEN', key .. ':body', id)
        return true
    end

    -- The first of a group that is received, if any; what is left of the group
    -- when it is enough is to be looked at later.
    local function first_of(group, rest)
        local entry
        repeat
            entry = not enough() and call('LPOP', key .. ':g:' .. group)
        until not entry or sort_out(entry)
        if entry then
            call('HSET', key .. ':busy', group, ids[#ids])
        elseif enough() and call('LLEN', key .. ':g:' .. group) > 0 then
            rest[#rest + 1] = group
        end
    end

    local function look()
        local some, rest = call('LRANGE', list, 0, max - 1), {}
        if #some == 0 then
            return 0
        end
        -- A group's key that holds something else: an error where nothing was
        -- written yet, else what was picked so far is the answer.
        for i = 1, grouped and #some or 0 do
            local r = try('LLEN', key .. ':g:' .. some[i])
            if type(r) == 'table' and #old + #worn > 0 then
                return 0
            elseif type(r) == 'table' then
                error(r)
            end
        end
        call('LTRIM', list, #some, -1)
        for i = 1, #some do
            if grouped then
                first_of(some[i], rest)
            elseif enough() then
                rest[#rest + 1] = some[i]
            else
                sort_out(some[i])
            end
        end
        if #rest > 0 then
            push(true, list, rest)
        end
        return #some
    end

    -- All that can hold something else is looked at before the first write.
    call('HLEN', key .. ':body')
    call('HLEN', stat)
    call('ZCARD', KEYS[1])
    call('LLEN', key .. ':dead')
    call('HLEN', key .. ':busy')
--#include "redis/may.lua"
    may(KEYS[1], 'HDEL HINCRBY HMGET HSTRLEN LLEN LPOP LPUSH LTRIM RPUSH SET ' ..
        'ZADD' .. (grouped and ' HSET' or ''))
    call('PERSIST', KEYS[1])
    local n
    repeat
        n = look()
    until #ids > 0 or n == 0 or enough()
    save_clock()

    local more = #ids == 0 and call('LLEN', list) > 0
    local out, due = { more and 1 or 0, hide }, {}
    if #ids > 0 then
        local bodies = call('HMGET', key .. ':body', unpack(ids))
        for i = 1, #ids do
            if bodies[i] then
                local member = head .. entries[i] .. nonce
                due[#due + 1] = spread and score + #due / 2000 or score
                due[#due + 1] = member
                out[#out + 1] = member
                out[#out + 1] = bodies[i]
            else
                lost = lost + 1
                if grouped then
                    free_group(queue, parts(entries[i], true), false)
                end
            end
        end
    end
    if #due > 0 then
        call('ZADD', KEYS[1], unpack(due))
        call('HINCRBY', stat, 'recv', #due / 2)
        call('SET', base .. 's:' .. ARGV[2], ARGV[3] .. ' ' .. score, 'PX',
             LANE_MS)
    end
    if lost > 0 then
        call('HINCRBY', stat, 'lost', lost)
    end
    if #old > 0 then
        for i = 1, #old do
            local _, id = parts(old[i], fifo)
            call('HDEL', key .. ':body', id)
            try('HDEL', key .. ':why', id)
        end
        call('HINCRBY', stat, 'expired', #old)
    end
    if #worn > 0 then
        stand(queue, fifo, worn)
        call('RPUSH', key .. ':dead', unpack(worn))
        call('HINCRBY', stat, 'dead', #worn)
        try('PUBLISH', key .. ':dead', '')
    end
    for i = 1, #worn do
        local _, id = parts(worn[i], fifo)
        tell(ARGV[4], log, 'to_dlq', queue, id, receives(worn[i]))
    end
    for i = 1, #ids do
        tell(ARGV[4], log, 'received', queue, ids[i], receives(entries[i]))
    end
    return with_told(out)
end

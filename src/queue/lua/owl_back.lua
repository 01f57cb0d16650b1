-- owl_back.lua: messages whose time is over, or that were given back.
--
-- To the head of ready those that were received, the first of them first; to its
-- tail those that were not, which were only delayed; dead letters to the head of
-- the dead letters.  A receipt whose message is gone is forgotten.
local function push_front(list, ids)
    for i = #ids, 1, -1 do
        call('LPUSH', list, ids[i])
    end
end

local function give_back(ids)
    push_front(ready, ids)
    for i = 1, #ids do
        tell('requeued', ids[i])
    end
end

-- The message of a receipt that is over; nil: there is none.
local function expired(zset, r)
    if call('ZREM', zset, r) == 0 then
        return nil
    end
    local id = call('HGET', receipt, r)
    call('HDEL', receipt, r)
    return id and call('EXISTS', base .. 'msg:' .. id) == 1 and id
end

-- What is due, at most so many of each; how many came back.
local function reap(limit)
    local back, late, dead = {}, {}, {}
    local due = call('ZRANGEBYSCORE', inflight, '-inf', now, 'LIMIT', 0, limit)
    for i = 1, #due do
        local id = expired(inflight, due[i])
        if id and call('HGET', base .. 'msg:' .. id, 'rc') == '0' then
            late[#late + 1] = id
        elseif id then
            back[#back + 1] = id
        end
    end
    due = call('ZRANGEBYSCORE', hidden, '-inf', now, 'LIMIT', 0, limit)
    for i = 1, #due do
        dead[#dead + 1] = expired(hidden, due[i]) or nil
    end
    for i = 1, #late do
        call('RPUSH', ready, late[i])
    end
    push_front(dlq, dead)
    give_back(back)
    return #back + #late + #dead
end

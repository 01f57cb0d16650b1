-- again.lua: what a receive that was done before, the one of `nonce`, was given
-- and still has.
--
-- Its deadlines are in one millisecond, as those of many others may be.  A call
-- reads LOOKED of them at most: what is behind these comes back when its time is
-- over, as if whoever asks had died.
local LOOKED, PAGE = 10000, 1000
local unread, found = LOOKED, {}

-- The members that are the receive's, by how they begin: kind and queue.
local function given_in(ms)
    local by, from, n = {}, 0, PAGE
    while n == PAGE and unread > 0 do
        local all = call('ZRANGEBYSCORE', KEYS[1], ms,
                         format('%.3f', ms + 0.999), 'LIMIT', from,
                         PAGE < unread and PAGE or unread)
        n = #all
        from, unread = from + n, unread - n
        for i = 1, n do
            local m = all[i]
            local head = sub(m, -#nonce) == nonce and match(m, '^%a/[^/]*/')
            if head then
                by[head] = by[head] or {}
                by[head][#by[head] + 1] = m
            end
        end
    end
    return by
end

-- Those of one queue to `out`, as take.lua tells them.
local function give_again(out, ms, head, key, fifo, dead)
    found[ms] = found[ms] or given_in(ms)
    local mine = found[ms][head] or {}
    for i = 1, #mine do
        local m = mine[i]
        local id = match(m, '^[^/]*/[^/]*/%d+/%d+/(.*)/[^/]*$')
        if fifo then
            local n = match(id, '^(%d+)/')
            id = sub(id, #n + tonumber(n) + 3)
        end
        local body = call('HGET', key .. ':body', id)
        if body then
            out[#out + 1] = m
            out[#out + 1] = body
            if dead then
                out[#out + 1] = call('HGET', key .. ':why', id) or ''
            end
        end
    end
end

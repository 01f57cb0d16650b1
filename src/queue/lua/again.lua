-- again.lua: what a receive that was done before was given and still has: from
-- `done`, which begins by the first of its scores, `nonce`, `head`, `key`, `fifo`
-- and `dead` to `out`.
local first = match(done, '^%d+')
local all = call('ZRANGEBYSCORE', KEYS[1], first,
                 string.format('%.3f', first + 0.999))
for i = 1, #all do
    local m = all[i]
    if sub(m, -#nonce) == nonce and sub(m, 1, #head) == head then
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

-- entries.lua: what stood at the head of a list as members of due: from `got`,
-- `head`, `nonce`, `dead` and `fifo` to `ids` and, in its place, `got`.
--
-- Most entries are "0/<13 digits>/<id>", and those that were sent together are
-- alike up to the id.
local ids = { unpack(got) } -- it need not grow
local fresh, last, front = head .. '1/', nil, nil
for i = 1, #got do
    local entry = got[i]
    local start = sub(entry, 1, 16)
    if start ~= last then
        last = start
        front = not dead and sub(start, 1, 2) == '0/' and
            fresh .. sub(start, 3)
    end
    if front then
        local id = sub(entry, 17)
        ids[i], got[i] = id, front .. id .. nonce
    else
        local p = find(entry, '/', 1, true)
        local q = p + 14
        if fifo then
            local n = match(entry, '^%d+', q + 1)
            q = q + #n + tonumber(n) + 2
        end
        ids[i] = sub(entry, q + 1)
        local rc = tonumber(sub(entry, 1, p - 1)) + (dead and 0 or 1)
        got[i] = head .. rc .. sub(entry, p) .. nonce
    end
end

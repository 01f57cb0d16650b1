-- entries.lua: what stood at the head of a list as members of due: from `got`,
-- `head`, `nonce`, `dead`, `fifo` and `most` to `ids` and, in its place, `got`;
-- `worn`: one of them was received so often.
--
-- Most entries are "0/<13 digits>/<id>", and those that were sent together are
-- alike up to the id.  What is no entry is of no message, and has the id ''.
local ids = { unpack(got) } -- it need not grow
local fresh, last, front, worn = head .. '1/', nil, nil, false
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
        local rc, p, q = match(entry, '^(%d+)()/%d+/()')
        local n, r
        if q and fifo then
            n, r = match(entry, '^(%d+)/()', q)
            q = n and r + n + 1
        end
        worn = worn or most > 0 and not dead and q and tonumber(rc) >= most
        ids[i] = q and sub(entry, q) or ''
        got[i] = q and
            head .. rc + (dead and 0 or 1) .. sub(entry, p) .. nonce or ''
    end
end

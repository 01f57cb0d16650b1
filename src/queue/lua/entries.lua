-- entries.lua: what stood at the head of a list as members of due: from `got`,
-- `head`, `nonce`, `dead` and `fifo` to `ids` and, in its place, `got`.
--
-- Most entries are "0/<13 digits>/<id>".
local ids = { unpack(got) } -- it need not grow
local fresh = head .. '1/'
for i = 1, #got do
    local entry = got[i]
    if not dead and sub(entry, 1, 2) == '0/' then
        ids[i] = sub(entry, 17)
        got[i] = fresh .. sub(entry, 3) .. nonce
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

-- bodies.lua: the messages of `ids` to `bodies`, as many as make an answer of ROOM
-- bytes, and one at least; the others are taken out of `ids` and `got`.
--
-- In steps, as all may be as large as `limit`: then the first is half of it.
bodies = { unpack(ids) } -- it need not grow
local n, k, room, step = #ids, 0, ROOM, math.ceil(ROOM / 2 / limit)
while k < n do
    local part = call('HMGET', key .. ':body',
                      unpack(ids, k + 1, k + step < n and k + step or n))
    for j = 1, #part do
        if room > 0 then
            k = k + 1
            bodies[k] = part[j]
            room = room - (part[j] and #part[j] or 0)
        end
    end
    if room <= 0 then
        for i = n, k + 1, -1 do
            ids[i], got[i] = nil, nil
        end
        n = k
    end
    step = step * 4
end

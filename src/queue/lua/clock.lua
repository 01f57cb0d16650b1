-- clock.lua: now, in milliseconds, from `kept`, the value of the clock's key.
--
-- The clock is logical: the server's plus an offset that grows by as much as
-- the server's runs back, so that a deadline is never put off by that.  What was
-- seen last is written down once a second (ticked: after the first write of the
-- script, which at maxmemory must be another one); a smaller step back goes
-- unnoticed, and delays what is due by no more than that.
local t = call('TIME')
local at = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
local off, ticked = 0, not kept
if kept then
    local p = find(kept, ' ', 1, true)
    local last = tonumber(sub(kept, 1, p - 1))
    off = tonumber(sub(kept, p + 1))
    if at < last then
        -- Written at once: until then it would stand still.
        off = off + last - at
        call('PERSIST', base .. 'clock')
        call('SET', base .. 'clock', at .. ' ' .. off)
    else
        ticked = at - last > 1000
    end
end
local now = at + off

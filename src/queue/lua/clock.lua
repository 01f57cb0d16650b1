-- clock.lua: now, in milliseconds, from `kept`, the value of the clock's key.
--
-- The clock is logical: the server's plus an offset that grows by as much as
-- the server's runs back, so that a deadline is never put off by that.  Kept is
-- "<second seen last>", with an offset "<second> <offset>"; with each new second
-- `ticked` is what is to be written (after the first write of the script, which
-- at maxmemory must be another one), else false.  A step back within one goes
-- unnoticed, and delays what is due by no more than that.  It never shows less
-- than 13 digits, also where the server's begins at 1970.
local t = call('TIME')
local us = t[2] + 0
local at = t[1] * 1000 + (us - us % 1000) / 1000
local off, ticked = at < 1e12 and 1e12 or 0, not kept
if kept and kept ~= t[1] then
    local p = find(kept, ' ', 1, true) or #kept + 1
    local last = (tonumber(sub(kept, 1, p - 1)) or 0) * 1000
    off = tonumber(sub(kept, p + 1)) or 0
    ticked = at - last >= 1000
    if at < last then
        -- Written at once: until then it would stand still.
        off = off + last - at
        call('PERSIST', base .. 'clock')
        call('SET', base .. 'clock', t[1] .. ' ' .. off)
    end
end
ticked = ticked and (off == 0 and t[1] or t[1] .. ' ' .. off)
local now = at + off

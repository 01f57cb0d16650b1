-- clock.lua: the server's clock, for scripts that include it.
--
-- Clients send durations, never instants: only one clock decides what is due.

-- Microseconds since 1970.
local function now_us()
    local t = redis.call('TIME')
    return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

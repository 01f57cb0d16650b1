-- chunks.lua: a command on more values than one call takes.
--
-- Lua refuses to unpack about 8,000 values, and what a script has written by then
-- stays written.  So what may be many goes in chunks of a size that is far below
-- it, and even: values go in pairs.
local CHUNK = 4000
local function in_chunks(n, act)
    for from = 1, n, CHUNK do
        act(from, from + CHUNK <= n and from + CHUNK - 1 or n)
    end
end

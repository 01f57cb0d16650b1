--#include "queue/owl_base.lua"
--#include "queue/owl_fetch.lua"
-- owl_peek.lua: look at messages of a redowl queue without receiving them.
--
-- KEYS   1 inflight
-- ARGV   as peek.lua
-- result [0, 0, '-', message, '-', message, ...]
--
-- Reads only.
local dead = ARGV[3] == '1'
local got = call('LRANGE', dead and dlq or ready, 0, ARGV[2] - 1)
local out = { 0, 0 }
for i = 1, #got do
    local m = fetch(got[i])
    if m then
        put(out, '-', m, dead)
    end
end
return out

-- heard.lua: is an event worth telling?  From `how`, `log` and `queue`: see
-- tell.lua.  Where it is left to the server, only if somebody listens; that
-- nobody does is told by an empty list at the end of the answer, and believed
-- for a moment: see tell.c.
local telling = true
if how == '1' and not log then
    local s = try('PUBSUB', 'NUMSUB', base .. queue .. ':events',
                  sub(base, 1, find(base, ':{q/', 1, true)) .. 'events')
    telling = s.err or s[2] ~= 0 or s[4] ~= 0 or try('PUBSUB', 'NUMPAT') ~= 0
end

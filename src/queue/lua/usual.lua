-- usual.lua: the settings of a queue that is there and has nothing special (no
-- fifo, bound of receives or age, durable events), from one field of `key`'s
-- conf; hide is nil otherwise.  Most queues have what is meant by default.
local hide, limit, delay
local usual = call('HGET', key .. ':conf', 'usual')
if usual == '30000 1048576 0' then
    hide, limit, delay = 30000, 1048576, 0
elseif usual then
    hide, limit, delay = match(usual, '^(%d+) (%d+) (%d+)$')
    hide, limit, delay = tonumber(hide), tonumber(limit), tonumber(delay)
end

-- usual.lua: the settings of a queue that is there and has nothing special (no
-- fifo, bound of age, durable events, pause), from one field of `key`'s conf;
-- hide is nil otherwise.  Most queues have what is meant by default.  One that
-- an earlier version made has no bound of receives in it, which is none.
local hide, limit, delay, most
local usual = call('HGET', key .. ':conf', 'usual')
if usual == '30000 1048576 0 10' then
    hide, limit, delay, most = 30000, 1048576, 0, 10
elseif usual then
    hide, limit, delay, most = match(usual, '^(%d+) (%d+) (%d+) ?(%d*)$')
    hide, limit, delay = tonumber(hide), tonumber(limit), tonumber(delay)
    most = tonumber(most) or 0
end

-- owl_base.lua: what every script of a redowl queue begins with.
--
-- KEYS[1] is P:<queue>:inflight; the others are derived from it, see
-- queue/redowl.c.  On a cluster a slot that moves refuses the script, see
-- base.lua: so it is not fooled by a message that is on the other node.
--
-- now is the server's clock, in milliseconds: the others read deadlines by
-- theirs, so it is no logical one.
local call, try = redis.call, redis.pcall
local sub, find = string.sub, string.find
local inflight = KEYS[1]
local base = sub(inflight, 1, -9)
local ready, dlq = base .. 'ready', base .. 'dlq'
local receipt, hidden = base .. 'receipt', base .. 'dlq_inflight'
local t = call('TIME')
local now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
-- All that can hold something else is looked at before the first write.
call('LLEN', ready)
call('LLEN', dlq)
call('HLEN', receipt)
call('ZCARD', inflight)
call('ZCARD', hidden)

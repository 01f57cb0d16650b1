--#include "queue/owl_base.lua"
-- owl_stats.lua: the figures of a redowl queue.
--
-- KEYS   1 inflight
-- result as stats.lua: no settings are kept, and nothing is counted but what is
--        there now
--
-- Reads only.
local head = call('LINDEX', ready, 0)
local sent = head and call('HGET', base .. 'msg:' .. head, 'created_at_ms')
return { {}, { 'fly', call('ZCARD', inflight), 'drecv', call('ZCARD', hidden) },
         now, call('LLEN', ready), call('LLEN', dlq),
         sent and '0/' .. sent or '' }

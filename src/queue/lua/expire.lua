--#include "queue/base.lua"
local kept = call('MGET', base .. 'clock')[1]
--#include "queue/clock.lua"
--#include "queue/tell.lua"
--#include "queue/back.lua"
-- expire.lua: what a shard's reaper does.
--
-- KEYS   1 due
-- ARGV   1 at most so many   2 events   3 the reaper's nonce, '': no lease is
--        asked for   4 ms that its lease lasts   5 '1': do it without lease
-- result [how many were moved, ms until the next deadline or -1, '1' ours '0'
--        the shard is another reaper's and nothing was done, how many could not
--        be moved and are put off]
--
-- in flight -> ready or dead; delayed -> ready; dead in flight -> dead.  Twice
-- is as good as once, so the lease only saves work.
local lease, MOST = base .. 'reaper', 1000 -- LEAT_QUEUE_BATCH
if tonumber(ARGV[1]) > MOST then
    return redis.error_reply('ERR more than one call may have')
end
if ARGV[3] ~= '' then
    local held = call('GET', lease)
    local mine = true
    if held then
        local p = find(held, ' ', 1, true)
        -- One from far ahead was given by a clock that has gone back.
        local left = tonumber(sub(held, p + 1)) - now
        mine = sub(held, 1, p - 1) == ARGV[3] or left < 0 or
            left > tonumber(ARGV[4])
    end
    if not mine and ARGV[5] ~= '1' then
        return { 0, next_due(), '0', 0 }
    end
    if mine then
        call('PERSIST', KEYS[1])
        call('SET', lease, ARGV[3] .. ' ' .. now + tonumber(ARGV[4]), 'PX',
             10 * ARGV[4])
    end
end
local n, wrong = expire(ARGV[1], ARGV[2])
return with_told({ n, next_due(), '1', wrong })

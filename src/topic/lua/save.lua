-- save.lua: what the owner of a partition has handed out and settled.
--
-- KEYS  1 lease   hash: o owner's nonce, e epoch
--       2 cursor  hash: c m n s t q, see window.c
--       3 log     the partition's stream
-- ARGV  1 nonce   2 epoch
--       3 q       number of this save; grows within an epoch
--       4 c       cursor: all up to this id is settled
--       5 m       read mark: all up to this id was handed out at least once
--       6 n       entries ever in the log up to c, or empty: unknown
--       7 s       ranges behind c that are settled
--       8 t       attempts that the mark does not tell
--       9 group   whose mirror group shows the cursor to Redis's own tools
--      10 keep    milliseconds until an unused lease is garbage
--      11 k       the owner knows the steps up to this number to be carried
--                 out, see move.lua
--
-- result "1"  saved
--        "0"  the lease is another's, or this server has lost steps: nothing
--             was done
--        "2"  a later save of the same owner is there already
--
-- The owner knows the whole state and sends it whole, so a save may be repeated
-- after a lost answer.  One that was held up on an old connection arrives with
-- an old number and does nothing: the cursor never goes back.
--
-- A server that went back in time (a failover, a crash) may lack steps that the
-- owner saw carried out.  What it says is settled then is not where it went, so
-- the owner has to begin anew with what this server knows.
local lease = redis.call('HMGET', KEYS[1], 'o', 'e')
if lease[1] ~= ARGV[1] or lease[2] ~= ARGV[2] then
    return '0'
end
local cursor = redis.call('HMGET', KEYS[2], 'q', 'c', 'k', 'g')
if tonumber(cursor[3] or '0') < tonumber(ARGV[11]) then
    return '0'
end
if tonumber(cursor[1] or '0') >= tonumber(ARGV[3]) then
    return '2'
end

redis.call('PEXPIRE', KEYS[1], ARGV[10])
redis.call('HSET', KEYS[2], 'q', ARGV[3], 'c', ARGV[4], 'm', ARGV[5],
           'n', ARGV[6], 's', ARGV[7], 't', ARGV[8])
if cursor[2] ~= ARGV[4] and cursor[4] == '1' then -- see mirror.lua
    local set = redis.pcall('XGROUP', 'SETID', KEYS[3], ARGV[9], ARGV[4])
    if set.err then -- somebody destroyed it
        redis.pcall('XGROUP', 'CREATE', KEYS[3], ARGV[9], ARGV[4])
    end
end
return '1'

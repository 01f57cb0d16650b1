-- ids.lua: ids of entries, and what a stream says of itself, for scripts that
-- include it.

local LAST_SEQ = '18446744073709551615'

-- Is x behind y in the log?  What is no id is nowhere.
local function above(x, y)
    local xm, xs = string.match(x, '^(%d+)-(%d+)$')
    local ym, ys = string.match(y, '^(%d+)-(%d+)$')
    if not xm or not ym then
        return false
    end
    if xm ~= ym then
        return tonumber(xm) > tonumber(ym)
    end
    return tonumber(xs) > tonumber(ys)
end

-- A flat list of names and values as a table.
local function pairs_of(flat)
    local facts = {}
    for i = 1, #flat, 2 do
        facts[flat[i]] = flat[i + 1]
    end
    return facts
end

-- nil where there is no such stream, which XINFO would call an error.
local function stream_facts(key)
    if redis.call('EXISTS', key) == 0 then
        return nil
    end
    return pairs_of(redis.call('XINFO', 'STREAM', key))
end

-- mirror.lua: is the server's own group of a group's name leat's, or somebody's?
-- For scripts that include it.
--
-- leat shows where a group stands by a group of the server's own on the log.
-- Field `g` of the cursor: "1" leat made that one, "0" somebody has one of that
-- name there, which is neither moved nor destroyed.  A cursor of an earlier
-- version says nothing: then it is leat's if nobody reads by it and it stands
-- where the cursor does.  Of very many it is not read whose they are: any may be
-- somebody's.
local GROUPS = 10000 -- LEAT__GROUPS_MAX
local function groups_of(log)
    local flat = redis.call('XINFO', 'STREAM', log)
    for i = 1, #flat, 2 do
        if flat[i] == 'groups' then
            return flat[i + 1]
        end
    end
end

local function mirror_is(g, log, name, c)
    if g == '1' or redis.call('EXISTS', log) == 0 then
        return '1'
    end
    if groups_of(log) > GROUPS then
        return '0'
    end
    for _, flat in ipairs(redis.call('XINFO', 'GROUPS', log)) do
        local at = {}
        for i = 1, #flat, 2 do
            at[flat[i]] = flat[i + 1]
        end
        if at.name == name then
            local idle = at.consumers == 0 and at.pending == 0
            return not g and c and idle and at['last-delivered-id'] == c and
                   '1' or '0'
        end
    end
    return '1'
end

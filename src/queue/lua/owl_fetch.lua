-- owl_fetch.lua: a message as it is handed out, see queue/redowl_pack.h.
local function number(s)
    local n = tonumber(s) or 0
    return n >= 0 and n < 1e15 and n or 0
end

-- nil: there is none; false: somebody else wrote over it.
local function fetch(id)
    local m = try('HMGET', base .. 'msg:' .. id, 'body', 'attrs', 'rc',
                   'created_at_ms', 'reason')
    if m.err then
        return false
    elseif not m[1] and not m[4] then
        return nil
    end
    return { id = id, body = m[1] or '', attrs = m[2] or 'null',
             rc = number(m[3]), created = number(m[4]),
             reason = m[5] or '' }
end

local function put(out, r, m, dead)
    out[#out + 1] = r
    out[#out + 1] = string.format('%.0f %.0f %d %d\n', m.rc, m.created, #m.id,
                                  #m.attrs) .. m.id .. m.attrs .. m.body
    if dead then
        out[#out + 1] = m.reason
    end
end

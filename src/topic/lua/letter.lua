-- letter.lua: a dead letter is written, for scripts that include it.

local FIELDS = 7000 -- as in append.lua

-- As one, where there are more than Lua can pass on.
local function few(fields)
    if #fields > FIELDS then
        return {'@packed', cmsgpack.pack(fields)}
    end
    return fields
end

-- head is a list of names and values, see admin/dlq.h; fields are those of the
-- message, or nil.
local function write_letter(dlq, head, fields)
    fields = few(fields or {})
    head[#head + 1] = 'c'
    head[#head + 1] = #fields / 2
    for _, f in ipairs(fields) do
        head[#head + 1] = f
    end
    redis.call('XADD', dlq, '*', unpack(head))
end

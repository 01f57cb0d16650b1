-- beginning.lua: how an entry begins, for scripts that include it.

-- "$<length>\r\n<bytes>\r\n" of each name and value, as a client sends them, up to
-- `most` bytes.
local function beginning(fields, most)
    local text = ''
    for _, f in ipairs(fields) do
        text = text .. '$' .. #f .. '\r\n' .. string.sub(f, 1, most) .. '\r\n'
        if #text >= most then
            break
        end
    end
    return string.sub(text, 1, most)
end

-- owl_tell.lua: events of a redowl queue, for whoever listens; `how` as in
-- tell.lua, `queue` is its name: a prefix may hold colons, too.  Escaped as Go
-- does.
local far = sub(base, 1, -#queue - 2) .. 'events'
local told, deaf = {}, how == '0'
if how == '1' then
    local s = try('PUBSUB', 'NUMSUB', base .. 'events', far)
    deaf = not s.err and s[2] == 0 and s[4] == 0 and
        try('PUBSUB', 'NUMPAT') == 0
end

local function with_told(out)
    if #told > 0 then
        out[#out + 1] = told
    end
    return out
end

local short = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n',
                ['\r'] = '\\r', ['\t'] = '\\t' }
local function quote(s)
    if find(s, '[^%w._-]') then
        s = string.gsub(s, '[%z\1-\31"\\<>&]', function(c)
            return short[c] or string.format('\\u%04x', string.byte(c))
        end)
        s = string.gsub(s, '\226\128([\168\169])', function(c)
            return c == '\168' and '\\u2028' or '\\u2029'
        end)
    end
    return '"' .. s .. '"'
end

local function tell(kind, id, rc)
    if deaf then
        return
    end
    local e = '{"type":"' .. kind .. '","queue":' .. quote(queue) ..
        ',"message_id":' .. quote(id) .. ',"at_unix_ms":' .. now ..
        (rc and ',"extra":{"rc":"' .. rc .. '"}}' or '}')
    if how == '3' then
        told[#told + 1] = queue
        told[#told + 1] = e
        return
    end
    try('PUBLISH', base .. 'events', e)
    try('PUBLISH', far, e)
end

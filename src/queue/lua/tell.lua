-- tell.lua: events of a queue, for whoever listens.
--
-- How: '0' none, '1' where somebody hears them, '2' always (a cluster's node
-- does not know who listens at another), '3' by the caller, on another server:
-- then the answer ends by [queue, event, queue, event, ...].  A queue with
-- durable events has them in its log as well.  They come after the data; that
-- one cannot be told is no reason to fail.
local EVENTS_KEPT = 10000
local deaf, told = {}, {}

local function with_told(out)
    if #told > 0 then
        out[#out + 1] = told
    end
    return out
end

local function quote(s)
    if find(s, '[^%w._-]') then
        return cjson.encode(s)
    end
    return '"' .. s .. '"'
end

local function tell(how, log, kind, queue, id, rc)
    local mute = how == '0' or deaf[queue]
    if mute and not log then
        return
    end
    local e = '{"type":"' .. kind .. '","queue":"' .. queue ..
        '","message_id":' .. quote(id) .. ',"at_unix_ms":' .. now
    e = e .. (rc and ',"extra":{"rc":"' .. rc .. '"}}' or '}')
    if log then
        try('XADD', base .. queue .. ':log', 'MAXLEN', '~', EVENTS_KEPT, '*',
              'e', e)
    end
    if how == '3' then
        told[#told + 1] = queue
        told[#told + 1] = e
    end
    if mute or how == '3' then
        return
    end
    local near = try('PUBLISH', base .. queue .. ':events', e)
    local far = try('PUBLISH', sub(base, 1, find(base, ':{q/', 1, true)) ..
                      'events', e)
    if how == '1' and near == 0 and far == 0 then
        deaf[queue] = true
    end
end

-- search.lua: what stands nowhere in a queue that is too long to be read at once;
-- a part of repair.lua, some of it in each call.
--
--   lost         hash: queue, u (which of that name), phase, at (how far), body
--                (how far among the bodies), found (places counted), group
--                (whose list is being read)
--   lost:ids     set: ids of bodies that were found in no place yet
--   lost:groups  set: groups whose lists are to be read, and
--   lost:read    those that were
--   lost:busy    hash: id -> group that waits for it
--
-- First some ids are noted; then all places are gone through, and what is found
-- there is struck out; what is left then stands nowhere, and is restored.
-- Messages move meanwhile, and none is missed:
--   lists are read from their ends: what is pushed there is read twice, and what
--   leaves a list does so at its head;
--   due is read last, so what is received meanwhile is found there;
--   what comes back to a list, or is delayed, is struck out by whoever does so,
--   and a group that comes back to ready is noted: see back.lua.
-- What moved by a script of an earlier version may be given out twice.
local SEARCHED = { 'count', 'bodies', 'ready', 'busy', 'groups', 'dead', 'due',
                   'restore' }
local SUSPECTS, BYTES, AGAIN_MS = 50000, 4194304, 3600000
local LOST = base .. 'lost'
local IDS, GROUPS, READ, BUSY = LOST .. ':ids', LOST .. ':groups',
    LOST .. ':read', LOST .. ':busy'
local search -- nil: none is under way

local function note(w)
    call('HSET', LOST, 'queue', w.queue, 'u', w.u, 'phase', w.phase, 'at', w.at,
         'body', w.body, 'found', w.found, 'group', w.group)
end

local function end_search()
    call('UNLINK', LOST, IDS, GROUPS, READ, BUSY)
    search = nil
end

local function strike_out(ids)
    in_chunks(#ids, function(from, to)
        call('SREM', IDS, unpack(ids, from, to))
    end)
end

-- A part of a list, from its end; how many.
local function read_list(w, list, what)
    local got = call('LRANGE', list, -w.at - left, -w.at - 1)
    what(got)
    w.at = w.at + #got
    local last = #got < left
    left = left - #got
    return last
end

local function strike_out_entries(entries)
    local ids = {}
    for i = 1, #entries do
        local _, id = parts(entries[i], search.c.fifo)
        ids[i] = id
    end
    strike_out(ids)
end

local function note_groups(groups)
    for i = 1, #groups do
        if call('SISMEMBER', READ, groups[i]) == 0 then
            call('SADD', GROUPS, groups[i])
        end
    end
end

-- One page of a scan; true: it was the last.  No page is free.
local function go_through(w, page, what)
    what(page[2])
    left, w.at = left - STEP, page[1]
    return page[1] == '0'
end

local function due_page(w)
    return call('ZSCAN', KEYS[1], w.at, 'MATCH', '?/' .. w.queue .. '/*',
                'COUNT', STEP)
end

-- Each goes on with its phase; true: it is at its end.
local phases = {}

-- Is it worth while?  A queue with no more bodies than places has all of them.
-- Those of groups are not counted.
function phases.count(w)
    local last = w.c.fifo or go_through(w, due_page(w), function(page)
        w.found = w.found + #page / 2
    end)
    if last and not w.c.fifo and
        call('HLEN', w.key .. ':body') <= w.found +
        call('LLEN', w.key .. ':ready') + call('LLEN', w.key .. ':dead') then
        end_search()
    end
    return last
end

-- Bodies come with their ids, so the pages are small where those are large.
function phases.bodies(w)
    local count, bytes = 10, BYTES
    repeat
        local page = call('HSCAN', w.key .. ':body', w.body, 'COUNT', count)
        local ids = {}
        for i = 1, #page[2], 2 do
            ids[#ids + 1] = page[2][i]
            bytes = bytes - #page[2][i + 1] - 100
        end
        in_chunks(#ids, function(from, to)
            call('SADD', IDS, unpack(ids, from, to))
        end)
        w.body, left = page[1], left - count
        count = count * 2 < left and count * 2 or left
    until w.body == '0' or bytes <= 0 or left <= 0
    left = bytes <= 0 and 0 or left
    return w.body == '0' or call('SCARD', IDS) >= SUSPECTS
end

function phases.ready(w)
    return read_list(w, w.key .. ':ready',
                     w.c.fifo and note_groups or strike_out_entries)
end

function phases.busy(w)
    if not w.c.fifo then
        return true
    end
    local some = call('HSCAN', w.key .. ':busy', w.at, 'COUNT', STEP)
    return go_through(w, some, function(page)
        for i = 1, #page, 2 do
            note_groups({ page[i] })
            if call('SISMEMBER', IDS, page[i + 1]) == 1 then
                call('HSET', BUSY, page[i + 1], page[i])
            end
        end
    end)
end

function phases.groups(w)
    w.group = w.group ~= '' and w.group or call('SRANDMEMBER', GROUPS) or ''
    if w.group == '' then
        return true
    end
    left = left - 1
    local list = w.key .. ':g:' .. w.group
    if left > 0 and (type(try('LLEN', list)) ~= 'number' or
                     read_list(w, list, strike_out_entries)) then
        call('SADD', READ, w.group)
        call('SREM', GROUPS, w.group)
        w.group, w.at = '', 0
    end
end

function phases.dead(w)
    return read_list(w, w.key .. ':dead', strike_out_entries)
end

function phases.due(w)
    return go_through(w, due_page(w), function(page)
        local ids = {}
        for i = 1, #page, 2 do
            local _, _, id = id_of(page[i])
            ids[#ids + 1] = id
        end
        strike_out(ids)
    end)
end

function phases.restore(w)
    local ids = {}
    for _, id in ipairs(call('SPOP', IDS, REPAIRS)) do
        if call('HEXISTS', w.key .. ':body', id) == 1 then
            ids[#ids + 1] = id
        end
    end
    local groups = {}
    for _, id in ipairs(w.c.fifo and ids or {}) do
        local group = call('HGET', BUSY, id)
        groups[id] = group and
            call('HGET', w.key .. ':busy', group) == id and group or nil
    end
    if #ids > 0 then
        restore(w.queue, w.c, ids, groups)
        set_flying(w.key, nil)
    end
    found, left = found + #ids, left - REPAIRS
    return call('SCARD', IDS) == 0
end

-- All bodies, a lot at a time.
local function next_phase(w)
    for i = 1, #SEARCHED - 1 do
        if SEARCHED[i] == w.phase then
            w.phase, w.at = SEARCHED[i + 1], 0
            return
        end
    end
    call('UNLINK', IDS, GROUPS, READ, BUSY)
    w.phase, w.at = 'bodies', 0
    if w.body == '0' then
        end_search()
    end
end

-- What is under way, or nil; all that can hold something else is looked at.
local function open_search()
    local s = call('HMGET', LOST, 'queue', 'u', 'phase', 'at', 'body', 'found',
                   'group')
    call('SCARD', IDS)
    call('SCARD', GROUPS)
    call('SCARD', READ)
    call('HLEN', BUSY)
    if not s[1] then
        return
    end
    search = { queue = s[1], u = s[2], phase = s[3], at = s[4], body = s[5],
               found = tonumber(s[6]), group = s[7], key = base .. s[1], c = conf_of(s[1]) }
    call('HLEN', search.key .. ':body')
    call('HLEN', search.key .. ':stat')
end

local function which(queue)
    local u = call('HMGET', base .. queue .. ':conf', 'u', 'created')
    return u[1] or u[2] or ''
end

local function go_on()
    if search and (not search.c.sound or which(search.queue) ~= search.u or
                   not phases[search.phase]) then
        end_search()
    end
    while search and left > 0 do
        if phases[search.phase](search) and search then
            next_phase(search)
        end
    end
    if search then
        note(search)
    end
end

-- Begin one, unless the queue had one lately.
local function begin_search(queue)
    local key = base .. queue
    local last = tonumber(call('HGET', key .. ':stat', 'searched') or '0') or 0
    if search or (last <= now and now - last < AGAIN_MS) then
        return
    end
    call('HSET', key .. ':stat', 'searched', format('%.0f', now))
    search = { queue = queue, u = which(queue), phase = 'count', at = 0,
               body = 0, found = 0, group = '', key = key, c = conf_of(queue) }
    note(search)
end

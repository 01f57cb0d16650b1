-- lane.lua: was this call, ARGV[2] its lane and ARGV[3] its number, done before?
-- `was` is the value of the lane's key, "<number> <what it wrote down>".
--
-- A lane has one call under way.  A call that comes twice is done once; one that
-- comes after a later one is not done at all: `done` is nil, what was written
-- down, or 'late'.
--
-- A lane is remembered for 60 to 77 minutes.  To say so costs as much as to write
-- its value, so the frequent scripts end the value by `age`, which changes every
-- 1000 seconds, and keep the time to live of one that ends by the same.
local LANE_MS = '4600000'
local age = sub(t[1], 1, -4)
local done
if was then
    local p = find(was, ' ', 1, true)
    local last, number = sub(was, 1, p - 1), ARGV[3]
    if last == number then
        done = sub(was, p + 1)
    elseif p - 1 > #number or (p - 1 == #number and last > number) then
        done = 'late'
    end
end

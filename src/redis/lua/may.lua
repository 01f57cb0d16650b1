--#asks for redis.acl_check_cmd
-- may.lua: refuse before the first write what the server would refuse after it.
--
-- A script is not undone, so one whose user lacks a right to a later command of
-- its would end half way.  Redis tells of rights from 7.0 on.
local function may(key, commands)
    local check = redis.acl_check_cmd
    for command in string.gmatch(check and commands or '', '%u+') do
        if not check(command, key) then
            error({err = 'NOPERM this user may not use ' .. command ..
                         ' in a script'})
        end
    end
end

--#include "redis/clock.lua"
-- probe.lua: may we run scripts here, and what time is it there?
--
-- KEYS   none
-- ARGV   none
-- result the server's clock in microseconds, as a decimal string
--
-- Reads only.
return string.format('%.0f', now_us())

-- Counts entries where they are, without sending them.
-- KEYS: stream. ARGV: from, to, how many at most. Answers: the count, and the last id, or nil.
local rows = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
local last = rows[#rows]
return { #rows, last and last[1] or false }

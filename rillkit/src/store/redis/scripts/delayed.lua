-- Names messages that wait, by the time when they are due.
-- KEYS: delayed, bodies. ARGV: how many, then the time in ms and the id of the last one before.
-- Answers: how many wait in all, then id, time and fields of each.
local from = 0
if ARGV[2] then
  if redis.call('ZSCORE', KEYS[1], ARGV[3]) == ARGV[2] then
    from = redis.call('ZRANK', KEYS[1], ARGV[3]) + 1
  else
    from = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[2])
  end
end
local rows = redis.call('ZRANGE', KEYS[1], from, from + ARGV[1] - 1, 'WITHSCORES')
local waiting = {}
for i = 1, #rows, 2 do
  local body = redis.call('HGET', KEYS[2], rows[i])
  waiting[#waiting + 1] = { rows[i], rows[i + 1], body and cmsgpack.unpack(body)[4] or {} }
end
return { redis.call('ZCARD', KEYS[1]), waiting }

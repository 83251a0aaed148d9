-- Gives what is still this consumer's to another one.
-- KEYS: stream. ARGV: group, consumer, the other, then id, count, new count and idle time in ms of
-- each entry.
-- Answers for each: 1 done, 0 not pending, -1 somebody else's.
-- An entry that the stream no longer holds stays where it is: XCLAIM would drop it from the pending
-- list in silence, and whoever takes it from there finds it lost.
local answers = {}
for i = 4, #ARGV, 4 do
  local id = ARGV[i]
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if not row then
    answers[#answers + 1] = 0
  elseif row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[i + 1]) then
    answers[#answers + 1] = -1
  else
    if #redis.call('XRANGE', KEYS[1], id, id) > 0 then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, id,
        'IDLE', ARGV[i + 3], 'RETRYCOUNT', ARGV[i + 2], 'JUSTID')
    end
    answers[#answers + 1] = 1
  end
end
return answers

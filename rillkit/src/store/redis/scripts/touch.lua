-- Sets the idle time of what is still this consumer's to zero.
-- KEYS: stream. ARGV: group, consumer, then id and count of each entry.
-- Answers for each: 1 done, 0 not pending, -1 somebody else's.
-- An entry that the stream no longer holds is left alone: XCLAIM would drop it from the pending
-- list, and with it the fence of whoever has its fields in hand.
local answers = {}
for i = 3, #ARGV, 2 do
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
  if not row then
    answers[#answers + 1] = 0
  elseif row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[i + 1]) then
    answers[#answers + 1] = -1
  else
    if #redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i]) > 0 then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
    end
    answers[#answers + 1] = 1
  end
end
return answers

-- Acks what is still this consumer's.
-- KEYS: stream. ARGV: group, consumer, then id and count of each entry.
-- Answers for each: 1 done, 0 not pending, -1 somebody else's.
local answers = {}
for i = 3, #ARGV, 2 do
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)[1]
  if not row then
    answers[#answers + 1] = 0
  elseif row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[i + 1]) then
    answers[#answers + 1] = -1
  else
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
    answers[#answers + 1] = 1
  end
end
return answers

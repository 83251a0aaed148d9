-- Makes entries this consumer's.
-- KEYS: stream. ARGV: group, consumer, then id, owner, count, least idle time in ms and new count
-- of each entry.
-- Answers for each: its fields, 2 when the stream no longer holds it (it is acked), 0 not pending,
-- -1 somebody else's or not idle for long enough.
local answers = {}
for i = 3, #ARGV, 5 do
  local id = ARGV[i]
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if not row then
    answers[#answers + 1] = 0
  elseif row[2] ~= ARGV[i + 1] or row[4] ~= tonumber(ARGV[i + 2]) or row[3] < tonumber(ARGV[i + 3]) then
    answers[#answers + 1] = -1
  else
    local entry = redis.call('XRANGE', KEYS[1], id, id)[1]
    if entry then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'RETRYCOUNT', ARGV[i + 4], 'JUSTID')
      answers[#answers + 1] = entry[2]
    else
      redis.call('XACK', KEYS[1], ARGV[1], id)
      answers[#answers + 1] = 2
    end
  end
end
return answers

-- Marks keys as done and acks their entries, where they are still this consumer's. The order matters: a
-- script does not undo, so when the marker cannot be written, the entry must still be pending.
-- KEYS: stream, then the marker of each entry. ARGV: group, consumer, lifetime in ms, then id and count
-- of each entry.
-- Answers for each: 1 done, 0 not pending, -1 somebody else's.
local answers = {}
for i = 2, #KEYS do
  local id, count = ARGV[2 * i], ARGV[2 * i + 1]
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if not row then
    answers[#answers + 1] = 0
  elseif row[2] ~= ARGV[2] or row[4] ~= tonumber(count) then
    answers[#answers + 1] = -1
  else
    redis.call('SET', KEYS[i], 'done ' .. id, 'PX', ARGV[3])
    redis.call('XACK', KEYS[1], ARGV[1], id)
    answers[#answers + 1] = 1
  end
end
return answers

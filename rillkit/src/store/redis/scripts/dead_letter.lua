-- Adds a dead letter and acks its entry. The order matters: a script does not undo, so when the
-- letter cannot be added, the entry must still be pending.
-- KEYS: stream, DLQ. ARGV: group, consumer, id, count, then the letter's fields.
-- Answers: 1 done, 0 not pending, -1 somebody else's.
local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not row then
  return 0
end
if row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[4]) then
  return -1
end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 5))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
return 1

-- Moves a dead letter back to its stream.
-- KEYS: DLQ, stream. ARGV: the letter's id, then the fields it has on the stream.
-- Answers: the new id, or nil when the letter is gone.
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return false
end
local id = redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))
redis.call('XDEL', KEYS[1], ARGV[1])
return id

-- Marks a key as in progress for an entry that is still this consumer's, and touches the entry.
-- KEYS: stream, marker. ARGV: group, consumer, id, count, lease in ms.
-- Answers: 1 done, 0 not pending, -1 somebody else's, or the marker as it is: of another entry, or done.
-- An entry that the stream no longer holds is not touched: XCLAIM would drop it from the pending list.
local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not row then
  return 0
end
if row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[4]) then
  return -1
end
local marker, mine = redis.call('GET', KEYS[2]), 'run ' .. ARGV[3] .. ' '
if marker and string.sub(marker, 1, #mine) ~= mine then
  return marker
end
redis.call('SET', KEYS[2], mine .. ARGV[4] .. ' ' .. ARGV[2], 'PX', ARGV[5])
if #redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3]) > 0 then
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3], 'JUSTID')
end
return 1

-- Sets the idle time of what is still this consumer's to zero, and has its marker last another lease. In
-- this order: a server without memory refuses the first SET of a script, and the lease must not lapse.
-- KEYS: stream, then the marker of each entry. ARGV: group, consumer, lease in ms, then id and count of
-- each entry.
-- Answers for each: 1 done, 0 not pending, -1 somebody else's.
-- A marker that is another entry's, or done, is left alone, and so is an entry that the stream no longer
-- holds: XCLAIM would drop it from the pending list.
local answers = {}
for i = 2, #KEYS do
  local id, count = ARGV[2 * i], ARGV[2 * i + 1]
  local row = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if not row then
    answers[#answers + 1] = 0
  elseif row[2] ~= ARGV[2] or row[4] ~= tonumber(count) then
    answers[#answers + 1] = -1
  else
    if #redis.call('XRANGE', KEYS[1], id, id) > 0 then
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, id, 'JUSTID')
    end
    local marker, mine = redis.call('GET', KEYS[i]), 'run ' .. id .. ' '
    if not marker or string.sub(marker, 1, #mine) == mine then
      redis.call('SET', KEYS[i], mine .. count .. ' ' .. ARGV[2], 'PX', ARGV[3])
    end
    answers[#answers + 1] = 1
  end
end
return answers

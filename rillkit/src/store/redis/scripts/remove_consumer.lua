-- Removes a consumer that has nothing pending and has been idle for long enough. Together with the look: XGROUP DELCONSUMER would
-- drop what is pending, and nobody would ever be handed it again.
-- KEYS: stream. ARGV: group, consumer, least idle time in ms. Answers 1 when it was removed.
for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #row, 2 do
    consumer[row[i]] = row[i + 1]
  end
  if consumer.name == ARGV[2] then
    if consumer.pending > 0 or consumer.idle < tonumber(ARGV[3]) then
      return 0
    end
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
    return 1
  end
end
return 0

-- Forgets what is kept about entries that are no longer pending. Together with the look: one that is
-- pending again a moment later would lose its history.
-- KEYS: stream, history. ARGV: group, where to go on from, about how many rows to look at.
-- Answers: where to go on from.
local page = redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
for i = 1, #page[2], 2 do
  local id = string.match(page[2][i], '^%d+%-%d+')
  if id and not redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1] then
    redis.call('HDEL', KEYS[2], page[2][i])
  end
end
return page[1]

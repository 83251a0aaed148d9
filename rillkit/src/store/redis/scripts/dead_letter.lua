-- Adds a dead letter and acks its entry. The order matters: a script does not undo, so when the
-- letter cannot be added, the entry must still be pending.
-- KEYS: stream, DLQ, and the history if rows of it go along. ARGV: group, consumer, id, count, how
-- many rows go along and their names, then the letter's fields.
-- The rows go into the letter's last value, a JSON list, in front of what it holds. A history that
-- cannot be read or changed does not keep the letter back.
-- Answers: 1 done, 0 not pending, -1 somebody else's.
local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not row then
  return 0
end
if row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[4]) then
  return -1
end
local last = 5 + tonumber(ARGV[5])
if last > 5 then
  local list = {}
  local kept = redis.pcall('HMGET', KEYS[3], unpack(ARGV, 6, last))
  for i = 1, #kept do
    if kept[i] then
      list[#list + 1] = kept[i]
    end
  end
  if ARGV[#ARGV] ~= '[]' then
    list[#list + 1] = string.sub(ARGV[#ARGV], 2, -2)
  end
  ARGV[#ARGV] = '[' .. table.concat(list, ',') .. ']'
end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, last + 1))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
if last > 5 then
  redis.pcall('HDEL', KEYS[3], unpack(ARGV, 6, last))
end
return 1

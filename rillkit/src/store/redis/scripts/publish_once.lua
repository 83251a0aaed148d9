-- Adds an entry, unless this was done before. The marker goes first, and when the entry cannot be
-- added it goes again: a script does not undo, and an entry without its marker would come twice.
-- KEYS: stream, marker. ARGV: the marker's lifetime in ms, then what XADD is given: a trim, the id
-- and the fields.
-- Answers: the entry's id, the one from before where there is one.
local known = redis.call('GET', KEYS[2])
if known and known ~= '' then
  return known
end
redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
local added = redis.pcall('XADD', KEYS[1], unpack(ARGV, 2))
if type(added) == 'table' then
  redis.call('SET', KEYS[2], '', 'PX', 1)
  return added
end
redis.call('SET', KEYS[2], added, 'PX', ARGV[1])
return added

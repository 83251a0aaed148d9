-- Removes a marker that says that this very delivery is in progress.
-- KEYS: marker. ARGV: what it says then. Answers 1 when it was removed.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0

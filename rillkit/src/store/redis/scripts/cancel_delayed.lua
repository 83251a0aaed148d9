-- Takes a message away that waits. KEYS: delayed, bodies. ARGV: id. Answers 1 when it did.
local waited = redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return waited

-- Acks without a fence.
-- KEYS: stream. ARGV: group, then ids.
redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))

-- What stands for `redis.call('XACK', KEYS[1], ARGV[1], ..)` where acked entries are deleted.
local function ack_and_delete(...)
  redis.call('XACK', KEYS[1], ARGV[1], ...)
  redis.call('XDEL', KEYS[1], ...)
end

"""What a client has to know to share a group with RillKit: names, one formula, two moves."""

STREAM, GROUP, DLQ = "jobs", "workers", "jobs-dlq"
MAX_RETRIES, CLAIM_IDLE_MS, BACKOFF, MAX_BACKOFF_MS = 2, 600, 2.0, 900_000


def delay(deliveries):
    """How long a failed delivery of this number waits, in milliseconds."""
    return int(min(CLAIM_IDLE_MS * BACKOFF ** (deliveries - 1), MAX_BACKOFF_MS))


# Moves an entry to the DLQ while it is still pending for this consumer with this count.
# KEYS: stream, DLQ. ARGV: group, consumer, id, count, then the letter's fields.
BURY = """
local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not row or row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[4]) then
  return 0
end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 5))
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
"""

# Moves a letter back to its stream.
# KEYS: DLQ, stream. ARGV: the letter's id, then the fields it has on the stream.
REPLAY = """
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then
  return 0
end
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))
return redis.call('XDEL', KEYS[1], ARGV[1])
"""


def flat(fields):
    """Names and values in turn."""
    return [part for field in fields.items() for part in field]

-- Keeps a message until it is due. One of that id that waits, or was added, stays as it is.
-- KEYS: delayed, bodies, marker. ARGV: id, 'in' or 'at', the time in ms, the marker's lifetime in ms
-- (0 for none), the age in ms that a trim keeps (-1 for none), how many words another trim has,
-- these words, then the fields.
-- Answers: in how many ms it is due, nil when it was added before.
local known = redis.call('GET', KEYS[3])
if known and known ~= '' then
  return false
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if due then
  return tonumber(due) - now
end
due = tonumber(ARGV[3])
if ARGV[2] == 'in' then
  due = due + now
end
local trim, fields = {}, {}
local first = 7 + ARGV[6]
for i = 7, first - 1 do
  trim[#trim + 1] = ARGV[i]
end
for i = first, #ARGV do
  fields[#fields + 1] = ARGV[i]
end
local body = { tonumber(ARGV[4]), tonumber(ARGV[5]), trim, fields }
redis.call('HSET', KEYS[2], ARGV[1], cmsgpack.pack(body))
redis.call('ZADD', KEYS[1], due, ARGV[1])
return due - now

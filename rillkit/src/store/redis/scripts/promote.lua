-- Adds the messages of these ids that are due, and names those that are due next.
-- KEYS: stream, delayed, bodies, then each id's marker. ARGV: how many to name, how far ahead in ms,
-- then the ids.
-- Answers: how many it added, the ids of those whose body is lost, then id and ms of those next.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local added, lost = 0, {}
if #ARGV > 2 then
  -- A script does not undo: what may not be taken away would be added again and again.
  redis.call('ZREM', KEYS[2], '')
  redis.call('HDEL', KEYS[3], '')
end
for i = 3, #ARGV do
  local id, marker = ARGV[i], KEYS[i + 1]
  local due = redis.call('ZSCORE', KEYS[2], id)
  if due and tonumber(due) <= now then
    local body = redis.call('HGET', KEYS[3], id)
    local lifetime, entry = 0, nil
    if body then
      local age, add, fields
      lifetime, age, add, fields = unpack(cmsgpack.unpack(body))
      local known = lifetime > 0 and redis.call('GET', marker)
      if not known or known == '' then
        if age >= 0 then
          add = { 'MINID', '~', string.format('%.0f', math.max(now - age, 0)) }
        end
        add[#add + 1] = '*'
        for j = 1, #fields do
          add[#add + 1] = fields[j]
        end
        entry = redis.call('XADD', KEYS[1], unpack(add))
        added = added + 1
      end
    else
      lost[#lost + 1] = id
    end
    redis.call('ZREM', KEYS[2], id)
    redis.call('HDEL', KEYS[3], id)
    if entry and lifetime > 0 then
      redis.call('SET', marker, entry, 'PX', lifetime)
    end
  end
end
local upcoming = redis.call('ZRANGE', KEYS[2], '-inf', now + ARGV[2], 'BYSCORE', 'LIMIT', 0, ARGV[1], 'WITHSCORES')
for i = 2, #upcoming, 2 do
  upcoming[i] = math.max(upcoming[i] - now, 0)
end
return { added, lost, upcoming }

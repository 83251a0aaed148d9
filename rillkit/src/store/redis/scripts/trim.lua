-- Removes entries from the old end of a stream, never one that a group has not read or has pending.
-- KEYS: stream. ARGV: how many to keep, least age in ms or -1, how many to remove at most (0 only
-- looks), 1 to go on where there is no group, then the groups that do not count.
-- Answers: removed, left, the id below which everything may go (nil: nothing may), then for each
-- group its name, the last id it was handed, how many are pending, the lowest of these or nil,
-- whether anything is unread, and how much, or nil when the server does not know.
local function parts(id)
  return string.match(id, '^(%d+)-(%d+)$')
end

-- As text: ids have more digits than a number of Lua keeps.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function below(a, b)
  local ams, aseq = parts(a)
  local bms, bseq = parts(b)
  if ams == bms then
    return less(aseq, bseq)
  end
  return less(ams, bms)
end

-- The next id, or the same where Lua cannot count on: then one entry more stays.
local function behind(id)
  local ms, seq = parts(id)
  if #seq > 15 then
    return id
  end
  return ms .. '-' .. string.format('%.0f', tonumber(seq) + 1)
end

local length = redis.call('XLEN', KEYS[1])
if length == 0 then
  return { 0, 0, false, {} }
end
local ignored = {}
for i = 5, #ARGV do
  ignored[ARGV[i]] = true
end
local groups, floor = {}, false
for _, row in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #row, 2 do
    group[row[i]] = row[i + 1]
  end
  if not ignored[group.name] then
    local from = behind(group['last-delivered-id'])
    local unread = #redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)
    local first = redis.call('XPENDING', KEYS[1], group.name, '-', '+', 1)[1]
    if first and below(first[1], from) then
      from = first[1]
    end
    if not floor or below(from, floor) then
      floor = from
    end
    groups[#groups + 1] = { group.name, group['last-delivered-id'], group.pending,
      first and first[1] or false, unread, group.lag or false }
  end
end
if #groups == 0 and ARGV[4] == '1' then
  floor = '18446744073709551615-18446744073709551615'
end
if floor and tonumber(ARGV[2]) >= 0 then
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local oldest = string.format('%.0f-0', math.max(0, now - tonumber(ARGV[2])))
  if below(oldest, floor) then
    floor = oldest
  end
end
local removed, excess = 0, length - tonumber(ARGV[1])
local most = math.min(excess, tonumber(ARGV[3]))
if floor and floor ~= '0-0' and most > 0 then
  removed = redis.call('XTRIM', KEYS[1], 'MINID', '~', floor, 'LIMIT', most)
  if removed == 0 then
    -- No whole node may go: what is left to remove is in the first one.
    local few = math.min(most, 100)
    if #redis.call('XRANGE', KEYS[1], '-', '(' .. floor, 'COUNT', few) == few then
      removed = redis.call('XTRIM', KEYS[1], 'MAXLEN', '=', length - few)
    else
      removed = redis.call('XTRIM', KEYS[1], 'MINID', '=', floor)
    end
  end
end
return { removed, length - removed, floor, groups }

-- Runs commands and acks their entry, in one step. A script does not undo: what can be looked at is
-- looked at before the first command, and a command that fails all the same stops the rest.
-- KEYS: stream, DLQ, then the keys of the commands.
-- ARGV: group, consumer, id, count; how many checks, commands, and strings of a letter there are; the
-- place of the error among those strings, and what it ends with; then
--   for each check: the place of its command, its key, the type this must have if it is there,
--     and what is answered if it has another;
--   for each command: how many strings it has, these, and what the letter's error begins with if it
--     is this one that fails;
--   the letter.
-- Answers: 1 done, 0 not pending, -1 somebody else's; {place, error} of a command that was refused
-- before anything was done; {place, error, 1} of one that failed behind others, which stand: the
-- letter is in the DLQ and the entry acked; {place, error, 0} if the letter could not be added.
local row = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1)[1]
if not row then
  return 0
end
if row[2] ~= ARGV[2] or row[4] ~= tonumber(ARGV[4]) then
  return -1
end
local checks, commands, letter = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local at = 10
for _ = 1, checks do
  local found = redis.call('TYPE', ARGV[at + 1]).ok
  if found ~= 'none' and found ~= ARGV[at + 2] then
    return {tonumber(ARGV[at]), ARGV[at + 3]}
  end
  at = at + 4
end
if letter > 0 then
  local found = redis.call('TYPE', KEYS[2]).ok
  if found ~= 'none' and found ~= 'stream' then
    return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' is no stream')
  end
end
-- Changes nothing, since whoever has an entry pending is there. A server that takes no writes, for
-- want of memory or as a replica, says so here; it looks no more once a script has written.
redis.call('XGROUP', 'CREATECONSUMER', KEYS[1], ARGV[1], ARGV[2])
for place = 1, commands do
  local first, behind = at + 1, at + 1 + ARGV[at]
  local answer = redis.pcall(unpack(ARGV, first, behind - 1))
  if type(answer) == 'table' and answer.err then
    if place == 1 then
      return {place, answer.err}
    end
    local start = #ARGV - letter + 1
    ARGV[start + ARGV[8] - 1] = ARGV[behind] .. answer.err .. ARGV[9]
    local added = redis.pcall('XADD', KEYS[2], '*', unpack(ARGV, start))
    if type(added) == 'table' and added.err then
      return {place, answer.err, 0}
    end
    redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
    return {place, answer.err, 1}
  end
  at = behind + 1
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
return 1

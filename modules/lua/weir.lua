#!lua name=weir
-- SPDX-License-Identifier: BSD-2-Clause
-- Copyright (c) 2026 the weir authors
--
-- A Redis Functions library: the rate limiter for servers that cannot load modules. `FUNCTION LOAD`
-- loads this file as it is. Without its first line it is a script for EVALSHA, and ARGV[1] is the
-- name of the function to call.
-- docs/policy.md and docs/algorithms.md define the decisions. docs/redis-functions.md documents the
-- functions and the layout of keys.
--
-- All numbers are doubles and contain whole numbers below 2^53. Times are whole microseconds since
-- the epoch. A policy whose numbers do not fit is an error. The library is one file because a
-- server loads a library as one text.

-- While a library is loading, only redis.register_function() is available. The first call of a
-- function therefore sets these variables.
local floor, ceil, huge, max, min, format, sub, match, find, concat

local function bind()
  floor, ceil, huge, max, min = math.floor, math.ceil, math.huge, math.max, math.min
  format, sub, match, find = string.format, string.sub, string.match, string.find
  concat = table.concat
end

local VERSION = 6                -- the version of this library
local FORMAT = 'weir1'           -- the version of stored states, and the first word of each
local LIMIT_MAX = 2147483647     -- the largest limit, burst, capacity and cost
local RATE_MAX = 1099511627776   -- 2^40: the largest N of a rate
local SPAN_US, SPAN_NS = 1152921504606846, 975 -- the longest period: 2^60 - 1 ns
local EXACT = 9007199254740992   -- 2^53: doubles are exact below this
local MINUTE_US, DAY_US = 60000000, 86400000000
local TIME_MAX = 6626880000000000 -- the year 2180, in microseconds
local LAYERS_MAX, TEXT_MAX, SLICES_MAX, ALL_MAX = 8, 1023, 65536, 16
local CACHE_MAX = 256            -- parsed policies
local PRUNE_MAX = 256            -- the most expired entries that a charge deletes
local REFUND_PRUNE_MAX = 8192    -- the most expired entries that a refund deletes
local TOTAL = 1125899906842624   -- 2^50: running totals are modulo this

-- ---- the server ---------------------------------------------------------------------------------

-- The only clock. Tests replace it, and expire(). Some servers refuse TIME to functions and scripts:
-- then the time is the caller's, if it sent any. Returns the time, or nil and an error.
local function now_us(of_caller)
  local t = redis.pcall('TIME')
  if not t.err then
    return t[1] * 1000000 + t[2]
  elseif of_caller then
    return of_caller
  end
  return nil, { err = 'NOTIME the server refuses TIME to functions and scripts: ' .. t.err }
end

-- Returns the expiry of a key with full quota from until_us on, in milliseconds, rounded up. It is
-- limited to what the server accepts, because a damaged state can contain a larger time.
local function expire_ms(until_us)
  return format('%.0f', max(1, min(EXACT, ceil(until_us / 1000))))
end

local function expire(key, until_us)
  redis.call('PEXPIREAT', key, expire_ms(until_us))
end

-- SET supports PXAT since 6.2, and a script can read the version of the server since 7.0.
local function set(key, value, until_us)
  if redis.REDIS_VERSION_NUM then
    redis.call('SET', key, value, 'PXAT', expire_ms(until_us))
  else
    redis.call('SET', key, value)
    expire(key, until_us)
  end
end

-- ---- exact arithmetic ---------------------------------------------------------------------------

local function whole(x)
  return format('%.0f', x)
end

-- Returns a*x - b*y exactly. Its absolute value must be below 2^52, a and b below 2^33, x and y
-- below 2^51.
local function difference(a, x, b, y)
  local x0, y0 = x % 131072, y % 131072
  local x1, y1 = (x - x0) / 131072, (y - y0) / 131072
  local x2, y2 = floor(x1 / 131072), floor(y1 / 131072)
  x1, y1 = x1 % 131072, y1 % 131072
  return ((a * x2 - b * y2) * 131072 + (a * x1 - b * y1)) * 131072 + (a * x0 - b * y0)
end

-- Returns floor(a*x / d) and the remainder. a must be below 2^31, x and d below 2^51. The quotient
-- or d must be below 2^31, and the quotient below 2^51.
local function mul_div(a, x, d)
  local product = a * x
  local q = floor(product / d)
  if product < EXACT then
    return q, product - q * d
  end
  local rest
  if d < 4294967296 then
    rest = difference(a, x, d, q)
  else
    rest = difference(a, x, q, d)
  end
  while rest < 0 do
    q, rest = q - 1, rest + d
  end
  while rest >= d do
    q, rest = q + 1, rest - d
  end
  return q, rest
end

local function gcd(a, b)
  while b > 0 do
    a, b = b, a % b
  end
  return a
end

-- Returns a duration of q + r/from.num microseconds, times the ratio of two intervals, rounded up to a
-- tick of 1/to.num. An interval is whole + part/num microseconds. Exact for all numbers below 2^53, and
-- slow: only for a key whose limit has changed.
local rescale
do
  -- Natural numbers of any size are lists of digits to the base 2^24, the lowest first.
  local DIGIT = 16777216

  local function digits(n)
    local out = {}
    while n > 0 do
      out[#out + 1], n = n % DIGIT, floor(n / DIGIT)
    end
    return out
  end

  -- Returns x*y + more. `more` must not have more digits than y.
  local function product(x, y, more)
    local out = {}
    for i = 1, #x + #y + 1 do
      out[i] = more and more[i] or 0
    end
    for i = 1, #x do
      local carry = 0
      for j = i, i + #y do
        local v = out[j] + x[i] * (y[j - i + 1] or 0) + carry
        out[j], carry = v % DIGIT, floor(v / DIGIT)
      end
    end
    return out
  end

  local function at_least(x, y, len)
    for i = len, 1, -1 do
      if x[i] ~= (y[i] or 0) then
        return x[i] > (y[i] or 0)
      end
    end
    return true
  end

  -- Returns floor(x / d) and the remainder, bit by bit.
  local function divide(x, d)
    local q, rest, len = {}, {}, #d + 1
    for i = 1, len do
      rest[i] = 0
    end
    for i = #x, 1, -1 do
      q[i] = 0
      for bit = 23, 0, -1 do
        local carry = floor(x[i] / 2 ^ bit) % 2
        for k = 1, len do
          local v = 2 * rest[k] + carry
          rest[k], carry = v % DIGIT, floor(v / DIGIT)
        end
        if at_least(rest, d, len) then
          for k = 1, len do
            local v = rest[k] - (d[k] or 0) - carry
            rest[k], carry = v % DIGIT, v < 0 and 1 or 0
          end
          q[i] = q[i] + 2 ^ bit
        end
      end
    end
    return q, rest
  end

  -- Returns a number, which is exact below 2^53.
  local function value(x)
    local n = 0
    for i = #x, 1, -1 do
      n = n * DIGIT + x[i]
    end
    return n
  end

  -- What one unit takes, in ticks of 1/num microseconds.
  local function unit_of(t)
    return product(digits(t.whole), digits(t.num), digits(t.part))
  end

  function rescale(q, r, from, to)
    local ticks = product(digits(q), digits(from.num), digits(r))
    local n, rest = divide(product(ticks, unit_of(to)), unit_of(from))
    local us, part = divide(n, digits(to.num))
    q, r = value(us), value(part) + (value(rest) > 0 and 1 or 0)
    if r == to.num then
      return q + 1, 0
    end
    return q, r
  end
end

-- ---- what is true of each algorithm -------------------------------------------------------------

-- The table of facts, as in src/core/algorithm.h. No other code compares names of algorithms.
--   form       how a key is stored under a policy of this one layer: 'string', 'zset' or 'hash'
--   refunds    REFUND is supported, unless the layer is count-denied
--   delays     an allowed request may have to wait
--   holds      units are held until a lease ends, or until a refund
--   limit_first    in a policy text, the limit comes before the rate
--   limit_word     in a policy text, the limit comes after the rate and this word. With neither of
--                  them, the number of the rate is the limit
--   blocks     it begins when another layer denies; its limit is the lowest of the other layers
local FACTS = {
  { name = 'gcra', form = 'string', refunds = true, limit_word = 'burst' },
  { name = 'token-bucket', form = 'hash', refunds = true, limit_first = true },
  { name = 'leaky-bucket', form = 'hash', refunds = true, limit_word = 'capacity' },
  { name = 'leaky-queue', form = 'hash', delays = true, limit_word = 'depth' },
  { name = 'fixed-window', form = 'string', refunds = true },
  { name = 'sliding-log', form = 'zset', refunds = true },
  { name = 'sliding-counter', form = 'hash', refunds = true },
  { name = 'sliding-slices', form = 'hash', refunds = true },
  { name = 'block', form = 'hash', refunds = true, blocks = true },
  { name = 'concurrent', form = 'zset', refunds = true, holds = true },
}

local function can_refund(l)
  return l.facts.refunds and not l.count_denied
end

-- ---- windows ------------------------------------------------------------------------------------

local function leap(year)
  return year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)
end

-- Returns the first day of a year, in days since 1970-01-01.
local function year_start(year)
  local y = year - 1
  return y * 365 + floor(y / 4) - floor(y / 100) + floor(y / 400) - 719162
end

local MONTH_DAYS = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

local function month_days(year, month)
  return MONTH_DAYS[month] + ((month == 2 and leap(year)) and 1 or 0)
end

-- Returns the day on which the window of a month begins. Months count from January 1970.
local function month_first(n, anchor)
  local year, month = 1970 + floor(n / 12), n % 12 + 1
  local first = year_start(year)
  for before = 1, month - 1 do
    first = first + month_days(year, before)
  end
  return first + min(anchor, month_days(year, month) - 1)
end

-- Returns the day on which the window of a year begins. Without a leap day, the anchor of the leap
-- day means the day before, and so do later anchors.
local function year_first(year, anchor)
  return year_start(year) + anchor - ((anchor >= 59 and not leap(year)) and 1 or 0)
end

-- Returns the window that contains `day`. Window n is not after it.
local function dates_from(first, n, day, anchor)
  while first(n + 1, anchor) <= day do
    n = n + 1
  end
  return first(n, anchor), first(n + 1, anchor)
end

-- Each returns the first day of the UTC window that contains `day`, and the day after its last.
-- `anchor` is where windows begin: minutes after midnight, or days after Monday, after the 1st, or
-- after January 1st of a leap year.
local DATES = {
  day = function(day)
    return day, day + 1
  end,
  week = function(day, anchor) -- 1970-01-01 was a Thursday
    local first = day - (day + 3 - anchor) % 7
    return first, first + 7
  end,
  month = function(day, anchor)
    return dates_from(month_first, floor(day / 30.5) - 2, day, anchor)
  end,
  year = function(day, anchor)
    return dates_from(year_first, 1969 + floor(day / 366), day, anchor)
  end,
}

-- A server has no time zone data, so the caller passes the bounds of three windows for each layer
-- with a zone. Returns the window of layer L that contains t, or nil.
local function caller_window(L, t, bounds)
  local at = L.zone_index * 4
  for i = at + 1, at + 3 do
    if bounds[i] <= t and t < bounds[i + 1] then
      return bounds[i], bounds[i + 1]
    end
  end
end

-- Returns the window [start, end) that contains t.
local function window(L, t, bounds)
  if L.zone then
    return caller_window(L, t, bounds)
  elseif L.calendar then
    local later = L.calendar == 'day' and L.anchor * MINUTE_US or 0
    local first, after = DATES[L.calendar](floor((t - later) / DAY_US), L.anchor)
    return max(0, first * DAY_US + later), after * DAY_US + later
  end
  local start = t - t % L.period
  return start, start + L.period
end

-- ---- the algorithms -----------------------------------------------------------------------------

-- Each is a table with these members. L is a layer and s its state.
--   fields        the names of the hash fields of a state
--   read          sets s from the values of the fields; returns false if they are invalid. Without
--                 values it sets the state of a new key. Sets s.from if the state is that of another
--                 limit and has to be converted
--   write         returns the values of the fields
--   look          moves s to `now`, and converts it; called once, before the functions below.
--                 Returns false if the windows of the request do not contain `now`
--   due           the time from which a cost of at most L.limit is allowed, rounded up to 1 us
--   early         how many ns too late `due` is, 0..999. May be nil: 0
--   fresh         the time from which s decides like a new state. May be nil: due of the limit
--   left          the largest cost that is allowed now
--   charge, deny  change s: an allowed charge, a denial that is counted
--   refund        changes s; returns whether it did

-- GCRA. The state is the theoretical arrival time: s.q + s.r/L.num microseconds. The interval T of
-- one unit is L.whole + L.part/L.num microseconds.
local rate = {}

-- Returns the interval of one unit of a layer if its rate is n: whole, part and num as above.
local function interval(L, n)
  local us = L.period
  if L.period_ns > 0 then
    us, n = us * 1000 + L.period_ns, n * 1000
  end
  local common = gcd(us, n)
  us, n = us / common, n / common
  local whole_us = floor(us / n)
  return { whole = whole_us, part = us - whole_us * n, num = n }
end

local function rate_over(s, now)
  return s.q < now or (s.q == now and s.r == 0)
end

-- Keeps the units that were used under the interval s.from. The state is at most 36.5 years ahead.
function rate.look(L, s, now)
  if s.from and rate_over(s, now) then
    s.q, s.r = now, 0
  elseif s.from then
    local q, r = rescale(s.q - now, s.r, s.from, L)
    if q > SPAN_US then
      q, r = SPAN_US + 1, 0
    end
    s.q, s.r = now + q, r
  end
  return true
end

-- Returns n*T, in whole microseconds and a numerator over L.num.
local function cost_of(L, n)
  if L.part == 0 then
    return n * L.whole, 0
  end
  local q, r = mul_div(n, L.part, L.num)
  return n * L.whole + q, r
end

function rate.due(L, s, _, cost)
  local q, r = cost_of(L, L.limit - cost)
  return s.q - q + (s.r > r and 1 or 0)
end

function rate.early(L, s, cost)
  local _, r = cost_of(L, L.limit - cost)
  return (mul_div(1000, (r - s.r) % L.num, L.num))
end

function rate.left(L, s, now)
  if rate_over(s, now) then
    return L.limit
  elseif L.num == 1 then
    return max(0, L.limit - ceil((s.q - now) / L.whole))
  end
  local n = L.limit - (s.q - now + s.r / L.num) / (L.whole + L.part / L.num)
  n = max(0, min(L.limit, floor(n))) -- off by one at most
  while n < L.limit and rate.due(L, s, now, n + 1) <= now do
    n = n + 1
  end
  while n > 0 and rate.due(L, s, now, n) > now do
    n = n - 1
  end
  return n
end

function rate.charge(L, s, now, cost)
  if rate_over(s, now) then
    s.q, s.r = now, 0
  end
  local q, r = cost_of(L, cost)
  s.q, s.r = s.q + q, s.r + r
  if s.r >= L.num then
    s.q, s.r = s.q + 1, s.r - L.num
  end
end

function rate.refund(L, s, now, cost)
  if rate_over(s, now) then
    return false
  end
  local q, r = cost_of(L, cost)
  s.q, s.r = s.q - q, s.r - r
  if s.r < 0 then
    s.q, s.r = s.q - 1, s.r + L.num
  end
  if rate_over(s, now) then
    s.q, s.r = now, 0
  end
  return true
end

-- The backlog beyond the first L.nodelay units, rounded up.
function rate.delay(L, s, now)
  local q, r = cost_of(L, L.nodelay)
  return max(0, s.q - now - q + (s.r > r and 1 or 0))
end

-- Parses a stored whole number of at most `most`. Returns nil if it is anything else.
local function stored(text, most)
  local n = text and #text <= 16 and match(text, '^%d+$') and tonumber(text)
  return n and n <= (most or EXACT) and n or nil
end

-- Parses the number of units per period, with which a state was written.
local function read_rate(L, s, text)
  local n = stored(text, RATE_MAX)
  if n and n > 0 and n ~= L.rate then
    s.from = interval(L, n)
  end
  return n and n > 0
end

local gcra = { fields = { 'tat', 'rate' }, look = rate.look, due = rate.due,
  early = rate.early, left = rate.left, charge = rate.charge, refund = rate.refund }

-- Parses "q" or "q:r". r must be below num: rate.left() relies on it.
local function read_parts(num, text)
  local q, r = match(text, '^(%d+):(%d+)$')
  if q then
    return stored(q), stored(r, num - 1)
  end
  return stored(text), 0
end

local function write_parts(q, r)
  return r == 0 and whole(q) or whole(q) .. ':' .. whole(r)
end

function gcra.read(L, s, tat, n)
  s.q, s.r = 0, 0
  if tat then
    if not read_rate(L, s, n) then
      return false
    end
    s.q, s.r = read_parts((s.from or L).num, tat)
  end
  return s.q and s.r
end

function gcra.write(L, s)
  return write_parts(s.q, s.r), whole(L.rate)
end

-- Buckets other than gcra. The state is that of GCRA, stored as the time of the last charge and the
-- level of the bucket after it. The level is the time in which the bucket drains.
local bucket = { fields = { 'time', 'level', 'rate' }, look = rate.look, due = rate.due, early = rate.early,
  left = rate.left, charge = rate.charge, refund = rate.refund }

function bucket.read(L, s, time, level, n)
  s.q, s.r = 0, 0
  if time and level then
    if not read_rate(L, s, n) then
      return false
    end
    local t, q, r = stored(time), read_parts((s.from or L).num, level)
    if not t or not q or not r then
      return false
    end
    s.q, s.r = t + q, r
  end
  return not time == not level
end

function bucket.write(L, s, now)
  return whole(now), write_parts(s.q - now, s.r), whole(L.rate)
end

-- A bucket that refills in steps. The state is a step and how many tokens the bucket lacked then.
local steps = { fields = { 'step', 'level', 'rate' } }

function steps.read(L, s, step, level, n)
  s.step, s.level, n = stored(step or '0'), stored(level or '0'), stored(n or whole(L.rate), RATE_MAX)
  s.from = n ~= L.rate and n or nil
  return s.step and s.level and n
end

function steps.write(L, s)
  return whole(s.step), whole(s.level), whole(L.rate)
end

local function steps_lack(s, per_step)
  return max(0, s.level - per_step * (s.now_step - s.step))
end

function steps.look(L, s, now)
  s.now_step = floor(now / L.period)
  if s.from then
    s.step, s.level = s.now_step, steps_lack(s, s.from)
  end
  return true
end

function steps.due(L, s, _, cost)
  return (s.step + ceil((s.level + cost - L.limit) / L.rate)) * L.period
end

function steps.left(L, s)
  return max(0, L.limit - steps_lack(s, L.rate))
end

function steps.charge(L, s, _, cost)
  if s.now_step >= s.step then
    s.level, s.step = steps_lack(s, L.rate), s.now_step
  end
  s.level = s.level + cost
end

function steps.refund(L, s, _, cost)
  if s.now_step >= s.step then
    local lack = steps_lack(s, L.rate)
    if lack == 0 then
      return false
    end
    s.step, s.level = s.now_step, max(0, lack - cost)
  elseif s.level >= cost then
    s.level = s.level - cost
  elseif L.rate * (s.step - s.now_step) <= cost - s.level then
    s.step, s.level = s.now_step, 0
  else
    local back = ceil((cost - s.level) / L.rate)
    s.step, s.level = s.step - back, s.level - cost + L.rate * back
  end
  return true
end

-- fixed-window. The state is the start of a window and its count.
local fixed = { fields = { 'start', 'count' } }

function fixed.read(_, s, start, count)
  s.start, s.count = stored(start or '0'), stored(count or '0', LIMIT_MAX)
  return s.start and s.count
end

function fixed.write(_, s)
  return whole(s.start), whole(s.count)
end

function fixed.look(L, s, now, bounds)
  local at = max(now, s.start)
  if not L.from_first then
    local start, after = window(L, at, bounds)
    if not start or (L.zone and not caller_window(L, now, bounds)) then
      return false
    end
    -- A stored start inside this window, but not at its start, comes from a caller with different
    -- time zone data. Keep its count: if each caller started anew, there would be no limit.
    if s.start < start then
      s.start, s.count = start, 0
    end
    s.after = after
  elseif s.count > 0 and at < s.start + L.period then
    s.after = s.start + L.period
  else
    s.start, s.count, s.after = at, 0, at + L.period
  end
  return true
end

function fixed.due(L, s, _, cost)
  return s.count + cost <= L.limit and 0 or s.after
end

function fixed.left(L, s)
  return max(0, L.limit - s.count)
end

function fixed.charge(_, s, _, cost)
  s.count = s.count + cost
end

function fixed.deny(L, s, _, cost)
  s.count = max(s.count, min(L.limit, s.count + cost)) -- it may be above a limit that was lowered
end

function fixed.refund(L, s, _, cost)
  if s.count == 0 then
    return false
  end
  s.count = max(0, s.count - cost)
  if s.count == 0 and L.from_first then
    s.start = 0
  end
  return true
end

-- sliding-counter. The state is the counts of the current and of the previous window.
local counter = { fields = { 'start', 'before', 'count' } }

function counter.read(_, s, start, before, count)
  s.start = stored(start or '0')
  s.before, s.count = stored(before or '0', LIMIT_MAX), stored(count or '0', LIMIT_MAX)
  return s.start and s.before and s.count
end

function counter.write(_, s)
  return whole(s.start), whole(s.before), whole(s.count)
end

function counter.look(L, s, now)
  local at = max(now, s.start)
  local start = at - at % L.period
  if s.start + L.period == start then
    s.before, s.count = s.count, 0
  elseif s.start ~= start then
    s.before, s.count = 0, 0
  end
  s.start, s.overlap = start, L.period - (at - start)
  return true
end

-- Returns the largest overlap with which `before` counts as at most `spare` units, in whole
-- microseconds and nanoseconds.
local function widest(L, before, spare)
  if spare < 0 then
    return 0, 0
  elseif before <= spare then
    return L.period, 0
  elseif not L.relaxed then
    local q, rest = mul_div(spare, L.period, before)
    return q, floor(rest * 1000 / before)
  end
  local q, rest = L.period, 0
  if before > spare + 1 then
    q, rest = mul_div(spare + 1, L.period, before)
  end
  if rest == 0 then
    return q - 1, 999
  end
  return q, ceil(rest * 1000 / before) - 1
end

function counter.due(L, s, _, cost)
  local most = widest(L, s.before, L.limit - s.count - cost)
  if most >= s.overlap then
    return 0
  elseif most >= 1 then
    return s.start + L.period - most
  end
  return s.start + 2 * L.period - (widest(L, s.count, L.limit - cost))
end

function counter.early(L, s, cost)
  local most, ns = widest(L, s.before, L.limit - s.count - cost)
  if most < 1 and ns == 0 then
    most, ns = widest(L, s.count, L.limit - cost)
  end
  return ns
end

function counter.left(L, s)
  local weight, rest = mul_div(s.before, s.overlap, L.period)
  if rest > 0 and not L.relaxed then
    weight = weight + 1
  end
  return max(0, L.limit - s.count - weight)
end

function counter.charge(_, s, _, cost)
  s.count = s.count + cost
end

function counter.refund(_, s, _, cost)
  if s.before + s.count == 0 then
    return false
  end
  local taken = min(cost, s.count)
  s.count, s.before = s.count - taken, max(0, s.before - (cost - taken))
  return true
end

-- ---- logs, slices and leases --------------------------------------------------------------------

-- They are stored as a row of entries, the oldest first: {place, total, cost}. The place is a time
-- in a log, the number of a slice in slices, and the end of leases; it is unique. The total is the sum of all units up
-- to and including the entry, modulo TOTAL. The sum of a range is thus one subtraction, and an
-- entry is found by binary search. A state has the entries low .. next-1; `at` is the latest place,
-- `total` the total of the last entry, and s.fetch(s, i) reads an entry.
local row = { fields = { 'low', 'next', 'at', 'total' } }

local function slice_at(L, now)
  local rounds = floor(now / L.period)
  return rounds * L.slices + mul_div(L.slices, now - rounds * L.period, L.period)
end

local function slice_start(L, k)
  local rounds = floor(k / L.slices)
  local q, rest = mul_div(k - rounds * L.slices, L.period, L.slices)
  if rest > 0 then
    return rounds * L.period + q + 1, floor((L.slices - rest) * 1000 / L.slices)
  end
  return rounds * L.period + q, 0
end

-- Reads entry i.
local entry
do
  -- Returns the time at which an entry at this place expires, rounded up to 1 us, and by how many ns.
  local function leaves(L, place)
    if L.slices then
      return slice_start(L, place + L.slices)
    elseif L.facts.holds then
      return place, 0
    end
    return place + L.period, 0
  end

  function entry(s, i)
    local e = s.entries[i]
    if not e then
      e = s.fetch(s, i)
      s.entries[i] = e
    end
    return e
  end

  -- Galloping search. Returns the first i in low..high-1 for which holds(i), else high. holds() must
  -- be false up to some i and true from there. The search starts at the front, where the result often
  -- is.
  local function first_where(low, high, holds)
    local step = 1
    while low + step < high and not holds(low + step - 1) do
      low, step = low + step, step * 2
    end
    high = min(high, low + step)
    while low < high do
      local middle = floor((low + high) / 2)
      if holds(middle) then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- Writes an entry, also to the server.
  local function put_entry(s, i, place, total, cost)
    s.entries[i], s.changes[i] = { place, total, cost }, true
  end

  -- Finds the first entry that counts, and the sum of the entries.
  local function row_sum(s)
    local function counts(i)
      return entry(s, i)[1] > s.since
    end
    s.first = s.low
    if s.low < s.next and not counts(s.low) then
      s.first = counts(s.next - 1) and first_where(s.low + 1, s.next, counts) or s.next
    end
    s.sum = 0
    if s.first < s.next then
      local e = entry(s, s.first)
      s.sum = (s.total - e[2] + e[3]) % TOTAL
    end
  end

  -- Returns the first entry at which the sum of the entries that count is `units` or more.
  local function reached(s, units)
    if units == s.sum then
      return s.next - 1
    end
    local base = s.total - s.sum
    return first_where(s.first, s.next, function(i)
      return (entry(s, i)[2] - base) % TOTAL >= units
    end)
  end

  -- Makes entry i the first of the row. Of its units and those before it, `units` are left.
  local function cut_before(s, i, units)
    local e = entry(s, i)
    put_entry(s, i, e[1], e[2], units)
    s.first, s.prune_max = i, huge
  end

  -- Returns the sum of the entries that count up to and including entry i.
  local function sum_until(s, i)
    return (entry(s, i)[2] - s.total + s.sum) % TOTAL
  end

  -- If a limit of a log or of leases was lowered, the oldest units above limit - 1 become one entry.
  local function join_oldest(L, s)
    local i = reached(s, s.sum - L.limit + 1)
    if i > s.first then
      cut_before(s, i, sum_until(s, i))
      s.from = true
    end
  end

  function row.look(L, s, now)
    s.changes = {}
    if L.facts.holds then
      s.place, s.since = max(s.at, now + L.period), now
    else
      s.place = max(s.at, L.slices and slice_at(L, now) or now)
      s.since = s.place - (L.slices or L.period)
    end
    row_sum(s)
    if s.sum > L.limit and not L.slices then
      join_oldest(L, s)
    end
    return true
  end

  function row.due(L, s, _, cost)
    local over = s.sum + cost - L.limit
    if over <= 0 then
      return 0
    end
    return (leaves(L, entry(s, reached(s, over))[1]))
  end

  function row.early(L, s, cost)
    local _, ns = leaves(L, entry(s, reached(s, s.sum + cost - L.limit))[1])
    return ns
  end

  function row.left(L, s)
    return max(0, L.limit - s.sum)
  end

  function row.charge(_, s, _, cost)
    s.total = (s.total + cost) % TOTAL
    local last = s.next > s.low and entry(s, s.next - 1)
    if last and last[1] == s.place then
      put_entry(s, s.next - 1, s.place, s.total, last[3] + cost)
    else
      put_entry(s, s.next, s.place, s.total, cost)
      s.next = s.next + 1
    end
    s.at, s.sum = s.place, s.sum + cost
  end

  -- Deletes the oldest units. All of their entries are deleted: they still count.
  local function drop_oldest(s, cost)
    s.prune_max = huge
    if cost >= s.sum then
      s.next, s.first, s.at, s.sum = s.low, s.low, 0, 0
      return
    end
    local i = reached(s, cost + 1)
    cut_before(s, i, sum_until(s, i) - cost)
    s.sum = s.sum - cost
  end

  function row.deny(L, s, now, cost)
    local units = min(cost, L.limit)
    local over = s.sum + units - L.limit
    if over > 0 and not L.slices then
      drop_oldest(s, over)
    end
    row.charge(L, s, now, units)
    if L.slices then
      local last = s.entries[s.next - 1]
      last[3] = min(L.limit, last[3])
      row_sum(s)
    end
  end

  function row.refund(L, s, _, cost)
    if s.sum == 0 then
      return false
    elseif L.facts.holds then
      drop_oldest(s, cost)
      return true
    end
    local keep = max(0, s.sum - cost)
    local base = s.total - s.sum
    s.prune_max = max(REFUND_PRUNE_MAX, s.prune_max or 0)
    if keep == 0 then
      -- If expired entries remain, the latest of them is the last of the row: rows are sorted.
      s.next, s.at = s.first, s.first - s.low > s.prune_max and entry(s, s.first - 1)[1] or 0
    else
      local i = reached(s, keep)
      local e = entry(s, i)
      local more = (e[2] - base) % TOTAL - keep
      put_entry(s, i, e[1], (e[2] - more) % TOTAL, e[3] - more)
      s.next, s.at = i + 1, e[1]
    end
    if L.slices then
      s.at = s.place
    end
    s.total, s.sum = (base + keep) % TOTAL, keep
    s.loaded = min(s.loaded, s.next + cost) -- an entry has a unit or more, unless damaged
    return true
  end
end

-- block. The state is the end of the last block and its length. The length is 0 unless blocks double.
local block = { fields = { 'end', 'length' }, look = rate.look }

function block.read(_, s, after, length)
  s.after, s.length = stored(after or '0'), stored(length or '0')
  return s.after and s.length
end

function block.write(_, s)
  return whole(s.after), whole(s.length)
end

function block.due(_, s)
  return s.after
end

function block.left(_, s, now)
  return s.after > now and 0 or huge
end

function block.fresh(L, s)
  return s.after + (L.longest and min(s.length, L.longest) or 0)
end

function block.deny(L, s, now)
  local length = L.period
  if now < block.fresh(L, s) then
    length = min(2 * s.length, L.longest)
  end
  s.after, s.length = now + length, L.longest and length or 0
end

function block.refund()
  return false
end

-- ---- the lexer of policy texts ------------------------------------------------------------------

local UNITS = { { 'ns', 0 }, { 'us', 1 }, { 'ms', 1000 }, { 's', 1000000 }, { 'm', 60000000 },
  { 'h', 3600000000 }, { 'd', DAY_US }, { 'w', 7 * DAY_US } } -- microseconds
local UNIT_AT = { ns = 1, us = 2, ms = 3, s = 4, m = 5, h = 6, d = 7, w = 8 }
local CALENDAR = { day = 'a length: d is 24 hours', week = 'a length: w is 7 days',
  month = 'a length such as 30d', year = 'a length such as 365d' }

-- Raises a syntax error. read_policy() catches it.
local function refuse(at, found, expected)
  error({ weir = format('column %d: %s, expected %s', at, found, expected) }, 0)
end

-- Reports that the word at `at` was found, or the text from `at` to before `stop`.
local function unexpected(p, at, expected, stop)
  local found
  if at > #p.text then
    found = 'found the end'
  elseif find(p.text, '^[ \t\r\n]', at) then
    found = 'found a space'
  else
    local word = stop and sub(p.text, at, stop - 1) or
      sub(p.text, at, at) .. match(p.text, '^[^ \t\r\n&]*', at + 1)
    local cut = #word > 32
    word = string.gsub(sub(word, 1, 32), '[^ -~]', '?')
    found = "found '" .. word .. (cut and "...'" or "'")
  end
  refuse(at, found, expected)
end

local function skip_space(p)
  p.at = find(p.text, '[^ \t\r\n]', p.at) or #p.text + 1
end

local function boundary(p)
  if p.at <= #p.text and not find(p.text, '^[& \t\r\n]', p.at) then
    unexpected(p, p.at, "a space, '&' or the end")
  end
  skip_space(p)
end

-- Requires a space after a keyword that takes a value.
local function keyword_end(p, word)
  local value = match(p.text, "^=([!-$%%'-~]*)", p.at)
  if value then
    unexpected(p, p.at, 'a space: write ' .. word .. ' ' .. sub(value, 1, 24))
  end
  boundary(p)
end

local function take(p, char)
  local is = sub(p.text, p.at, p.at) == char
  if is then
    p.at = p.at + 1
  end
  return is
end

local function take_word(p)
  local word = match(p.text, '^[a-z][a-z-]*', p.at) or ''
  p.at = p.at + #word
  return word
end

local function keyword(p, word)
  local from = p.at
  if take_word(p) == word then
    return true
  end
  p.at = from
  return false
end

local function take_digits(p)
  local digits = match(p.text, '^%d*', p.at)
  p.at = p.at + #digits
  return digits
end

local function number(p, what, low, high)
  local from, digits = p.at, take_digits(p)
  local n = tonumber(digits)
  if not n or n < low or n > high then
    unexpected(p, from, format('%s, from %.0f to %.0f', what, low, high))
  end
  return n
end

local function bounded_number(p, what, low, high)
  local n = number(p, what, low, high)
  boundary(p)
  return n
end

-- Suggestions for common mistakes, as in src/policy/hint.c.
local HINT_DENY = "to deny keys always, put them on the policy's list 'deny'"
local hint_unit, hint_algorithm, hint_fraction, hint_slash, hint_token_bucket
do
  local NO_LIMIT = "an algorithm; to exempt keys from the limit, put them on the policy's list 'allow'"
  -- In lower case; a '-' matches any number of '-', '_' and spaces. A spelling comes before its own
  -- prefixes.
  local ALGORITHMS = {
    { 'gcra', 'gcra' },
    { 'token-bucket', 'token-bucket' },
    { 'leaky-bucket', 'leaky-bucket' },
    { 'leaky-queue', 'leaky-queue' },
    { 'fixed-window', 'fixed-window' },
    { 'sliding-window-log', 'sliding-log' },
    { 'sliding-window-counter', 'sliding-counter' },
    { 'sliding-log', 'sliding-log' },
    { 'sliding-counter', 'sliding-counter' },
    { 'sliding-slices', 'sliding-slices' },
    { 'sliding-window', 'sliding-log (exact), sliding-counter (16 bytes a key) or sliding-slices ' ..
      '(a count for each part of the window)' },
    { 'sliding', 'sliding-log, sliding-counter or sliding-slices' },
    { 'token', 'token-bucket' },
    { 'leaky', 'leaky-bucket (denies) or leaky-queue (requests wait)' },
    { 'fixed', 'fixed-window' },
    { 'concurrent', 'concurrent' },
    { 'concurrency', 'concurrent' },
    { 'in-flight', 'concurrent' },
    { 'unlimited', NO_LIMIT },
    { 'infinite', NO_LIMIT },
    { 'infinity', NO_LIMIT },
    { 'disabled', NO_LIMIT },
    { 'none', NO_LIMIT },
    { 'off', NO_LIMIT },
    { 'allow', NO_LIMIT },
    { 'deny', 'an algorithm; ' .. HINT_DENY },
    { 'block', 'block' },
  }
  local SPELT = { nsec = 'ns', nanosecond = 'ns', usec = 'us', microsecond = 'us', msec = 'ms',
    millisecond = 'ms', sec = 's', second = 's', min = 'm', minute = 'm', hr = 'h', hour = 'h',
    day = 'd', week = 'w' }

  function hint_unit(word)
    return SPELT[word] or sub(word, -1) == 's' and SPELT[sub(word, 1, -2)] or nil
  end

  -- Returns the end of the words at `at` that match `from`, or `at` if they do not match.
  local function spelt(text, at, from)
    local here = at
    for c in string.gmatch(from, '.') do
      if c == '-' then
        here = find(text, '[^%-_ ]', here) or #text + 1
      elseif string.lower(sub(text, here, here)) == c then
        here = here + 1
      else
        return at
      end
    end
    return find(text, '^[%a_%-]', here) and at or here
  end

  -- Returns what to write and the end of the misspelt words, or nil.
  function hint_algorithm(text, at)
    for _, spelling in ipairs(ALGORITHMS) do
      local stop = spelt(text, at, spelling[1])
      if stop > at then
        return spelling[2], stop
      end
    end
    if sub(text, at, at) == '&' and find(sub(text, 1, at - 1), '[^ ]') then
      return "one '&' between two layers", at + 1
    end
    local rate = match(text, "^%d+[!-$%%'-~]*", at)
    if rate then
      return 'an algorithm before the rate, as in gcra ' ..
        (find(rate, '^%d+/') and sub(rate, 1, 20) or '10/s'), at + #rate
    end
  end

  -- Returns ': write N/Pu' for num / den requests in the period at `at`, or ''.
  local function whole_rate(text, at, num, den)
    local periods, word = match(text, '^(%d*)([a-z][a-z-]*)', at)
    local unit = word and (UNIT_AT[word] and word or hint_unit(word))
    periods = periods == '' and 1 or tonumber(periods or 0)
    if num == 0 or periods == 0 or periods > 1e9 or not unit then
      return ''
    end
    local common = gcd(num, den * periods)
    local count = den * periods / common
    return format(': write %.0f/%s%s', num / common, count > 1 and whole(count) or '', unit)
  end

  -- Returns what to write instead of a rate with a fraction, or nil if there is no fraction.
  function hint_fraction(text, at)
    local ones, parts, slash = match(text, '^(%d+)%.(%d+)(/?)', at)
    if not ones then
      return nil
    end
    local more = ''
    if slash == '/' and #parts <= 6 and tonumber(ones) <= 1e9 then
      local den = 10 ^ #parts
      more = whole_rate(text, at + #ones + #parts + 2, tonumber(ones) * den + tonumber(parts), den)
    end
    return 'a whole number' .. more
  end

  -- For a number at `from` without a '/' after it, as in '10r/s' or '1,000/s'.
  function hint_slash(text, from, at)
    if find(text, '^[,_]%d', at) then
      return 'digits only, as in 1000/s'
    end
    local rest = match(text, '^r(/[%w/]*)', at) -- the spelling of nginx
    return "'/' and a period, as in 100/s" ..
      (rest and ': write ' .. sub(sub(text, from, at - 1), 1, 20) .. rest or '')
  end

  -- For a rate in place of the capacity at `at`, as in '10/s burst 5'.
  function hint_token_bucket(text, at)
    local rate = match(text, '^[%d%a/]*', at)
    local capacity = match(text, '^ *%a* *(%d+)', at + #rate) or match(text, '^%d*', at)
    return 'a capacity and a refill: write token-bucket ' .. capacity .. ' refill ' .. sub(rate, 1, 24)
  end
end

local function refuse_unit(p, from, word, calendar_too)
  if CALENDAR[word] then
    refuse(from, "'" .. word .. "' is a calendar period and takes no number", CALENDAR[word])
  elseif word == '' then
    unexpected(p, from, 'a unit: one of ns us ms s m h d w')
  end
  local unit = hint_unit(word)
  refuse(from, "unknown unit '" .. sub(word, 1, 32) .. "'",
    unit or 'one of ns us ms s m h d w' .. (calendar_too and ' day week month year' or ''))
end

-- Returns n of a unit, in whole microseconds and the remaining nanoseconds. A number that is too
-- large yields more than the longest period.
local function length(digits, unit)
  digits = match(digits, '^0*(%d*)$')
  if #digits > 19 then
    return huge, 0
  elseif unit[2] > 0 then
    return tonumber(digits == '' and '0' or digits) * unit[2], 0
  end
  digits = string.rep('0', 4 - #digits) .. digits
  return tonumber(sub(digits, 1, -4)), tonumber(sub(digits, -3))
end

-- Parses a period into l.period and l.period_ns. If calendar_too, a calendar word sets l.calendar.
local function period(p, l, calendar_too)
  local from = p.at
  l.period_at = from
  local word = take_word(p)
  if CALENDAR[word] and calendar_too then
    l.calendar = word
    return
  elseif CALENDAR[word] then
    refuse(from, "'" .. word .. "' is a calendar period, supported only by fixed-window", CALENDAR[word])
  end
  p.at = from
  if word == '' and not find(p.text, '^%d', from) then
    unexpected(p, from, 'a period such as s, 90s or 1h30m')
  end
  local us, ns, below, bare = 0, 0, #UNITS + 1, word ~= ''
  repeat
    local digits = bare and '1' or take_digits(p)
    local unit_at = p.at
    local unit = take_word(p)
    local i = UNIT_AT[unit]
    if not i then
      refuse_unit(p, unit_at, unit, calendar_too)
    elseif i >= below then
      unexpected(p, unit_at, 'units from the largest to the smallest, as in 1h30m')
    end
    below = i
    local more_us, more_ns = length(digits, UNITS[i])
    us, ns = us + more_us, ns + more_ns
    if us > SPAN_US or (us == SPAN_US and ns > SPAN_NS) then
      unexpected(p, from, 'a period of at most 1152921504606846975ns (36.5 years)')
    end
  until bare or not find(p.text, '^%d', p.at)
  if us == 0 and ns == 0 then
    unexpected(p, from, 'a period of at least 1ns')
  end
  l.period, l.period_ns = us, ns
end

-- Parses the number of a rate.
local function rate_number(p, what, high)
  local hint = hint_fraction(p.text, p.at)
  if hint then
    unexpected(p, p.at, hint)
  elseif match(p.text, '^0%D', p.at) or match(p.text, '^0$', p.at) then
    unexpected(p, p.at, '1 or more; ' .. HINT_DENY)
  end
  return number(p, what, 1, high)
end

local function rate_of(p, l, what, high, calendar_too)
  local from = p.at
  l.rate = rate_number(p, what, high)
  if not take(p, '/') then
    unexpected(p, p.at, hint_slash(p.text, from, p.at))
  end
  period(p, l, calendar_too)
  boundary(p)
end

local function keyword_number(p, word, expected, what, low, high)
  if not keyword(p, word) then
    unexpected(p, p.at, expected)
  end
  keyword_end(p, word)
  p.limit_at = p.at
  return bounded_number(p, what, low, high)
end

-- ---- the grammar --------------------------------------------------------------------------------

-- The clock of the server has microseconds, so windows must be whole microseconds.
local function need_whole_us(p, l)
  if not l.calendar and l.period_ns > 0 then
    unexpected(p, l.period_at, "a period of whole microseconds, the unit of the server's clock")
  end
end

-- Returns whether `limit` units drain within 36.5 years.
local function drains(l, limit)
  local us, rest = mul_div(limit, l.part, l.num)
  us = us + limit * l.whole
  local ns, more = mul_div(1000, rest, l.num)
  return us < SPAN_US or (us == SPAN_US and (ns < SPAN_NS or (ns == SPAN_NS and more == 0)))
end

local function refuse_limit(p, l, limit)
  unexpected(p, p.limit_at,
    format('at most %.0f at this rate (an empty bucket must refill within 36.5 years)',
      l.facts.delays and limit - 1 or limit))
end

-- Sets the exact interval of one unit: T = l.whole + l.part/l.num microseconds.
local function set_rate(p, l)
  if l.period_ns > 0 and l.period * 1000 + l.period_ns >= EXACT then
    unexpected(p, l.period_at, 'a period of whole microseconds, if it is over 104 days')
  end
  local T = interval(l, l.rate)
  l.whole, l.part, l.num = T.whole, T.part, T.num
  if not drains(l, l.limit) then
    local low, high = 0, l.limit
    while high - low > 1 do
      local middle = floor((low + high) / 2)
      if drains(l, middle) then
        low = middle
      else
        high = middle
      end
    end
    refuse_limit(p, l, low)
  end
end

local function bucket_rate(p, l)
  rate_of(p, l, 'a rate such as 100/s', RATE_MAX)
end

local function window_rate(p, l, calendar_too)
  rate_of(p, l, 'a limit such as 100/m', LIMIT_MAX, calendar_too)
  l.limit = l.rate
  need_whole_us(p, l)
end

local function read_zone(p, l)
  keyword_end(p, 'tz')
  local from = p.at
  local name = match(p.text, '^[%a%d/_+-]*', from)
  p.at = from + #name
  if name ~= 'UTC' then
    local slashes = find(name, '^/') or find(name, '/$') or find(name, '//', 1, true)
    if #name < 1 or #name > 63 or slashes then
      unexpected(p, from, 'the name of a time zone, as in tz Europe/Berlin')
    end
    l.zone = name
  end
  boundary(p)
end

-- Returns the next two numbers of two digits, as in '06:30', and their text before them.
local function pair(p, between)
  local text, first, second = match(p.text, '^((%d%d)' .. between .. '(%d%d))', p.at)
  return text, tonumber(first or 0), tonumber(second or 0)
end

-- Each parses an anchor. Returns its number, and its canonical text.
local LEAP_YEAR = 2000
local WEEKDAYS = { monday = 0, tuesday = 1, wednesday = 2, thursday = 3, friday = 4, saturday = 5,
  sunday = 6 }
local ANCHORS = {
  day = function(p)
    local text, hour, minute = pair(p, ':')
    if not text or hour > 23 or minute > 59 then
      unexpected(p, p.at, 'a time of day, from 00:00 to 23:59')
    end
    p.at = p.at + #text
    return hour * 60 + minute, text
  end,
  week = function(p)
    local from, word = p.at, take_word(p)
    if not WEEKDAYS[word] then
      unexpected(p, from, 'a day of the week, from monday to sunday')
    end
    return WEEKDAYS[word], word
  end,
  month = function(p)
    local day = number(p, 'a day of the month', 1, 31)
    return day - 1, whole(day)
  end,
  year = function(p)
    local text, month, day = pair(p, '%-')
    if not text or month < 1 or month > 12 then
      unexpected(p, p.at, 'a month and a day, from 01-01 to 12-31')
    end
    local last = month_days(LEAP_YEAR, month)
    if day < 1 or day > last then
      unexpected(p, p.at, format('a day from %02.0f-01 to %02.0f-%02.0f', month, month, last))
    end
    p.at = p.at + #text
    return month_first((LEAP_YEAR - 1970) * 12 + month - 1, day - 1) - year_start(LEAP_YEAR), text
  end,
}

local function read_anchor(p, l)
  keyword_end(p, 'from')
  l.anchor, l.from = ANCHORS[l.calendar](p)
  boundary(p)
end

local PARSERS = {}

PARSERS['gcra'] = function(p, l)
  bucket_rate(p, l)
  l.limit, l.ops = 1, gcra
  p.next = "burst and a number, '&' or the end"
  if keyword(p, 'burst') then
    p.next = "'&' or the end"
    keyword_end(p, 'burst')
    p.limit_at = p.at
    l.limit = bounded_number(p, 'a burst', 1, LIMIT_MAX)
  end
  set_rate(p, l)
end

PARSERS['token-bucket'] = function(p, l)
  p.limit_at, l.ops = p.at, bucket
  l.limit = number(p, 'a capacity in tokens', 1, LIMIT_MAX)
  if take(p, '/') then
    unexpected(p, p.at - 1, hint_token_bucket(p.text, p.limit_at))
  end
  boundary(p)
  if not keyword(p, 'refill') then
    unexpected(p, p.at, 'refill and a rate, as in refill 100/s or refill 5 every 1s')
  end
  keyword_end(p, 'refill')
  l.rate = rate_number(p, 'a refill such as 100/s or 5 every 1s', RATE_MAX)
  if take(p, '/') then
    period(p, l)
    boundary(p)
    return set_rate(p, l)
  end
  skip_space(p)
  if not keyword(p, 'every') then
    unexpected(p, p.at, "'/' and a period, or 'every' and a period")
  end
  keyword_end(p, 'every')
  l.stepped, l.ops = true, steps
  period(p, l)
  boundary(p)
  local most = l.period > 0 and floor(SPAN_US / l.period) * l.rate or huge
  if l.limit > most then
    refuse_limit(p, l, most)
  end
  need_whole_us(p, l)
end

PARSERS['leaky-bucket'] = function(p, l)
  bucket_rate(p, l)
  l.ops = bucket
  l.limit = keyword_number(p, 'capacity', 'capacity and a number, as in capacity 20', 'a capacity',
    1, LIMIT_MAX)
  set_rate(p, l)
end

PARSERS['leaky-queue'] = function(p, l)
  bucket_rate(p, l)
  l.ops = bucket
  local depth = keyword_number(p, 'depth', 'depth and a number, as in depth 20', 'a depth', 0,
    LIMIT_MAX - 1)
  l.limit, l.nodelay = depth + 1, 0
  p.next = "nodelay and a number, '&' or the end"
  if keyword(p, 'nodelay') then
    p.next = "'&' or the end"
    keyword_end(p, 'nodelay')
    l.nodelay = bounded_number(p, 'a number of undelayed requests', 0, depth)
  end
  set_rate(p, l)
end

PARSERS['fixed-window'] = function(p, l)
  window_rate(p, l, true)
  l.ops = fixed
  l.anchor = 0
  p.next = (l.calendar and 'from START, tz ZONE' or 'from-first') ..
    " or count-denied, each once, '&' or the end"
  local zoned
  while true do
    local from = p.at
    if not l.from and keyword(p, 'from') then
      if not l.calendar then
        unexpected(p, from, 'from-first, or day, week, month or year before from, as in 100/month ' ..
          'from 17')
      end
      read_anchor(p, l)
    elseif not zoned and keyword(p, 'tz') then
      if not l.calendar then
        unexpected(p, from, 'day, week, month or year before tz, as in 100/day')
      end
      zoned = true
      read_zone(p, l)
    elseif not l.from_first and keyword(p, 'from-first') then
      if l.calendar then
        unexpected(p, from, 'a length such as 24h with from-first')
      end
      l.from_first = true
      boundary(p)
    elseif not l.count_denied and keyword(p, 'count-denied') then
      l.count_denied = true
      boundary(p)
    else
      return
    end
  end
end

PARSERS['sliding-log'] = function(p, l)
  window_rate(p, l)
  l.ops = row
  p.next = "count-denied, '&' or the end"
  if keyword(p, 'count-denied') then
    p.next = "'&' or the end"
    l.count_denied = true
    boundary(p)
  end
end

PARSERS['sliding-counter'] = function(p, l)
  window_rate(p, l)
  l.ops = counter
  p.next = "strict or relaxed, '&' or the end"
  l.relaxed = keyword(p, 'relaxed')
  if l.relaxed or keyword(p, 'strict') then
    p.next = "'&' or the end"
    boundary(p)
  end
end

PARSERS['block'] = function(p, l)
  period(p, l)
  boundary(p)
  need_whole_us(p, l)
  l.ops = block
  p.next = "doubling and a period, '&' or the end"
  if not keyword(p, 'doubling') then
    return
  end
  p.next = "'&' or the end"
  keyword_end(p, 'doubling')
  local longest = {}
  period(p, longest)
  boundary(p)
  if longest.period < l.period or (longest.period == l.period and longest.period_ns == 0) then
    unexpected(p, longest.period_at,
      'a period longer than the first block, as in block 1m doubling 1d')
  end
  need_whole_us(p, longest)
  l.longest = longest.period
end

PARSERS['sliding-slices'] = function(p, l)
  window_rate(p, l)
  l.ops = row
  l.slices = keyword_number(p, 'slices', 'slices and a number, as in slices 60',
    'a number of slices', 1, min(SLICES_MAX, l.period))
end

PARSERS['concurrent'] = function(p, l)
  l.limit, l.ops = bounded_number(p, 'a limit', 1, LIMIT_MAX), row
  l.rate = l.limit
  if not keyword(p, 'lease') then
    unexpected(p, p.at, 'lease and a period, as in lease 30s')
  end
  keyword_end(p, 'lease')
  period(p, l)
  boundary(p)
  need_whole_us(p, l)
end

local function parse_layer(p)
  local l = {}
  p.limit_at, p.next = p.at, "'&' or the end"
  local from, word = p.at, take_word(p)
  local names = {}
  for i, facts in ipairs(FACTS) do
    names[i] = facts.name
    l.facts = facts.name == word and facts or l.facts
  end
  if not l.facts then
    local hint, stop = hint_algorithm(p.text, from)
    unexpected(p, from, hint or 'one of ' .. concat(names, ' '), stop)
  end
  boundary(p)
  PARSERS[word](p, l)
  return l
end

-- Appends the block, which starts at `at` in the text, to the other layers.
local function add_block(p, layers, l, at)
  if #layers == 0 then
    unexpected(p, at, 'a limit beside it, as in sliding-log 5/m & block 10m')
  end
  l.limit = huge
  for _, other in ipairs(layers) do
    l.limit = min(l.limit, other.limit)
  end
  layers[#layers + 1] = l
end

local function parse(text)
  local p, layers, count, block_layer, block_at, holds = { text = text, at = 1 }, {}, 0, nil, nil, false
  if #text > TEXT_MAX then
    refuse(1, 'the policy text is too long', 'at most 1023 bytes')
  end
  repeat
    if count == LAYERS_MAX then
      unexpected(p, p.at - 1, 'at most 8 layers')
    end
    skip_space(p)
    local from, l = p.at, parse_layer(p)
    count = count + 1
    if holds and l.facts.holds then
      unexpected(p, from, 'at most one concurrent layer')
    end
    holds = holds or l.facts.holds
    if not l.facts.blocks then
      layers[#layers + 1] = l
    elseif block_layer then
      unexpected(p, from, 'at most one block')
    else
      block_layer, block_at = l, from
    end
  until not take(p, '&')
  if p.at <= #text then
    unexpected(p, p.at, p.next)
  end
  if block_layer then
    add_block(p, layers, block_layer, block_at)
  end
  return layers
end

-- ---- the canonical text -------------------------------------------------------------------------

local function print_period(l, bare)
  local n, unit = l.period, 'us'
  if l.period_ns > 0 then
    local us = n > 0 and whole(n) or ''
    return us .. (n > 0 and format('%03d', l.period_ns) or l.period_ns) .. 'ns'
  end
  for i = #UNITS, 2, -1 do
    if l.period % UNITS[i][2] == 0 then
      n, unit = l.period / UNITS[i][2], UNITS[i][1]
      break
    end
  end
  return (n == 1 and bare and '' or whole(n)) .. unit
end

local function print_layer(l)
  local out, word = { l.facts.name }, l.facts.limit_word
  if l.facts.holds then
    return l.facts.name .. ' ' .. whole(l.limit) .. ' lease ' .. print_period(l)
  end
  if l.facts.limit_first then
    out[#out + 1] = whole(l.limit) .. ' refill'
  end
  if l.facts.blocks then
    out[#out + 1] = print_period(l) ..
      (l.longest and ' doubling ' .. print_period({ period = l.longest, period_ns = 0 }) or '')
  elseif l.stepped then
    out[#out + 1] = whole(l.rate) .. ' every ' .. print_period(l)
  else
    out[#out + 1] = whole(l.rate) .. '/' .. (l.calendar or print_period(l, true))
  end
  if word then
    out[#out + 1] = word .. ' ' .. whole(l.facts.delays and l.limit - 1 or l.limit)
  end
  if l.nodelay and l.nodelay > 0 then
    out[#out + 1] = 'nodelay ' .. whole(l.nodelay)
  end
  if l.from and l.anchor > 0 then
    out[#out + 1] = 'from ' .. l.from
  end
  if l.zone then
    out[#out + 1] = 'tz ' .. l.zone
  end
  if l.from_first then
    out[#out + 1] = 'from-first'
  end
  if l.count_denied then
    out[#out + 1] = 'count-denied'
  end
  if l.relaxed then
    out[#out + 1] = 'relaxed'
  end
  if l.slices then
    out[#out + 1] = 'slices ' .. whole(l.slices)
  end
  return concat(out, ' ')
end

-- Returns what all limits of a shape have in common: a key keeps what it used if its limit changes to
-- another one of its shape.
local function shape_of(l)
  local shape = {}
  for name, what in pairs(l) do
    shape[name] = what
  end
  shape.limit, shape.rate, shape.nodelay, shape.count_denied = 1, 1, nil, nil
  return print_layer(shape)
end

-- ---- policies -----------------------------------------------------------------------------------

-- Sets how a key is stored. Several layers share one hash, and the fields of layer i start with
-- "i.".
local function set_form(P)
  P.form = #P == 1 and P[1].facts.form or 'hash'
  P.fields = { 'weir' }
  for i, l in ipairs(P) do
    l.prefix = #P > 1 and i .. '.' or ''
    for _, name in ipairs(l.ops.fields) do
      P.fields[#P.fields + 1] = l.prefix .. name
    end
  end
end

local function build_policy(text)
  local P = parse(text)
  local texts, shapes, zones = {}, {}, 0
  P.refunds = true
  for i, l in ipairs(P) do
    texts[i], shapes[i] = print_layer(l), shape_of(l)
    P.refunds = P.refunds and can_refund(l)
    P.block = l.facts.blocks and i or P.block
    if l.zone then
      l.zone_index, zones = zones, zones + 1
    end
  end
  P.zones = zones
  P.text = concat(texts, ' & ')
  P.tag = FORMAT .. ' ' .. sub(redis.sha1hex(concat(shapes, ' & ')), 1, 8)
  P.start = P.tag .. ' '
  set_form(P)
  return P
end

local known, known_count = {}, 0

-- Returns the parsed policy of a text, or nil and an error. Parsed policies are cached.
local function read_policy(text)
  local P = known[text]
  if P then
    return P
  end
  local ok, result = pcall(build_policy, text)
  if not ok then
    if type(result) ~= 'table' or not result.weir then
      error(result, 0)
    end
    return nil, 'policy: ' .. result.weir
  end
  if known_count >= CACHE_MAX then
    known, known_count = {}, 0
  end
  known[text], known_count = result, known_count + 1
  return result
end

-- ---- keys ---------------------------------------------------------------------------------------

local NOT_OURS = { err = 'WRONGTYPE Operation against a key that is not a state of weir' }

-- Returns whether a key is absent or a state of weir, of any policy and any format; then whether it
-- exists.
local function is_ours(key)
  local kind, mark = redis.call('TYPE', key).ok, nil
  if kind == 'none' then
    return true, false
  elseif kind == 'string' then
    mark = redis.call('GETRANGE', key, 0, 31)
  elseif kind == 'hash' then
    mark = redis.call('HGET', key, 'weir')
  elseif kind == 'zset' then
    mark = redis.call('ZRANGE', key, 0, 0)[1]
  end
  return mark and find(mark, '^weir%d+ %x+') ~= nil, true
end

local function new_state(L)
  local s = {}
  if L.ops == row then
    s.low, s.next, s.at, s.total, s.entries, s.loaded = 1, 1, 0, 0, {}, 1
  else
    L.ops.read(L, s)
  end
  return s
end

local function look(P, S, now, bounds)
  for i = 1, #P do
    if not P[i].ops.look(P[i], S[i], now, bounds) then
      return false
    end
    S[i].changed = S[i].from ~= nil
    S.converted = S.converted or S[i].changed
  end
  return true
end

local function new_states(P, S)
  for i = 1, #P do
    S[i] = new_state(P[i])
  end
  S.is_new = true
end

local function hash_entry(text)
  local place, total, cost = match(text or '', '^(%d+) (%d+) (%d+)$')
  return { stored(place) or 0, stored(total, TOTAL) or 0, stored(cost) or 0, place }
end

local function hash_fetch(s, i)
  return hash_entry(redis.call('HGET', s.key, s.prefix .. whole(i)))
end

local function read_hash_row(L, s, key, low, next_, at, total)
  s.key, s.prefix, s.fetch, s.entries = key, L.prefix, hash_fetch, {}
  s.low, s.next, s.at, s.total = stored(low or '1'), stored(next_ or '1'), stored(at or '0'),
    stored(total or '0', TOTAL)
  s.loaded = s.next
  if not (s.low and s.next and s.at and s.total) or s.low > s.next then
    return false
  elseif s.low < s.next then
    local ends = redis.call('HMGET', key, L.prefix .. whole(s.low), L.prefix .. whole(s.next - 1))
    s.entries[s.low], s.entries[s.next - 1] = hash_entry(ends[1] or nil), hash_entry(ends[2] or nil)
    return s.entries[s.low][4] and s.entries[s.next - 1][4]
  end
  return true
end

local function read_hash(P, S, values)
  local at = 1
  for i = 1, #P do
    local L, s = P[i], {}
    local a, b, c, d = values[at + 1] or nil, values[at + 2] or nil, values[at + 3] or nil,
      values[at + 4] or nil
    local sound
    if L.ops == row then
      sound = read_hash_row(L, s, S.key, a, b, c, d)
    else
      sound = L.ops.read(L, s, a, b, c)
    end
    if not sound then
      return false
    end
    at, S[i] = at + #L.ops.fields, s
  end
  return true
end

local function zset_entry(member, score)
  local total, cost = match(member, '^(%d+):(%d+)$')
  local place = stored(score)
  return { place or 0, stored(total, TOTAL) or 0, stored(cost) or 0, place and total }
end

local function zset_fetch(s, i)
  local found = redis.call('ZRANGE', s.key, i, i, 'WITHSCORES')
  return zset_entry(found[1] or '', found[2])
end

-- The tag is at rank 0, so the index of an entry in the row is its rank.
local function read_zset(S, found)
  local s = { key = S.key, fetch = zset_fetch, entries = {}, low = 1, at = 0, total = 0 }
  s.next = redis.call('ZCARD', S.key)
  s.loaded = s.next
  S[1] = s
  if not found[3] then
    return true
  end
  s.entries[1] = zset_entry(found[3], found[4])
  if s.next > 2 then
    s.entries[s.next - 1] = zset_fetch(s, s.next - 1)
  end
  local last = s.entries[s.next - 1]
  s.at, s.total = last[1], last[2]
  return s.entries[1][4] and last[4]
end

-- Each parses the value of a key. Returns whether it is a valid state of P; then, if it is not,
-- whether the key certainly does not exist.
local READERS = {
  string = function(P, S, value)
    if value and sub(value, 1, #P.start) == P.start then
      local s = {}
      S[1] = s
      local first, second = match(value, '^([%d:]+) (%d+)$', #P.start + 1)
      return first and P[1].ops.read(P[1], s, first, second)
    end
    return false, not value
  end,
  hash = function(P, S, values)
    return values[1] == P.tag and read_hash(P, S, values)
  end,
  zset = function(P, S, found)
    if found[1] == P.tag then
      return read_zset(S, found)
    end
    return false, not found[1]
  end,
}

-- Returns the states of a key under P at `now`, or nil and an error. If the stored states belong to
-- another policy or are invalid, or if `as_new` is set, the result is that of a new key.
local function open_key(P, key, now, bounds, as_new)
  local S, found = { key = key, P = P }, nil
  if P.form == 'string' then
    found = redis.pcall('GET', key)
  elseif P.form == 'hash' then
    found = redis.pcall('HMGET', key, unpack(P.fields))
  else
    found = redis.pcall('ZRANGE', key, 0, 1, 'WITHSCORES')
  end
  local read, absent = false, false
  if type(found) ~= 'table' or not found.err then
    read, absent = READERS[P.form](P, S, found)
  elseif not find(found.err, 'WRONGTYPE', 1, true) then
    return nil, found
  end
  if as_new or not read then
    local ours, another = true, false
    if not absent then
      ours, another = is_ours(key)
    end
    if not ours then
      return nil, NOT_OURS
    end
    S.replaces = another
    new_states(P, S)
  end
  if not look(P, S, now, bounds) then
    return nil, { err = "ERR weir: the server's clock, or the time in the key, is outside the " ..
      'windows of the request' }
  end
  return S
end

-- Returns how many expired entries to delete now. A refund deletes more of them, because it removes
-- the latest time: if the clock then stepped back, they would count again and cause wrong denials.
local function prunable(s)
  return min(s.first - s.low, s.prune_max or PRUNE_MAX)
end

-- Returns the entries of a row to write, the latest first: then removing one by its rank leaves the
-- ranks of the others.
local function changed_entries(s)
  local out = {}
  for i in pairs(s.changes) do
    if i >= s.first and i < s.next then
      out[#out + 1] = i
    end
  end
  table.sort(out, function(a, b) return a > b end)
  return out
end

-- Deletes the fields of the entries from..to-1 of a row.
local function drop_fields(s, L, from, to)
  for first = from, to - 1, 500 do
    local names = {}
    for i = first, min(first + 499, to - 1) do
      names[#names + 1] = L.prefix .. whole(i)
    end
    redis.call('HDEL', s.key, unpack(names))
  end
end

local function write_hash_row(L, s, key, out)
  local function put(name, value)
    out[#out + 1], out[#out + 2] = L.prefix .. name, value
  end
  s.key = key
  local low = s.low + prunable(s)
  drop_fields(s, L, s.low, low)
  drop_fields(s, L, s.next, s.loaded)
  for _, i in ipairs(changed_entries(s)) do
    local e = s.entries[i]
    put(whole(i), whole(e[1]) .. ' ' .. whole(e[2]) .. ' ' .. whole(e[3]))
  end
  put('low', whole(low))
  put('next', whole(s.next))
  put('at', whole(s.at))
  put('total', whole(s.total))
end

local function write_hash(P, S, now)
  local out = {}
  if S.is_new then
    out[1], out[2] = 'weir', P.tag
  end
  for i = 1, #P do
    local L, s = P[i], S[i]
    if s.changed and L.ops == row then
      write_hash_row(L, s, S.key, out)
    elseif s.changed then
      local values = { L.ops.write(L, s, now) }
      for k, name in ipairs(L.ops.fields) do
        out[#out + 1], out[#out + 2] = L.prefix .. name, values[k]
      end
    end
  end
  redis.call('HSET', S.key, unpack(out))
end

local function write_zset(P, S)
  local s = S[1]
  local out = S.is_new and { '-1', P.tag } or {}
  if s.next < s.loaded then
    redis.call('ZREMRANGEBYRANK', S.key, s.next, -1)
  end
  for _, i in ipairs(changed_entries(s)) do
    local e = s.entries[i]
    if i < s.loaded then
      redis.call('ZREMRANGEBYRANK', S.key, i, i)
    end
    out[#out + 1], out[#out + 2] = whole(e[1]), whole(e[2]) .. ':' .. whole(e[3])
  end
  if #out > 0 then
    redis.call('ZADD', S.key, unpack(out))
  end
  local old = prunable(s)
  if old > 0 and old == s.first - s.low then
    redis.call('ZREMRANGEBYSCORE', S.key, 0, whole(entry(s, s.first - 1)[1]))
  elseif old > 0 then
    redis.call('ZREMRANGEBYRANK', S.key, 1, old)
  end
end

-- Returns the time from which a layer's state decides like that of a new key.
local function fresh_at(L, s, now)
  return (L.ops.fresh or L.ops.due)(L, s, now, L.limit)
end

-- Returns the time from which the key has full quota.
local function full_at(P, S, now)
  local at = now
  for i = 1, #P do
    at = max(at, fresh_at(P[i], S[i], now))
  end
  return at
end

local function close_key(P, S, now)
  if not S.dirty then
    return
  end
  local until_us = full_at(P, S, now)
  if P.form == 'string' then
    set(S.key, P.start .. concat({ P[1].ops.write(P[1], S[1], now) }, ' '), until_us)
    return
  end
  if S.replaces then
    redis.call('DEL', S.key)
  end
  if P.form == 'hash' then
    write_hash(P, S, now)
  else
    write_zset(P, S)
  end
  expire(S.key, until_us)
end

-- ---- deciding -----------------------------------------------------------------------------------

local function allows(L, s, now, cost)
  return cost <= L.limit and L.ops.due(L, s, now, cost) <= now
end

-- Returns the eight numbers of weir_ask, which describe layer i. They are limited to EXACT, because
-- a damaged state can yield more than an integer reply can express.
local function answer(P, S, i, now, allowed, left, wait, delay)
  local L = P[i]
  local reset = max(0, fresh_at(L, S[i], now) - now)
  return { allowed, L.limit, left, min(EXACT, wait), min(EXACT, reset), min(EXACT, delay), i - 1, 0 }
end

-- Returns the wait until L allows a cost, in whole microseconds, and how many ns too long that is.
-- 0 or less: it is allowed now; huge: it is never allowed.
local function wait_for(L, s, now, cost)
  if L.facts.blocks and s.after <= now then
    return 0, 0
  elseif cost > L.limit then
    return huge, 0
  end
  local w = L.ops.due(L, s, now, cost) - now
  if w > 0 and w < huge and L.ops.early then
    return w, L.ops.early(L, s, cost)
  end
  return w, 0
end

-- Returns whether the wait w, rounded up by `early` ns, is longer than the wait `than`, rounded up
-- by `than_early` ns.
local function waits_longer(w, early, than, than_early)
  return w > than or (w == than and early < than_early)
end

-- Returns the wait until layer i has full quota, as wait_for() does.
local function reset_of(P, S, i, now)
  local L, s = P[i], S[i]
  if L.ops.fresh then
    return max(0, L.ops.fresh(L, s) - now), 0
  end
  local w, e = wait_for(L, s, now, L.limit)
  return max(0, w), e
end

-- Returns whether layer i has full quota later than layer k.
local function resets_later(P, S, i, k, now)
  local w, e = reset_of(P, S, i, now)
  return waits_longer(w, e, reset_of(P, S, k, now))
end

local function charge_all(P, S, now, cost)
  for i = 1, #P do
    if i ~= P.block then
      P[i].ops.charge(P[i], S[i], now, cost)
      S[i].changed = true
    end
  end
  S.dirty = true
end

local function longest_delay(P, S, now)
  local delay = 0
  for i = 1, #P do
    if P[i].facts.delays then
      delay = max(delay, rate.delay(P[i], S[i], now))
    end
  end
  return delay
end

-- Returns how many units of a layer a request keeps for others. -20 stands for 20 %.
local function kept_of(L, keep)
  return keep >= 0 and keep or ceil(L.limit * -keep / 100)
end

-- Returns the layer with the smallest remaining and that remaining, less what the request keeps. On
-- a tie, it is the layer with the latest reset.
local function scarcest(P, S, now, keep)
  local least, left = 1, nil
  for i = 1, #P do
    local n = P[i].ops.left(P[i], S[i], now) - kept_of(P[i], keep)
    if not left or n < left or (n == left and resets_later(P, S, i, least, now)) then
      least, left = i, n
    end
  end
  return least, left
end

-- While a block is running, nothing counts.
local function deny(P, S, now, cost, keep, charging)
  local counts = charging and cost > 0 and not (P.block and S[P.block].after > now)
  for i = 1, #P do
    if counts and (P[i].count_denied or i == P.block) then
      P[i].ops.deny(P[i], S[i], now, cost)
      S[i].changed, S.dirty = true, true
    end
  end
  local slowest, wait, early = 1, -1, 0
  for i = 1, #P do
    local w, e = wait_for(P[i], S[i], now, cost + kept_of(P[i], keep))
    local tied = i > 1 and w == wait and e == early
    if waits_longer(w, e, wait, early) or (tied and resets_later(P, S, i, slowest, now)) then
      slowest, wait, early = i, w, e
    end
  end
  local left = max(0, P[slowest].ops.left(P[slowest], S[slowest], now) - kept_of(P[slowest], keep))
  local decision = answer(P, S, slowest, now, 0, left, wait == huge and -1 or wait, 0)
  decision.wait, decision.early = wait, early
  return decision
end

-- Decides, and charges the states in S if `charging`. Leaves what `keep` says for other requests.
local function judge(P, S, now, cost, keep, charging)
  for i = 1, #P do
    if not allows(P[i], S[i], now, cost + kept_of(P[i], keep)) then
      return deny(P, S, now, cost, keep, charging)
    end
  end
  local delay = longest_delay(P, S, now)
  if charging and cost > 0 then
    charge_all(P, S, now, cost)
  end
  local least, left = scarcest(P, S, now, keep)
  return answer(P, S, least, now, 1, left, 0, delay)
end

local CANNOT_REFUND = { err = 'ERR weir: leaky-queue and count-denied policies do not support refunds' }

local function refund(P, S, now, cost)
  if not P.refunds then
    return CANNOT_REFUND
  end
  for i = 1, #P do
    if cost > 0 and P[i].ops.refund(P[i], S[i], now, cost) then
      S[i].changed, S.dirty = true, true
    end
  end
  return judge(P, S, now, 0, 0, false)
end

-- Returns the largest limit of a layer like L.
local function largest_limit(L)
  if L.ops.early == rate.early then
    local low, high = L.limit, LIMIT_MAX + 1
    while high - low > 1 do
      local middle = floor((low + high) / 2)
      if drains(L, middle) then
        low = middle
      else
        high = middle
      end
    end
    return low
  elseif L.stepped then
    return min(LIMIT_MAX, floor(SPAN_US / L.period) * L.rate)
  elseif L.ops == fixed and not L.calendar and not L.from_first and L.limit < L.period * 1000 then
    return min(LIMIT_MAX, L.period * 1000 - 1)
  end
  return LIMIT_MAX
end

-- Whether a charge leaves the layer as it is.
local function uncounted(L)
  return L.facts.blocks or L.facts.holds
end

-- Charges a cost, whether it fits or not. Returns the units that are not counted.
local function charge_layer(L, s, now, cost)
  if L.count_denied or (L.ops == row and not L.slices) then
    L.ops.deny(L, s, now, cost)
    return 0
  end
  L.largest = L.largest or setmetatable({ limit = largest_limit(L) }, { __index = L })
  local units = min(cost, L.ops.left(L.largest, s, now))
  if units > 0 then
    L.ops.charge(L, s, now, units)
  end
  return cost - units
end

local CANNOT_CHARGE = { err = 'ERR weir: policies with only concurrent and block layers do not support charges' }

-- A charge has no verdict, so it begins no block; and it holds nothing.
local function charge(P, S, now, cost)
  local over, counts = 0, false
  for i = 1, #P do
    counts = counts or not uncounted(P[i])
  end
  if not counts then
    return CANNOT_CHARGE
  end
  for i = 1, #P do
    if cost > 0 and not uncounted(P[i]) then
      over = max(over, charge_layer(P[i], S[i], now, cost))
      S[i].changed, S.dirty = true, true
    end
  end
  local decision = judge(P, S, now, 0, 0, false)
  decision[8] = cost - over
  return decision
end

local function grant(P, S, now, cost)
  local _, left = scarcest(P, S, now, 0)
  local granted = min(cost, left)
  if granted > 0 then
    charge_all(P, S, now, granted)
  end
  local decision = judge(P, S, now, 1, 0, false)
  decision[8] = granted
  return decision
end

-- ---- requests -----------------------------------------------------------------------------------

-- Returns a time in microseconds, or nil.
local function read_time(text)
  return text and #text <= 16 and match(text, '^%d+$') and tonumber(text) or nil
end

local BAD_COST = 'the cost: expected a whole number from 0 to 2147483647'

local BAD_KEEP = 'what to keep: expected a whole number from 0 to 2147483647, or a share of the ' ..
  'limit from 0% to 100%'

local function read_number(text, most)
  local n = #text <= 10 and match(text, '^%d+$') and tonumber(text)
  return n and n <= most and n or nil
end

-- Parses a cost, and what a take or a peek keeps: '3', '3+20' or '3+20%'. Returns both, or nil and
-- an error.
local function read_units(text, verb)
  local cost, keep = text or '', 0
  if verb == 'TAKE' or verb == 'PEEK' then
    local units, kept, share = match(cost, '^(.-)%+(.-)(%%?)$')
    if kept then
      cost, keep = units, read_number(kept, share == '' and LIMIT_MAX or 100)
      keep = keep and share ~= '' and -keep or keep
    end
  end
  cost = read_number(cost, LIMIT_MAX)
  if not cost or not keep then
    return nil, cost and BAD_KEEP or BAD_COST
  end
  return cost, keep
end

-- Parses the bounds of P's layers with a time zone from args[at] on. Returns nil and an error if
-- they are invalid.
local function read_bounds(P, args, at)
  local bounds = {}
  for i = 0, P.zones * 4 - 1 do
    local b = read_time(args[at + i])
    if not b or (i % 4 > 0 and b < bounds[i]) then
      return nil, 'weir: expected four bounds in microseconds for each layer with tz'
    end
    bounds[i + 1] = b
  end
  return bounds
end

local function failed(why)
  return { err = 'ERR ' .. why }
end

local VERBS = {
  TAKE = function(P, S, now, n, keep) return judge(P, S, now, n, keep, true) end,
  PEEK = function(P, S, now, n, keep) return judge(P, S, now, n, keep, false) end,
  RESET = function(P, S, now)
    redis.call('DEL', S.key)
    return judge(P, S, now, 0, 0, false)
  end,
  REFUND = refund,
  CHARGE = charge,
  GRANT = grant,
}

-- Removes AT and a time in microseconds from the front of the arguments. Returns the time. Without
-- AT returns nil. On failure returns nil and an error.
local function take_time(args)
  if string.upper(args[1] or '') ~= 'AT' then
    return nil
  end
  local at = read_time(args[2])
  table.remove(args, 1)
  table.remove(args, 1)
  if not at or at > TIME_MAX then
    return nil, 'the time behind AT: expected microseconds since the epoch, until the year 2180'
  end
  return at
end

-- The time until a cost of 1 is allowed, after a decision. A denial by several layers describes one
-- of them, and another may have nothing left.
local function next_of(P, S, now, keep, decision)
  if decision[3] > 0 and (decision[1] == 1 or #P == 1) then
    return 0
  end
  return judge(P, S, now, 1, keep or 0, false)[4]
end

-- Returns what layer L counts, as in src/core/figures.h. `start` is in microseconds.
local function figures(L, s, now)
  if L.ops == counter then
    return { count = s.count, previous = s.before, start = s.start }
  elseif L.ops == fixed then
    local began = s.count > 0 or not L.from_first
    return { count = L.limit - fixed.left(L, s), start = began and s.start or nil }
  elseif L.ops == row then
    return { count = L.limit - row.left(L, s, now) }
  end
  return {}
end

-- Handles one request for one key. Returns the eight numbers and the policy, or an error.
--   of_caller  its time, or nil
--   with_next  sets the members `next` and `figures` of the numbers
local function handle(key, verb, text, n, keep, args, at, of_caller, with_next)
  local P, why = read_policy(text)
  if not P then
    return failed(why)
  end
  local bounds, no_bounds = nil, nil
  if P.zones > 0 then
    bounds, no_bounds = read_bounds(P, args, at)
    if not bounds then
      return failed(no_bounds)
    end
  end
  if args[at + P.zones * 4] then
    return failed('too many arguments, expected a policy, a cost, and four bounds for each layer ' ..
      'with tz')
  end
  local now, no_time = now_us(of_caller)
  if not now then
    return no_time
  end
  local S, err = open_key(P, key, now, bounds, verb == 'RESET')
  if not S then
    return err
  end
  local decision = VERBS[verb](P, S, now, n, keep)
  S.dirty = S.dirty or (S.converted and verb ~= 'PEEK')
  if with_next and not decision.err then
    local i = decision[7] + 1
    decision.next = next_of(P, S, now, keep, decision)
    decision.figures = verb == 'PEEK' and figures(P[i], S[i], now) or {}
  end
  close_key(P, S, now)
  return decision, P
end

-- Removes a word from the end of the arguments if there are more than `needed`. Returns whether it was
-- there.
local function take_last(args, needed, word)
  local found = #args > needed and string.upper(args[#args]) == word
  if found then
    args[#args] = nil
  end
  return found
end

-- Appends the numbers of a decision, and with FIGURES the wait for the next unit and what the layer
-- counts, -1 if it has no such figure.
local function put_numbers(out, decision, next_us, of)
  for i = 1, 8 do
    out[#out + 1] = decision[i]
  end
  if next_us then
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = next_us, of.count or -1, of.previous or -1, of.start or -1
  end
  return out
end

local function weir_ask(keys, args)
  local with_figures = take_last(args, 3, 'FIGURES')
  local at, no_time = take_time(args)
  if no_time then
    return failed(no_time)
  end
  local verb = string.upper(args[1] or '')
  local cost, keep = read_units(args[3], verb)
  if #keys ~= 1 or #args < 3 then
    return failed('wrong number of arguments, expected 1 key verb policy-text n [bounds]')
  elseif not cost then
    return failed(keep)
  elseif not VERBS[verb] then
    return failed('unknown verb, expected TAKE, PEEK, REFUND, CHARGE, GRANT or RESET')
  end
  local decision = handle(keys[1], verb, args[2], cost, keep, args, 4, at, with_figures)
  return decision.err and decision or put_numbers({}, decision, decision.next, decision.figures)
end

-- Parses the policy, cost and bounds of each key. Returns a list, or nil and an error.
local function read_requests(keys, args)
  local requests, at = {}, 1
  if #keys < 1 or #keys > ALL_MAX then
    return nil, 'wrong number of keys, expected 1 to 16'
  end
  for i, key in ipairs(keys) do
    local where = 'request ' .. i - 1 .. ': '
    if not args[at + 1] then
      return nil, where .. 'expected a policy and a cost for each key'
    end
    local P, why = read_policy(args[at])
    local cost, keep = read_units(args[at + 1], 'TAKE')
    if not P then
      return nil, why .. ' (request ' .. i - 1 .. ')'
    elseif not cost then
      return nil, where .. keep
    end
    local bounds, no_bounds = read_bounds(P, args, at + 2)
    if not bounds then
      return nil, no_bounds
    end
    at, requests[i] = at + 2 + P.zones * 4,
      { P = P, key = key, cost = cost, keep = keep, bounds = bounds }
  end
  if args[at] then
    return nil, 'too many arguments, expected a policy, a cost and its bounds for each key'
  end
  return requests
end

-- Loads each key once, even if several requests have it.
local function open_all(requests, now)
  local opened = {}
  for _, r in ipairs(requests) do
    local S, err = opened[r.key], nil
    if S and S.P.text ~= r.P.text then
      return failed('weir: a key has two different policies')
    elseif not S then
      S, err = open_key(r.P, r.key, now, r.bounds)
      if not S then
        return err
      end
    end
    opened[r.key], r.S = S, S
  end
end

-- Returns whether decision a ranks before decision b when several requests are answered as one.
-- Both allow or both deny.
local function outranks(a, b)
  if a[1] == 0 and (a.wait ~= b.wait or a.early ~= b.early) then
    return waits_longer(a.wait, a.early, b.wait, b.early)
  elseif a[1] == 1 and a[3] ~= b[3] then
    return a[3] < b[3]
  end
  return waits_longer(a.reset, a.reset_early, b.reset, b.reset_early)
end

-- As judge(), for outranks().
local function ranked(P, S, now, cost, keep, charging)
  local decision = judge(P, S, now, cost, keep, charging)
  decision.reset, decision.reset_early = reset_of(P, S, decision[7] + 1, now)
  return decision
end

-- Decides on the sum of several costs. A sum above the largest cost is above every limit.
local function judge_sum(P, S, now, sum, keep)
  local decision = ranked(P, S, now, min(sum, LIMIT_MAX), keep, false)
  if sum > LIMIT_MAX then
    decision[1], decision[4], decision[6], decision.wait, decision.early = 0, -1, 0, huge, 0
  end
  return decision
end

-- A denied transaction writes nothing but this: each policy that denies its request alone begins its block.
local function begin_blocks(requests, now)
  for _, r in ipairs(requests) do
    local P = r.P
    local S = P.block and r.decision[1] == 0 and open_key(P, r.key, now, r.bounds)
    local decision = S and ranked(P, S, now, r.cost, r.keep, false)
    if S and decision[1] == 0 then
      if S[P.block].after <= now and r.cost > 0 then
        P[P.block].ops.deny(P[P.block], S[P.block], now)
        S[P.block].changed, S.dirty = true, true
        close_key(P, S, now)
        decision = ranked(P, S, now, r.cost, r.keep, false)
      end
      if outranks(decision, r.decision) then
        r.decision = decision
      end
      r.next = r.next and next_of(P, S, now, r.keep, r.decision)
    end
  end
end

-- Charges all requests or none. Returns the requests with their decisions, and the index, from 0,
-- of the request that denies all of them, or their number. On failure returns nil and an error.
--   with_next  sets the member `next` of the requests
local function take_all(keys, args, with_next)
  local at, no_time = take_time(args)
  if no_time then
    return nil, failed(no_time)
  end
  local requests, why = read_requests(keys, args)
  if not requests then
    return nil, failed(why)
  end
  local now, err = now_us(at)
  if not now then
    return nil, err
  end
  err = open_all(requests, now)
  if err then
    return nil, err
  end
  for _, r in ipairs(requests) do
    r.next = with_next and next_of(r.P, r.S, now, r.keep, judge(r.P, r.S, now, 0, r.keep, false))
  end
  local blocking, longest, denied, sums = #requests, nil, false, {}
  for _, r in ipairs(requests) do
    sums[r.S] = (sums[r.S] or 0) + r.cost
    r.alone = judge(r.P, r.S, now, r.cost, r.keep, false)
    r.decision = judge_sum(r.P, r.S, now, sums[r.S], r.keep)
    denied = denied or r.decision[1] == 0
  end
  if denied then
    begin_blocks(requests, now)
  end
  for i, r in ipairs(requests) do
    if r.decision[1] == 0 and (not longest or outranks(r.decision, longest)) then
      blocking, longest = i - 1, r.decision
    end
  end
  for _, r in ipairs(requests) do
    if not denied then
      r.decision = ranked(r.P, r.S, now, r.cost, r.keep, true)
    end
  end
  for _, r in ipairs(requests) do
    if not denied then
      r.next = with_next and next_of(r.P, r.S, now, r.keep, r.decision)
      close_key(r.P, r.S, now)
      r.S.dirty = false
    elseif r.decision[1] == 1 then
      r.decision = r.alone
    end
  end
  return requests, blocking
end

local function weir_ask_all(keys, args)
  local with_figures = take_last(args, 2 * #keys, 'FIGURES')
  local requests, blocking = take_all(keys, args, with_figures)
  if not requests then
    return blocking
  end
  local out = { blocking }
  for _, r in ipairs(requests) do
    put_numbers(out, r.decision, with_figures and r.next, {})
  end
  return out
end

-- ---- for clients --------------------------------------------------------------------------------

local NAMES = { 'allowed', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'delay_ms' }

-- Returns a map of the six numbers, next_ms and `more`. The server sends it to a RESP2 client as an array of
-- names and values. Servers before 6.0 have no maps. The order of the pairs is unspecified.
local function named(six, next_us, more)
  for i, name in ipairs(NAMES) do
    more[name] = six[i]
  end
  more.next_ms = next_us < 0 and -1 or ceil(next_us / 1000)
  if redis.setresp then
    return { map = more }
  end
  local flat = {}
  for name, value in pairs(more) do
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  return flat
end

-- Returns the six numbers of a reply, with times in milliseconds, rounded up.
local function in_ms(decision)
  local retry = decision[4]
  return { decision[1], decision[2], decision[3], retry < 0 and -1 or ceil(retry / 1000),
    ceil(decision[5] / 1000), ceil(decision[6] / 1000) }
end

local function for_clients(verb, needed)
  return function(keys, args)
    local with_names = take_last(args, needed, 'WITHNAMES')
    local cost, keep = read_units(args[2] or (verb ~= 'REFUND' and '1' or nil), verb)
    if #keys ~= 1 or #args < 1 then
      return failed('wrong number of arguments, expected 1 key policy-text [cost[+keep] [bounds]] [WITHNAMES]')
    elseif not cost then
      return failed(keep)
    end
    local decision, P = handle(keys[1], verb, args[1], cost, keep, args, 3, nil, with_names)
    if decision.err then
      return decision
    end
    local six = in_ms(decision)
    local over = verb == 'CHARGE' and cost - decision[8] or nil
    if with_names then
      local of = decision.figures
      local more = { count = of.count, previous = of.previous, policy = P.text, layer = decision[7], over = over,
        window_start_ms = of.start and floor(of.start / 1000) or nil }
      return named(six, decision.next, more)
    end
    six[7] = over
    return six
  end
end

local function weir_reset(keys)
  if #keys ~= 1 then
    return failed('wrong number of arguments, expected 1 key')
  end
  if not is_ours(keys[1]) then
    return NOT_OURS
  end
  redis.call('DEL', keys[1])
  return { ok = 'OK' }
end

-- The reply has the numbers of the request that ranks first by outranks(), and its index.
local function weir_take_all(keys, args)
  local with_names = take_last(args, 2 * #keys, 'WITHNAMES')
  local requests, blocking = take_all(keys, args, with_names)
  if not requests then
    return blocking
  end
  local chosen, delay = blocking + 1, 0
  if blocking == #requests then
    chosen = 1
    for i, r in ipairs(requests) do
      chosen = outranks(r.decision, requests[chosen].decision) and i or chosen
      delay = max(delay, r.decision[6])
    end
  end
  local r = requests[chosen]
  local out = in_ms(r.decision)
  out[6] = ceil(delay / 1000)
  if with_names then
    local more = { index = chosen - 1, policy = r.P.text, key = r.key, layer = r.decision[7] }
    return named(out, r.next, more)
  end
  out[7] = chosen - 1
  return out
end

-- Returns the canonical text of a policy, or an error.
local function weir_policy_check(_, args)
  local P, why = read_policy(args[1] or '')
  return P and P.text or failed(why)
end

local function weir_version()
  return VERSION
end

-- ---- entry points -------------------------------------------------------------------------------

local FUNCTIONS = {
  weir_ask = weir_ask,
  weir_ask_all = weir_ask_all,
  weir_take = for_clients('TAKE', 1),
  weir_peek = for_clients('PEEK', 1),
  weir_refund = for_clients('REFUND', 2),
  weir_charge = for_clients('CHARGE', 1),
  weir_reset = weir_reset,
  weir_take_all = weir_take_all,
  weir_policy_check = weir_policy_check,
  weir_version = weir_version,
}

local function register(name, flags)
  local f = FUNCTIONS[name]
  redis.register_function({
    function_name = name,
    callback = function(keys, args)
      if not floor then
        bind()
      end
      return f(keys, args)
    end,
    flags = flags,
  })
end

if redis.register_function then
  register('weir_ask', {})
  register('weir_ask_all', {})
  register('weir_take', {})
  register('weir_refund', {})
  register('weir_charge', {})
  register('weir_reset', {})
  register('weir_take_all', {})
  register('weir_peek', { 'no-writes' })
  register('weir_policy_check', { 'no-writes', 'allow-stale' })
  register('weir_version', { 'no-writes', 'allow-stale' })
  return
end

bind()
if not FUNCTIONS[ARGV[1]] then
  return failed('weir: no such function')
end
if redis.replicate_commands then
  pcall(redis.replicate_commands) -- before 5.0, a script that called TIME could not write
end
return FUNCTIONS[ARGV[1]](KEYS, { unpack(ARGV, 2) })

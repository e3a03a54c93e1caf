# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""The reference model: a slow and simple implementation of every algorithm, which src/ is tested against.

It implements docs/algorithms.md and shares no code with src/. An algorithm here defines only when a request
is allowed, and what a charge, a denial and a refund do to the state. It uses whole numbers, or fractions over
one common denominator, so nothing is ever rounded. The fields of a decision follow from their definitions by
bisection over `allows`, and not from formulas. A wrong formula in the C code therefore cannot be wrong here
in the same way.

    key = Key(parse_policy("gcra 100/s burst 20 & fixed-window 5000/day tz Europe/Berlin"))
    key.take(now_ns, cost)      a Decision
    key.take(now_ns, cost, keep=20)     one that leaves 20 units for others; keep="20%" leaves a share
    key.refund(now_ns, cost)    a Decision on a cost of 0 after the refund, or None if it is not supported
    key.change_limit(now_ns, parse_policy("gcra 200/s burst 40 & fixed-window 9000/day tz Europe/Berlin"))
                                the key keeps what it used
    key.charge(now_ns, cost)    a Decision on a cost of 0 after the charge and the units that were not counted, or None
                                if it is not supported
    key.reserve(now_ns, cost, ttl_ns)   a Decision and a Reservation (None if it was denied), or None if it is not
                                supported
    key.renew(now_ns, reservation, ttl_ns)  a Decision on a cost of 0 after it, or None if the reservation is not open
    key.commit(now_ns, reservation, cost)   as charge(), or None if the reservation was committed before

Time is whole nanoseconds since the Unix epoch. States are immutable values, so a query cannot change one.
"""

import calendar
import copy
import datetime
import functools
import math
import re
import zoneinfo
from dataclasses import dataclass
from fractions import Fraction

NS_MAX = 7 * 2**60
COST_MAX = 2**31 - 1
RATE_MAX = 2**40
PERIOD_MAX = 2**60 - 1
INT64_MAX = 2**63 - 1
SLICES_MAX = 65536
LAYERS_MAX = 8


def first_true(holds, low):
    """Returns the smallest d >= low with holds(d). holds must be false up to some point and true from there."""
    if holds(low):
        return low
    step = 1
    while not holds(low + step):
        step *= 2
    false_at, true_at = low + step // 2, low + step
    while true_at - false_at > 1:
        middle = (false_at + true_at) // 2
        if holds(middle):
            true_at = middle
        else:
            false_at = middle
    return true_at


def ceil_div(a, b):
    return -(-a // b)


class Algorithm:
    """The behaviour of one layer. `state` is what the algorithm stores for a key; `initial` is that of a new key."""

    limit = 0
    charge_limit = COST_MAX  # the largest limit of a layer like this one
    initial = None
    refundable = True
    counts = True  # whether a charge that nothing denies counts

    def effective_now(self, state, now):
        """Returns the time at which a request at `now` is decided: never earlier than the time in the state."""
        return now

    def allows(self, state, now, cost):
        raise NotImplementedError

    def charge(self, state, now, cost):
        """Returns the state after an allowed request of cost >= 1."""
        raise NotImplementedError

    def deny(self, state, now, cost):
        """Returns the state after a denied request of cost >= 1."""
        return state

    def refund(self, state, now, cost):
        """Returns the state after a refund of cost >= 1 units. It is unchanged if there is nothing to refund."""
        raise NotImplementedError

    def hold(self, state, now, cost, ttl):
        """As charge(), for a reservation that expires after `ttl`."""
        return self.charge(state, now, cost)

    def refund_reserved(self, state, now, cost, reservation):
        """As refund(), of units of a reservation, 0 or more."""
        return self.refund_since(state, now, cost, reservation.charged_ns) if cost else state

    def refund_since(self, state, now, cost, charged_ns):
        """As refund(), but returns only units that were charged at charged_ns or before. A bucket does not know when."""
        return self.refund(state, now, cost)

    def renew(self, state, now, reservation, until):
        """Returns the state after a renewal of a reservation, which then expires at `until`."""
        return state

    def carry_over(self, old, state, now):
        """Returns the state under this limit of a key that has `state` under an old limit of the same shape."""
        return state

    def as_new(self, state, now):
        """Returns whether the state at `now` decides like that of a new key."""
        return self.allows(state, now, self.limit)

    def charge_unasked(self, state, now, cost):
        """Returns the state after a charge that nothing denies, of cost >= 1, and the units that were not counted."""
        largest = copy.copy(self)
        largest.limit = self.charge_limit
        units = min(cost, remaining(largest, state, now))
        return self.charge(state, now, units) if units else state, cost - units

    def delay_ns(self, state, now):
        return 0

    def edge_after(self, now):
        """Returns a time after `now` at which decisions may change. Only used to choose the times of tests."""
        return (now // self.period + 1) * self.period


class Rate(Algorithm):
    """gcra, token-bucket and leaky-bucket: the state is the theoretical arrival time (TAT).

    T = period / n may not be whole, so times are counted in units of 1/n ns: a nanosecond is n units,
    and a cost of one is `period` units.
    """

    initial = 0

    def __init__(self, n, period, capacity):
        self.n, self.period, self.limit = n, period, capacity
        self.charge_limit = min(COST_MAX, PERIOD_MAX * n // period)

    def backlog(self, tat, now):
        return max(0, tat - now * self.n)

    def allows(self, tat, now, cost):
        return self.backlog(tat, now) + cost * self.period <= self.limit * self.period

    def charge(self, tat, now, cost):
        return max(now * self.n, tat) + cost * self.period

    def refund(self, tat, now, cost):
        if tat <= now * self.n:
            return tat
        return max(now * self.n, tat - cost * self.period)

    def carry_over(self, old, tat, now):
        """Keeps the units that were used, rounded up to a tick of 1/num ns, where num/den is n/period in lowest
        terms. The backlog is at most PERIOD_MAX ns."""
        used = Fraction(old.backlog(tat, now), old.period)
        if used == 0:
            return self.initial
        tick = self.n // Fraction(self.n, self.period).numerator
        backlog = ceil_div(used * self.period, tick) * tick
        return now * self.n + min(backlog, PERIOD_MAX * self.n)

    def edge_after(self, now):
        return now + ceil_div(self.period, self.n)


class LeakyQueue(Rate):
    """A bucket whose allowed requests are delayed by the backlog that exceeds `nodelay` units."""

    refundable = False

    def __init__(self, n, period, capacity, nodelay):
        super().__init__(n, period, capacity)
        self.nodelay = nodelay

    def delay_ns(self, tat, now):
        return ceil_div(max(0, self.backlog(tat, now) - self.nodelay * self.period), self.n)


class StepBucket(Algorithm):
    """A token bucket that receives n tokens at every multiple of the period. The state is the TAT, in tokens."""

    initial = 0

    def __init__(self, n, period, capacity):
        self.n, self.period, self.limit = n, period, capacity
        self.charge_limit = min(COST_MAX, PERIOD_MAX // period * n)

    def refilled(self, now):
        return self.n * (now // self.period)

    def allows(self, tat, now, cost):
        return max(0, tat - self.refilled(now)) + cost <= self.limit

    def charge(self, tat, now, cost):
        return max(self.refilled(now), tat) + cost

    def refund(self, tat, now, cost):
        if tat <= self.refilled(now):
            return tat
        return max(self.refilled(now), tat - cost)

    def carry_over(self, old, tat, now):
        backlog = tat - old.refilled(now)
        return self.refilled(now) + backlog if backlog > 0 else self.initial


class AlignedWindows:
    """Windows that start at every multiple of the period since the epoch."""

    def __init__(self, period):
        self.period = period

    def bounds(self, now):
        start = now // self.period * self.period
        return start, start + self.period


class CalendarWindows:
    """Local days, weeks, months or years of one time zone. They partition time.

    `anchor` is where a window begins, as a policy text says it: "06:00", "sunday", "17" or "04-01".
    """

    def __init__(self, unit, zone, anchor=None):
        self.unit, self.zone = unit, zone
        self.times = STARTS[unit](anchor or FIRST_ANCHOR[unit])

    def bounds(self, now):
        """Returns the last start at or before `now` and the first one after it."""
        date = (EPOCH + datetime.timedelta(seconds=now // SECOND)).date()
        starts = [local_start(self.zone, time) for time in self.times(date)]
        return max(start for start in starts if start <= now), min(start for start in starts if start > now)


WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIRST_ANCHOR = {"day": "00:00", "week": "monday", "month": "1", "year": "01-01"}


def midnight(date):
    return datetime.datetime.combine(date, datetime.time())


def dates_near(date, days):
    return [date + datetime.timedelta(days=n) for n in range(-days, days + 1)]


def last_day(year, month):
    return calendar.monthrange(year, month)[1]


# Each takes an anchor and returns a function, which returns the local times at which windows start near a date:
# at least one before it and one after it in every time zone.


def day_starts(anchor):
    time = datetime.datetime.strptime(anchor, "%H:%M").time()
    return lambda date: [datetime.datetime.combine(day, time) for day in dates_near(date, 2)]


def week_starts(anchor):
    weekday = WEEKDAYS.index(anchor)
    return lambda date: [midnight(day) for day in dates_near(date, 9) if day.weekday() == weekday]


def month_starts(anchor):
    wanted = bounded(anchor, 31)

    def times(date):
        months = [divmod(date.year * 12 + date.month - 1 + n, 12) for n in range(-2, 3)]
        return [datetime.datetime(year, n + 1, min(wanted, last_day(year, n + 1))) for year, n in months]

    return times


def year_starts(anchor):
    date_of = datetime.datetime.strptime(f"2000-{anchor}", "%Y-%m-%d")  # a leap year has every date

    def times(date):
        month, years = date_of.month, range(date.year - 2, date.year + 3)
        return [datetime.datetime(year, month, min(date_of.day, last_day(year, month))) for year in years]

    return times


STARTS = {"day": day_starts, "week": week_starts, "month": month_starts, "year": year_starts}

EPOCH = datetime.datetime(1970, 1, 1)
SECOND = 10**9
HOUR_S = 3600


@functools.lru_cache(maxsize=None)
def time_zone(name):
    return zoneinfo.ZoneInfo(name)


def utc_offset_s(zone, utc_s):
    """Returns how many seconds the local clock is ahead of UTC at this time."""
    moment = (EPOCH + datetime.timedelta(seconds=utc_s)).replace(tzinfo=datetime.timezone.utc)
    return round(moment.astimezone(time_zone(zone)).utcoffset().total_seconds())


def offset_spans(zone, begin_s, end_s):
    """Returns (from, to, offset) for each part of [begin_s, end_s) in which the zone's offset is constant."""
    spans, start, offset = [], begin_s, utc_offset_s(zone, begin_s)
    for probe in range(begin_s, end_s, 2 * HOUR_S):
        if utc_offset_s(zone, probe) != offset:
            change = first_true(lambda s: utc_offset_s(zone, s) != offset, probe - 2 * HOUR_S)
            spans.append((start, change, offset))
            start, offset = change, utc_offset_s(zone, change)
    return spans + [(start, end_s, offset)]


@functools.lru_cache(maxsize=None)
def local_start(zone, time):
    """Returns the first instant whose local time is `time` or later, in ns.

    If the clock shows that time twice, the result is the first time. If it skips it, the result is the time of
    the clock change. If it skips several starts, all of them are at that instant.
    """
    local_s = (time - EPOCH).days * 24 * HOUR_S + (time - EPOCH).seconds
    for begin_s, end_s, offset in offset_spans(zone, local_s - 26 * HOUR_S, local_s + 26 * HOUR_S):
        start_s = max(begin_s, local_s - offset)
        if start_s < end_s:
            return start_s * SECOND
    raise ValueError(f"no {time} in {zone}")


class FixedWindow(Algorithm):
    """A count of the window that contains now. The state is (start of the window, count)."""

    def __init__(self, limit, windows, count_denied):
        self.limit, self.windows, self.count_denied = limit, windows, count_denied
        self.refundable = not count_denied
        if isinstance(windows, AlignedWindows) and limit < windows.period:
            self.charge_limit = min(COST_MAX, windows.period - 1)

    def effective_now(self, state, now):
        return max(now, state[0]) if state else now

    def present(self, state, now):
        """Returns the state at `now`. The count of an earlier window has expired."""
        start, _ = self.windows.bounds(self.effective_now(state, now))
        return state if state and state[0] == start else (start, 0)

    def allows(self, state, now, cost):
        return self.present(state, now)[1] + cost <= self.limit

    def charge(self, state, now, cost):
        start, count = self.present(state, now)
        return start, count + cost

    def deny(self, state, now, cost):
        if not self.count_denied:
            return state
        start, count = self.present(state, now)
        return start, max(count, min(self.limit, count + cost))

    def charge_unasked(self, state, now, cost):
        return (self.deny(state, now, cost), 0) if self.count_denied else super().charge_unasked(state, now, cost)

    def refund(self, state, now, cost):
        start, count = self.present(state, now)
        return (start, max(0, count - cost)) if count else state

    def refund_since(self, state, now, cost, charged_ns):
        return self.refund(state, now, cost) if charged_ns >= self.present(state, now)[0] else state

    def edge_after(self, now):
        return self.windows.bounds(now)[1]


class FixedWindowFromFirst(FixedWindow):
    """A fixed window that starts at the first charged request and lasts one period."""

    def __init__(self, limit, period, count_denied):
        super().__init__(limit, None, count_denied)
        self.period = period

    def present(self, state, now):
        now = self.effective_now(state, now)
        return state if state and now < state[0] + self.period else (now, 0)

    def refund(self, state, now, cost):
        state = super().refund(state, now, cost)
        return state if state and state[1] else self.initial

    def edge_after(self, now):
        return now + self.period


class SlidingLog(Algorithm):
    """Every charge with its time. The state is a tuple of (timestamp, cost), the oldest first."""

    initial = ()

    def __init__(self, limit, period, count_denied):
        self.limit, self.period, self.count_denied = limit, period, count_denied
        self.refundable = not count_denied

    def effective_now(self, log, now):
        return max(now, log[-1][0]) if log else now

    def counting(self, log, now):
        """Returns the entries in (now - period, now]."""
        since = self.effective_now(log, now) - self.period
        return tuple(entry for entry in log if entry[0] > since)

    def allows(self, log, now, cost):
        return sum(units for _, units in self.counting(log, now)) + cost <= self.limit

    def charge(self, log, now, cost):
        return self.counting(log, now) + ((self.effective_now(log, now), cost),)

    def deny(self, log, now, cost):
        if not self.count_denied:
            return log
        return latest_units(self.charge(log, now, cost), self.limit)

    def charge_unasked(self, log, now, cost):
        return latest_units(self.charge(log, now, cost), self.limit), 0

    def refund(self, log, now, cost):
        counting = self.counting(log, now)
        kept = sum(units for _, units in counting) - cost
        return oldest_units(counting, kept) if counting else log

    def refund_since(self, log, now, cost, charged_ns):
        counting = self.counting(log, now)
        until = tuple(entry for entry in counting if entry[0] <= charged_ns)
        kept = sum(units for _, units in until) - cost
        return oldest_units(until, kept) + counting[len(until):] if until else log

    def carry_over(self, old, log, now):
        return merge_oldest(old.counting(log, now), self.limit)

    def edge_after(self, now):
        return now + self.period


def oldest_units(log, total):
    """Returns the first `total` units of a log."""
    kept = []
    for stamp, units in log:
        units = min(units, total)
        if units > 0:
            kept.append((stamp, units))
            total -= units
    return tuple(kept)


def latest_units(log, total):
    """Returns the last `total` units of a log."""
    return oldest_units(log[::-1], total)[::-1]


def merge_oldest(log, limit):
    """Returns a log in which the units above the limit, and one more, end with the last of them."""
    above = sum(units for _, units in log) - limit
    if above <= 0:
        return log
    last = oldest_units(log, above + 1)[-1][0]
    return ((last, above + 1),) + latest_units(log, limit - 1)


class SlidingCounter(Algorithm):
    """The current window plus the weighted previous one. The state is (start, prev, cur)."""

    def __init__(self, limit, period, relaxed):
        self.limit, self.period, self.relaxed = limit, period, relaxed

    def effective_now(self, state, now):
        return max(now, state[0]) if state else now

    def present(self, state, now):
        now = self.effective_now(state, now)
        start = now // self.period * self.period
        if state and state[0] == start:
            return state
        if state and state[0] + self.period == start:
            return start, state[2], 0
        return start, 0, 0

    def allows(self, state, now, cost):
        start, prev, cur = self.present(state, now)
        overlap = self.period - (self.effective_now(state, now) - start)
        estimate = prev * overlap + (cur + cost) * self.period
        if self.relaxed:
            return estimate < (self.limit + 1) * self.period
        return estimate <= self.limit * self.period

    def charge(self, state, now, cost):
        start, prev, cur = self.present(state, now)
        return start, prev, cur + cost

    def refund(self, state, now, cost):
        start, prev, cur = self.present(state, now)
        if prev + cur == 0:
            return state
        from_cur = min(cost, cur)
        return start, max(0, prev - (cost - from_cur)), cur - from_cur

    def refund_since(self, state, now, cost, charged_ns):
        start, prev, cur = self.present(state, now)
        if charged_ns >= start:
            return self.refund(state, now, cost)
        return (start, max(0, prev - cost), cur) if charged_ns >= start - self.period else state


class SlidingSlices(Algorithm):
    """Counts of the current slice of the window and of the slices before it.

    The state is (latest slice, counts), where counts is a tuple of (slice, count), the oldest first.
    """

    def __init__(self, limit, period, slices):
        self.limit, self.period, self.slices = limit, period, slices

    def slice_at(self, now):
        """Returns the k with ceil(k * period / slices) <= now < ceil((k + 1) * period / slices)."""
        return now * self.slices // self.period

    def slice_start(self, k):
        return ceil_div(k * self.period, self.slices)

    def effective_now(self, state, now):
        return max(now, self.slice_start(state[0])) if state else now

    def present(self, state, now):
        k = self.slice_at(self.effective_now(state, now))
        counts = state[1] if state else ()
        return k, tuple(entry for entry in counts if entry[0] > k - self.slices)

    def allows(self, state, now, cost):
        _, counts = self.present(state, now)
        return sum(count for _, count in counts) + cost <= self.limit

    def charge(self, state, now, cost):
        k, counts = self.present(state, now)
        return k, counts + ((k, cost),)

    def refund(self, state, now, cost):
        k, counts = self.present(state, now)
        kept = sum(count for _, count in counts) - cost
        return (k, oldest_units(counts, kept)) if counts else state

    def refund_since(self, state, now, cost, charged_ns):
        k, counts = self.present(state, now)
        until = tuple(entry for entry in counts if entry[0] <= self.slice_at(charged_ns))
        kept = sum(count for _, count in until) - cost
        return (k, oldest_units(until, kept) + counts[len(until):]) if until else state

    def edge_after(self, now):
        return self.slice_start(self.slice_at(now) + 1)


class Block(Algorithm):
    """Denies everything for some time after a denial. The state is (end of the last block, its length).

    `longest` is None if every block has the same length. The limit is the lowest of the other layers.
    """

    initial = (0, 0)
    counts = False

    def __init__(self, period, longest):
        self.period, self.longest = period, longest

    def allows(self, state, now, cost):
        return now >= state[0]

    def charge(self, state, now, cost):
        return state

    def refund(self, state, now, cost):
        return state

    def deny(self, state, now, cost):
        length = self.period if self.as_new(state, now) else min(self.longest, 2 * state[1])
        return now + length, length

    def as_new(self, state, now):
        end, length = state
        return now >= (end + length if self.longest else end)

    def edge_after(self, now):
        return now + self.period


class Concurrent(Algorithm):
    """Units that are held until a lease ends. The state is a tuple of (end, units), the first to end first."""

    counts = False
    initial = ()

    def __init__(self, limit, period):
        self.limit, self.period = limit, period

    def effective_now(self, leases, now):
        """The latest end is at most `period` after the last charge."""
        return max(now, leases[-1][0] - self.period) if leases else now

    def held(self, leases, now):
        return tuple(lease for lease in leases if lease[0] > now)

    def allows(self, leases, now, cost):
        return sum(units for _, units in self.held(leases, now)) + cost <= self.limit

    def hold(self, leases, now, cost, ttl):
        end = self.effective_now(leases, now) + ttl
        return tuple(sorted(self.held(leases, now) + ((end, cost),)))

    def charge(self, leases, now, cost):
        return self.hold(leases, now, cost, self.period)

    def refund(self, leases, now, cost):
        held = self.held(leases, now)
        kept = sum(units for _, units in held) - cost
        return latest_units(held, kept) if held else leases

    def refund_reserved(self, leases, now, cost, reservation):
        """Gives back all units of the reservation that are still held."""
        return self.move(leases, now, reservation, None)

    def renew(self, leases, now, reservation, until):
        return self.move(leases, now, reservation, until)

    def move(self, leases, now, reservation, until):
        """Ends the lease of a reservation at `until`, or now if that is None. Units whose leases end at the same
        instant are interchangeable."""
        held = self.held(leases, now)
        same = sum(units for end, units in held if end == reservation.expires_ns)
        units = min(same, reservation.units)
        if units == 0:
            return leases
        kept = [lease for lease in held if lease[0] != reservation.expires_ns]
        kept += [(reservation.expires_ns, same - units)] if same > units else []
        return tuple(sorted(kept + ([(until, units)] if until else [])))

    def carry_over(self, old, leases, now):
        return merge_oldest(old.held(leases, now), self.limit)

    def edge_after(self, now):
        return now + self.period


@dataclass(frozen=True)
class Decision:
    """A decision. retry_after_ns is None if no wait helps."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_ns: int | None
    reset_after_ns: int
    delay_ns: int
    layer: int


@dataclass(eq=False)
class Reservation:
    """Units that were charged provisionally. They are 0 once it has expired."""

    charged_ns: int
    expires_ns: int
    units: int
    settled: bool = False


def kept_units(algorithm, keep):
    """Returns how many units a request leaves for others: `keep`, or a share of the limit, as in "20%"."""
    return ceil_div(algorithm.limit * int(keep[:-1]), 100) if isinstance(keep, str) else keep


def remaining(algorithm, state, now, kept=0):
    """Returns the largest cost that is allowed now and leaves `kept` units, or 0."""
    if not algorithm.allows(state, now, 1 + kept):
        return 0
    return first_true(lambda cost: cost == COST_MAX or not algorithm.allows(state, now, cost + 1 + kept), 1)


def retry_after(algorithm, state, now, cost):
    """Returns the smallest wait after which the request is allowed, 0 if it is allowed now, None if it never is."""
    if cost > algorithm.limit:
        return None
    return first_true(lambda d: algorithm.allows(state, now + d, cost), 0)


def reset_after(algorithm, state, now):
    """Returns the smallest wait after which the layer decides like that of a new key."""
    return first_true(lambda d: algorithm.as_new(state, now + d), 0)


class Key:
    """One key under one policy (a list of algorithms, one for each layer)."""

    def __init__(self, layers):
        self.layers = layers
        self.states = [layer.initial for layer in layers]
        self.open = []  # reservations that have not expired

    def take(self, now, cost, keep=0, ttl=None):
        """`ttl` is that of a reservation."""
        self.expire(now)
        pairs = list(zip(self.layers, self.states))
        kept = [kept_units(layer, keep) for layer in self.layers]
        allowed = all(layer.allows(state, now, cost + left) for (layer, state), left in zip(pairs, kept))
        if not allowed:
            if cost >= 1 and not self.blocked(now):
                self.states = [layer.deny(state, now, cost) for layer, state in pairs]
            return self.denied_decision(now, cost, kept)
        delay_ns = max(layer.delay_ns(state, now) for layer, state in pairs)
        if cost >= 1:
            self.states = [layer.charge(state, now, cost) if ttl is None else layer.hold(state, now, cost, ttl)
                           for layer, state in pairs]
        return self.allowed_decision(now, delay_ns, kept)

    def blocked(self, now):
        """Returns whether a block is running."""
        return any(isinstance(layer, Block) and not layer.allows(state, now, 0)
                   for layer, state in zip(self.layers, self.states))

    def refund(self, now, cost):
        if not all(layer.refundable for layer in self.layers):
            return None
        self.expire(now)
        if cost >= 1:
            self.states = [layer.refund(state, now, cost) for layer, state in zip(self.layers, self.states)]
        return self.take(now, 0)

    def change_limit(self, now, layers):
        """`layers` have the shape of the old ones: the same algorithms, periods, calendars and slices."""
        self.states = [new.carry_over(old, state, now)
                       for new, old, state in zip(layers, self.layers, self.states)]
        self.layers = layers

    def charge(self, now, cost):
        if not any(layer.counts for layer in self.layers):
            return None
        self.expire(now)
        over = self.charge_unasked(now, cost)
        return self.take(now, 0), over

    def charge_unasked(self, now, cost):
        """Returns the units that were not counted."""
        if cost == 0:
            return 0
        charged = [layer.charge_unasked(state, now, cost) if layer.counts else (state, 0)
                   for layer, state in zip(self.layers, self.states)]
        self.states = [state for state, _ in charged]
        return max(left for _, left in charged)

    def time(self, now):
        """The time at which all layers find what is charged at `now`."""
        return max(layer.effective_now(state, now) for layer, state in zip(self.layers, self.states))

    def expire(self, now):
        """Gives back the units of reservations that have expired, as of their expiry."""
        for reservation in sorted(self.open, key=lambda one: one.expires_ns):
            if reservation.expires_ns <= now:
                self.give_back(reservation, reservation.expires_ns, reservation.units)
                self.open.remove(reservation)
                reservation.units = 0

    def give_back(self, reservation, now, cost):
        now = self.time(now)
        self.states = [layer.refund_reserved(state, now, cost, reservation)
                       for layer, state in zip(self.layers, self.states)]

    def ttl(self, ttl):
        return ttl or next(layer.period for layer in self.layers if isinstance(layer, Concurrent))

    def reserve(self, now, cost, ttl=None):
        if not all(layer.refundable for layer in self.layers):
            return None
        self.expire(now)
        now, ttl = self.time(now), self.ttl(ttl)
        decision = self.take(now, cost, ttl=ttl)
        if not decision.allowed:
            return decision, None
        self.open.append(Reservation(now, now + ttl, cost))
        return decision, self.open[-1]

    def renew(self, now, reservation, ttl=None):
        self.expire(now)
        if reservation not in self.open:
            return None
        time = self.time(now)
        until = time + self.ttl(ttl)
        self.states = [layer.renew(state, time, reservation, until) for layer, state in zip(self.layers, self.states)]
        reservation.expires_ns = until
        return self.take(now, 0)

    def commit(self, now, reservation, cost):
        """Settles a reservation at its real cost. A cost of 0 cancels it."""
        self.expire(now)
        if reservation.settled:
            return None
        reservation.settled = True
        if reservation in self.open:
            self.open.remove(reservation)
        over = self.charge_unasked(now, max(0, cost - reservation.units))
        self.give_back(reservation, now, max(0, reservation.units - cost))
        return self.take(now, 0), over

    def allowed_decision(self, now, delay_ns, kept):
        """The decision of the layer with the smallest remaining. A block has none."""
        left = [math.inf if isinstance(layer, Block) else remaining(layer, state, now, units)
                for layer, state, units in zip(self.layers, self.states, kept)]
        return self.decision(self.latest_reset(left, min(left), now), now, True, 0, delay_ns, kept)

    def denied_decision(self, now, cost, kept):
        """The decision of the layer with the longest wait.

        The waits are computed after the denial: a count-denied layer that allowed this request may deny
        it once it has counted it, and may have the longest wait.
        """
        waits = [retry_after(*of, now, cost + units) for *of, units in zip(self.layers, self.states, kept)]
        longest = None if None in waits else max(waits)
        return self.decision(self.latest_reset(waits, longest, now), now, False, longest, 0, kept)

    def latest_reset(self, values, value, now):
        """Returns the index of the layer with this value that resets last, or the first of them on a tie."""
        tied = [index for index, other in enumerate(values) if other == value]
        return max(tied, key=lambda index: reset_after(self.layers[index], self.states[index], now))

    def decision(self, index, now, allowed, wait_ns, delay_ns, kept):
        layer, state = self.layers[index], self.states[index]
        return Decision(
            allowed=allowed,
            limit=layer.limit,
            remaining=remaining(layer, state, now, kept[index]),
            retry_after_ns=None if wait_ns is None else min(INT64_MAX, wait_ns),
            reset_after_ns=min(INT64_MAX, reset_after(layer, state, now)),
            delay_ns=min(INT64_MAX, delay_ns),
            layer=index,
        )


# The parser of policy texts. It accepts valid texts and does not explain errors.

UNITS_NS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
    "d": 24 * 3600 * SECOND, "w": 7 * 24 * 3600 * SECOND,
}
CALENDAR_WORDS = ("day", "week", "month", "year")
PERIOD_PART = re.compile(r"(\d*)(ns|us|ms|s|m|h|d|w)")


def parse_period(text):
    """Parses a period: `90s`, `1h30m`, `250ms`, or a unit alone."""
    parts = PERIOD_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a period: {text!r}")
    return bounded(sum(int(number or 1) * UNITS_NS[unit] for number, unit in parts), PERIOD_MAX)


def bounded(value, most, least=1):
    value = int(value)
    if not least <= value <= most:
        raise ValueError(f"{value} is not in {least}..{most}")
    return value


class Words:
    """The words of one layer, in any order: flags, and options with a value."""

    def __init__(self, text):
        self.words = text.split()

    def first(self):
        return self.words.pop(0)

    def flag(self, name):
        if name not in self.words:
            return False
        self.words.remove(name)
        return True

    def option(self, name, default=None):
        if name not in self.words:
            return default
        at = self.words.index(name)
        value = self.words[at + 1]
        del self.words[at:at + 2]
        return value

    def end(self):
        if self.words:
            raise ValueError(f"words left over: {self.words}")


def parse_policy(text):
    layers = [parse_layer(Words(part)) for part in text.split("&")]
    bounded(len(layers), LAYERS_MAX)
    bounded(sum(isinstance(layer, Concurrent) for layer in layers), 1, least=0)
    blocks = [layer for layer in layers if isinstance(layer, Block)]
    bounded(len(blocks), min(1, len(layers) - 1), least=0)
    others = [layer for layer in layers if not isinstance(layer, Block)]
    for block in blocks:
        block.limit = min(layer.limit for layer in others)
    return others + blocks


def parse_layer(words):
    layer = LAYER_PARSERS[words.first()](words)
    words.end()
    return layer


def parse_rate(text):
    n, period = text.split("/")
    return bounded(n, RATE_MAX), parse_period(period)


def parse_quota(text):
    n, period = text.split("/")
    return bounded(n, COST_MAX), parse_period(period)


def rate_layer(kind, rate, capacity, *options):
    n, period = rate
    if capacity * period > PERIOD_MAX * n:
        raise ValueError("an empty bucket would take too long to refill")
    return kind(n, period, capacity, *options)


def parse_gcra(words):
    return rate_layer(Rate, parse_rate(words.first()), bounded(words.option("burst", 1), COST_MAX))


def parse_token_bucket(words):
    capacity = bounded(words.first(), COST_MAX)
    refill, every = words.option("refill"), words.option("every")
    if every is None:
        return rate_layer(Rate, parse_rate(refill), capacity)
    n, period = bounded(refill, RATE_MAX), parse_period(every)
    if ceil_div(capacity, n) * period > PERIOD_MAX:
        raise ValueError("an empty bucket would take too long to refill")
    return StepBucket(n, period, capacity)


def parse_leaky_bucket(words):
    return rate_layer(Rate, parse_rate(words.first()), bounded(words.option("capacity"), COST_MAX))


def parse_leaky_queue(words):
    depth = bounded(words.option("depth"), COST_MAX - 1, least=0)
    nodelay = bounded(words.option("nodelay", 0), depth, least=0)
    return rate_layer(LeakyQueue, parse_rate(words.first()), depth + 1, nodelay)


def parse_fixed_window(words):
    n, period = words.first().split("/")
    limit, count_denied = bounded(n, COST_MAX), words.flag("count-denied")
    if period in CALENDAR_WORDS:
        windows = CalendarWindows(period, words.option("tz", "UTC"), words.option("from"))
        return FixedWindow(limit, windows, count_denied)
    if words.flag("from-first"):
        return FixedWindowFromFirst(limit, parse_period(period), count_denied)
    return FixedWindow(limit, AlignedWindows(parse_period(period)), count_denied)


def parse_sliding_log(words):
    return SlidingLog(*parse_quota(words.first()), words.flag("count-denied"))


def parse_sliding_counter(words):
    words.flag("strict")
    return SlidingCounter(*parse_quota(words.first()), words.flag("relaxed"))


def parse_sliding_slices(words):
    slices = bounded(words.option("slices"), SLICES_MAX)
    limit, period = parse_quota(words.first())
    return SlidingSlices(limit, period, bounded(slices, period))


def parse_block(words):
    period, longest = parse_period(words.first()), words.option("doubling")
    return Block(period, bounded(parse_period(longest), PERIOD_MAX, least=period + 1) if longest else None)


def parse_concurrent(words):
    return Concurrent(bounded(words.first(), COST_MAX), parse_period(words.option("lease")))


LAYER_PARSERS = {
    "gcra": parse_gcra,
    "token-bucket": parse_token_bucket,
    "leaky-bucket": parse_leaky_bucket,
    "leaky-queue": parse_leaky_queue,
    "fixed-window": parse_fixed_window,
    "sliding-log": parse_sliding_log,
    "sliding-counter": parse_sliding_counter,
    "sliding-slices": parse_sliding_slices,
    "block": parse_block,
    "concurrent": parse_concurrent,
}

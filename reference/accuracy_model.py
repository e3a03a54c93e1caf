# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""A slow and simple model of `weir accuracy`: the generated traffic of docs/accuracy.md, and the counts of wrong
decisions. It shares no code with src/.

Every algorithm here keeps all charges of a key, and counts those between two times by bisection. All decisions
compare whole numbers, so none is rounded.

    measure("own", 100, MINUTE, policies(100, MINUTE), requests)     a Tally for each policy
"""

import bisect
from dataclasses import dataclass

MASK = 2**64 - 1
BEGIN_NS = 1767225600 * 10**9  # 2026-01-01T00:00:00Z
LAST_NS = 7 * 2**60
LN2 = 2977044472  # in units of 2^-32, rounded down


# ---- traffic -----------------------------------------------------------------------------------------


class SplitMix:
    """splitmix64, of Steele, Lea and Flood."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)


def log2_entry(i):
    """Returns log2(1 + i/1024) in units of 2^-40, from the squares of a number of 31 bits after the point."""
    if i == 1024:
        return 2**40
    x, bits = (1024 + i) * 2**21, 0
    for _ in range(40):
        x, bits = x * x // 2**31, bits * 2
        if x >= 2**32:
            x, bits = x // 2, bits + 1
    return bits


LOG2 = [log2_entry(i) for i in range(1025)]


def minus_log2(u):
    """Returns -log2(u / 2^64) in units of 2^-40."""
    exponent = u.bit_length() - 1
    fraction = (u << (64 - exponent)) & MASK  # 64 bits after the leading one
    step, rest = divmod(fraction, 2**54)
    rest //= 2**22
    return (64 - exponent) * 2**40 - LOG2[step] - (LOG2[step + 1] - LOG2[step]) * rest // 2**32


def shares(kind, sources, requests):
    """Returns how many requests each source sends."""
    weights = [2**30 // (i + 1) if kind == "heavy-tailed" else 1 for i in range(sources)]
    total, sent, weight, counts = sum(weights), 0, 0, []
    for w in weights:
        weight += w
        counts.append(weight * requests // total - sent)
        sent = weight * requests // total
    return counts


def source_times(kind, number, count, span_ns, seed):
    """Returns the times of the requests of source `number`, counted from 1."""
    random = SplitMix(SplitMix(seed).next() ^ (number * 0xD1342543DE82EF95 & MASK))
    random = SplitMix(random.next())
    gap = -(-span_ns // count)
    gap_unit = gap * LN2 // 2**32
    now = BEGIN_NS + random.next() * gap // 2**64
    times = []
    for _ in range(count):
        times.append(now)
        if kind == "steady":
            step = gap
        else:
            parts = 10
            if kind == "bursty":
                parts = 181 if random.next() * 20 // 2**64 == 0 else 1
            step = (gap_unit * minus_log2(random.next() | 1) // 2**40) * parts // 10
        now = min(now + step, LAST_NS)
    return times


def generate(kind, sources, requests, rate, period_ns, seed):
    """Returns a list for each source that sends requests, of pairs (time, cost)."""
    span_ns = requests * period_ns // (sources * rate)
    counts = shares(kind, sources, requests)
    return [
        [(t, 1) for t in source_times(kind, i + 1, count, span_ns, seed)] for i, count in enumerate(counts) if count
    ]


# ---- algorithms --------------------------------------------------------------------------------------


class History:
    """The charges of a key."""

    def __init__(self):
        self.times, self.sums = [], [0]

    def add(self, now, cost):
        self.times.append(now)
        self.sums.append(self.sums[-1] + cost)

    def before(self, end):
        """Returns the units charged before `end`."""
        return self.sums[bisect.bisect_left(self.times, end)]

    def since(self, begin):
        """Returns the units charged at `begin` or later."""
        return self.sums[-1] - self.before(begin)


class Window:
    """An algorithm that compares an estimate of the units in the window, with the request, with the limit."""

    def __init__(self, limit, period):
        self.limit, self.period, self.history = limit, period, History()

    def held(self, now):
        raise NotImplementedError

    def estimate(self, now, cost):
        return self.held(now) + cost

    def allows(self, now, cost):
        return self.estimate(now, cost) <= self.limit

    def charge(self, now, cost):
        self.history.add(now, cost)


class Log(Window):
    def held(self, now):
        return self.history.since(now - self.period + 1)


class Fixed(Window):
    def held(self, now):
        return self.history.since(now // self.period * self.period)


class Slices(Window):
    def __init__(self, limit, period, slices):
        super().__init__(limit, period)
        self.slices = slices

    def held(self, now):
        oldest = now * self.slices // self.period - self.slices + 1
        return self.history.since(-(-oldest * self.period // self.slices))


class Counter(Window):
    slack = 0

    def weighted(self, now, cost):
        """Returns the estimate times the period, a whole number."""
        start = now // self.period * self.period
        current = self.history.since(start)
        previous = self.history.since(start - self.period) - current
        return previous * (self.period - (now - start)) + (current + cost) * self.period

    def estimate(self, now, cost):
        return self.weighted(now, cost) / self.period

    def allows(self, now, cost):
        return self.weighted(now, cost) <= self.limit * self.period + self.slack


class RelaxedCounter(Counter):
    def __init__(self, limit, period):
        super().__init__(limit, period)
        self.slack = period - 1


class Gcra:
    """Without an estimate. Times are in units of 1/limit ns."""

    estimate = None

    def __init__(self, limit, period, burst):
        self.limit, self.period, self.burst, self.tat = limit, period, burst, 0

    def allows(self, now, cost):
        return max(0, self.tat - now * self.limit) + cost * self.period <= self.burst * self.period

    def charge(self, now, cost):
        self.tat = max(now * self.limit, self.tat) + cost * self.period


def policies(limit, period, against):
    """Returns the policies that are measured without --policy, as functions that make a new key."""
    windows = [
        lambda: Counter(limit, period),
        lambda: RelaxedCounter(limit, period),
        lambda: Slices(limit, period, 6),
        lambda: Slices(limit, period, 10),
        lambda: Slices(limit, period, 60),
        lambda: Fixed(limit, period),
    ]
    bursts = dict.fromkeys([limit, 1])  # one policy if the limit is 1
    buckets = [lambda burst=burst: Gcra(limit, period, burst) for burst in bursts]
    return windows if against == "rate" else windows + buckets


# ---- comparison --------------------------------------------------------------------------------------


@dataclass
class Tally:
    allowed: int = 0
    denied: int = 0
    wrongly_allowed: int = 0
    wrongly_denied: int = 0
    keys_missed: int = 0
    keys_wrongly_denied: int = 0
    peak: int = 0
    estimates: int = 0
    error_sum: float = 0.0
    error_max: float = 0.0

    def add(self, allowed, fits):
        self.allowed += allowed
        self.denied += not allowed
        self.wrongly_allowed += allowed and not fits
        self.wrongly_denied += fits and not allowed

    def add_error(self, estimate, true):
        error = abs(estimate - true) / true
        self.estimates += 1
        self.error_sum += error
        self.error_max = max(self.error_max, error)


def measure_key(against, limit, period, make, requests, tally):
    """Decides the requests of a key with one policy. Returns how many the exact decision denies."""
    policy, exact = make(), Log(limit, period)
    ever_denied = ever_exactly = False
    exactly_denied = 0
    for now, cost in requests:
        fits = exact.allows(now, cost)
        true = exact.estimate(now, cost)
        allowed = policy.allows(now, cost)
        tally.add(allowed, fits)
        if cost and policy.estimate:
            tally.add_error(policy.estimate(now, cost), true)
        if allowed or against == "rate":
            policy.charge(now, cost)
        if {"own": allowed, "log": fits, "rate": True}[against]:
            exact.charge(now, cost)
        if allowed and against == "own":
            tally.peak = max(tally.peak, true)
        exactly_denied += not fits
        ever_denied |= not allowed
        ever_exactly |= not fits
    tally.keys_missed += ever_exactly and not ever_denied
    tally.keys_wrongly_denied += ever_denied and not ever_exactly
    return exactly_denied


def measure(against, limit, period, makes, keys):
    """Returns a Tally for each policy, and how many requests the exact decision denies.

    keys: a list of (time, cost) for each key, in the order of time."""
    tallies, exactly_denied = [], 0
    for make in makes:
        tally = Tally()
        exactly_denied = sum(measure_key(against, limit, period, make, requests, tally) for requests in keys)
        tallies.append(tally)
    return tallies, exactly_denied

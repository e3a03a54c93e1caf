# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""A slow and simple model of `weir accuracy`: the counts of wrong decisions. It shares no code with src/.

Every algorithm here keeps all charges of a key, and counts those between two times by bisection. All decisions
compare whole numbers, so none is rounded.

    measure("own", 100, MINUTE, policies(100, MINUTE), requests)     a Tally for each policy
"""

import bisect
from dataclasses import dataclass



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

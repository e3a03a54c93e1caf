# SPDX-License-Identifier: BSD-2-Clause
"""Rate limiters as articles describe them, with the faults that docs/claims.md shows.

They are examples of what can go wrong. Do not copy them.

A limiter is created for one key. decide(now_s, cost) returns whether a request is allowed, and
charges it. Times are in seconds, as fractions, and never go back. `note` is a text about the last
decision, or "". The limiters that the articles write with floating-point numbers use them here too.
"""
import math
from fractions import Fraction


class Limiter:
    note = ""


class TickerBucket(Limiter):
    """A token bucket that a timer fills: `limit` tokens at once, every `window`, from time 0."""

    def __init__(self, capacity, limit, window):
        self.capacity, self.limit, self.window = capacity, limit, window
        self.tokens, self.ticks = capacity, 0

    def decide(self, now_s, cost):
        ticks = now_s // self.window
        self.tokens = min(self.capacity, self.tokens + (ticks - self.ticks) * self.limit)
        self.ticks = ticks
        if self.tokens < cost:
            return False
        self.tokens -= cost
        return True


class IntervalBucket(Limiter):
    """A token bucket that refills in steps, at each multiple of `interval` since its first request."""

    def __init__(self, capacity, refill, interval):
        self.capacity, self.refill, self.interval = capacity, refill, interval
        self.tokens, self.refilled_s = capacity, None

    def decide(self, now_s, cost):
        if self.refilled_s is None:
            self.refilled_s = now_s
        steps = (now_s - self.refilled_s) // self.interval
        self.tokens = min(self.capacity, self.tokens + steps * self.refill)
        self.refilled_s += steps * self.interval
        if self.tokens < cost:
            return False
        self.tokens -= cost
        return True


class FloatBucket(Limiter):
    """A token bucket that counts in floating-point numbers, and refills at each request."""

    def __init__(self, capacity, limit, window):
        self.capacity, self.limit, self.window = float(capacity), float(limit), float(window)
        self.tokens, self.last_s = float(capacity), Fraction(0)

    def decide(self, now_s, cost):
        self.tokens = min(self.capacity, self.tokens + self.limit * float(now_s - self.last_s) / self.window)
        self.last_s = now_s
        self.note = f"{self.tokens:.17g} tokens"
        if self.tokens < cost:
            return False
        self.tokens -= cost
        return True


class FloatMeter(Limiter):
    """A leaky bucket as a meter, in floating-point numbers."""

    def __init__(self, capacity, limit, window):
        self.capacity, self.limit, self.window = float(capacity), float(limit), float(window)
        self.level, self.last_s = 0.0, Fraction(0)

    def decide(self, now_s, cost):
        self.level = max(0.0, self.level - self.limit * float(now_s - self.last_s) / self.window)
        self.last_s = now_s
        if self.level + cost > self.capacity:
            return False
        self.level += cost
        return True


class SecondsBucket(Limiter):
    """A token bucket that multiplies a rate per window by a time in seconds."""

    def __init__(self, capacity, rate):
        self.capacity, self.rate = capacity, rate
        self.tokens, self.last_s = Fraction(capacity), Fraction(0)

    def decide(self, now_s, cost):
        self.tokens = min(self.capacity, self.tokens + self.rate * (now_s - self.last_s))
        self.last_s = now_s
        if self.tokens < cost:
            return False
        self.tokens -= cost
        return True


class CountAndTimestamp(Limiter):
    """A count and the time at which it began; begins again when `window` has passed."""

    def __init__(self, limit, window):
        self.limit, self.window = limit, window
        self.count, self.start_s = 0, None

    def decide(self, now_s, cost):
        if self.start_s is None or now_s - self.start_s > self.window:
            self.count, self.start_s = 0, now_s
        if self.count + cost > self.limit:
            return False
        self.count += cost
        return True


class Countdown(Limiter):
    """A value that begins at `limit`, is decremented by later requests, and expires after `window`."""

    def __init__(self, limit, window):
        self.limit, self.window = limit, window
        self.value, self.end_s = None, Fraction(0)

    def decide(self, now_s, cost):
        if self.value is None or now_s >= self.end_s:
            self.value, self.end_s = self.limit, now_s + self.window
            return True
        self.value = max(0, self.value - cost)
        return self.value > 0


class TickerWindow(Limiter):
    """A count that a timer sets to 0 at each multiple of `window`."""

    def __init__(self, limit, window):
        self.limit, self.window = limit, window
        self.count, self.index = 0, 0

    def decide(self, now_s, cost):
        if now_s // self.window != self.index:
            self.count, self.index = 0, now_s // self.window
        if self.count + cost > self.limit:
            return False
        self.count += cost
        return True


class Log(Limiter):
    """A log of requests that removes those that are `window` old, before it counts.

    `denied=log` also logs requests that it denies. `edge=kept` keeps a request that is exactly `window` old.
    """

    def __init__(self, limit, window, denied="forget", edge="removed"):
        self.limit, self.window, self.denied, self.edge = limit, window, denied, edge
        self.log = []

    def decide(self, now_s, cost):
        start_s = now_s - self.window
        self.log = [t for t in self.log if t > start_s or (self.edge == "kept" and t == start_s)]
        allowed = len(self.log) + cost <= self.limit
        if allowed or self.denied == "log":
            self.log += [now_s] * cost
        self.note = f"log of {len(self.log)}"
        return allowed


class Counter(Limiter):
    """A sliding window counter: the previous count, weighted by its overlap, plus the current one.

    `check=strict` adds the request before it compares. `previous=stale` takes the last window that had
    a request for the previous one, even if it is long ago.
    """

    def __init__(self, limit, window, check="relaxed", previous="adjacent"):
        self.limit, self.window, self.check, self.previous = limit, window, check, previous
        self.before, self.count, self.index = 0, 0, 0

    def decide(self, now_s, cost):
        index = now_s // self.window
        if index != self.index:
            adjacent = index == self.index + 1 or self.previous == "stale"
            self.before, self.count, self.index = self.count if adjacent else 0, 0, index
        estimate = self.before * (1 - Fraction(now_s % self.window) / self.window) + self.count
        self.note = f"estimate {float(estimate):g}"
        if estimate + cost > self.limit if self.check == "strict" else estimate >= self.limit:
            return False
        self.count += cost
        return True


class CachedCounter(Limiter):
    """A sliding window counter as one count for each window, which expires `ttl` after its first request."""

    def __init__(self, limit, window, ttl):
        self.limit, self.window, self.ttl = limit, window, ttl
        self.counts = {}  # index of the window: (count, when it expires)

    def decide(self, now_s, cost):
        index = now_s // self.window
        self.counts = {i: (count, end_s) for i, (count, end_s) in self.counts.items() if end_s > now_s}
        before, count = (self.counts.get(i, (0, 0))[0] for i in (index - 1, index))
        estimate = before * (1 - Fraction(now_s % self.window) / self.window) + count
        self.note = f"estimate {float(estimate):g}"
        if estimate >= self.limit:
            return False
        self.counts[index] = (count + cost, self.counts.get(index, (0, now_s + self.ttl))[1])
        return True


class SyncedWindow(Limiter):
    """A fixed window in several instances, which receive requests in turn.

    Each instance counts in its own memory, and learns the counts of the others at each multiple of `sync`.
    """

    def __init__(self, limit, window, instances, sync):
        self.limit, self.window, self.sync = limit, window, sync
        self.shared, self.own, self.next = 0, [0] * instances, 0
        self.index, self.synced = 0, 0

    def decide(self, now_s, cost):
        if now_s // self.window != self.index:
            self.shared, self.own, self.index = 0, [0] * len(self.own), now_s // self.window
        if now_s // self.sync != self.synced:
            self.shared, self.own, self.synced = self.shared + sum(self.own), [0] * len(self.own), now_s // self.sync
        instance, self.next = self.next, (self.next + 1) % len(self.own)
        if self.shared + self.own[instance] + cost > self.limit:
            return False
        self.own[instance] += cost
        return True


class GoGcra(Limiter):
    """GCRA with whole nanoseconds, where `burst` is all that passes at once."""

    def __init__(self, limit, window, burst):
        self.interval = int(window * 10**9) // limit
        self.tolerance, self.tat = burst * self.interval, 0

    def decide(self, now_s, cost):
        now = int(now_s * 10**9)
        tat = max(now, self.tat) + self.interval * cost
        spare = now - (tat - self.tolerance)
        if spare < 0:
            self.note = f"retry in {-spare / 10**6:g} ms, reset in {(self.tat - now) / 10**6:g} ms"
            return False
        self.tat = tat
        self.note = f"{spare // self.interval} left, reset in {(tat - now) / 10**6:g} ms"
        return True


class JavaGcra(Limiter):
    """GCRA with whole milliseconds, where `burst` is what passes besides the first request.

    `base=previous` computes the next TAT from the previous request's time instead of this one's.
    """

    def __init__(self, rate, burst, period=Fraction(1), base="now"):
        self.interval = int(period * 1000) // rate
        self.tolerance, self.base = self.interval * burst, base
        self.tat, self.previous = None, 0

    def decide(self, now_s, cost):
        now = math.floor(now_s * 1000)
        if self.tat is None:
            self.tat = now
        start = max(now if self.base == "now" else self.previous, self.tat)
        allowed = now >= (start if self.base == "now" else self.tat) - self.tolerance
        if allowed:
            self.tat = start + self.interval * cost
            self.previous = now
        return allowed


class TickerQueue(Limiter):
    """A queue of `capacity` requests; a timer takes one of them at each multiple of window / limit."""

    def __init__(self, capacity, limit, window):
        self.capacity, self.interval = capacity, Fraction(window) / limit
        self.queue, self.ticks = [], 0

    def decide(self, now_s, cost):
        ticks = now_s // self.interval
        self.queue = self.queue[int(ticks - self.ticks):]
        self.ticks = ticks
        if len(self.queue) >= self.capacity:
            return False
        self.queue.append(now_s)
        wait_s = (ticks + len(self.queue)) * self.interval - now_s
        self.note = f"served after {float(wait_s * 1000):g} ms"
        return True


class SeparateLayers(Limiter):
    """Two windows that are charged one after the other, though the second may deny."""

    def __init__(self, first, first_window, second, second_window):
        self.layers = [TickerWindow(first, first_window), TickerWindow(second, second_window)]

    def decide(self, now_s, cost):
        return all(layer.decide(now_s, cost) for layer in self.layers)


LIMITERS = {
    "ticker-bucket": TickerBucket,
    "interval-bucket": IntervalBucket,
    "float-bucket": FloatBucket,
    "float-meter": FloatMeter,
    "seconds-bucket": SecondsBucket,
    "count-and-timestamp": CountAndTimestamp,
    "countdown": Countdown,
    "ticker-window": TickerWindow,
    "log": Log,
    "counter": Counter,
    "cached-counter": CachedCounter,
    "synced-window": SyncedWindow,
    "go-gcra": GoGcra,
    "java-gcra": JavaGcra,
    "ticker-queue": TickerQueue,
    "separate-layers": SeparateLayers,
}

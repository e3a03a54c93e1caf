# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Prints random cases over all algorithms and options, for the differential test.

    random_vectors.py --seed 7 --cases 300 --steps 40 [--monotone] [--reservations]

The same arguments print the same document. Numbers are of any order of magnitude, and often at their bounds.
Times are chosen where a decision changes: just before and at retry_after, reset_after and the edge of a window.
"""

import argparse
import datetime
import random
import sys

from vector_format import Case, document
from weir_reference import (
    CALENDAR_WORDS, COST_MAX, LAYERS_MAX, NS_MAX, PERIOD_MAX, RATE_MAX, SECOND, SLICES_MAX, WEEKDAYS, Concurrent,
    parse_period, parse_policy,
)

START_2026 = 1767225600 * SECOND
START_2200 = 7258118400 * SECOND
ZONES = (
    "UTC", "Europe/Berlin", "America/New_York", "America/Havana", "America/Sao_Paulo", "Asia/Beirut",
    "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia",
)
ROUND_PERIODS = ("s", "1s", "m", "h", "d", "w", "250ms", "90s", "1h30m", "500us", "1ns", "3650d", "155382367ns")


def spread(rng, most, least=1):
    """Returns a number in least..most: often at or next to a bound, else of any order of magnitude."""
    if rng.random() < 0.3:
        return rng.choice((least, min(least + 1, most), max(most - 1, least), most))
    return min(most, least + rng.randrange(2 ** rng.randint(0, most.bit_length())))


def small_or_spread(rng, most, least=1):
    """Like spread(), but in half of the calls small enough to be used up within a case."""
    return spread(rng, min(most, 12), least) if rng.random() < 0.5 else spread(rng, most, least)


def period(rng):
    """Returns a period as text and in ns."""
    if rng.random() < 0.5:
        text = rng.choice(ROUND_PERIODS)
        return text, parse_period(text)
    ns = spread(rng, PERIOD_MAX)
    return f"{ns}ns", ns


def rate(rng):
    """Returns a rate as text, and the largest capacity that it allows."""
    n = small_or_spread(rng, RATE_MAX)
    text, ns = period(rng)
    return f"{n}/{text}", min(COST_MAX, PERIOD_MAX * n // ns)


def quota(rng):
    return f"{small_or_spread(rng, COST_MAX)}/{period(rng)[0]}"


def shuffled(rng, head, options):
    """Returns the text of a layer, with its options in random order."""
    options = [option for option in options if option]
    rng.shuffle(options)
    return " ".join([head, *options])


def maybe(rng, word):
    return word if rng.random() < 0.5 else ""


def gcra(rng):
    text, most = rate(rng)
    burst = small_or_spread(rng, most)
    return f"gcra {text}" if burst == 1 and rng.random() < 0.5 else f"gcra {text} burst {burst}"


def token_bucket(rng):
    text, most = rate(rng)
    return f"token-bucket {small_or_spread(rng, most)} refill {text}"


def token_bucket_steps(rng):
    n = small_or_spread(rng, RATE_MAX)
    text, ns = period(rng)
    every = text if text[0].isdigit() else "1" + text
    return f"token-bucket {small_or_spread(rng, min(COST_MAX, PERIOD_MAX // ns * n))} refill {n} every {every}"


def leaky_bucket(rng):
    text, most = rate(rng)
    return f"leaky-bucket {text} capacity {small_or_spread(rng, most)}"


def leaky_queue(rng):
    text, most = rate(rng)
    depth = small_or_spread(rng, most) - 1
    nodelay = f" nodelay {small_or_spread(rng, depth + 1) - 1}"
    return f"leaky-queue {text} depth {depth}{maybe(rng, nodelay)}"


def fixed_window(rng):
    return shuffled(rng, f"fixed-window {quota(rng)}", [maybe(rng, "from-first"), maybe(rng, "count-denied")])


def fixed_window_calendar(rng):
    zone = rng.choice(("",) + tuple(f"tz {name}" for name in ZONES))
    unit = rng.choice(CALENDAR_WORDS)
    head = f"fixed-window {small_or_spread(rng, COST_MAX)}/{unit}"
    return shuffled(rng, head, [zone, maybe(rng, f"from {anchor(rng, unit)}"), maybe(rng, "count-denied")])


def anchor(rng, unit):
    if unit == "day":
        return f"{rng.randrange(24):02}:{rng.choice((0, 0, 30, rng.randrange(60))):02}"
    if unit == "week":
        return rng.choice(WEEKDAYS)
    if unit == "month":
        return str(rng.choice((28, 29, 30, 31, rng.randint(1, 31))))
    day = datetime.date(2000, 1, 1) + datetime.timedelta(days=rng.randrange(366))
    return rng.choice(("02-28", "02-29", "03-01", f"{day:%m-%d}"))


def sliding_log(rng):
    return shuffled(rng, f"sliding-log {quota(rng)}", [maybe(rng, "count-denied")])


def sliding_counter(rng):
    return shuffled(rng, f"sliding-counter {quota(rng)}", [rng.choice(("", "strict", "relaxed"))])


def sliding_slices(rng):
    n, (text, ns) = small_or_spread(rng, COST_MAX), period(rng)
    return f"sliding-slices {n}/{text} slices {small_or_spread(rng, min(SLICES_MAX, ns))}"


def concurrent(rng):
    return f"concurrent {small_or_spread(rng, COST_MAX)} lease {period(rng)[0]}"


KINDS = (
    gcra, token_bucket, token_bucket_steps, leaky_bucket, leaky_queue, fixed_window, fixed_window_calendar,
    sliding_log, sliding_counter, sliding_slices, concurrent,
)


def block(rng):
    text, ns = period(rng)
    longest = f"doubling {ns + small_or_spread(rng, PERIOD_MAX - ns)}ns" if ns < PERIOD_MAX else ""
    return shuffled(rng, f"block {text}", [maybe(rng, longest)])


def policy(rng):
    count = rng.choice((1, 1, 1, 1, 1, 1, 2, 2, 3, LAYERS_MAX))
    kinds = [rng.choice(KINDS) for _ in range(count)]
    for i in [i for i, kind in enumerate(kinds) if kind is concurrent][1:]:
        kinds[i] = gcra
    layers = [kind(rng) for kind in kinds]
    if count < LAYERS_MAX and rng.random() < 0.15:
        layers.insert(rng.randrange(count + 1), block(rng))
    return " & ".join(layers)


def reserving_policy(rng):
    """Returns a policy that supports reservations, often one with leases."""
    text = policy(rng)
    while not all(layer.refundable for layer in parse_policy(text)):
        text = policy(rng)
    return text if "concurrent" in text or "&" in text or rng.random() < 0.7 else f"{text} & {concurrent(rng)}"


class Walk:
    """Runs a case through times and costs that reveal off-by-one errors."""

    def __init__(self, rng, case, refunds=True, monotone=True, charges=False):
        self.rng, self.case, self.refunds, self.monotone = rng, case, refunds, monotone
        self.charges = charges
        self.last = case.take(0)

    def run(self, steps):
        while len(self.case.steps) < steps:
            if self.refunds and self.rng.random() < 0.12:
                self.refund()
            elif self.charges and self.rng.random() < 0.25:
                self.last = self.case.charge(self.cost(), self.time())
            else:
                self.take()

    def refund(self):
        self.last = self.case.refund(self.cost(), self.time()) or self.last

    def take(self):
        cost = self.cost()
        self.last = self.case.take(cost, self.time())
        if self.last.retry_after_ns and self.rng.random() < 0.5:
            self.check_retry(cost)

    def check_retry(self, cost):
        """Repeats the request just before its retry_after and at it."""
        until = self.case.now + self.last.retry_after_ns
        denied = self.case.take(cost, until - 1)
        if denied.retry_after_ns == 1:
            self.last = self.case.take(cost, until)

    def cost(self):
        last, roll = self.last, self.rng.random()
        if roll < 0.45:
            return 1
        if roll < 0.65:
            return self.rng.choice((last.remaining, min(COST_MAX, last.remaining + 1), last.remaining // 2))
        if roll < 0.8:
            return self.rng.choice((0, 2, last.limit - 1, last.limit, min(COST_MAX, last.limit + 1), COST_MAX))
        return spread(self.rng, last.limit)

    def time(self):
        now, roll = self.case.now, self.rng.random()
        if not self.monotone and roll < 0.12:
            return self.earlier()
        if roll < 0.5:
            return now
        if roll < 0.75:
            return now + self.telling_wait()
        if roll < 0.97:
            return now + self.rng.randrange(self.scale() + 1)
        return self.rng.randint(now, NS_MAX)

    def telling_wait(self):
        """Returns a wait at whose end, or next to it, a decision may change."""
        layer = self.rng.choice(self.case.layers)
        retry = self.last.retry_after_ns or 0
        wait = self.rng.choice((retry, self.last.reset_after_ns, layer.edge_after(self.case.now) - self.case.now))
        return max(0, wait + self.rng.choice((-1, -1, 0, 0, 1)))

    def scale(self):
        """Returns roughly the time in which decisions of this policy change."""
        layer = self.rng.choice(self.case.layers)
        wait = layer.edge_after(self.case.now) - self.case.now
        return self.rng.choice((2 * wait, wait // 3, wait // 20, spread(self.rng, PERIOD_MAX)))

    def earlier(self):
        now = self.case.now
        back = self.rng.choice((1, self.scale(), self.last.reset_after_ns, spread(self.rng, NS_MAX)))
        return max(0, now - back)


class KeepingWalk(Walk):
    """A walk in which half of the requests keep units for others."""

    def take(self):
        cost, keep = self.cost(), self.keep()
        self.last = self.case.take(cost, self.time(), keep)
        if self.last.retry_after_ns and self.rng.random() < 0.5:
            until = self.case.now + self.last.retry_after_ns
            self.case.take(cost, until - self.case.tick, keep)
            self.last = self.case.take(cost, until, keep)

    def keep(self):
        last, roll = self.last, self.rng.random()
        if roll < 0.5:
            return 0
        if roll < 0.8:
            return self.rng.choice((1, 2, last.remaining, last.limit // 2, last.limit, COST_MAX))
        return f"{self.rng.choice((1, 20, 50, 99, 100))}%"


class ReservingWalk(Walk):
    """A walk with reservations, which are renewed, committed and cancelled when they are open, and later."""

    def __init__(self, rng, case, monotone=True):
        super().__init__(rng, case, monotone=monotone)
        self.hold = next((layer for layer in case.layers if isinstance(layer, Concurrent)), None)

    def take(self):
        made = [(i, one) for i, one in enumerate(self.case.reservations) if one]
        unsettled = [i for i, one in made if not one.settled]
        roll, ids = self.rng.random(), unsettled if self.rng.random() < 0.7 else [i for i, _ in made]
        if roll < 0.3 or not ids:
            self.last = self.case.reserve(self.cost(), self.time(), self.ttl())
        elif roll < 0.75:
            self.end(self.rng.choice((ids[-1], self.rng.choice(ids))), roll)
        elif roll < 0.8:
            self.last = self.case.charge(self.cost(), self.time())
        else:
            super().take()

    def end(self, number, roll):
        if roll < 0.4:
            self.last = self.case.renew(number, self.time(), self.ttl())
        elif roll < 0.5:
            self.last = self.case.cancel(number, self.time())
        else:
            units = self.case.reservations[number].units
            actual = self.rng.choice((units, max(0, units - 1), min(COST_MAX, units + 1), self.cost()))
            self.last = self.case.commit(number, actual, self.time())

    def refund(self):
        """Not of leases: a refund takes those of reservations."""
        self.take() if self.hold else super().refund()

    def ttl(self):
        most = self.hold.period if self.hold else PERIOD_MAX
        if self.hold and self.rng.random() < 0.3:
            return None
        layer = self.rng.choice(self.case.layers)
        wait = layer.edge_after(self.case.now) - self.case.now
        return min(most, self.rng.choice((1, max(1, wait // 3), wait, 3 * wait, spread(self.rng, most))))

    def telling_wait(self):
        ends = [one.expires_ns - self.case.now for one in self.case.key.open]
        if not ends or self.rng.random() < 0.5:
            return super().telling_wait()
        return max(0, self.rng.choice(ends) + self.rng.choice((-1, 0, 0, 1)))


def start(rng):
    return rng.choice((0, 1, spread(rng, SECOND), START_2026, START_2026 + rng.randrange(2**57),
                       START_2200, rng.randrange(NS_MAX), NS_MAX - spread(rng, PERIOD_MAX)))


def random_case(rng, name, steps, monotone, reservations):
    case = Case(name, reserving_policy(rng) if reservations else policy(rng), start(rng))
    walks = (ReservingWalk,) if reservations else (Walk, Walk, KeepingWalk)
    rng.choice(walks)(rng, case, monotone=monotone).run(steps)
    return case


def main():
    parser = argparse.ArgumentParser(description="Prints random test vectors.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--monotone", action="store_true", help="no step goes back in time")
    parser.add_argument("--reservations", action="store_true", help="cases with reservations")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    cases = [random_case(rng, f"seed {options.seed} case {i}", options.steps, options.monotone,
                         options.reservations)
             for i in range(options.cases)]
    sys.stdout.write(document(cases, options.monotone))


if __name__ == "__main__":
    main()

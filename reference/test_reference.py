# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Tests the model: against tables calculated by hand, the bounds by brute force, and the calendar.

It also compares the model's bisection with the formulas of docs/algorithms.md, in fractions.
"""

import datetime
import math
import pathlib
import random
import unittest
from fractions import Fraction

import make_vectors
from random_vectors import Walk, policy
from vector_format import US, Case, MicrosecondCase
from weir_reference import (
    COST_MAX, INT64_MAX, NS_MAX, SECOND, CalendarWindows, Key, local_start, midnight, parse_period, parse_policy,
)

S, MS = SECOND, SECOND // 1000
HOUR, DAY = 3600 * S, 24 * 3600 * S
NEVER = None


def utc_ns(text):
    moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)
    return int(moment.timestamp()) * S


class TableTest(unittest.TestCase):
    def key(self, text):
        return Key(parse_policy(text))

    def run_table(self, text, rows):
        """Rows of (t_ns, cost, allowed, remaining, retry_after_ns, reset_after_ns) for one new key."""
        key = self.key(text)
        for number, (t_ns, cost, *expected) in enumerate(rows):
            d = key.take(t_ns, cost)
            got = [d.allowed, d.remaining, d.retry_after_ns, d.reset_after_ns]
            self.assertEqual(got, expected, f"{text}, row {number}")
        return key

    def run_verdicts(self, text, rows):
        """Rows of (t_ns, cost, allowed)."""
        key = self.key(text)
        for number, (t_ns, cost, allowed) in enumerate(rows):
            self.assertEqual(key.take(t_ns, cost).allowed, allowed, f"{text}, row {number}")


class Rates(TableTest):
    def test_whole_second_table(self):
        rows = (
            (0, 6, False, 5, NEVER, 0),
            (0, 1, True, 4, 0, 1 * S),
            (0, 1, True, 3, 0, 2 * S),
            (0, 1, True, 2, 0, 3 * S),
            (0, 1, True, 1, 0, 4 * S),
            (0, 1, True, 0, 0, 5 * S),
            (0, 1, False, 0, 1 * S, 5 * S),
            (3000 * MS, 1, True, 2, 0, 3000 * MS),
            (3100 * MS, 1, True, 1, 0, 3900 * MS),
            (4000 * MS, 1, True, 1, 0, 4000 * MS),
            (8000 * MS, 1, True, 4, 0, 1000 * MS),
            (9500 * MS, 1, True, 4, 0, 1000 * MS),
            (9500 * MS, 0, True, 4, 0, 1000 * MS),
            (9500 * MS, 2, True, 2, 0, 3000 * MS),
            (9500 * MS, 5, False, 2, 3000 * MS, 3000 * MS),
            (15000 * MS, 6, False, 5, NEVER, 0),
        )
        for text in ("gcra 1/s burst 5", "token-bucket 5 refill 1/s", "leaky-bucket 1/s capacity 5"):
            self.run_table(text, rows)

    def test_two_seconds_no_burst(self):
        self.run_table("gcra 1/2s", ((0, 1, True, 0, 0, 2 * S), (0, 1, False, 0, 2 * S, 2 * S),
                                     (2 * S, 1, True, 0, 0, 2 * S)))

    def test_no_extra_cell_after_idle(self):
        full = [(0, 1, True)] * 5 + [(0, 1, False)]
        self.run_verdicts("gcra 5/s burst 5", full + [(2 * S, cost, ok) for _, cost, ok in full])

    def test_cost_two_of_four(self):
        self.run_verdicts("gcra 4/s burst 4", (
            (0, 2, True), (0, 2, True), (1 * MS, 2, False),
            (1001 * MS, 2, True), (1002 * MS, 2, True), (1003 * MS, 2, False)))

    def test_ten_tokens_per_second(self):
        self.run_verdicts("token-bucket 3 refill 10/s", (
            (0, 2, True), (0, 2, False), (0, 1, True), (0, 1, False), (100 * MS, 4, False),
            (200 * MS, 1, True), (300 * MS, 1, True), (400 * MS, 1, True), (400 * MS, 1, True),
            (400 * MS, 1, False), (900 * MS, 3, True), (900 * MS, 0, True)))

    def test_clock_jumps_back(self):
        """A charge at 100 ms still counts at 0, and the tokens of those 100 ms have not been refilled."""
        self.run_verdicts("token-bucket 3 refill 10/s", (
            (100 * MS, 1, True), (0, 1, True), (0, 1, False), (100 * MS, 1, True), (100 * MS, 1, False),
            (200 * MS, 1, True), (200 * MS, 1, False)))

    def test_interval_of_a_third_of_a_second(self):
        self.run_table("gcra 3/s burst 3", (
            (0, 3, True, 0, 0, 1 * S),
            (0, 1, False, 0, 333333334, 1 * S),
            (333333333, 1, False, 0, 1, 666666667),
            (333333334, 1, True, 0, 0, 1 * S),
            (666666666, 1, False, 0, 1, 666666668),
            (666666667, 1, True, 0, 0, 1 * S),
            (1 * S, 1, True, 0, 0, 1 * S)))

    def test_many_per_nanosecond(self):
        """The rate is 12.5 units per ns: 25 units take 2 ns, and one more takes a little longer."""
        self.run_table("gcra 12500000000/s burst 25", (
            (0, 25, True, 0, 0, 2), (0, 1, False, 0, 1, 2), (1, 12, True, 0, 0, 2), (1, 1, False, 0, 1, 2)))

    def test_queue_reports_delays(self):
        key = self.key("leaky-queue 2/s depth 2")
        delays = [key.take(0, 1).delay_ns for _ in range(3)]
        self.assertEqual(delays, [0, 500 * MS, 1000 * MS])
        denied = key.take(0, 1)
        self.assertEqual((denied.allowed, denied.limit), (False, 3))
        self.assertEqual((denied.delay_ns, denied.retry_after_ns), (0, 500 * MS))
        peek = key.take(0, 0)
        self.assertEqual((peek.allowed, peek.delay_ns), (True, 1500 * MS))
        self.assertIsNone(key.refund(0, 1))

    def test_nodelay_is_the_delay_of_limit_req(self):
        """nginx with burst=20 delay=8: the first request and 8 more at once, 12 paced, the others denied."""
        key = self.key("leaky-queue 10/s depth 20 nodelay 8")
        answers = [key.take(0, 1) for _ in range(25)]
        self.assertEqual([d.allowed for d in answers], [True] * 21 + [False] * 4)
        self.assertEqual([d.delay_ns for d in answers], [0] * 9 + [100 * MS * i for i in range(1, 13)] + [0] * 4)

    def test_nodelay_is_rounded_up_once(self):
        key = self.key("leaky-queue 3/s depth 5 nodelay 1")
        self.assertEqual([key.take(0, 1).delay_ns for _ in range(5)], [0, 0, 333333334, 666666667, 1000 * MS])
        self.assertEqual(key.take(1, 1).delay_ns, 1333333333)

    def test_queue_delay_is_rounded_up(self):
        key = self.key("leaky-queue 3/s depth 1")
        self.assertEqual([key.take(0, 1).delay_ns for _ in range(2)], [0, 333333334])


class Steps(TableTest):
    def test_table(self):
        self.run_table("token-bucket 10 refill 3 every 1s", (
            (0, 10, True, 0, 0, 4 * S),
            (0, 4, False, 0, 2 * S, 4 * S),
            (1 * S - 1, 1, False, 0, 1, 3 * S + 1),
            (1500 * MS, 4, False, 3, 500 * MS, 2500 * MS),
            (2000 * MS, 4, True, 2, 0, 3 * S),
            (100 * S, 10, True, 0, 0, 4 * S)))


class FixedWindows(TableTest):
    def test_aligned(self):
        self.run_table("fixed-window 3/10s", (
            (7 * S, 2, True, 1, 0, 3 * S),
            (7 * S, 2, False, 1, 3 * S, 3 * S),
            (7 * S, 1, True, 0, 0, 3 * S),
            (10 * S - 1, 1, False, 0, 1, 1),
            (10 * S, 3, True, 0, 0, 10 * S),
            (7 * S, 1, False, 0, 13 * S, 13 * S)))

    def test_a_counted_denial_closes_the_window(self):
        self.run_table("fixed-window 5/10s count-denied", (
            (0, 3, True, 2, 0, 10 * S),
            (1 * S, 3, False, 0, 9 * S, 9 * S),
            (1 * S, 0, True, 0, 0, 9 * S),
            (1 * S, 1, False, 0, 9 * S, 9 * S),
            (10 * S, 6, False, 0, NEVER, 10 * S)))

    def test_from_first(self):
        self.run_table("fixed-window 2/10s from-first", (
            (7 * S, 0, True, 2, 0, 0),
            (7 * S, 1, True, 1, 0, 10 * S),
            (9 * S, 1, True, 0, 0, 8 * S),
            (17 * S - 1, 1, False, 0, 1, 1),
            (20 * S, 1, True, 1, 0, 10 * S)))

    def test_a_counted_denial_starts_a_window(self):
        self.run_table("fixed-window 2/10s from-first count-denied", (
            (7 * S, 3, False, 0, NEVER, 10 * S), (8 * S, 1, False, 0, 9 * S, 9 * S)))


class Sliding(TableTest):
    def test_log(self):
        self.run_table("sliding-log 2/10s", (
            (0, 1, True, 1, 0, 10 * S),
            (4 * S, 1, True, 0, 0, 10 * S),
            (5 * S, 1, False, 0, 5 * S, 9 * S),
            (5 * S, 2, False, 0, 9 * S, 9 * S),
            (10 * S - 1, 1, False, 0, 1, 4 * S + 1),
            (10 * S, 1, True, 0, 0, 10 * S),
            (3 * S, 1, False, 0, 11 * S, 17 * S)))

    def test_log_with_denials(self):
        self.run_table("sliding-log 2/10s count-denied", (
            (0, 1, True, 1, 0, 10 * S),
            (1 * S, 1, True, 0, 0, 10 * S),
            (2 * S, 1, False, 0, 9 * S, 10 * S),
            (3 * S, 2, False, 0, 10 * S, 10 * S)))

    def test_counter_strict(self):
        self.run_table("sliding-counter 10/10s", (
            (0, 10, True, 0, 0, 20 * S),
            (10 * S, 1, False, 0, 1 * S, 10 * S),
            (15 * S, 6, False, 5, 1 * S, 5 * S),
            (15 * S, 5, True, 0, 0, 15 * S)))

    def test_counter_relaxed(self):
        self.run_table("sliding-counter 10/10s relaxed", (
            (0, 10, True, 0, 0, 19 * S + 1),
            (10 * S, 1, False, 0, 1, 9 * S + 1),
            (15 * S - 1, 6, False, 5, 2, 4 * S + 2),
            (15 * S + 1, 6, True, 0, 0, 13333333333)))

    def test_slices(self):
        self.run_table("sliding-slices 3/10s slices 4", (
            (0, 2, True, 1, 0, 10 * S),
            (3 * S, 1, True, 0, 0, 9500 * MS),
            (9900 * MS, 1, False, 0, 100 * MS, 2600 * MS),
            (9900 * MS, 3, False, 0, 2600 * MS, 2600 * MS),
            (10 * S, 2, True, 0, 0, 10 * S)))

    def test_slices_that_do_not_divide(self):
        (layer,) = parse_policy("sliding-slices 6/7ns slices 5")
        self.assertEqual([layer.slice_start(k) for k in range(6)], [0, 2, 3, 5, 6, 7])
        self.assertEqual([layer.slice_at(t) for t in range(8)], [0, 0, 1, 2, 2, 3, 4, 5])


class Layers(TableTest):
    def test_the_longest_wait_and_the_least_remaining(self):
        key = self.key("gcra 1/s burst 2 & fixed-window 3/10s")
        chosen = [(d.allowed, d.layer, d.remaining, d.retry_after_ns) for d in (
            key.take(0, 1), key.take(0, 1), key.take(0, 1), key.take(1 * S, 1), key.take(1 * S, 1), key.take(1 * S, 3))]
        self.assertEqual(chosen, [
            (True, 0, 1, 0), (True, 0, 0, 0), (False, 0, 0, 1 * S), (True, 1, 0, 0), (False, 1, 0, 9 * S),
            (False, 0, 0, NEVER)])

    def test_ties_go_to_the_latest_reset(self):
        key = self.key("gcra 1/s burst 1 & fixed-window 1/h & sliding-log 1/h & fixed-window 2/d")
        chosen = [(d.allowed, d.layer, d.remaining, d.reset_after_ns) for d in (
            key.take(10 * S, 1), key.take(10 * S, 2), key.take(3600 * S, 1), key.take(3610 * S, 1))]
        self.assertEqual(chosen, [
            (True, 2, 0, 3600 * S), (False, 2, 0, 3600 * S), (False, 2, 0, 10 * S), (True, 3, 0, 82790 * S)])

    def test_ties_go_to_the_first(self):
        key = self.key("fixed-window 1/s & fixed-window 1/s")
        self.assertEqual([key.take(0, 1).layer, key.take(0, 1).layer, key.take(0, 2).layer], [0, 0, 0])

    def test_every_denial_is_counted(self):
        """The window allows this request, but counts its denial, and then has the longest wait."""
        key = self.key("fixed-window 2/10s count-denied & gcra 1/s")
        self.assertTrue(key.take(0, 1).allowed)
        denied = key.take(0, 1)
        self.assertEqual((denied.allowed, denied.layer, denied.retry_after_ns), (False, 0, 10 * S))

    def test_the_delay_is_the_longest(self):
        key = self.key("fixed-window 2/m & leaky-queue 1/s depth 5")
        key.take(0, 1)
        second = key.take(0, 1)
        self.assertEqual((second.layer, second.delay_ns), (0, 1 * S))


class Refunds(TableTest):
    def test_each(self):
        for text, charges, refund_at, units, left in (
            ("gcra 1/s burst 5", ((0, 3),), 1 * S, 1, 4),
            ("gcra 1/s burst 5", ((0, 3),), 1 * S, 9, 5),
            ("token-bucket 10 refill 3 every 1s", ((0, 5),), 1 * S, 1, 9),
            ("token-bucket 10 refill 3 every 1s", ((0, 5),), 1 * S, 7, 10),
            ("fixed-window 5/10s", ((0, 3),), 1 * S, 2, 4),
            ("fixed-window 5/10s", ((0, 3),), 10 * S, 2, 5),
            ("sliding-log 5/10s", ((0, 2), (4 * S, 2)), 5 * S, 3, 4),
            ("sliding-counter 10/10s", ((0, 10), (15 * S, 5)), 15 * S, 7, 6),
            ("sliding-slices 5/10s slices 5", ((0, 2), (4 * S, 2)), 5 * S, 3, 4),
        ):
            key = self.key(text)
            for t_ns, cost in charges:
                self.assertTrue(key.take(t_ns, cost).allowed)
            self.assertEqual(key.refund(refund_at, units).remaining, left, text)

    def test_the_latest_units_are_refunded_first(self):
        for text in ("sliding-log 5/10s", "sliding-slices 5/10s slices 10"):
            key = self.key(text)
            key.take(0, 2)
            key.take(4 * S, 2)
            self.assertEqual(key.refund(5 * S, 2).reset_after_ns, 5 * S, text)

    def test_from_first_returns_to_full_quota(self):
        key = self.key("fixed-window 5/10s from-first")
        key.take(0, 2)
        self.assertEqual(key.refund(1 * S, 2).reset_after_ns, 0)
        self.assertEqual(key.take(2 * S, 1).reset_after_ns, 10 * S)

    def test_unsupported(self):
        for text in ("leaky-queue 1/s depth 3", "fixed-window 5/s count-denied", "sliding-log 5/s count-denied",
                     "gcra 1/s & leaky-queue 1/s depth 3"):
            self.assertIsNone(self.key(text).refund(0, 1), text)


class Formulas(unittest.TestCase):
    """Compares the formulas of docs/algorithms.md with the bisection."""

    def test_rates(self):
        rng = random.Random(1)
        for _ in range(200):
            n, period, capacity = rng.randint(1, 50), rng.randint(1, 10**6), rng.randint(1, 30)
            key, tat, now = Key(parse_policy(f"gcra {n}/{period}ns burst {capacity}")), Fraction(0), 0
            interval = Fraction(period, n)
            for _ in range(20):
                cost, before = rng.randint(0, capacity), max(Fraction(0), tat - now)
                allowed = before + cost * interval <= capacity * interval
                if allowed and cost:
                    tat = max(now, tat) + cost * interval
                backlog = max(Fraction(0), tat - now)
                d = key.take(now, cost)
                self.assertEqual(d.allowed, allowed)
                self.assertEqual(d.remaining, math.floor((capacity * interval - backlog) / interval))
                self.assertEqual(d.reset_after_ns, math.ceil(backlog))
                wait = 0 if allowed else math.ceil(before + cost * interval - capacity * interval)
                self.assertEqual(d.retry_after_ns, wait)
                now += rng.choice((0, 0, 1, rng.randint(0, 2 * period // n + 1)))

    def test_steps(self):
        rng = random.Random(2)
        for _ in range(200):
            n, period, capacity = rng.randint(1, 9), rng.randint(1, 1000), rng.randint(1, 30)
            key, tat, now = Key(parse_policy(f"token-bucket {capacity} refill {n} every {period}ns")), 0, 0
            for _ in range(20):
                cost, before = rng.randint(0, capacity), max(0, tat - n * (now // period))
                allowed = before + cost <= capacity
                if allowed and cost:
                    tat = max(n * (now // period), tat) + cost
                backlog = max(0, tat - n * (now // period))
                d = key.take(now, cost)
                until = now // period + math.ceil(Fraction(before + cost - capacity, n))
                self.assertEqual((d.allowed, d.remaining), (allowed, capacity - backlog))
                self.assertEqual(d.retry_after_ns, 0 if allowed else until * period - now)
                full = (now // period + math.ceil(Fraction(backlog, n))) * period - now
                self.assertEqual(d.reset_after_ns, full if backlog else 0)
                now += rng.choice((0, 0, 1, rng.randint(0, 2 * period)))


SMALL_POLICIES = (
    "gcra 1/5ns burst 3", "gcra 3/7ns burst 4", "gcra 5/2ns burst 9", "leaky-queue 2/9ns depth 3",
    "token-bucket 7 refill 2 every 6ns", "token-bucket 3 refill 5 every 4ns", "fixed-window 3/8ns",
    "fixed-window 4/8ns count-denied", "fixed-window 3/8ns from-first", "fixed-window 3/8ns from-first count-denied",
    "sliding-log 4/9ns", "sliding-log 4/9ns count-denied", "sliding-counter 5/9ns", "sliding-counter 5/9ns relaxed",
    "sliding-slices 5/10ns slices 3", "sliding-slices 4/7ns slices 7",
    "gcra 1/3ns burst 3 & sliding-log 4/20ns & fixed-window 3/8ns count-denied",
    "sliding-slices 4/9ns slices 4 & sliding-counter 3/9ns relaxed & token-bucket 4 refill 2 every 5ns",
)


def play(text, seed, steps=150, back=0.0):
    """Yields (key, now, cost, decision) of a random run over a few nanoseconds."""
    rng, key, now = random.Random(seed), Key(parse_policy(text)), random.Random(seed).randint(0, 40)
    for _ in range(steps):
        now += rng.choice((0, 0, 1, 2, rng.randint(0, 12)))
        if rng.random() < back:
            now = max(0, now - rng.randint(1, 15))
        cost = rng.choice((0, 1, 1, 2, rng.randint(0, 6)))
        if rng.random() < 0.1:
            key.refund(now, cost)
        yield key, now, cost, key.take(now, cost)


class BruteForce(unittest.TestCase):
    def verdict(self, key, now, cost):
        return all(layer.allows(state, now, cost) for layer, state in zip(key.layers, key.states))

    def runs(self, back=0.0):
        for text in SMALL_POLICIES:
            for seed in range(4):
                for key, now, cost, decision in play(text, seed, back=back):
                    yield text, key, now, cost, decision

    def test_retry_after_is_the_first_time_that_allows(self):
        for text, key, now, cost, decision in self.runs(back=0.1):
            if decision.retry_after_ns:
                waits = [self.verdict(key, now + d, cost) for d in range(1, decision.retry_after_ns + 1)]
                self.assertEqual(waits, [False] * (decision.retry_after_ns - 1) + [True], text)
            self.assertEqual(decision.allowed, decision.retry_after_ns == 0)
            self.assertEqual(decision.retry_after_ns is NEVER, any(cost > layer.limit for layer in key.layers))

    def test_remaining_and_reset(self):
        for text, key, now, cost, decision in self.runs(back=0.1):
            layer, state = key.layers[decision.layer], key.states[decision.layer]
            allowed = [c for c in range(layer.limit + 2) if layer.allows(state, now, c)]
            self.assertEqual(decision.remaining, max(allowed, default=0), text)
            full = [layer.allows(state, now + d, layer.limit) for d in range(decision.reset_after_ns + 1)]
            self.assertEqual(full, [False] * decision.reset_after_ns + [True], text)
            if decision.allowed:
                self.assertEqual(decision.remaining == layer.limit, decision.reset_after_ns == 0, text)

    def test_a_denial_writes_nothing(self):
        for text in SMALL_POLICIES:
            if "count-denied" in text:
                continue
            before = None
            for key, now, cost, decision in play(text, 5):
                if before is not None and not decision.allowed:
                    again = Key(key.layers)
                    again.states = list(key.states)
                    again.take(now, cost)
                    self.assertEqual(again.states, key.states, text)
                before = key.states

    def test_what_is_denied_is_denied_at_every_earlier_time(self):
        for text, key, now, cost, decision in self.runs(back=0.1):
            if not decision.allowed:
                self.assertFalse(any(self.verdict(key, t, cost) for t in range(now)), text)


class Bounds(unittest.TestCase):
    """Tests P1 of every algorithm over all pairs of allowed requests of random runs."""

    def allowed(self, text, seed):
        rng, key, now, log = random.Random(seed), Key(parse_policy(text)), 0, []
        for _ in range(120):
            now += rng.choice((0, 0, 1, rng.randint(0, 5)))
            cost = rng.randint(1, 3)
            if key.take(now, cost).allowed:
                log.append((now, cost))
        return log

    def spans(self, text):
        """Yields (t_i, t_k, sum of the costs i..k) for every i <= k."""
        for seed in range(3):
            log = self.allowed(text, seed)
            for i, (begin, _) in enumerate(log):
                total = 0
                for end, cost in log[i:]:
                    total += cost
                    yield begin, end, total

    def test_rates(self):
        for n, period, capacity in ((1, 5, 3), (3, 7, 4), (5, 2, 9)):
            for begin, end, total in self.spans(f"gcra {n}/{period}ns burst {capacity}"):
                self.assertLessEqual(total * period, capacity * period + (end - begin) * n)

    def test_steps(self):
        for begin, end, total in self.spans("token-bucket 7 refill 2 every 6ns"):
            self.assertLessEqual(total, 7 + 2 * (end // 6) - 2 * (begin // 6))

    def test_fixed_window(self):
        for begin, end, total in self.spans("fixed-window 3/8ns"):
            if begin // 8 == end // 8:
                self.assertLessEqual(total, 3)

    def test_sliding(self):
        for begin, end, total in self.spans("sliding-log 4/9ns"):
            if end - begin < 9:
                self.assertLessEqual(total, 4)
        for begin, end, total in self.spans("sliding-slices 5/10ns slices 3"):
            if end * 3 // 10 - begin * 3 // 10 < 3:
                self.assertLessEqual(total, 5)
        for relaxed in ("", " relaxed"):
            for begin, end, total in self.spans("sliding-counter 5/9ns" + relaxed):
                if end - begin < 9:
                    self.assertLessEqual(total, 2 * 5 - 1)


class Calendar(unittest.TestCase):
    def starts(self, zone, *expected):
        for date, moment in expected:
            start = local_start(zone, midnight(datetime.date.fromisoformat(date)))
            self.assertEqual(start, utc_ns(moment), f"{zone} {date}")

    def window(self, unit, zone, moment, begin, end, anchor=None):
        got = CalendarWindows(unit, zone, anchor).bounds(utc_ns(moment))
        self.assertEqual(got, (utc_ns(begin), utc_ns(end)), f"{unit} {zone} {moment} {anchor}")

    def test_repeated_midnight(self):
        self.starts("America/Havana", ("2023-11-05", "2023-11-05 04:00"), ("2023-11-06", "2023-11-06 05:00"))

    def test_missing_midnight(self):
        self.starts("America/Sao_Paulo", ("2018-11-03", "2018-11-03 03:00"), ("2018-11-04", "2018-11-04 03:00"),
                    ("2018-11-05", "2018-11-05 02:00"))
        self.starts("Asia/Beirut", ("2022-03-27", "2022-03-26 22:00"), ("2022-03-28", "2022-03-27 21:00"))

    def test_clock_goes_back_across_midnight(self):
        """At 00:01 the clock goes back to 23:01. The new day has begun and continues."""
        self.starts("America/St_Johns", ("2010-11-07", "2010-11-07 02:30"), ("2010-11-08", "2010-11-08 03:30"))
        for moment in ("2010-11-07 02:30", "2010-11-07 02:31", "2010-11-07 03:29", "2010-11-07 03:30"):
            self.window("day", "America/St_Johns", moment, "2010-11-07 02:30", "2010-11-08 03:30")
        self.starts("America/Sao_Paulo", ("2018-02-17", "2018-02-17 02:00"), ("2018-02-18", "2018-02-18 03:00"))

    def test_clock_goes_forward_just_after_midnight(self):
        self.starts("America/St_Johns", ("2010-03-14", "2010-03-14 03:30"), ("2010-03-15", "2010-03-15 02:30"))

    def test_skipped_date(self):
        self.starts("Pacific/Apia", ("2011-12-29", "2011-12-29 10:00"), ("2011-12-30", "2011-12-30 10:00"),
                    ("2011-12-31", "2011-12-30 10:00"), ("2012-01-01", "2011-12-31 10:00"))
        self.window("day", "Pacific/Apia", "2011-12-30 09:59", "2011-12-29 10:00", "2011-12-30 10:00")
        self.window("day", "Pacific/Apia", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-31 10:00")
        self.window("week", "Pacific/Apia", "2011-12-30 10:00", "2011-12-26 10:00", "2012-01-01 10:00")

    def test_weeks_start_on_monday(self):
        self.window("week", "UTC", "1970-01-04 23:59:59", "1969-12-29 00:00", "1970-01-05 00:00")
        self.window("week", "UTC", "1970-01-05 00:00", "1970-01-05 00:00", "1970-01-12 00:00")
        self.window("week", "America/New_York", "2025-03-09 12:00", "2025-03-03 05:00", "2025-03-10 04:00")

    def test_months_and_years(self):
        self.window("month", "UTC", "2024-02-29 12:00", "2024-02-01 00:00", "2024-03-01 00:00")
        self.window("month", "UTC", "2100-02-28 23:59:59", "2100-02-01 00:00", "2100-03-01 00:00")
        self.window("month", "Europe/Berlin", "2025-12-31 22:59:59", "2025-11-30 23:00", "2025-12-31 23:00")
        self.window("year", "UTC", "2024-12-31 23:59:59", "2024-01-01 00:00", "2025-01-01 00:00")
        self.window("year", "Pacific/Apia", "2011-07-01 00:00", "2011-01-01 10:00", "2011-12-31 10:00")

    def test_days_from_a_time(self):
        self.window("day", "UTC", "2024-02-29 05:59", "2024-02-28 06:00", "2024-02-29 06:00", "06:00")
        self.window("day", "UTC", "2024-02-29 06:00", "2024-02-29 06:00", "2024-03-01 06:00", "06:00")
        self.window("day", "Europe/Berlin", "2024-03-31 00:59", "2024-03-30 01:30", "2024-03-31 01:00", "02:30")
        self.window("day", "Europe/Berlin", "2024-03-31 01:00", "2024-03-31 01:00", "2024-04-01 00:30", "02:30")
        self.window("day", "Europe/Berlin", "2024-10-27 01:45", "2024-10-27 00:30", "2024-10-28 01:30", "02:30")
        self.window("day", "Pacific/Apia", "2011-12-30 10:00", "2011-12-30 10:00", "2011-12-30 16:00", "06:00")

    def test_weeks_from_a_day(self):
        self.window("week", "UTC", "2026-08-01 12:00", "2026-07-26 00:00", "2026-08-02 00:00", "sunday")
        self.window("week", "UTC", "2026-08-02 12:00", "2026-08-02 00:00", "2026-08-09 00:00", "sunday")
        self.window("week", "UTC", "2026-08-01 12:00", "2026-07-28 00:00", "2026-08-04 00:00", "tuesday")

    def test_months_from_a_day(self):
        self.window("month", "UTC", "2026-01-16 23:59:59", "2025-12-17 00:00", "2026-01-17 00:00", "17")
        self.window("month", "UTC", "2026-01-17 00:00", "2026-01-17 00:00", "2026-02-17 00:00", "17")
        self.window("month", "UTC", "2026-02-15 00:00", "2026-01-31 00:00", "2026-02-28 00:00", "31")
        self.window("month", "UTC", "2026-02-28 00:00", "2026-02-28 00:00", "2026-03-31 00:00", "31")
        self.window("month", "UTC", "2024-02-29 00:00", "2024-02-29 00:00", "2024-03-30 00:00", "30")
        self.window("month", "UTC", "2024-04-30 00:00", "2024-04-30 00:00", "2024-05-31 00:00", "31")

    def test_years_from_a_date(self):
        self.window("year", "UTC", "2026-03-31 23:59:59", "2025-04-01 00:00", "2026-04-01 00:00", "04-01")
        self.window("year", "UTC", "2026-04-01 00:00", "2026-04-01 00:00", "2027-04-01 00:00", "04-01")
        self.window("year", "UTC", "2023-06-01 00:00", "2023-02-28 00:00", "2024-02-29 00:00", "02-29")
        self.window("year", "UTC", "2024-06-01 00:00", "2024-02-29 00:00", "2025-02-28 00:00", "02-29")

    def test_windows_partition_time(self):
        rng = random.Random(3)
        for zone in ("America/Havana", "America/St_Johns", "Asia/Beirut", "Pacific/Apia", "Australia/Lord_Howe"):
            windows = CalendarWindows("day", zone)
            end = windows.bounds(utc_ns("2010-01-01 00:00") + rng.randrange(DAY))[1]
            for _ in range(900):
                begin, end = windows.bounds(end)[0], windows.bounds(end)[1]
                self.assertEqual(windows.bounds(end - 1)[0], begin)
                self.assertEqual(windows.bounds(begin - 1)[1], begin)
                self.assertTrue(22 * HOUR <= end - begin <= 26 * HOUR)

    def test_the_end_of_time(self):
        begin, end = CalendarWindows("year", "America/New_York").bounds(NS_MAX)
        self.assertTrue(begin <= NS_MAX < end)


class Text(unittest.TestCase):
    def test_periods(self):
        for text, ns in (("90s", 90 * S), ("1h30m", 5400 * S), ("250ms", 250 * MS), ("155382367ns", 155382367),
                         ("m", 60 * S), ("d", DAY), ("2w", 14 * DAY), ("5us", 5000)):
            self.assertEqual(parse_period(text), ns)
        for text in ("", "1", "1x", "1h 30m", "0s", "1.5s"):
            self.assertRaises(ValueError, parse_period, text)

    def test_bounds(self):
        for text in ("gcra 1099511627777/s", "gcra 1/s burst 2147483648", "leaky-queue 1/s depth 2147483647",
                     "sliding-slices 5/10ns slices 11", "gcra 2/1152921504606846975ns burst 3", "gcra 1/s extra"):
            self.assertRaises(ValueError, parse_policy, text)

    def test_options_in_any_order(self):
        one, other = parse_policy("fixed-window 5/day tz UTC count-denied & fixed-window 5/day count-denied tz UTC")
        self.assertEqual((one.windows.zone, one.count_denied), (other.windows.zone, other.count_denied))

    def test_anchors(self):
        for text in ("day from 24:00", "day from sunday", "week from 3", "month from 0", "month from 32", "year from 13-01",
                     "year from 04-31", "24h from 06:00", "h from monday"):
            self.assertRaises(ValueError, parse_policy, f"fixed-window 5/{text}")


class Reservations(TableTest):
    def left(self, key, t_ns):
        return key.take(t_ns, 0).remaining

    def test_a_commit_gives_the_rest_back(self):
        key = self.key("fixed-window 10/m")
        decision, reservation = key.reserve(0, 6, 5 * S)
        self.assertEqual((decision.allowed, decision.remaining), (True, 4))
        decision, over = key.commit(1 * S, reservation, 2)
        self.assertEqual((decision.remaining, over), (8, 0))
        self.assertIsNone(key.commit(1 * S, reservation, 2))
        self.assertEqual(self.left(key, 6 * S), 8)

    def test_a_commit_of_more_charges_the_difference(self):
        key = self.key("fixed-window 10/m")
        _, reservation = key.reserve(0, 6, 5 * S)
        decision, over = key.commit(1 * S, reservation, 13)
        self.assertEqual((decision.allowed, decision.remaining, over), (False, 0, 0))
        self.assertEqual(key.states, [(0, 13)])

    def test_it_expires_at_its_end(self):
        key = self.key("fixed-window 10/m")
        _, reservation = key.reserve(0, 6, 5 * S)
        self.assertEqual([self.left(key, t) for t in (5 * S - 1, 5 * S)], [4, 10])
        self.assertIsNone(key.renew(5 * S, reservation, S))
        self.assertEqual(key.commit(6 * S, reservation, 3)[0].remaining, 7)
        self.assertIsNone(key.commit(6 * S, reservation, 3))

    def test_what_has_expired_is_not_given_back(self):
        for text, left in (("fixed-window 10/10s", 9), ("sliding-log 10/5s", 9), ("sliding-slices 10/5s slices 1", 9),
                           ("sliding-counter 10/5s", 9)):
            key = self.key(text)
            _, reservation = key.reserve(4 * S, 6, 100 * S)
            key.take(15 * S, 1)
            self.assertEqual(key.commit(15 * S, reservation, 0)[0].remaining, left, text)

    def test_no_later_unit_is_given_back(self):
        key = self.key("sliding-log 10/10s")
        key.take(0, 1)
        _, reservation = key.reserve(1 * S, 2, 100 * S)
        key.take(2 * S, 3)
        key.refund(3 * S, 4)
        key.take(3 * S, 5)
        key.commit(4 * S, reservation, 0)
        self.assertEqual(key.states, [((3 * S, 5),)])

    def test_a_lease_is_renewed_and_given_back(self):
        key = self.key("concurrent 3 lease 10s & fixed-window 9/m")
        _, first = key.reserve(0, 2)
        _, second = key.reserve(0, 1, 4 * S)
        self.assertEqual(key.reserve(0, 1), (key.take(0, 1), None))
        key.renew(3 * S, second)
        self.assertEqual([self.left(key, t) for t in (4 * S, 10 * S - 1, 10 * S, 13 * S - 1, 13 * S)], [0, 0, 2, 2, 3])
        self.assertEqual((first.units, second.units), (0, 0))
        _, third = key.reserve(20 * S, 3)
        self.assertEqual(key.commit(21 * S, third, 5)[0].remaining, 3)
        self.assertEqual(key.states[1], (0, 5))

    def test_some_policies_have_none(self):
        for text in ("leaky-queue 1/s depth 3", "fixed-window 5/m count-denied"):
            self.assertIsNone(self.key(text).reserve(0, 1, S))


class RandomWalks(unittest.TestCase):
    def test_fields_keep_their_ranges(self):
        rng = random.Random(4)
        for number in range(60):
            case = Case(str(number), policy(rng), rng.randrange(NS_MAX))
            Walk(rng, case, monotone=number % 2 == 0).run(20)
            for step in case.steps:
                self.assertTrue(0 <= step["t_ns"] <= NS_MAX and 0 <= step["cost"] <= COST_MAX)
                if "limit" in step:
                    self.assertTrue(0 <= step["remaining"] <= step["limit"] <= COST_MAX)
                    self.assertTrue(0 <= step["reset_after_ns"] <= INT64_MAX)
                if step["op"] == "take":
                    self.assertEqual(step["allowed"], step["retry_after_ns"] == 0)


class Vectors(unittest.TestCase):
    def test_every_family_is_run(self):
        build = (pathlib.Path(__file__).parent.parent / "tests" / "meson.build").read_text(encoding="utf-8")
        for family in make_vectors.POLICIES:
            self.assertTrue((make_vectors.VECTORS / f"{family}.json").is_file(), family)
            self.assertRegex(build, rf"'(vectors/)?{family}(\.json)?'")

    def test_microseconds(self):
        steps = [step for case in make_vectors.played(MicrosecondCase, "clock-steps-back") for step in case.steps]
        self.assertFalse([step for step in steps if step["t_ns"] % US or step["t_ns"] > MicrosecondCase.end])
        self.assertTrue(any(not step.get("allowed", True) for step in steps))


if __name__ == "__main__":
    unittest.main()

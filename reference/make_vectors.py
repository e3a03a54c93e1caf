# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Generates tests/vectors/*.json from the model. The output is deterministic.

    make_vectors.py                      writes tests/vectors
    make_vectors.py --microseconds DIR   writes the same cases with times in whole microseconds, as
                                         DIR/microseconds-FAMILY.json

Every policy of a family runs through every scenario, with a new key each time. A scenario is a short function
that behaves like one kind of client. The vectors record the decisions of the model.
"""

import datetime
import pathlib
import random
import sys

import address_keys
from random_vectors import START_2026, START_2200, KeepingWalk, ReservingWalk, Walk
from vector_format import Case, MicrosecondCase, document
from weir_reference import COST_MAX, EPOCH, NS_MAX, SECOND, UNITS_NS, CalendarWindows, Concurrent

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "vectors"
STARTS = (0, START_2026 + 123456789, START_2200 + 1, 7)
DAY, HOUR = UNITS_NS["d"], UNITS_NS["h"]
ROOM_AFTER_START = 25 * 365 * DAY

POLICIES = {
    "gcra": (
        "gcra 100/s burst 20", "gcra 1/s", "gcra 5/m burst 5", "gcra 3/s burst 3",
        "gcra 7/m burst 2", "gcra 7/155382367ns burst 4", "gcra 1/1ns burst 10",
        "gcra 1/3650d burst 3", "gcra 1000003/365d burst 9",
        "gcra 2147483647/3650d burst 2147483647", "gcra 12499999999/s burst 2147483647",
        "gcra 1099511627776/s burst 1000", "gcra 1/1152921504606846975ns", "gcra 1/1h30m burst 4",
    ),
    "token-bucket": (
        "token-bucket 500 refill 100/s", "token-bucket 1 refill 1/d", "token-bucket 10 refill 3/s",
        "token-bucket 4 refill 7/m", "token-bucket 2147483647 refill 12500000000/s",
        "token-bucket 2147483647 refill 2147483647/3650d", "token-bucket 12 refill 1000003/365d",
        "token-bucket 5 refill 1/250ms", "token-bucket 3 refill 1099511627776/1ns",
        "token-bucket 6 refill 11/90s",
    ),
    "token-bucket-steps": (
        "token-bucket 10 refill 5 every 1s", "token-bucket 10 refill 3 every 1s",
        "token-bucket 1 refill 1 every 1m", "token-bucket 3 refill 10 every 1h",
        "token-bucket 2147483647 refill 1000000 every 1d",
        "token-bucket 2147483647 refill 1099511627776 every 1ns",
        "token-bucket 7 refill 2 every 1ns", "token-bucket 1 refill 1 every 3650d",
        "token-bucket 9 refill 4 every 155382367ns",
    ),
    "leaky-bucket": (
        "leaky-bucket 10/s capacity 20", "leaky-bucket 1/s capacity 1",
        "leaky-bucket 3/s capacity 5", "leaky-bucket 7/155382367ns capacity 3",
        "leaky-bucket 12499999999/s capacity 2147483647", "leaky-bucket 1/1ns capacity 4",
        "leaky-bucket 1/3650d capacity 2", "leaky-bucket 9/7m capacity 6",
    ),
    "leaky-queue": (
        "leaky-queue 10/s depth 20", "leaky-queue 1/s depth 0", "leaky-queue 3/s depth 4",
        "leaky-queue 7/m depth 2", "leaky-queue 12500000000/s depth 2147483646",
        "leaky-queue 1/1ns depth 3", "leaky-queue 1/3650d depth 1",
        "leaky-queue 1099511627776/s depth 1000000", "leaky-queue 7/155382367ns depth 5",
        "leaky-queue 10/s depth 20 nodelay 8", "leaky-queue 3/s depth 6 nodelay 2",
        "leaky-queue 7/m depth 5 nodelay 5", "leaky-queue 1/s depth 3 nodelay 1",
        "leaky-queue 12500000000/s depth 2147483646 nodelay 2147483645",
        "leaky-queue 7/155382367ns depth 9 nodelay 4",
    ),
    "fixed-window": (
        "fixed-window 5/1s", "fixed-window 1/s", "fixed-window 5000/h",
        "fixed-window 2147483647/m", "fixed-window 3/1ns", "fixed-window 4/3650d",
        "fixed-window 6/155382367ns", "fixed-window 8/1h30m",
        "fixed-window 2147483647/2147483648ns", "fixed-window 2147483647/2147483647ns",
        "fixed-window 10/d", "fixed-window 5/90s count-denied", "fixed-window 1/s count-denied",
        "fixed-window 2147483647/w count-denied",
    ),
    "fixed-window-calendar": (
        "fixed-window 5/day", "fixed-window 100/week", "fixed-window 1/month",
        "fixed-window 2147483647/year", "fixed-window 7/day tz Europe/Berlin",
        "fixed-window 4/month tz Asia/Kathmandu count-denied",
        "fixed-window 3/week count-denied tz America/New_York",
        "fixed-window 6/year tz Australia/Lord_Howe",
        "fixed-window 5/month from 17", "fixed-window 5/week from sunday count-denied",
    ),
    "fixed-window-from-first": (
        "fixed-window 5/1s from-first", "fixed-window 1/h from-first",
        "fixed-window 2147483647/m from-first", "fixed-window 3/1ns from-first",
        "fixed-window 4/3650d from-first", "fixed-window 6/155382367ns from-first",
        "fixed-window 5/90s from-first count-denied", "fixed-window 1/d count-denied from-first",
    ),
    "sliding-log": (
        "sliding-log 5/1s", "sliding-log 1/s", "sliding-log 20/m", "sliding-log 2147483647/h",
        "sliding-log 3/1ns", "sliding-log 4/3650d", "sliding-log 6/155382367ns",
        "sliding-log 5/m count-denied", "sliding-log 1/s count-denied",
        "sliding-log 2147483647/d count-denied", "sliding-log 9/1h30m count-denied",
    ),
    "sliding-counter": (
        "sliding-counter 5/1s", "sliding-counter 1/s", "sliding-counter 100/m",
        "sliding-counter 2147483647/h", "sliding-counter 3/1ns",
        "sliding-counter 2147483647/3650d", "sliding-counter 6/155382367ns strict",
        "sliding-counter 5/1s relaxed", "sliding-counter 1/s relaxed",
        "sliding-counter 2147483647/3650d relaxed", "sliding-counter 6/155382367ns relaxed",
        "sliding-counter 3/1ns relaxed",
    ),
    "sliding-slices": (
        "sliding-slices 100/h slices 60", "sliding-slices 5/1s slices 4",
        "sliding-slices 1/s slices 1", "sliding-slices 7/1s slices 3",
        "sliding-slices 2147483647/d slices 24", "sliding-slices 3/1ns slices 1",
        "sliding-slices 6/7ns slices 5", "sliding-slices 4/3650d slices 7",
        "sliding-slices 9/155382367ns slices 1000", "sliding-slices 20/65537ns slices 65536",
    ),
    "concurrent": (
        "concurrent 1 lease 30s", "concurrent 2 lease 1m", "concurrent 10 lease 30s",
        "concurrent 40 lease 1h30m", "concurrent 3 lease 1ns", "concurrent 4 lease 3650d",
        "concurrent 2147483647 lease 1h", "concurrent 6 lease 155382367ns",
        "concurrent 3 lease 30s & gcra 2/s burst 4", "fixed-window 5/m & concurrent 2 lease 7s",
        "concurrent 5 lease 1152921504606846975ns",
    ),
    "layers": (
        "gcra 10/s burst 5 & fixed-window 20/m",
        "gcra 3/s burst 3 & sliding-log 5/10s & fixed-window 7/day tz Europe/Berlin",
        "fixed-window 5/1s & fixed-window 5/1s",
        "gcra 1/s burst 1 & fixed-window 1/h",
        "gcra 3/s burst 3 & fixed-window 3/7s & sliding-log 3/4s & sliding-counter 3/2s & fixed-window 3/2s",
        "token-bucket 4 refill 2 every 1s & sliding-counter 4/3s relaxed & sliding-slices 4/3s slices 7"
        " & gcra 7/3s burst 4",
        "fixed-window 3/2s from-first & fixed-window 3/5s count-denied & leaky-queue 3/5s depth 2",
        "gcra 1/s burst 4 & token-bucket 4 refill 1/s & leaky-bucket 1/s capacity 4",
        "leaky-queue 2/s depth 6 & fixed-window 10/m",
        "leaky-queue 5/s depth 3 & leaky-queue 1/s depth 3",
        "leaky-queue 5/s depth 3 nodelay 1 & leaky-queue 1/s depth 6 nodelay 4",
        "fixed-window 3/m count-denied & gcra 1/s burst 2",
        "gcra 1/s burst 2 & sliding-log 4/m count-denied",
        "fixed-window 4/90s from-first count-denied & sliding-counter 3/1s",
        "sliding-slices 6/10s slices 7 & sliding-counter 5/10s relaxed & sliding-log 4/10s",
        "gcra 100/s burst 100 & fixed-window 1/3650d",
        "token-bucket 10 refill 2 every 1s & gcra 2/s burst 10",
        "gcra 12500000000/s burst 2147483647 & fixed-window 2147483647/d",
        "fixed-window 2/s & fixed-window 3/s & fixed-window 4/s & fixed-window 5/s"
        " & fixed-window 6/s & fixed-window 7/s & fixed-window 8/s & fixed-window 9/s",
    ),
    "block": (
        "sliding-log 5/m & block 10m", "gcra 10/s burst 5 & block 1s", "block 250ms & gcra 3/s burst 3",
        "gcra 1/s & block 1us", "fixed-window 5/h & block 1m", "gcra 1/3650d burst 3 & block 3650d",
        "gcra 100/s burst 20 & block 1m doubling 1h", "block 1s doubling 5s & sliding-log 3/4s",
        "fixed-window 2147483647/m & block 1152921504606846us doubling 1152921504606846975ns",
        "gcra 3/s burst 3 & block 90s & fixed-window 7/day tz Europe/Berlin",
        "sliding-log 3/m count-denied & block 30s", "block 2m & fixed-window 4/90s from-first count-denied",
        "fixed-window 3/m count-denied & block 10s doubling 15s & gcra 1/s burst 2",
        "sliding-counter 5/10s & sliding-slices 6/10s slices 7 & block 4s",
        "token-bucket 10 refill 3 every 1s & leaky-queue 2/s depth 3 & block 1s doubling 1h",
    ),
    "refund": (
        "gcra 10/s burst 5", "gcra 3/s burst 3", "token-bucket 100 refill 7/m",
        "leaky-bucket 5/s capacity 9", "token-bucket 10 refill 3 every 1s", "fixed-window 5/1s",
        "fixed-window 9/day tz America/New_York", "fixed-window 5/m from-first",
        "sliding-log 8/10s", "sliding-counter 8/10s", "sliding-counter 8/10s relaxed",
        "sliding-slices 8/10s slices 7", "leaky-queue 10/s depth 3",
        "fixed-window 5/s count-denied", "fixed-window 5/s from-first count-denied",
        "sliding-log 5/s count-denied", "gcra 10/s burst 5 & fixed-window 20/m",
        "gcra 10/s burst 5 & leaky-queue 10/s depth 9",
        "sliding-log 5/s & fixed-window 5/m count-denied", "sliding-counter 2147483647/h",
        "gcra 10/s burst 5 & block 2s", "fixed-window 5/m from-first & block 1s doubling 4s",
        "concurrent 1 lease 30s", "concurrent 8 lease 10s", "concurrent 6 lease 10s & gcra 2/s burst 9",
    ),
    "reserve": (
        "gcra 10/s burst 5", "gcra 3/s burst 3", "gcra 2147483647/3650d burst 2147483647",
        "token-bucket 10 refill 3 every 1s", "leaky-bucket 5/s capacity 9", "fixed-window 5/1s",
        "fixed-window 9/day tz America/New_York", "fixed-window 5/m from-first", "sliding-log 8/10s",
        "sliding-counter 8/10s", "sliding-counter 8/10s relaxed", "sliding-slices 8/10s slices 7",
        "concurrent 1 lease 30s", "concurrent 8 lease 10s", "concurrent 4 lease 3650d", "concurrent 3 lease 2ns",
        "concurrent 2147483647 lease 1h", "concurrent 6 lease 10s & gcra 2/s burst 9",
        "concurrent 2 lease 7s & fixed-window 5/m", "concurrent 3 lease 10s & sliding-log 5/m & block 1s doubling 4s",
        "gcra 10/s burst 5 & fixed-window 20/m", "gcra 10/s burst 5 & block 2s",
        "sliding-log 5/10s & sliding-counter 4/3s & sliding-slices 4/3s slices 3 & fixed-window 5/90s from-first",
        "leaky-queue 10/s depth 3", "fixed-window 5/s count-denied", "concurrent 3 lease 30s & sliding-log 5/m count-denied",
    ),
    "keep": (
        "gcra 10/s burst 5", "gcra 3/s burst 7", "gcra 2147483647/3650d burst 2147483647",
        "token-bucket 100 refill 7/m", "token-bucket 10 refill 3 every 1s",
        "leaky-bucket 5/s capacity 9", "leaky-queue 10/s depth 9 nodelay 2", "fixed-window 5/1s",
        "fixed-window 2147483647/m", "fixed-window 50/day", "fixed-window 9/m from-first",
        "fixed-window 7/90s count-denied", "sliding-log 8/10s", "sliding-log 8/10s count-denied",
        "sliding-counter 8/10s", "sliding-counter 8/10s relaxed", "sliding-slices 8/10s slices 7",
        "gcra 10/s burst 5 & fixed-window 20/m", "gcra 1/s burst 10 & sliding-log 40/m",
        "fixed-window 6/m count-denied & gcra 1/s burst 3",
        "sliding-log 9/m count-denied & gcra 1/s burst 4 & fixed-window 7/2s",
        "leaky-queue 5/s depth 9 & fixed-window 20/m",
    ),
    "debt": (
        "gcra 10/s burst 5", "gcra 3/s burst 3", "gcra 1/1000d", "token-bucket 100 refill 7/m",
        "leaky-bucket 5/s capacity 9", "token-bucket 10 refill 3 every 1s", "token-bucket 5 refill 1 every 4w",
        "fixed-window 5/1s", "fixed-window 5/6us", "fixed-window 6000/6us", "fixed-window 9/day tz America/New_York",
        "fixed-window 5/m from-first", "sliding-log 8/10s", "sliding-log 2/10s", "sliding-counter 8/10s",
        "sliding-counter 8/10s relaxed", "sliding-slices 8/10s slices 7", "leaky-queue 10/s depth 3",
        "leaky-queue 3/s depth 5 nodelay 2", "fixed-window 5/s count-denied", "fixed-window 5/s from-first count-denied",
        "sliding-log 5/s count-denied", "gcra 10/s burst 5 & fixed-window 20/m", "gcra 1/s burst 5 & gcra 1/h burst 9",
        "gcra 10/s burst 5 & leaky-queue 10/s depth 9", "sliding-log 5/s & fixed-window 5/m count-denied",
        "sliding-counter 2147483647/h", "gcra 10/s burst 5 & block 2s", "sliding-log 3/m count-denied & block 30s",
        "fixed-window 5/m from-first & block 1s doubling 4s", "fixed-window 9/month from 31 tz Europe/Berlin",
        "concurrent 3 lease 10s & gcra 2/s burst 9", "fixed-window 5/m & concurrent 2 lease 7s & block 1s",
        "concurrent 2 lease 10s & block 3s",
    ),
    "clock-steps-back": (
        "gcra 10/s burst 5", "gcra 3/s burst 3", "token-bucket 9 refill 7/m",
        "token-bucket 10 refill 3 every 1s", "leaky-bucket 5/s capacity 9",
        "leaky-queue 10/s depth 3", "leaky-queue 10/s depth 5 nodelay 2", "fixed-window 5/1s",
        "fixed-window 5/1s count-denied",
        "fixed-window 5/day tz America/Havana", "fixed-window 5/m from-first",
        "fixed-window 5/m from-first count-denied", "sliding-log 5/10s",
        "sliding-log 5/10s count-denied", "sliding-counter 5/10s", "sliding-counter 5/10s relaxed",
        "sliding-slices 5/10s slices 4", "gcra 1/s burst 4 & fixed-window 5/m & sliding-log 6/m",
        "gcra 10/s burst 5 & block 3s", "fixed-window 5/5s & block 1s doubling 1m",
        "concurrent 5 lease 10s",
    ),
}


def wait_for(case):
    """Returns the time from now to the next change of the first layer's decisions."""
    return max(1, case.layers[0].edge_after(case.now) - case.now)


def drain(case, parts=4):
    """Takes everything that remains now, in a few requests."""
    left = case.take(0).remaining
    for part in range(parts, 0, -1):
        if left > 0:
            left = case.take(max(1, left // part)).remaining


def retry_exactly(case, cost):
    """Repeats a denied request at its retry_after, and one tick earlier."""
    retry_ns = case.take(cost).retry_after_ns
    if retry_ns:
        until = case.up(case.now + retry_ns)
        case.take(cost, until - case.tick)
        case.take(cost, until)


def ordinary(case):
    step = max(1, wait_for(case) * 2 // 3)
    for i in range(14):
        case.take(1 if i % 5 else min(2, case.limit), case.now + step + i * step // 7)


def hammered(case):
    """Retries far more often than is allowed."""
    drain(case)
    step = max(1, wait_for(case) // 4)
    for _ in range(10):
        case.take(1, case.now + step)


def waits_as_told(case):
    drain(case)
    for cost in (1, case.limit, 1, max(1, case.limit // 2)):
        retry_exactly(case, cost)
    case.take(case.limit + 1 if case.limit < COST_MAX else COST_MAX)


def resets_as_told(case):
    """Takes the whole limit at the reset, where it is allowed, and one tick earlier, where it is denied."""
    for cost in (1, case.limit):
        reset_ns = case.take(cost).reset_after_ns
        if reset_ns:
            case.take(case.limit, case.up(case.now + reset_ns) - case.tick)
            case.take(0)
            case.take(case.limit, case.now + (case.take(0).reset_after_ns))


def long_idle(case):
    for wait in (10 * wait_for(case), 400 * DAY, 3651 * DAY, 1000 * wait_for(case)):
        drain(case, 2)
        case.take(1)
        case.take(1, case.now + wait)


def every_cost(case):
    limit = case.limit
    ladder = (0, limit + 1, COST_MAX, 1, limit // 2, 0, limit - 1, limit, 0, 1)
    for cost in ladder:
        case.take(min(COST_MAX, cost))
    case.take(limit, case.now + 3 * wait_for(case))


def at_the_edges(case):
    """Takes just before and at a time at which decisions of the first layer may change."""
    for cost in (1, max(1, case.limit // 2), case.limit):
        edge = case.up(case.layers[0].edge_after(case.now))
        case.take(cost, edge - case.tick)
        case.take(cost, edge)
        case.take(1, edge + case.tick)
    case.take(1, case.layers[0].edge_after(case.now))


def wandering(case):
    Walk(random.Random(case.name), case, refunds=False).run(24)


def blocked_again(case):
    """Is denied just before the end of a block, and again at times at which a later block may be longer."""
    for part in (0, 1, 2, 3):
        drain(case)
        denied = case.take(1)
        end = case.up(case.now + (denied.retry_after_ns or 0))
        case.take(1, end - case.tick)
        case.take(min(COST_MAX, case.limit + 1))
        case.take(0, end)
        case.take(min(COST_MAX, case.limit + 1))
        case.take(1, max(end, end + case.take(0).reset_after_ns * part // 2 - case.tick))
        case.take(case.limit)


ALL = (ordinary, hammered, waits_as_told, resets_as_told, long_idle, every_cost, at_the_edges, wandering)


def gives_back_part(case):
    drain(case, 2)
    for cost in (1, 0, max(1, case.limit // 3)):
        case.refund(cost)
        case.take(1)


def gives_back_all(case):
    case.take(min(3, case.limit))
    case.refund(case.limit)
    case.take(case.limit)
    case.refund(COST_MAX)
    case.refund(1)
    case.take(1)


def gives_back_late(case):
    """Refunds after a part of the charge has drained or expired, and after all of it has."""
    for divisor in (3, 1, 2):
        drain(case, 3)
        step = max(1, wait_for(case) // divisor)
        case.refund(2, case.now + step)
        case.take(1)
        case.refund(1, case.now + step)
    case.refund(5, case.now + 400 * DAY)
    case.take(1)


def gives_back_to_fresh_key(case):
    case.refund(1)
    case.refund(0)
    drain(case)


def gives_back_spread(case):
    """Charges at several times. A refund then returns the latest charge first."""
    step = max(1, wait_for(case) // 5)
    for _ in range(4):
        case.take(min(2, case.limit), case.now + step)
    for _ in range(5):
        case.refund(1, case.now + step)
        case.take(0, case.now + 2 * step)


def wandering_with_refunds(case):
    Walk(random.Random(case.name), case).run(40)


REFUNDS = (gives_back_part, gives_back_all, gives_back_late, gives_back_to_fresh_key, gives_back_spread,
           wandering_with_refunds)


def leaves_for_others(case):
    """Takes until only what is kept is left, and then exactly that."""
    for keep in (1, case.limit // 3, "20%"):
        while case.take(max(1, case.limit // 4), keep=keep).allowed:
            pass
        left = case.take(0).remaining
        case.take(1, keep=keep)
        case.take(left)
        case.take(1)
        case.take(0, case.now + 3 * wait_for(case))


def waits_for_all(case):
    """Repeats a denied request at its retry_after, and one tick earlier."""
    for cost, keep in ((1, 1), (1, case.limit - 1), (case.limit // 2, "50%"), (case.limit, "0%"), (0, case.limit)):
        drain(case, 2)
        retry_ns = case.take(cost, keep=keep).retry_after_ns
        if retry_ns:
            until = case.up(case.now + retry_ns)
            case.take(cost, until - case.tick, keep)
            case.take(cost, until, keep)


def keeps_too_much(case):
    """Costs that no wait allows, though the cost alone would be allowed."""
    limit = case.limit
    for cost, keep in ((1, limit), (0, limit), (1, "100%"), (0, "100%"), (limit, "1%"), (limit, 0), (1, COST_MAX),
                       (COST_MAX, COST_MAX), (1, "99%"), (0, "1%"), (2, max(0, limit - 2))):
        case.take(cost, keep=keep)
    case.take(1, case.now + 3 * wait_for(case), limit - 1)


def wandering_with_keeps(case):
    KeepingWalk(random.Random(case.name), case, refunds=False).run(40)


KEEPS = (leaves_for_others, waits_for_all, keeps_too_much, wandering_with_keeps)


def charges_into_debt(case):
    """Charges more than is left, and waits until the debt is paid off and until the next unit is there."""
    case.take(1)
    for cost in (case.limit, 1, min(COST_MAX, 3 * case.limit)):
        debt = case.charge(cost)
        for wait in (debt.retry_after_ns, debt.reset_after_ns):
            case.take(0, case.now + max(0, (wait or 0) - case.tick))
            case.take(0, case.now + case.tick)
        case.take(1)
        case.take(1, case.now + wait_for(case))


def charges_a_new_key(case):
    case.charge(0)
    case.charge(1)
    case.charge(case.limit)
    case.refund(1)
    case.charge(min(COST_MAX, case.limit + 7))
    case.refund(2)
    case.take(0)
    case.take(1)
    case.take(COST_MAX)


def charges_to_the_bound(case):
    for _ in range(3):
        case.charge(COST_MAX)
    case.take(1)
    case.take(0, case.now + DAY)
    case.charge(COST_MAX)
    case.refund(COST_MAX)
    case.take(1)


def charges_after_step_back(case):
    case.charge(min(COST_MAX, 2 * case.limit))
    case.take(0, case.now - max(1, wait_for(case) // 2))
    case.charge(1)
    case.charge(COST_MAX, case.now - DAY)
    case.take(1)
    case.take(0, case.now + 2 * DAY)


def wandering_into_debt(case):
    Walk(random.Random(case.name), case, charges=True).run(40)


DEBTS = (charges_into_debt, charges_a_new_key, charges_to_the_bound, wandering_into_debt)


def ttl_for(case, share=1):
    """Returns a TTL at whose end decisions may have changed."""
    holds = [layer.period for layer in case.layers if isinstance(layer, Concurrent)]
    return max(1, (holds[0] if holds else wait_for(case)) // share)


def settles(case):
    """Commits less than was reserved, as much, nothing and more; then again, and cancels it."""
    most = max(1, case.limit // 2)
    for number, actual in enumerate((most // 2, most, 0, min(COST_MAX, most + 1))):
        case.reserve(most, ttl=ttl_for(case))
        case.take(1)
        case.commit(number, actual)
        case.take(1, case.now + ttl_for(case, 3))
    case.commit(3, 1)
    case.cancel(3)


def cancels(case):
    """Cancels in another order than that of the reservations, and twice."""
    for share in (2, 1, 3):
        case.reserve(1, case.now + ttl_for(case, 9), ttl_for(case, share))
    for number in (1, 0, 1, 2, 0):
        case.cancel(number)
        case.take(1)
    case.take(case.limit)


def expires(case):
    """Takes before a reservation expires and at that time; then commits it, which is late, and again."""
    for number, actual in ((0, 0), (1, 1), (2, case.limit)):
        case.reserve(max(1, case.limit - 1), ttl=ttl_for(case, number + 1))
        end = case.up(case.now + ttl_for(case, number + 1))
        case.take(2, end - case.tick)
        case.take(2, end)
        case.renew(number)
        case.commit(number, actual)
        case.commit(number, actual)
        case.take(0, end + 3 * ttl_for(case))


def renews(case):
    """Renews before a reservation expires, for a longer and for a shorter time, and when it has expired."""
    ttl = ttl_for(case)
    case.reserve(case.limit, ttl=ttl_for(case, 2))
    case.reserve(1, ttl=ttl_for(case))
    case.renew(0, case.up(case.now + ttl_for(case, 2)) - case.tick, ttl)
    case.take(1, case.now + case.tick)
    case.renew(0, case.now + ttl_for(case, 4), ttl_for(case, 3))
    end = case.up(case.now + ttl_for(case, 3))
    case.take(1, end - case.tick)
    case.renew(0, None, ttl)
    case.take(1, end)
    case.take(1, case.up(end - case.tick + ttl))
    case.renew(0, None, ttl)
    case.commit(0, 1)


def commits_into_debt(case):
    case.reserve(1, ttl=ttl_for(case))
    case.reserve(0, ttl=ttl_for(case))
    case.commit(0, min(COST_MAX, 2 * case.limit))
    case.commit(1, COST_MAX)
    case.take(1)
    case.take(1, case.now + wait_for(case))
    case.reserve(1, ttl=ttl_for(case))
    case.take(0, case.now + 400 * DAY)


def refunds_between(case):
    """A refund returns the latest units, which may be those of a reservation."""
    for number in range(3):
        case.take(1)
        case.reserve(2 if case.limit > 3 else 1, case.now + ttl_for(case, 7), ttl_for(case))
        case.take(1, case.now + ttl_for(case, 7))
        case.refund(2)
        case.cancel(number)
        case.take(1)


def wandering_with_reservations(case):
    ReservingWalk(random.Random(case.name), case).run(60)


RESERVES = (settles, cancels, expires, renews, commits_into_debt, refunds_between, wandering_with_reservations)


def steps_back_a_little(case):
    case.take(1)
    for back in (case.tick, max(1, wait_for(case) // 2), wait_for(case)):
        case.take(1, case.now - back)
        case.take(case.limit)
        case.take(0)


def steps_back_when_drained(case):
    drain(case)
    at = case.now
    for back in (case.tick, SECOND, 5 * SECOND, DAY, at):
        case.take(1, at - back)
        case.take(0)
    retry_exactly(case, 1)


def steps_back_and_on(case):
    """The clock steps back and forth. Earlier charges still count."""
    step = wait_for(case)
    for move in (step, -step // 2, 2 * step, -3 * step, step, step, -step, 4 * step, -case.tick, case.tick):
        case.take(1, case.now + move)
        case.take(1)


def steps_back_to_zero(case):
    case.take(min(2, case.limit), NS_MAX)
    case.take(0, 0)
    case.take(1)
    case.take(case.limit)
    case.take(1, NS_MAX)


def gives_back_after_step_back(case):
    drain(case, 2)
    case.refund(1, case.now - max(1, wait_for(case) // 2))
    case.take(1)
    case.take(1)
    case.refund(2, case.now - DAY)
    case.take(0)


def gives_back_nothing(case):
    """A refund of 0 forgets nothing: what has expired counts again if the clock steps back."""
    first, wait = case.now, wait_for(case)
    case.take(1)
    case.take(1, first + wait // 2)
    case.refund(0, first + wait + case.tick)
    case.take(0, first + wait * 3 // 4)


def wandering_back(case):
    Walk(random.Random(case.name), case, refunds=False, monotone=False).run(40)


STEPS_BACK = (steps_back_a_little, steps_back_when_drained, steps_back_and_on, steps_back_to_zero,
              gives_back_after_step_back, gives_back_nothing, charges_after_step_back, wandering_back)


def calendar_case(kind, period, zone, date):
    unit, _, anchor = period.partition(" from ")
    noon = int((datetime.datetime.fromisoformat(date) - EPOCH).total_seconds()) * SECOND + DAY // 2
    windows = CalendarWindows(unit, zone, anchor)
    begin, end = windows.bounds(noon)
    case = kind(f"{period} {zone} {date}", f"fixed-window 5/{period} tz {zone}", begin - 26 * HOUR)
    for at in sorted((begin - 26 * HOUR, begin - HOUR, begin - case.tick, begin, begin + HOUR - case.tick, begin + HOUR,
               begin + 3 * HOUR, noon, end - HOUR, end - case.tick, end, end + HOUR // 2, end + HOUR, end + 25 * HOUR)):
        case.take(2, at)
    return case


# Period, time zone, and dates.
CALENDARS = (
    ("day", "America/Havana", "2023-03-12", "2023-11-04", "2023-11-05"),
    ("day", "America/Sao_Paulo", "2018-02-17", "2018-11-03", "2018-11-04"),
    ("day", "Asia/Beirut", "2023-03-25", "2022-03-27", "2022-10-30"),
    ("day", "Pacific/Apia", "2011-12-29", "2011-12-31", "2012-01-01"),
    ("week", "Pacific/Apia", "2011-12-28", "2012-01-03"),
    ("month", "Pacific/Apia", "2011-12-15", "2012-01-15"),
    ("day", "America/St_Johns", "2010-03-13", "2010-03-14", "2010-11-06", "2010-11-07"),
    ("day", "Europe/Berlin", "2024-03-31", "2024-10-27", "2026-01-01"),
    ("day", "Australia/Lord_Howe", "2024-04-07", "2024-10-06"),
    ("day", "UTC", "1970-01-03", "2024-02-29", "2100-02-28", "2100-03-01", "2200-12-31"),
    ("week", "UTC", "1970-01-08", "2024-02-29", "2027-01-01", "2200-01-01"),
    ("week", "America/New_York", "2025-03-09", "2025-11-02", "2025-11-03"),
    ("month", "UTC", "1970-02-14", "2023-02-14", "2024-02-14", "2000-02-14", "2100-02-14", "2025-12-14"),
    ("month", "America/Sao_Paulo", "2018-11-15", "2018-02-15"),
    ("month", "Asia/Kathmandu", "2025-04-15"),
    ("year", "UTC", "1971-06-01", "2024-06-01", "2100-06-01", "2200-06-01"),
    ("year", "Pacific/Apia", "2011-06-01", "2012-06-01"),
    ("year", "America/New_York", "1970-06-01", "2026-06-01", "2199-06-01"),
    ("day from 02:30", "Europe/Berlin", "2024-03-30", "2024-03-31", "2024-10-27"),
    ("day from 06:00", "Pacific/Apia", "2011-12-29", "2011-12-30", "2011-12-31"),
    ("day from 06:00", "UTC", "1970-01-03", "2024-02-29", "2199-12-31"),
    ("day from 23:59", "America/Sao_Paulo", "2018-02-17", "2018-11-03"),
    ("week from sunday", "America/New_York", "2025-03-09", "2025-11-02", "2025-11-08"),
    ("week from saturday", "Pacific/Apia", "2011-12-28", "2012-01-03"),
    ("week from tuesday", "UTC", "2024-01-01", "2024-01-02"),
    ("month from 17", "UTC", "2026-01-16", "2026-01-17", "2025-12-31"),
    ("month from 17", "Europe/Berlin", "2026-03-20", "2026-10-20"),
    ("month from 29", "UTC", "2023-02-27", "2023-02-28", "2024-02-29"),
    ("month from 30", "Pacific/Apia", "2011-12-15", "2012-01-15"),
    ("month from 31", "UTC", "2023-01-31", "2023-02-28", "2024-02-29", "2024-04-30", "2100-02-27"),
    ("year from 02-29", "UTC", "2023-06-01", "2024-02-28", "2024-06-01", "2099-06-01"),
    ("year from 04-01", "Asia/Kathmandu", "2026-03-31", "2026-06-01"),
    ("year from 07-01", "Australia/Sydney", "2026-06-30", "2026-07-01"),
    ("year from 12-31", "UTC", "2023-12-31", "2024-12-30"),
)


def calendar_cases(kind):
    """Returns cases around the starts of the windows that contain the dates."""
    return [calendar_case(kind, period, zone, date) for period, zone, *dates in CALENDARS for date in dates]


def scenarios(family):
    others = {"refund": REFUNDS, "reserve": RESERVES, "keep": KEEPS, "debt": DEBTS, "clock-steps-back": STEPS_BACK,
              "block": ALL + (blocked_again,)}
    return others.get(family, ALL)


def start_for(kind, family, index):
    """Returns the start time of the case with this number. A clock that steps back needs a late start."""
    start = START_2026 + 123456789 if family == "clock-steps-back" else STARTS[index % len(STARTS)]
    return min(start, kind.end - ROOM_AFTER_START) // kind.tick * kind.tick


def played(kind, family):
    cases = []
    for number, policy in enumerate(POLICIES[family]):
        for play in scenarios(family):
            title = play.__name__.replace("_", " ")
            case = kind(f"{policy}: {title}", policy, start_for(kind, family, number + len(cases)))
            play(case)
            cases.append(case)
    return cases


def write(kind, directory, prefix):
    for family in POLICIES:
        cases = played(kind, family) + (calendar_cases(kind) if family == "fixed-window-calendar" else [])
        text = document(cases, monotone=family != "clock-steps-back")
        (directory / f"{prefix}{family}.json").write_text(text, encoding="utf-8")
        if not prefix:
            print(f"{family}.json: {len(cases)} cases, {sum(len(case.steps) for case in cases)} steps")


def main():
    if sys.argv[1:2] == ["--microseconds"]:
        write(MicrosecondCase, pathlib.Path(sys.argv[2]), "microseconds-")
        return
    write(Case, VECTORS, "")
    (VECTORS / "keys.json").write_text(address_keys.document(), encoding="utf-8")
    print(f"keys.json: {sum(1 for _ in address_keys.rows())} keys")


if __name__ == "__main__":
    main()

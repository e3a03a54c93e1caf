# SPDX-License-Identifier: BSD-2-Clause
"""What weir answers."""

from __future__ import annotations

import typing

MS_NS = 1_000_000
SECOND_NS = 1_000_000_000


def ceil(time_ns: typing.Optional[int], unit_ns: int) -> typing.Optional[int]:
    """A time in larger units. It rounds up: a client that waits for a rounded-down time would be denied again."""
    return None if time_ns is None else -(-time_ns // unit_ns)


class Decision(typing.NamedTuple):
    """A decision. All numbers are exact integers; the daemon answers in whole milliseconds, rounded up."""

    allowed: bool
    limit: int  # the largest cost that a key with its full quota could be allowed at once
    remaining: int  # the largest cost that would be allowed now, after this decision
    retry_after_ns: typing.Optional[int]  # 0 if allowed; otherwise the wait; None: no wait helps
    reset_after_ns: int  # the time until the limit remains
    delay_ns: int = 0  # leaky-queue: how long to hold the request
    layer: typing.Optional[int] = None  # which layer of the policy the numbers describe; None: not known
    next_ns: typing.Optional[int] = None  # until a cost of 1 is allowed, 0: now, -1: never; None: not known
    over: int = 0  # of charge() and commit(): units that could not be counted
    reason: str = "limit"  # "on-error": nothing could be decided, and on_error says what is answered

    @property
    def retry_after_ms(self) -> typing.Optional[int]:
        return ceil(self.retry_after_ns, MS_NS)

    @property
    def retry_after(self) -> typing.Optional[int]:
        """In whole seconds, as in the header field Retry-After."""
        return ceil(self.retry_after_ns, SECOND_NS)

    @property
    def reset_after_ms(self) -> int:
        return -(-self.reset_after_ns // MS_NS)

    @property
    def reset_after(self) -> int:
        """In whole seconds."""
        return -(-self.reset_after_ns // SECOND_NS)

    @property
    def delay(self) -> float:
        """In seconds, for time.sleep() and asyncio.sleep()."""
        return self.delay_ns / SECOND_NS


class Figures(typing.NamedTuple):
    """What the state of a layer counts; -1: the layer has no such figure."""

    current: int
    previous: int
    window_start_ns: int


def by_error(allowed: bool) -> Decision:
    """The decision if nothing could be decided."""
    return Decision(allowed, 0, 0, 0 if allowed else None, 0, reason="on-error")

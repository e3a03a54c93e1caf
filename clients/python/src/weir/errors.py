# SPDX-License-Identifier: BSD-2-Clause
"""The exceptions of the package."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from weir.decision import Decision


class WeirError(Exception):
    """The base of all exceptions of this package."""


class ArgumentError(WeirError, ValueError):
    """A cost, a key, an option or a URL that weir does not accept."""


class PolicyError(WeirError, ValueError):
    """A policy text with a mistake, or a name that the daemon does not know."""


class UnsupportedError(WeirError):
    """The policy does not support this operation, such as refunds of a leaky queue."""


class ReservationError(WeirError):
    """No open reservation has this id: it was committed or cancelled before, or it expired."""


class AccessError(WeirError):
    """The daemon refused the user, the password or the right."""


class Unavailable(WeirError):
    """Nothing could be decided: the daemon does not answer, or the file cannot be used. `on_error` says what
    a decision is then."""


class Full(Unavailable):
    """The store is full: memory.size or memory.when_full of the daemon, `size` or `when_full` of a file."""


class Denied(WeirError):
    """A `with` block whose reservation was denied. `decision` says when to try again."""

    def __init__(self, decision: Decision) -> None:
        super().__init__("denied")
        self.decision = decision

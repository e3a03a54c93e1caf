# SPDX-License-Identifier: BSD-2-Clause
"""weir, an exact rate limiter: docs/clients/python.md describes this package."""

from weir._native import VERSION as __version__
from weir.decision import Decision, Figures
from weir.errors import (AccessError, ArgumentError, Denied, Full, PolicyError, ReservationError, Unavailable,
                         UnsupportedError, WeirError)
from weir.limiter import AsyncLimiter, AsyncReservation, Limiter, Reservation

__all__ = ["AccessError", "ArgumentError", "AsyncLimiter", "AsyncReservation", "Decision", "Denied", "Figures", "Full",
           "Limiter", "PolicyError", "Reservation", "ReservationError", "Unavailable", "UnsupportedError", "WeirError",
           "__version__"]

# SPDX-License-Identifier: BSD-2-Clause
"""Limiter and AsyncLimiter: one interface to a file that processes share, and to a daemon."""

from __future__ import annotations

import re
import threading
import time
import types
import typing

from weir import _native
from weir._file import FileCommands, text_of
from weir._options import FILE, Place, place_of
from weir.decision import Decision, Figures, by_error
from weir.errors import ArgumentError, Denied, ReservationError, Unavailable, WeirError

if typing.TYPE_CHECKING:
    from weir._daemon import AsyncConnection, Connection, DaemonCommands, Request

Key = typing.Union[str, bytes]
Keep = typing.Union[int, str]
T = typing.TypeVar("T")

# The names that users of other libraries know, and weir's own: docs/headers.md.
FLAVOURS = {"draft-6": "ietf-03", "draft-7": "ietf-07", "draft-8": "ietf", "legacy": "x-ratelimit"}


class Failures:
    """Counts what could not be decided."""

    def __init__(self, hook: typing.Optional[typing.Callable[[WeirError], object]]) -> None:
        self.count, self.hook, self.lock = 0, hook, threading.Lock()

    def add(self, error: WeirError) -> None:
        with self.lock:
            self.count += 1
        if self.hook:
            self.hook(error)


class _Base:
    """What both limiters have."""

    commands: typing.Union[FileCommands, DaemonCommands]

    def __init__(self, policy: str, url: str, policies: typing.Optional[typing.Mapping[str, str]],
                 options: typing.Mapping[str, typing.Any]) -> None:
        self.policy = policy
        self.place: Place = place_of(url, options)
        self._failures = Failures(self.place.options["on_failure"])
        self._on_error: str = self.place.options["on_error"]
        self.name = "" if " " in policy else policy
        self.text: typing.Optional[str] = policy
        if self.place.scheme == FILE:
            self.text = text_of(policy, policies)
            self.commands = FileCommands(self.place, self.text, self.name)
        else:
            if policies is not None:
                raise ArgumentError("policies: expected weir+file:///path with it, because a daemon has its own")
            from weir import _daemon

            self.commands = _daemon.DaemonCommands(policy)
            self.text = _daemon.text_of(policy)

    @property
    def failures(self) -> int:
        """How many requests could not be decided, or reservations not ended."""
        return self._failures.count

    def _failed(self, error: Unavailable) -> Decision:
        """The decision that on_error chooses."""
        self._failures.add(error)
        if self._on_error == "raise":
            raise error
        return by_error(self._on_error == "open")

    def _not_ended(self, error: WeirError) -> None:
        """A `with` block whose reservation could not be ended: it expires after its time."""
        self._failures.add(error)
        if self._on_error == "raise":
            raise error

    def headers(self, decision: Decision, flavours: str = "draft-8",
                name: typing.Optional[str] = None) -> typing.List[typing.Tuple[str, str]]:
        """The header fields of a response: draft-6, draft-7, draft-8, legacy, or weir's own names, separated by
        commas; none: only Retry-After. None are returned for a decision by on_error."""
        if decision.reason == "on-error":
            return []
        name = self.name if name is None else name
        if not re.fullmatch(r"[A-Za-z0-9_.:/-]{0,64}", name):
            raise ArgumentError(f"the name of a policy: expected up to 64 letters, digits and -_.:/, found {name!r}")
        lines = _native.lines(
            flavours_of(flavours), name, self.text, decision.allowed, decision.limit, decision.remaining,
            -1 if decision.retry_after_ns is None else decision.retry_after_ns, decision.reset_after_ns,
            -1 if decision.layer is None else decision.layer, _next_ns(decision), time.time_ns())
        return [(field, value) for field, _, value in (line.partition(": ") for line in lines.splitlines())]


def _next_ns(decision: Decision) -> int:
    if decision.next_ns is None:
        return -1
    return (1 << 63) - 1 if decision.next_ns < 0 and decision.remaining == 0 else decision.next_ns


def flavours_of(names: str) -> int:
    """Reads names of header flavours, separated by commas."""
    own = ",".join(FLAVOURS.get(name.strip(), name.strip()) for name in names.split(","))
    try:
        return _native.flavours(own)
    except _native.Error as error:
        text = error.args[1].replace("expected", f"expected {', '.join(FLAVOURS)},")
        raise ArgumentError(f"headers '{names}': {text}") from None


class Limiter(_Base):
    """A limit. `policy` is a policy text or the name of a policy: one of a daemon or, with a file, one in `policies`.
    `url` is weir+file:///path, weir://host:port or weirs://host:port, with options behind it or as keywords."""

    def __init__(self, policy: str, url: str, *, policies: typing.Optional[typing.Mapping[str, str]] = None,
                 **options: typing.Any) -> None:
        super().__init__(policy, url, policies, options)
        self._connection: typing.Optional[Connection] = None
        if self.place.scheme != FILE:
            from weir._daemon import Connection

            self._connection = Connection(self.place)

    def _run(self, request: typing.Union[T, Request[T]]) -> T:
        if self._connection:
            return self._connection.ask(typing.cast("Request[T]", request))
        return typing.cast(T, request)

    def check(self, key: Key, cost: int = 1, keep: Keep = 0, *, named: bool = False) -> Decision:
        """Decides whether `cost` units may pass, and charges them if so; with `keep`, only if as many units
        (or a share, "20%") remain for others. With `named`, the decision has its layer and next_ns."""
        try:
            return self._run(self.commands.check(key, cost, keep, named))
        except Unavailable as error:
            return self._failed(error)

    def peek(self, key: Key, cost: int = 1, keep: Keep = 0) -> Decision:
        """What check() would decide. Charges nothing."""
        try:
            return self._run(self.commands.peek(key, cost, keep))
        except Unavailable as error:
            return self._failed(error)

    def refund(self, key: Key, cost: int = 1) -> Decision:
        """Gives back units that were charged but not used. Returns the key's quota."""
        return self._run(self.commands.refund(key, cost))

    def charge(self, key: Key, cost: int) -> Decision:
        """Charges units that were used already, whether they fit or not: the key may then be in debt."""
        return self._run(self.commands.charge(key, cost))

    def reset(self, key: Key) -> None:
        """Gives a key its full quota."""
        self._run(self.commands.reset(key))

    def reset_all(self) -> None:
        """Gives all keys of the policy their full quota."""
        self._run(self.commands.reset_all())

    def figures(self, key: Key) -> Figures:
        """What the state of a key counts."""
        return self._run(self.commands.figures(key))

    def ping(self) -> None:
        """Raises Unavailable if the daemon does not answer, or if the file was deleted or moved."""
        self._run(self.commands.ping())

    def reserve(self, key: Key, cost: int, ttl: typing.Optional[float] = None) -> Reservation:
        """Charges `cost` units before the real cost is known, for `ttl` seconds; see Reservation."""
        return self._reserve(key, cost, ttl, True)

    def concurrent(self, key: Key, cost: int = 1, ttl: typing.Optional[float] = None) -> Reservation:
        """A slot of a policy with a `concurrent` layer, for a `with` block. Without `ttl`, it is lost after the
        lease of the policy."""
        return self._reserve(key, cost, ttl, False)

    def _reserve(self, key: Key, cost: int, ttl: typing.Optional[float], cancels: bool) -> Reservation:
        try:
            decision, id = self._run(self.commands.reserve(key, cost, ttl))
        except Unavailable as error:
            decision, id = self._failed(error), ""
        return Reservation(self, decision, id, cost, cancels)

    def commit(self, id: str, actual: int) -> Decision:
        """Ends the reservation of this id, of any process, at its real cost."""
        return self._run(self.commands.commit(id, actual))

    def cancel(self, id: str) -> Decision:
        """Ends the reservation of this id, and gives back its units."""
        return self._run(self.commands.cancel(id))

    def renew(self, id: str, ttl: typing.Optional[float] = None) -> Decision:
        """Extends the reservation of this id: it expires `ttl` seconds from now."""
        return self._run(self.commands.renew(id, ttl))

    def close(self) -> None:
        """Closes the connections to the daemon. A file is closed when the last limiter that uses it is freed."""
        if self._connection:
            self._connection.close()


class AsyncLimiter(_Base):
    """Limiter for asyncio, with the same methods. A file never blocks, so it is decided at once."""

    def __init__(self, policy: str, url: str, *, policies: typing.Optional[typing.Mapping[str, str]] = None,
                 **options: typing.Any) -> None:
        super().__init__(policy, url, policies, options)
        self._connection: typing.Optional[AsyncConnection] = None
        if self.place.scheme != FILE:
            from weir._daemon import AsyncConnection

            self._connection = AsyncConnection(self.place)

    async def _run(self, request: typing.Union[T, Request[T]]) -> T:
        if self._connection:
            return await self._connection.ask(typing.cast("Request[T]", request))
        return typing.cast(T, request)

    async def check(self, key: Key, cost: int = 1, keep: Keep = 0, *, named: bool = False) -> Decision:
        try:
            return await self._run(self.commands.check(key, cost, keep, named))
        except Unavailable as error:
            return self._failed(error)

    async def peek(self, key: Key, cost: int = 1, keep: Keep = 0) -> Decision:
        try:
            return await self._run(self.commands.peek(key, cost, keep))
        except Unavailable as error:
            return self._failed(error)

    async def refund(self, key: Key, cost: int = 1) -> Decision:
        return await self._run(self.commands.refund(key, cost))

    async def charge(self, key: Key, cost: int) -> Decision:
        return await self._run(self.commands.charge(key, cost))

    async def reset(self, key: Key) -> None:
        await self._run(self.commands.reset(key))

    async def reset_all(self) -> None:
        await self._run(self.commands.reset_all())

    async def figures(self, key: Key) -> Figures:
        return await self._run(self.commands.figures(key))

    async def ping(self) -> None:
        await self._run(self.commands.ping())

    def reserve(self, key: Key, cost: int, ttl: typing.Optional[float] = None) -> AsyncReservation:
        """For `async with`, or to be awaited."""
        return AsyncReservation(self, key, cost, ttl, True)

    def concurrent(self, key: Key, cost: int = 1, ttl: typing.Optional[float] = None) -> AsyncReservation:
        return AsyncReservation(self, key, cost, ttl, False)

    async def commit(self, id: str, actual: int) -> Decision:
        return await self._run(self.commands.commit(id, actual))

    async def cancel(self, id: str) -> Decision:
        return await self._run(self.commands.cancel(id))

    async def renew(self, id: str, ttl: typing.Optional[float] = None) -> Decision:
        return await self._run(self.commands.renew(id, ttl))

    async def close(self) -> None:
        if self._connection:
            await self._connection.close()


# ---- reservations ------------------------------------------------------------------------------------------------


class Reservation:
    """Units that are charged before their real cost is known. In a `with` block, which raises Denied if they do
    not fit, the end of the block commits the reserved cost, and an exception cancels it, unless commit() or
    cancel() was called. A reservation that nobody ends expires, and its units are given back. The end of a
    concurrent() block always commits."""

    def __init__(self, limiter: Limiter, decision: Decision, id: str, cost: int, cancels: bool) -> None:
        self._limiter, self._cost, self._cancels = limiter, cost, cancels
        self.decision, self.id, self.ended = decision, id, not id

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def commit(self, actual: typing.Optional[int] = None) -> Decision:
        """Charges the real cost, whether it fits or not; without it the reserved cost."""
        return self._end(lambda: self._limiter.commit(self.id, self._cost if actual is None else actual))

    def cancel(self) -> Decision:
        """Gives all units back."""
        return self._end(lambda: self._limiter.cancel(self.id))

    def _end(self, ask: typing.Callable[[], Decision]) -> Decision:
        if self.id:
            self.ended = True
            try:
                self.decision = ask()
            except (ArgumentError, TypeError):
                self.ended = False
                raise
        return self.decision

    def renew(self, ttl: typing.Optional[float] = None) -> Decision:
        """Extends the reservation: it expires `ttl` seconds from now."""
        if self.id:
            self.decision = self._limiter.renew(self.id, ttl)
        return self.decision

    def __enter__(self) -> Reservation:
        if not self.decision.allowed:
            raise Denied(self.decision)
        return self

    def __exit__(self, error: typing.Optional[typing.Type[BaseException]],
                 _value: typing.Optional[BaseException], _trace: typing.Optional[types.TracebackType]) -> None:
        if self.ended:
            return
        try:
            if error and self._cancels:
                self.cancel()
            else:
                self.commit()
        except (Unavailable, ReservationError) as failed:
            self._limiter._not_ended(failed)


class AsyncReservation:
    """Reservation for asyncio: `async with`, or awaited once and then ended with await."""

    def __init__(self, limiter: AsyncLimiter, key: Key, cost: int, ttl: typing.Optional[float],
                 cancels: bool) -> None:
        self._limiter, self._key, self._ttl = limiter, key, ttl
        self._cost, self._cancels = cost, cancels
        self.decision, self.id, self.ended = by_error(False), "", True

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    async def _begin(self) -> AsyncReservation:
        limiter = self._limiter
        try:
            self.decision, self.id = await limiter._run(
                limiter.commands.reserve(self._key, self._cost, self._ttl))
        except Unavailable as error:
            self.decision = limiter._failed(error)
        self.ended = not self.id
        return self

    def __await__(self) -> typing.Generator[typing.Any, None, AsyncReservation]:
        return self._begin().__await__()

    async def commit(self, actual: typing.Optional[int] = None) -> Decision:
        return await self._end(self._limiter.commit, self._cost if actual is None else actual)

    async def cancel(self) -> Decision:
        return await self._end(self._limiter.cancel)

    async def _end(self, ask: typing.Callable[..., typing.Awaitable[Decision]], *more: int) -> Decision:
        if self.id:
            self.ended = True
            try:
                self.decision = await ask(self.id, *more)
            except (ArgumentError, TypeError):
                self.ended = False
                raise
        return self.decision

    async def renew(self, ttl: typing.Optional[float] = None) -> Decision:
        if self.id:
            self.decision = await self._limiter.renew(self.id, ttl)
        return self.decision

    async def __aenter__(self) -> AsyncReservation:
        await self._begin()
        if not self.decision.allowed:
            raise Denied(self.decision)
        return self

    async def __aexit__(self, error: typing.Optional[typing.Type[BaseException]],
                        _value: typing.Optional[BaseException],
                        _trace: typing.Optional[types.TracebackType]) -> None:
        if self.ended:
            return
        try:
            if error and self._cancels:
                await self.cancel()
            else:
                await self.commit()
        except (Unavailable, ReservationError) as failed:
            self._limiter._not_ended(failed)

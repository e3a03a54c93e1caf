# SPDX-License-Identifier: BSD-2-Clause
"""Decisions of a daemon, over RESP by redis-py. A request is sent once: one that timed out may have been charged,
so it is never sent again."""

from __future__ import annotations

import asyncio
import typing

from weir import _native
from weir._options import TLS, Place, keep_of, ttl_ns_of
from weir.decision import MS_NS, Decision, Figures
from weir.errors import (AccessError, ArgumentError, Full, PolicyError, ReservationError, Unavailable,
                         UnsupportedError, WeirError)

try:
    import redis
    import redis.asyncio
    from redis import exceptions as errors
except ImportError as error:  # the extra `daemon` of the package
    raise ImportError("weir:// needs redis-py: pip install redis") from error

Key = typing.Union[str, bytes]
T = typing.TypeVar("T")
Reader = typing.Callable[[typing.Any], T]


class Request(typing.Generic[T]):
    """A command, and the function that reads its reply."""

    __slots__ = ("words", "read")

    def __init__(self, read: Reader[T], *words: typing.Union[str, bytes, int]) -> None:
        self.words, self.read = words, read


# ---- replies -----------------------------------------------------------------------------------------------------


def _decision(reply: typing.Sequence[int], over: int = 0) -> Decision:
    allowed, limit, remaining, retry_ms, reset_ms, delay_ms = reply[:6]
    return Decision(allowed == 1, limit, remaining, None if retry_ms < 0 else retry_ms * MS_NS, reset_ms * MS_NS,
                    delay_ms * MS_NS, over=over)


def _settled(reply: typing.Sequence[int]) -> Decision:
    return _decision(reply, reply[6])


def _reserved(reply: typing.Sequence[typing.Any]) -> typing.Tuple[Decision, str]:
    return _decision(reply), reply[6].decode() if reply[6] else ""


def _map(reply: typing.Any) -> typing.Dict[str, typing.Any]:
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    return {name.decode(): value for name, value in pairs}


def _named(reply: typing.Any) -> Decision:
    names = _map(reply)
    fields = ("allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms")
    next_ms = names.get("next_ms")
    return _decision([int(names[field]) for field in fields])._replace(
        layer=names["layer"], next_ns=next_ms * MS_NS if next_ms is not None and next_ms > 0 else next_ms)


def _figures(reply: typing.Any) -> Figures:
    names = _map(reply)
    start_ms = names.get("window_start_ms")
    return Figures(names.get("count", -1), names.get("previous", -1), -1 if start_ms is None else start_ms * MS_NS)


def _nothing(_reply: typing.Any) -> None:
    return None


def _failure(error: Exception) -> Exception:
    text = str(error)
    if isinstance(error, errors.DataError):  # an argument that no command can have
        return TypeError(text)
    if isinstance(error, UnicodeEncodeError):
        return ArgumentError(f"the key or the policy: {text}")
    if isinstance(error, (errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError)):
        return AccessError(text)
    if not isinstance(error, errors.ResponseError):
        return Unavailable(text or type(error).__name__)
    if isinstance(error, errors.OutOfMemoryError):
        return Full(text)
    if text.startswith("BUSY"):
        return Unavailable(text)
    if text.startswith(("no policy", "policy: ")):
        return PolicyError(text)
    if text.startswith("no open reservation"):
        return ReservationError(text)
    return UnsupportedError(text) if "support" in text else ArgumentError(text)


def _read(request: Request[T], reply: typing.Any) -> T:
    try:
        return request.read(reply)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Unavailable(f"expected a reply of weir, found {reply!r}") from error


# ---- commands ----------------------------------------------------------------------------------------------------


class DaemonCommands:
    """What a limiter can ask for. Each method returns the request to send."""

    def __init__(self, policy: str) -> None:
        self.policy = policy

    @staticmethod
    def _kept(keep: typing.Union[int, str]) -> typing.Tuple[typing.Union[str, int], ...]:
        kept = keep_of(keep) if keep else 0
        return ("KEEP", f"{-kept}%" if kept < 0 else kept) if kept else ()

    def check(self, key: Key, cost: int, keep: typing.Union[int, str], named: bool) -> Request[Decision]:
        costs = () if cost == 1 else ("COST", cost)
        if named:
            return Request(_named, "WEIR.TAKE", self.policy, key, *costs, *self._kept(keep), "WITHNAMES")
        return Request(_decision, "WEIR.TAKE", self.policy, key, *costs, *self._kept(keep))

    def peek(self, key: Key, cost: int, keep: typing.Union[int, str]) -> Request[Decision]:
        return Request(_named, "WEIR.PEEK", self.policy, key, "COST", cost, *self._kept(keep), "WITHNAMES")

    def refund(self, key: Key, cost: int) -> Request[Decision]:
        return Request(_decision, "WEIR.REFUND", self.policy, key, cost)

    def charge(self, key: Key, cost: int) -> Request[Decision]:
        return Request(_settled, "WEIR.CHARGE", self.policy, key, "COST", cost)

    def reserve(self, key: Key, cost: int,
                ttl: typing.Optional[float]) -> Request[typing.Tuple[Decision, str]]:
        return Request(_reserved, "WEIR.RESERVE", self.policy, key, cost, *self._time(ttl))

    def commit(self, id: str, actual: int) -> Request[Decision]:
        return Request(_settled, "WEIR.COMMIT", id, actual)

    def cancel(self, id: str) -> Request[Decision]:
        return Request(_settled, "WEIR.CANCEL", id)

    def renew(self, id: str, ttl: typing.Optional[float]) -> Request[Decision]:
        return Request(_decision, "WEIR.RENEW", id, *self._time(ttl))

    @staticmethod
    def _time(ttl: typing.Optional[float]) -> typing.Tuple[str, ...]:
        ttl_ns = ttl_ns_of(ttl)
        return ("TTL", f"{ttl_ns}ns") if ttl_ns else ()

    def reset(self, key: Key) -> Request[None]:
        return Request(_nothing, "WEIR.RESET", self.policy, key)

    def reset_all(self) -> Request[None]:
        return Request(_nothing, "WEIR.RESETALL", self.policy)

    def figures(self, key: Key) -> Request[Figures]:
        return Request(_figures, "WEIR.PEEK", self.policy, key, "WITHNAMES")

    def ping(self) -> Request[None]:
        return Request(_nothing, "PING")


def text_of(policy: str) -> typing.Optional[str]:
    """A policy text that this release can parse; None for a name."""
    try:
        return _native.canonical(policy) if " " in policy else None
    except _native.Error:
        return None


# ---- connections -------------------------------------------------------------------------------------------------


def _options(place: Place) -> typing.Dict[str, typing.Any]:
    timeout = place.options["timeout"]
    return dict(host=place.host, port=place.port, username=place.options["username"],
                password=place.options["password"], socket_timeout=timeout, socket_connect_timeout=timeout,
                retry=None, max_connections=place.options["max_connections"], ssl=place.scheme == TLS, **place.tls)


class Connection:
    """Sends requests and waits for their replies. Any thread, and any process after fork()."""

    def __init__(self, place: Place) -> None:
        self.client = redis.Redis(**_options(place))
        self.send: typing.Callable[..., typing.Any] = self.client.execute_command

    def ask(self, request: Request[T]) -> T:
        try:
            reply = self.send(*request.words)
        except (redis.RedisError, UnicodeEncodeError) as error:
            raise _failure(error) from error
        return _read(request, reply)

    def close(self) -> None:
        """Closes the connections that no request uses: another thread may wait for a reply."""
        self.client.connection_pool.disconnect(inuse_connections=False)


class AsyncConnection:
    """The same with asyncio. Each event loop has connections of its own."""

    def __init__(self, place: Place) -> None:
        self.options = _options(place)
        self.clients: typing.Dict[asyncio.AbstractEventLoop, typing.Any] = {}

    def _client(self) -> typing.Any:
        loop = asyncio.get_running_loop()
        client = self.clients.get(loop)
        if client is None:
            for ended in [one for one in list(self.clients) if one.is_closed()]:
                self.clients.pop(ended, None)
            client = self.clients[loop] = redis.asyncio.Redis(**self.options)
        return client

    async def ask(self, request: Request[T]) -> T:
        try:
            reply = await self._client().execute_command(*request.words)
        except (redis.RedisError, UnicodeEncodeError) as error:
            raise _failure(error) from error
        return _read(request, reply)

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        client = self.clients.pop(asyncio.get_running_loop(), None)
        if client:
            await client.aclose()

# SPDX-License-Identifier: BSD-2-Clause
"""Storages for `limits`, and so for Flask-Limiter and slowapi. Importing this module registers their URIs: weir://,
weirs:// and weir+file://, each also with async+ in front.

    import weir.limits

    limiter = Limiter(get_remote_address, app=app, storage_uri="weir+file:///var/lib/app/limits")

A fixed window is a policy that only counts: `limits` compares the count itself. The moving window and the sliding
window counter are policies of weir, whose verdict is passed on; the windows of the counter begin at multiples of
their length, as those of memory:// do."""

from __future__ import annotations

import re
import time
import typing

from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage import SlidingWindowCounterSupport as AsyncSlidingWindowCounterSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.errors import ConfigurationError
from limits.limits import GRANULARITIES
from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage
from limits.storage.base import TimestampedSlidingWindow

from weir._file import FileCommands
from weir._options import FILE, place_of
from weir.decision import SECOND_NS, Decision, Figures
from weir.errors import ArgumentError, Unavailable, WeirError

_COUNT_MAX = (1 << 31) - 1
_GROUP = 0x6C696D697473  # in a file: all policies of `limits` are reset together
_SUFFIX = re.compile(r"/(\d+)/(\d+)/(\w+)$")  # of the keys of `limits`: amount, multiples, granularity

T = typing.TypeVar("T")
# A step sends a request, and gets its reply.
Steps = typing.Generator[typing.Any, typing.Any, T]


def _suffix(key: str) -> typing.Optional[typing.Tuple[int, int]]:
    """The amount and the seconds of the limit that a key of `limits` ends with."""
    found = _SUFFIX.search(key)
    if not found or found[3] not in GRANULARITIES:
        return None
    return int(found[1]), GRANULARITIES[found[3]].GRANULARITY.seconds * int(found[2])


class _Core:
    """What both storages do, as steps. A method of `limits` that names a key without its limit means the limit
    that the key ends with or, for other keys, those that this storage has used."""

    def __init__(self, uri: str, options: typing.Mapping[str, typing.Any]) -> None:
        given = dict(options)
        self.prefix = str(given.pop("key_prefix", "LIMITS"))
        for name in ("on_error", "on_failure"):
            if name in given:
                raise ConfigurationError(f"{name}: a storage raises its errors; see swallow_errors and "
                                         "in_memory_fallback of Flask-Limiter and slowapi")
        try:
            self.place = place_of(uri[len("async+"):] if uri.startswith("async+") else uri, given)
            self.commands: typing.Dict[typing.Tuple[str, int, int], typing.Any] = {}
            self.any = self._of("fixed-window", _COUNT_MAX, 1)  # opens the file
        except ArgumentError as error:
            raise ConfigurationError(str(error)) from error

    def _of(self, algorithm: str, limit: int, seconds: int) -> typing.Any:
        """The commands of a policy."""
        wanted = (algorithm, limit, seconds)
        commands = self.commands.get(wanted)
        if commands is None:
            option = {"fixed-window": " from-first", "sliding-counter": " relaxed"}.get(algorithm, "")
            text = f"{algorithm} {limit}/{seconds}s{option}"
            if self.place.scheme == FILE:
                commands = FileCommands(self.place, text, group=_GROUP)
            else:
                from weir._daemon import DaemonCommands

                commands = DaemonCommands(text)
            self.commands[wanted] = commands
        return commands

    def _seen(self, algorithm: str, seconds: typing.Optional[int] = None) -> typing.List[typing.Any]:
        return [commands for (of, _, period), commands in list(self.commands.items())
                if of == algorithm and seconds in (None, period)]

    def _of_key(self, algorithm: str, key: str) -> typing.List[typing.Any]:
        """The commands of the policies that may count a key."""
        suffix = _suffix(key)
        if not suffix:
            return self._seen(algorithm)
        return [self._of(algorithm, _COUNT_MAX if algorithm == "fixed-window" else suffix[0], suffix[1])]

    def _key(self, key: str) -> str:
        return f"{self.prefix}:{key}"

    # ---- fixed window

    def incr(self, key: str, expiry: int, amount: int) -> Steps[int]:
        decision: Decision = yield self._of("fixed-window", _COUNT_MAX, expiry).check(self._key(key), amount, 0, False)
        return _COUNT_MAX - decision.remaining + (0 if decision.allowed else amount)

    def _fullest(self, key: str) -> Steps[typing.Optional[Decision]]:
        found: typing.Optional[Decision] = None
        for commands in self._of_key("fixed-window", key):
            decision: Decision = yield commands.peek(self._key(key), 1, 0)
            if not found or decision.remaining < found.remaining:
                found = decision
        return found

    def get(self, key: str) -> Steps[int]:
        found = yield from self._fullest(key)
        return _COUNT_MAX - found.remaining if found else 0

    def get_expiry(self, key: str) -> Steps[float]:
        found = yield from self._fullest(key)
        return time.time() + (found.reset_after_ns / SECOND_NS if found else 0)

    def clear(self, key: str) -> Steps[None]:
        for algorithm in ("fixed-window", "sliding-log"):
            for commands in self._of_key(algorithm, key):
                yield commands.reset(self._key(key))

    # ---- moving window

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int) -> Steps[bool]:
        decision: Decision = yield self._of("sliding-log", limit, expiry).check(self._key(key), amount, 0, False)
        return decision.allowed

    def get_moving_window(self, key: str, limit: int, expiry: int) -> Steps[typing.Tuple[float, int]]:
        commands = self._of("sliding-log", limit, expiry)
        now: Decision = yield commands.peek(self._key(key), 1, 0)
        if now.remaining == limit:
            return time.time(), 0
        more: Decision = yield commands.peek(self._key(key), now.remaining + 1, 0)  # waits for the oldest entry
        return time.time() + (more.retry_after_ns or 0) / SECOND_NS - expiry, limit - now.remaining

    # ---- sliding window counter

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int) -> Steps[bool]:
        decision: Decision = yield self._of("sliding-counter", limit, expiry).check(self._key(key), amount, 0, False)
        return decision.allowed

    def _counters(self, key: str, expiry: int) -> typing.List[typing.Any]:
        suffix = _suffix(key)
        if suffix and suffix[1] == expiry:
            return [self._of("sliding-counter", *suffix)]
        return self._seen("sliding-counter", expiry)

    def get_sliding_window(self, key: str, expiry: int) -> Steps[typing.Tuple[int, float, int, float]]:
        found = Figures(0, 0, 0)
        for commands in self._counters(key, expiry):
            figures: Figures = yield commands.figures(self._key(key))
            if figures[:2] >= found[:2]:
                found = figures
        left = expiry - (time.time() - found.window_start_ns / SECOND_NS) % expiry
        return found.previous, left if found.previous else 0.0, found.current, left + expiry

    def clear_sliding_window(self, key: str, expiry: int) -> Steps[None]:
        for commands in self._counters(key, expiry):
            yield commands.reset(self._key(key))

    # ---- all

    def check(self) -> Steps[bool]:
        yield self.any.ping()
        return True

    def reset(self) -> Steps[None]:
        for commands in [self.any] if self.place.scheme == FILE else list(self.commands.values()):
            yield commands.reset_all()


class WeirStorage(Storage, MovingWindowSupport, SlidingWindowCounterSupport, TimestampedSlidingWindow):
    """weir://host:port, weirs://host:port or weir+file:///path, with the options of weir.Limiter and
    `key_prefix`, before all keys ("LIMITS")."""

    STORAGE_SCHEME = ["weir", "weirs", "weir+file"]

    def __init__(self, uri: typing.Optional[str] = None, wrap_exceptions: bool = False,
                 **options: typing.Any) -> None:
        super().__init__(uri, wrap_exceptions, **options)
        self._core = _Core(uri or "", options)
        self._ask: typing.Callable[[typing.Any], typing.Any] = lambda reply: reply
        if self._core.place.scheme != FILE:
            from weir._daemon import Connection

            self._ask = Connection(self._core.place).ask

    def _run(self, steps: Steps[T]) -> T:
        reply: typing.Any = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as end:
                return typing.cast(T, end.value)
            reply = self._ask(request)

    @property
    def storage(self) -> str:
        """What Flask-Limiter's command `flask limiter config` prints of a storage."""
        return self._core.place.path or f"{self._core.place.host}:{self._core.place.port}"

    @property
    def base_exceptions(self) -> typing.Type[Exception]:
        return WeirError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return self._run(self._core.incr(key, expiry, amount))

    def get(self, key: str) -> int:
        return self._run(self._core.get(key))

    def get_expiry(self, key: str) -> float:
        return self._run(self._core.get_expiry(key))

    def check(self) -> bool:
        try:
            return self._run(self._core.check())
        except Unavailable:
            return False

    def reset(self) -> typing.Optional[int]:
        """Resets what this storage counts. With a daemon, these are the limits that this process has used."""
        return self._run(self._core.reset())

    def clear(self, key: str) -> None:
        self._run(self._core.clear(key))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._run(self._core.acquire_entry(key, limit, expiry, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> typing.Tuple[float, int]:
        return self._run(self._core.get_moving_window(key, limit, expiry))

    def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._run(self._core.acquire_sliding_window_entry(key, limit, expiry, amount))

    def get_sliding_window(self, key: str, expiry: int) -> typing.Tuple[int, float, int, float]:
        return self._run(self._core.get_sliding_window(key, expiry))

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._run(self._core.clear_sliding_window(key, expiry))


class AsyncWeirStorage(AsyncStorage, AsyncMovingWindowSupport, AsyncSlidingWindowCounterSupport,
                       TimestampedSlidingWindow):
    """The same with async+ in front of the URI."""

    STORAGE_SCHEME = ["async+weir", "async+weirs", "async+weir+file"]

    def __init__(self, uri: typing.Optional[str] = None, wrap_exceptions: bool = False,
                 **options: typing.Any) -> None:
        super().__init__(uri, wrap_exceptions, **options)
        self._core = _Core(uri or "", options)
        self._ask: typing.Optional[typing.Callable[[typing.Any], typing.Awaitable[typing.Any]]] = None
        if self._core.place.scheme != FILE:
            from weir._daemon import AsyncConnection

            self._ask = AsyncConnection(self._core.place).ask

    async def _run(self, steps: Steps[T]) -> T:
        reply: typing.Any = None
        while True:
            try:
                request = steps.send(reply)
            except StopIteration as end:
                return typing.cast(T, end.value)
            reply = await self._ask(request) if self._ask else request

    @property
    def base_exceptions(self) -> typing.Type[Exception]:
        return WeirError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return await self._run(self._core.incr(key, expiry, amount))

    async def get(self, key: str) -> int:
        return await self._run(self._core.get(key))

    async def get_expiry(self, key: str) -> float:
        return await self._run(self._core.get_expiry(key))

    async def check(self) -> bool:
        try:
            return await self._run(self._core.check())
        except Unavailable:
            return False

    async def reset(self) -> typing.Optional[int]:
        return await self._run(self._core.reset())

    async def clear(self, key: str) -> None:
        await self._run(self._core.clear(key))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self._run(self._core.acquire_entry(key, limit, expiry, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> typing.Tuple[float, int]:
        return await self._run(self._core.get_moving_window(key, limit, expiry))

    async def acquire_sliding_window_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self._run(self._core.acquire_sliding_window_entry(key, limit, expiry, amount))

    async def get_sliding_window(self, key: str, expiry: int) -> typing.Tuple[int, float, int, float]:
        return await self._run(self._core.get_sliding_window(key, expiry))

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        await self._run(self._core.clear_sliding_window(key, expiry))

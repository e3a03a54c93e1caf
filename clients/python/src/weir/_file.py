# SPDX-License-Identifier: BSD-2-Clause
"""Decisions in this process, on a file that all processes of the host share."""

from __future__ import annotations

import os
import re
import threading
import typing
import weakref

from weir import _native
from weir._options import Place, keep_of, ttl_ns_of
from weir.decision import Decision, Figures
from weir.errors import (ArgumentError, Full, PolicyError, ReservationError, Unavailable, UnsupportedError,
                         WeirError)

Key = typing.Union[str, bytes]
T = typing.TypeVar("T")

_RANGE, _SYNTAX, _UNSUPPORTED, _NOMEM, _ZONE, _FULL, _ABSENT = 1, 2, 4, 5, 6, 7, 10  # weir_status
_MISTAKES = (_native.Error, OverflowError, UnicodeEncodeError)
_NOW_NS_MAX = 7 << 60  # WEIR_NOW_NS_MAX
_FOUND = {1: "was deleted", 2: "was moved", 3: "was replaced by another", 4: "was truncated"}  # weir_file


class File:
    """A store. One process has one for each path, whatever number of limiters use it."""

    def __init__(self, path: str, options: typing.Tuple[int, int, int]) -> None:
        self.path, self.options = path, options
        try:
            self.store = _native.Store(path, *options)
        except _native.Error as error:
            raise _of_opening(error) from None


def _of_opening(error: _native.Error) -> WeirError:
    status, text = error.args
    text = re.sub("--reset-state replaces .*", "delete it to begin with an empty one", text)
    return ArgumentError(text) if status == _RANGE else Unavailable(text)


_files: weakref.WeakValueDictionary[str, File] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _new_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_new_lock)


def file_of(place: Place) -> File:
    """The store at a path: the one that is open, or a new one."""
    path = os.path.realpath(place.path)
    wanted = (place.options["size"], place.options["sync"], place.options["when_full"])
    with _lock:
        file = _files.get(path)
        if file is None:
            _files[path] = file = File(path, wanted)
    if wanted[0] not in (0, file.options[0]) or file.options[1:] != wanted[1:]:
        raise ArgumentError(f"{path} is open in this process with other options: expected the same size, sync "
                            "and when_full")
    return file


def _failure(error: Exception, key: typing.Optional[Key], cost: int) -> WeirError:
    """The exception for a status, or for an argument that the library cannot have. A text that the library has for
    all its numbers is replaced."""
    if isinstance(error, UnicodeEncodeError):
        return ArgumentError(f"the key: {error}")
    status, text = error.args if isinstance(error, _native.Error) else (_RANGE, "")
    if status == _RANGE:
        size = 1 if key is None else len(key.encode() if isinstance(key, str) else key)
        if not 1 <= size <= 65536:
            return ArgumentError(f"the key has {size} bytes, expected 1 to 65536")
        if not 0 <= cost < 1 << 31:
            return ArgumentError(f"the cost is {cost}, expected 0 to 2147483647")
        return ArgumentError("ttl: expected at most the lease of the policy, or a time if it has none")
    if status in (_NOMEM, _FULL):
        return Full(f"{text}: the file is full, or has too many open reservations")
    if status == _UNSUPPORTED:
        return UnsupportedError(f"{text}: leaky-queue and count-denied policies have no refunds or reservations")
    return ReservationError("no open reservation has this id") if status == _ABSENT else Unavailable(text)


def text_of(policy: str, policies: typing.Optional[typing.Mapping[str, str]]) -> str:
    """The text of a policy, which may be one of the names in `policies`."""
    if " " in policy.strip():
        if policies is not None:
            raise ArgumentError(f"policies: expected the name of a policy with it, found '{policy}'")
        return policy
    if policies is not None and policy in policies:
        return policies[policy]
    names = f": {', '.join(policies)}" if policies else ""
    raise PolicyError(f"the policy '{policy}': expected a policy text, such as 'gcra 10/m burst 5', or a name in "
                      f"policies{names}")


class FileCommands:
    """What a limiter can ask for. Each method answers at once."""

    def __init__(self, place: Place, text: str, name: str = "", group: int = 0) -> None:
        self.file = file_of(place)
        self.clock: typing.Optional[typing.Callable[[], int]] = place.options["clock"]
        try:
            self.policy = _native.Policy(self.file.store, text, name, group)
        except _native.Error as error:
            if error.args[0] in (_RANGE, _SYNTAX, _ZONE):
                raise PolicyError(error.args[1]) from None
            raise _of_opening(error) from None

    def now(self) -> int:
        """The time of the test, or -1 for the store's clock."""
        if not self.clock:
            return -1
        now_ns = self.clock()
        if not 0 <= now_ns <= _NOW_NS_MAX:
            raise ArgumentError(f"clock: expected ns from 0 to {_NOW_NS_MAX}, found {now_ns!r}")
        return now_ns

    def check(self, key: Key, cost: int, keep: typing.Union[int, str], named: bool) -> Decision:
        try:
            return Decision(*self.policy.check(key, cost, keep_of(keep) if keep else 0, named, self.now()))
        except _MISTAKES as error:
            raise _failure(error, key, cost) from None

    def _ask(self, method: typing.Callable[..., T], key: typing.Optional[Key], cost: int, *args: object) -> T:
        try:
            return method(*args)
        except _MISTAKES as error:
            raise _failure(error, key, cost) from None

    def peek(self, key: Key, cost: int, keep: typing.Union[int, str]) -> Decision:
        return Decision(*self._ask(self.policy.peek, key, cost, key, cost, keep_of(keep), self.now()))

    def refund(self, key: Key, cost: int) -> Decision:
        return Decision(*self._ask(self.policy.refund, key, cost, key, cost, self.now()))

    def charge(self, key: Key, cost: int) -> Decision:
        return Decision(*self._ask(self.policy.charge, key, cost, key, cost, self.now()))

    def reserve(self, key: Key, cost: int, ttl: typing.Optional[float]) -> typing.Tuple[Decision, str]:
        decision, id = self._ask(self.policy.reserve, key, cost, key, cost, ttl_ns_of(ttl), self.now())
        return Decision(*decision), f"{id:016x}" if id else ""

    def commit(self, id: str, actual: int) -> Decision:
        return Decision(*self._ask(self.policy.commit, None, actual, _id_of(id), actual, self.now()))

    def cancel(self, id: str) -> Decision:
        return self.commit(id, 0)

    def renew(self, id: str, ttl: typing.Optional[float]) -> Decision:
        return Decision(*self._ask(self.policy.renew, None, 0, _id_of(id), ttl_ns_of(ttl), self.now()))

    def reset(self, key: Key) -> None:
        self._ask(self.policy.reset, key, 0, key)

    def reset_all(self) -> None:
        self._ask(self.policy.reset_all, None, 0)

    def figures(self, key: Key) -> Figures:
        return Figures(*self._ask(self.policy.figures, key, 0, key, self.now()))

    def ping(self) -> None:
        """Raises Unavailable if the file is no longer at its path."""
        found = self._ask(self.file.store.watch, None, 0)
        if found:
            raise Unavailable(f"{self.file.path} {_FOUND[found]}")


def _id_of(id: str) -> int:
    try:
        return int(id, 16)
    except ValueError:
        raise ArgumentError(f"the id: expected 16 hexadecimal digits, found {id!r}") from None

# SPDX-License-Identifier: BSD-2-Clause
"""URLs and options: where a limit is kept. An option is a keyword argument, or a parameter of the URL."""

from __future__ import annotations

import re
import typing
import urllib.parse

from weir.errors import ArgumentError

FILE, DAEMON, TLS = "weir+file", "weir", "weirs"
PORT = 6380
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SYNCS = ["never", "1s", "always"]
_WHEN_FULL = ["evict", "refuse"]
_ON_ERROR = ["open", "closed", "raise"]


def _size(value: typing.Any) -> int:
    found = re.fullmatch(r"(\d+)([kmg]?)", str(value))
    if not found:
        raise ValueError("bytes, such as 67108864 or 64m")
    return int(found[1]) * _UNITS[found[2]]


def _one_of(names: typing.List[str]) -> typing.Callable[[typing.Any], typing.Any]:
    def read(value: typing.Any) -> typing.Any:
        if value not in names:
            raise ValueError(", ".join(names[:-1]) + f" or {names[-1]}")
        return value

    return read


def _index(names: typing.List[str]) -> typing.Callable[[typing.Any], int]:
    return lambda value: names.index(_one_of(names)(value))


def _seconds(value: typing.Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0
    if not seconds > 0:
        raise ValueError("seconds above 0, such as 0.1")
    return seconds


def _count(value: typing.Any) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", str(value)):
        raise ValueError("a whole number from 1")
    return int(value)


def _function(value: typing.Any) -> typing.Any:
    if not callable(value):
        raise ValueError("a function")
    return value


_Reader = typing.Callable[[typing.Any], typing.Any]
_EVERYWHERE: typing.Dict[str, typing.Tuple[typing.Any, _Reader]] = {
    "on_error": ("open", _one_of(_ON_ERROR)),
    "on_failure": (None, _function),
}
_OF_FILE: typing.Dict[str, typing.Tuple[typing.Any, _Reader]] = {
    "size": (0, _size),
    "sync": (0, _index(_SYNCS)),
    "when_full": (0, _index(_WHEN_FULL)),
    "clock": (None, _function),
}
_OF_DAEMON: typing.Dict[str, typing.Tuple[typing.Any, _Reader]] = {
    "timeout": (0.1, _seconds),
    "max_connections": (1000, _count),
    "username": (None, str),
    "password": (None, str),
}
_TLS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname", "ssl_cert_reqs", "ssl_min_version"}


class Place(typing.NamedTuple):
    """Where a limit is kept."""

    scheme: str
    path: str  # of a file
    host: str
    port: int
    options: typing.Dict[str, typing.Any]
    tls: typing.Dict[str, typing.Any]


def place_of(url: str, keywords: typing.Mapping[str, typing.Any]) -> Place:
    """Reads a URL and the options beside it."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in (FILE, DAEMON, TLS):
        raise ArgumentError(f"the URL '{url}': expected weir+file:///path, weir://host:port or weirs://host:port")
    given = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True), **keywords)
    path = urllib.parse.unquote(parts.path)
    try:
        port = parts.port or PORT
    except ValueError as error:
        raise ArgumentError(f"the URL '{url}': {error}") from None
    if parts.scheme == FILE and (parts.netloc or not path.startswith("/")):
        raise ArgumentError(f"the URL '{url}': expected weir+file:///path, with an absolute path")
    if parts.scheme != FILE and (path not in ("", "/") or not parts.hostname):
        raise ArgumentError(f"the URL '{url}': expected {parts.scheme}://host:port")
    for name, value in (("username", parts.username), ("password", parts.password)):
        if value:
            given[name] = urllib.parse.unquote(value)
    tls = {name: given.pop(name) for name in sorted(_TLS & set(given))} if parts.scheme == TLS else {}
    return Place(parts.scheme, path, parts.hostname or "", port, _read(parts.scheme, given), tls)


def _read(scheme: str, given: typing.Dict[str, typing.Any]) -> typing.Dict[str, typing.Any]:
    known = dict(_EVERYWHERE, **(_OF_FILE if scheme == FILE else _OF_DAEMON))
    for name in given:
        if name not in known:
            names = sorted([*known, *(_TLS if scheme == TLS else ())])
            raise ArgumentError(f"unknown option '{name}' of {scheme}, expected one of {', '.join(names)}")
    options = {}
    for name, (default, read) in known.items():
        try:
            options[name] = read(given[name]) if given.get(name) is not None else default
        except ValueError as error:
            raise ArgumentError(f"the option {name}: expected {error}, found {given[name]!r}") from None
    return options


def keep_of(keep: typing.Union[int, str]) -> int:
    """What a request keeps, as the library reads it: a negative number is a percentage."""
    if isinstance(keep, int) and keep >= 0:
        return keep
    share = re.fullmatch(r"(\d{1,3})%", keep) if isinstance(keep, str) else None
    if not share or int(share[1]) > 100:
        raise ArgumentError(f"keep: expected a number of units or a share such as '20%', found {keep!r}")
    return -int(share[1])


def ttl_ns_of(ttl: typing.Optional[float]) -> int:
    """Seconds as nanoseconds; 0 without a time."""
    if ttl is None:
        return 0
    ttl_ns = round(ttl * 1_000_000_000)
    if ttl_ns < 1:
        raise ArgumentError(f"ttl: expected seconds above 0, found {ttl!r}")
    return ttl_ns

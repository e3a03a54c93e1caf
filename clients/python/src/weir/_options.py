# SPDX-License-Identifier: BSD-2-Clause
"""URLs and options: where a limit is kept. An option is a keyword argument, or a parameter of the URL."""

from __future__ import annotations

import os
import re
import ssl
import sys
import typing
import urllib.parse

from weir.errors import ArgumentError

FILE, DAEMON, TLS = "weir+file", "weir", "weirs"
PORT = 6380
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SYNCS = ["never", "1s", "always"]
_WHEN_FULL = ["evict", "refuse"]
_ON_ERROR = ["open", "closed", "raise"]
_BOOLEANS = {"true": True, "false": False}
_CERT_REQS = ["none", "optional", "required"]
_TIMEOUT_S_MAX = 2147483  # of a socket
_COST_MAX = (1 << 31) - 1
_TTL_S_MAX = (1 << 60) // 1_000_000_000


def _size(value: typing.Any) -> int:
    found = re.fullmatch(r"([0-9]+)([kmg]?)", str(value))
    size = int(found[1]) * _UNITS[found[2]] if found else -1
    if not 0 <= size <= sys.maxsize:
        raise ValueError("bytes, such as 67108864 or 64m")
    return size


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
    if not 0 < seconds <= _TIMEOUT_S_MAX:
        raise ValueError(f"seconds above 0 and at most {_TIMEOUT_S_MAX}, such as 0.1")
    return seconds


def _count(value: typing.Any) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", str(value)):
        raise ValueError("a whole number from 1")
    return int(value)


def _file(value: typing.Any) -> typing.Any:
    if not os.path.isfile(value):
        raise ValueError("a file that exists")
    return value


def _boolean(value: typing.Any) -> bool:
    if value not in (True, False, *_BOOLEANS):
        raise ValueError("true or false")
    return bool(_BOOLEANS.get(value, value))


def _cert_reqs(value: typing.Any) -> typing.Any:
    return value if isinstance(value, ssl.VerifyMode) else _one_of(_CERT_REQS)(value)


def _tls_version(value: typing.Any) -> ssl.TLSVersion:
    names = {one.name: one for one in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)}
    return value if isinstance(value, ssl.TLSVersion) else names[_one_of([*names])(value)]


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
_TLS: typing.Dict[str, typing.Tuple[typing.Any, _Reader]] = {
    "ssl_ca_certs": (None, _file),
    "ssl_certfile": (None, _file),
    "ssl_keyfile": (None, _file),
    "ssl_check_hostname": (None, _boolean),
    "ssl_cert_reqs": (None, _cert_reqs),
    "ssl_min_version": (None, _tls_version),
}


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
    try:
        parts = urllib.parse.urlsplit(url)
        port = PORT if parts.port is None else parts.port
    except ValueError as error:
        raise ArgumentError(f"the URL '{url}': {error}") from None
    if parts.scheme not in (FILE, DAEMON, TLS):
        raise ArgumentError(f"the URL '{url}': expected weir+file:///path, weir://host:port or weirs://host:port")
    given = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True), **keywords)
    path = urllib.parse.unquote(parts.path)
    if parts.fragment:
        raise ArgumentError(f"the URL '{url}': expected no '#'; in a path it is %23")
    if parts.scheme == FILE and (parts.netloc or not re.fullmatch(r"/[^\0\ud800-\udfff]*", path)):
        raise ArgumentError(f"the URL '{url}': expected weir+file:///path, with an absolute path")
    if parts.scheme != FILE and (path not in ("", "/") or not parts.hostname or port == 0):
        raise ArgumentError(f"the URL '{url}': expected {parts.scheme}://host:port")
    for name, value in (("username", parts.username), ("password", parts.password)):
        if value:
            given[name] = urllib.parse.unquote(value)
    options = _read(parts.scheme, given)
    tls = {name: options.pop(name) for name in _TLS if options.get(name) is not None}
    return Place(parts.scheme, path, parts.hostname or "", port, options, tls)


def _read(scheme: str, given: typing.Dict[str, typing.Any]) -> typing.Dict[str, typing.Any]:
    known = dict(_EVERYWHERE, **(_OF_FILE if scheme == FILE else _OF_DAEMON), **(_TLS if scheme == TLS else {}))
    for name in given:
        if name not in known:
            raise ArgumentError(f"unknown option '{name}' of {scheme}, expected one of {', '.join(sorted(known))}")
    options = {}
    for name, (default, read) in known.items():
        try:
            options[name] = read(given[name]) if given.get(name) is not None else default
        except ValueError as error:
            raise ArgumentError(f"the option {name}: expected {error}, found {given[name]!r}") from None
    return options


def keep_of(keep: typing.Union[int, str]) -> int:
    """What a request keeps, as the library reads it: a negative number is a percentage."""
    if isinstance(keep, int) and 0 <= keep <= _COST_MAX:
        return int(keep)
    share = re.fullmatch(r"([0-9]{1,3})%", keep) if isinstance(keep, str) else None
    if not share or int(share[1]) > 100:
        raise ArgumentError(f"keep: expected a number of units or a share such as '20%', found {keep!r}")
    return -int(share[1])


def ttl_ns_of(ttl: typing.Optional[float]) -> int:
    """Seconds as nanoseconds; 0 without a time."""
    if ttl is None:
        return 0
    ttl_ns = round(ttl * 1_000_000_000) if 0 < ttl < _TTL_S_MAX + 1 else 0
    if ttl_ns < 1:
        raise ArgumentError(f"ttl: expected seconds above 0 and at most {_TTL_S_MAX}, found {ttl!r}")
    return ttl_ns

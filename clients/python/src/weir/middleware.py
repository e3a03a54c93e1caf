# SPDX-License-Identifier: BSD-2-Clause
"""Middleware for ASGI and WSGI. weir.django has the one for Django.

    app.add_middleware(weir.middleware.ASGILimit, limiter=weir.AsyncLimiter("gcra 10/s burst 20", url))
    app.wsgi_app = weir.middleware.WSGILimit(app.wsgi_app, limiter=weir.Limiter("gcra 10/s burst 20", url))

The options are the same everywhere:

    key       a function of the request that returns the key; None: the request is not limited.
              Default: the address of the peer, IPv6 by /64
    ipv6      bits of an IPv6 address that are one key, 64 by default
    skip      a function of the request; true: it is not limited
    cost      a number, or a function of the request
    headers   draft-6, draft-7, draft-8 (the default), legacy, none, or names of docs/headers.md, with commas
    name      of the policy in the headers
    denied    a function of the request and the Decision that makes the response to a denial; without it, a
              short text with the status 429
    failed    the same for a request that could not be decided, with on_error=closed; status 503

A request is what the framework has: the scope of ASGI, the environ of WSGI, the HttpRequest of Django. With a
leaky-queue, the request waits as long as the decision says."""

from __future__ import annotations

import asyncio
import inspect
import time
import typing

from weir import _native
from weir.decision import Decision
from weir.errors import ArgumentError
from weir.limiter import AsyncLimiter, Limiter, flavours_of

Headers = typing.List[typing.Tuple[str, str]]
_Function = typing.Callable[..., typing.Any]
_TEXT = {429: "too many requests\n", 503: "the rate limiter is not available\n"}


class Rules:
    """The options of a middleware, and what they say of a request."""

    def __init__(self, limiter: typing.Union[Limiter, AsyncLimiter], peer: typing.Callable[[typing.Any], str], *,
                 key: typing.Optional[_Function] = None, ipv6: int = 64, skip: typing.Optional[_Function] = None,
                 cost: typing.Union[int, _Function] = 1, headers: str = "draft-8",
                 name: typing.Optional[str] = None, denied: typing.Optional[_Function] = None,
                 failed: typing.Optional[_Function] = None) -> None:
        if not 1 <= ipv6 <= 128:
            raise ArgumentError(f"ipv6: expected 1 to 128 bits, found {ipv6!r}")
        flavours_of(headers)
        for option, value in (("key", key), ("skip", skip), ("denied", denied), ("failed", failed), ("cost", cost)):
            if inspect.iscoroutinefunction(value) or not (value is None or callable(value) or option == "cost"):
                raise ArgumentError(f"{option}: expected a function that is not async, found {value!r}")
        self.limiter, self.peer, self.key, self.ipv6, self.skip = limiter, peer, key, ipv6, skip
        self.cost, self.flavours, self.name, self.denied, self.failed = cost, headers, name, denied, failed

    def key_of(self, request: typing.Any) -> typing.Optional[typing.Union[str, bytes]]:
        """The key; None if the request is not limited. An address is counted as its network."""
        if self.skip and self.skip(request):
            return None
        key = self.key(request) if self.key else self.peer(request)
        return _native.address_key(key, self.ipv6) if isinstance(key, str) else key

    def cost_of(self, request: typing.Any) -> int:
        return self.cost(request) if callable(self.cost) else self.cost

    def headers(self, decision: Decision) -> Headers:
        return self.limiter.headers(decision, self.flavours, self.name)

    def refused(self, decision: Decision) -> typing.Tuple[int, typing.Optional[_Function]]:
        """The status of a request that does not pass, and the function that answers it."""
        return (503, self.failed) if decision.reason == "on-error" else (429, self.denied)


def text_of(status: int) -> typing.Tuple[Headers, bytes]:
    """The default response to a request that does not pass."""
    body = _TEXT[status].encode()
    return [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))], body


# ---- WSGI --------------------------------------------------------------------------------------------------------


def _wsgi_peer(environ: typing.Mapping[str, typing.Any]) -> str:
    return environ.get("REMOTE_ADDR") or "unknown"


class WSGILimit:
    """`denied` and `failed` return a WSGI application, which gets the header fields of the decision too."""

    def __init__(self, app: _Function, limiter: Limiter, **options: typing.Any) -> None:
        self.app, self.limiter = app, limiter
        self.rules = Rules(limiter, _wsgi_peer, **options)

    def __call__(self, environ: typing.Dict[str, typing.Any], start_response: _Function) -> typing.Any:
        key = self.rules.key_of(environ)
        if key is None:
            return self.app(environ, start_response)
        decision = self.limiter.check(key, self.rules.cost_of(environ), named=True)
        environ["weir.decision"] = decision
        fields = self.rules.headers(decision)

        def start(status: str, headers: Headers, *more: typing.Any) -> typing.Any:
            return start_response(status, [*headers, *fields], *more)

        if decision.allowed:
            time.sleep(decision.delay)
            return self.app(environ, start)
        status, answer = self.rules.refused(decision)
        if answer:
            return answer(environ, decision)(environ, start)
        headers, body = text_of(status)
        start("429 Too Many Requests" if status == 429 else "503 Service Unavailable", headers)
        return [body]


# ---- ASGI --------------------------------------------------------------------------------------------------------


def _asgi_peer(scope: typing.Mapping[str, typing.Any]) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


class ASGILimit:
    """Limits HTTP requests and the opening of WebSockets. `denied` and `failed` return an ASGI application, such
    as a Response of Starlette. A WebSocket is refused by closing it before it is accepted: status 403. A Limiter
    is accepted too if it has a file, which never blocks."""

    def __init__(self, app: _Function, limiter: typing.Union[Limiter, AsyncLimiter], **options: typing.Any) -> None:
        if isinstance(limiter, Limiter) and limiter.place.scheme != "weir+file":
            raise ArgumentError("limiter: expected an AsyncLimiter, because a Limiter of a daemon blocks")
        self.app, self.limiter = app, limiter
        self.rules = Rules(limiter, _asgi_peer, **options)

    async def __call__(self, scope: typing.Dict[str, typing.Any], receive: _Function, send: _Function) -> None:
        key = self.rules.key_of(scope) if scope["type"] in ("http", "websocket") else None
        if key is None:
            await self.app(scope, receive, send)
            return
        found = self.limiter.check(key, self.rules.cost_of(scope), named=True)
        decision = found if isinstance(found, Decision) else await found
        scope["weir.decision"] = decision
        fields = [(name.lower().encode(), value.encode()) for name, value in self.rules.headers(decision)]

        async def answer(message: typing.Dict[str, typing.Any]) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                message = dict(message, headers=[*message.get("headers", ()), *fields])
            await send(message)

        if decision.allowed:
            if decision.delay_ns:
                await asyncio.sleep(decision.delay)
            await self.app(scope, receive, answer)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._refuse(decision, scope, receive, answer)

    async def _refuse(self, decision: Decision, scope: typing.Dict[str, typing.Any], receive: _Function,
                      send: _Function) -> None:
        status, response = self.rules.refused(decision)
        if response:
            await response(scope, decision)(scope, receive, send)
            return
        headers, body = text_of(status)
        await send({"type": "http.response.start", "status": status,
                    "headers": [(name.lower().encode(), value.encode()) for name, value in headers]})
        await send({"type": "http.response.body", "body": body})

# SPDX-License-Identifier: BSD-2-Clause
"""Middleware for Django: add "weir.django.Limit" to MIDDLEWARE, and the settings

    WEIR = {"policy": "gcra 10/s burst 20", "url": "weir+file:///var/lib/site/limits"}

Further members are options of weir.Limiter, such as on_error, and of weir.middleware, such as key, with functions or
their dotted names. It serves sync and async requests."""

from __future__ import annotations

import asyncio
import time
import typing

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.module_loading import import_string

from weir.decision import Decision
from weir.errors import WeirError
from weir.limiter import AsyncLimiter, Limiter
from weir.middleware import Rules, text_of

_RULES = ("key", "ipv6", "skip", "cost", "headers", "name", "denied", "failed")
_FUNCTIONS = ("key", "skip", "cost", "denied", "failed", "on_failure", "clock")


def _peer(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR") or "unknown")


class Limit:
    """`denied` and `failed` return an HttpResponse. The decision is `request.weir_decision`."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: typing.Callable[[HttpRequest], typing.Any]) -> None:
        options = dict(getattr(settings, "WEIR", {}))
        for name in _FUNCTIONS:
            if isinstance(options.get(name), str):
                options[name] = import_string(options[name])
        rules = {name: options.pop(name) for name in _RULES if name in options}
        self.get_response = get_response
        self.limiter: typing.Union[Limiter, AsyncLimiter]
        try:
            policy, url = options.pop("policy"), options.pop("url")
            if iscoroutinefunction(get_response):
                markcoroutinefunction(self)
                self.limiter = AsyncLimiter(policy, url, **options)
            else:
                self.limiter = Limiter(policy, url, **options)
            self.rules = Rules(self.limiter, _peer, **rules)
        except KeyError as error:
            raise ImproperlyConfigured(f"WEIR: expected the member {error}") from None
        except WeirError as error:
            raise ImproperlyConfigured(f"WEIR: {error}") from error

    def __call__(self, request: HttpRequest) -> typing.Any:
        if isinstance(self.limiter, AsyncLimiter):
            return self._serve_async(self.limiter, request)
        key = self.rules.key_of(request)
        if key is None:
            return self.get_response(request)
        decision = self.limiter.check(key, self.rules.cost_of(request), named=True)
        request.weir_decision = decision
        if not decision.allowed:
            return self._refuse(decision, request)
        time.sleep(decision.delay)
        return self._with_headers(decision, self.get_response(request))

    async def _serve_async(self, limiter: AsyncLimiter, request: HttpRequest) -> typing.Any:
        key = self.rules.key_of(request)
        if key is None:
            return await self.get_response(request)
        decision = await limiter.check(key, self.rules.cost_of(request), named=True)
        request.weir_decision = decision
        if not decision.allowed:
            return self._refuse(decision, request)
        await asyncio.sleep(decision.delay)
        return self._with_headers(decision, await self.get_response(request))

    def _refuse(self, decision: Decision, request: HttpRequest) -> HttpResponseBase:
        status, answer = self.rules.refused(decision)
        if answer:
            return self._with_headers(decision, answer(request, decision))
        headers, body = text_of(status)
        return self._with_headers(decision, HttpResponse(body, status=status, headers=dict(headers)))

    def _with_headers(self, decision: Decision, response: HttpResponseBase) -> HttpResponseBase:
        for name, value in self.rules.headers(decision):
            response[name] = value
        return response

# SPDX-License-Identifier: BSD-2-Clause
"""The package with a daemon. weir_python.py runs it with pytest: WEIR_PORT and WEIR_TLS_PORT are ports of a daemon with
the policies api, slots and queue and the password `open`, and WEIR_CA is its certificate authority."""

import asyncio
import os

import pytest

import weir

URL = f"weir://:open@127.0.0.1:{os.environ['WEIR_PORT']}?timeout=30"
TLS = f"weirs://localhost:{os.environ['WEIR_TLS_PORT']}?timeout=30"
LATER = range(5_000_000_000, 6_000_000_001, 1_000_000)  # of a unit of `api`, in whole milliseconds


@pytest.fixture
def limiter():
    limiter = weir.Limiter("api", URL, on_error="raise")
    limiter.reset_all()
    yield limiter
    limiter.close()


def test_decisions(limiter):
    first = limiter.check("a", 4)
    assert first == weir.Decision(True, 5, 1, 0, 24_000_000_000)
    denied = limiter.check("a", 2)
    assert (denied.allowed, denied.remaining, denied.layer, denied.reason) == (False, 1, None, "limit")
    assert denied.retry_after_ns in LATER and denied.retry_after == 6
    assert limiter.check("a", 6).retry_after_ns is None
    named = limiter.check("a", 1, named=True)
    assert (named.remaining, named.layer) == (0, 0) and named.next_ns in LATER
    assert limiter.check("b", 1, 5, named=True).next_ns == -1
    assert limiter.peek("c", 2, "20%") == weir.Decision(True, 5, 4, 0, 0, layer=0, next_ns=0)


def test_other_methods(limiter):
    assert limiter.charge("a", 7).retry_after == 12
    assert limiter.refund("a", 3).remaining == 1
    limiter.reset("a")
    assert limiter.peek("a").remaining == 5
    limiter.ping()
    text = weir.Limiter("sliding-counter 5/1000d", URL, on_error="raise")
    text.check(b"a", 3)
    assert text.figures("a")[:2] == (3, 0) and limiter.figures("a") == weir.Figures(-1, -1, -1)
    text.reset_all()


def test_reservations(limiter):
    with limiter.reserve("a", 4, ttl=30) as reservation:
        assert reservation.renew(60).remaining == 1
        assert reservation.commit(2).remaining == 3
    with pytest.raises(ZeroDivisionError), limiter.reserve("a", 3, ttl=0.5):
        raise ZeroDivisionError
    assert limiter.peek("a").remaining == 3
    with pytest.raises(weir.Denied), limiter.reserve("a", 4, ttl=30):
        pytest.fail("entered")
    assert limiter.cancel(limiter.reserve("a", 3, ttl=30).id).remaining == 3
    slots = weir.Limiter("slots", URL, on_error="raise")
    with slots.concurrent("a"), slots.concurrent("a"):
        assert not slots.peek("a").allowed
    assert slots.peek("a").remaining == 2


def test_headers(limiter):
    named = limiter.check("a", 5, named=True)
    assert limiter.headers(named) == [("RateLimit-Policy", '"api";q=5'), ("RateLimit", '"api";r=0;t=6')]
    assert limiter.headers(named, "draft-7", "x")[0] == ("RateLimit-Policy", "5")
    text = weir.Limiter("sliding-log 5/m & fixed-window 8/365d", URL, on_error="raise")
    assert text.headers(text.check("h", named=True))[0] == (
        "RateLimit-Policy", '"limit-1";q=5;w=60, "limit-2";q=8;w=31536000')
    assert [name for name, _ in text.headers(text.check("h"))] == ["RateLimit-Policy"], "the layer is not known"
    text.reset_all()


def test_asyncio():
    async def main():
        limiter = weir.AsyncLimiter("api", URL, on_error="raise")
        await limiter.reset_all()
        decisions = await asyncio.gather(*(limiter.check("a") for _ in range(10)))
        assert sum(one.allowed for one in decisions) == 5
        async with limiter.reserve("b", 4, ttl=30) as reservation:
            await reservation.commit(1)
        assert (await limiter.peek("b")).remaining == 4
        await limiter.ping()
        await limiter.close()

    asyncio.run(main())


def test_each_event_loop_has_connections():
    limiter = weir.AsyncLimiter("api", URL, on_error="raise")
    for _ in range(2):
        asyncio.run(limiter.ping())


@pytest.mark.parametrize("call, error, text", [
    (lambda l: l.check("a", -1), weir.ArgumentError, "the cost: expected a whole number from 0 to 2147483647"),
    (lambda l: l.check(""), weir.ArgumentError, "the key has 0 bytes, expected 1 to 65536"),
    (lambda l: l.reserve("a", 1), weir.ArgumentError, "the TTL: expected a duration"),
    (lambda l: l.commit("0123456789abcdef", 1), weir.ReservationError, "no open reservation 0123456789abcdef"),
    (lambda _: weir.Limiter("none", URL).check("a"), weir.PolicyError, "no policy 'none'"),
    (lambda _: weir.Limiter("gcra 1/x", URL).check("a"), weir.PolicyError, "policy: column 8: unknown unit 'x'"),
    (lambda _: weir.Limiter("queue", URL).refund("a"), weir.UnsupportedError, "leaky-queue and count-denied policies"),
    (lambda _: weir.Limiter("api", URL.replace(":open@", ":wrong@")).check("a"), weir.AccessError, ""),
    (lambda _: weir.Limiter("api", URL.replace(":open@", "")).check("a"), weir.AccessError, ""),
])
def test_mistakes_are_always_raised(call, error, text):
    with pytest.raises(error) as found:
        call(weir.Limiter("api", URL))
    assert str(found.value).startswith(text)


def test_tls():
    ca = os.environ["WEIR_CA"]
    assert weir.Limiter("api", TLS, password="open", ssl_ca_certs=ca, on_error="raise").check("tls").allowed
    with pytest.raises(weir.Unavailable):
        weir.Limiter("api", TLS, password="open", on_error="raise").check("tls")

    async def main():
        limiter = weir.AsyncLimiter("api", TLS, password="open", ssl_ca_certs=ca, on_error="raise")
        assert (await limiter.check("tls")).allowed
        await limiter.close()

    asyncio.run(main())

# SPDX-License-Identifier: BSD-2-Clause
"""The package with a daemon. weir_python.py runs it with pytest: WEIR_PORT and WEIR_TLS_PORT are ports of a daemon with
the policies api, slots and queue and the password `open`, and WEIR_CA is its certificate authority."""

import asyncio
import os
import socket
import threading

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
    for _ in range(3):
        asyncio.run(limiter.ping())
    clients = limiter._connection.clients
    assert len(clients) == 1, "those of a closed loop are dropped"
    loops = [asyncio.new_event_loop() for _ in range(2)]
    for loop in loops * 2:
        loop.run_until_complete(limiter.ping())
    assert sorted(map(id, clients)) == sorted(map(id, loops))
    for loop in loops:
        loop.run_until_complete(limiter.close())
        loop.close()
    assert not clients


class Step:
    """Lets the event loop run once."""

    def __await__(self):
        yield


def test_a_cancelled_request_does_not_answer_another():
    async def main():
        limiter = weir.AsyncLimiter("gcra 1/365d burst 9", URL, on_error="raise")
        other = weir.AsyncLimiter("gcra 1/365d burst 7", URL, on_error="raise")
        await other.check("other", 3)
        for steps in range(20):
            task = asyncio.create_task(limiter.check("a", 0))
            for _ in range(steps):
                await Step()
            task.cancel()
            assert (await other.peek("other"))[1:3] == (7, 4)
            await asyncio.gather(task, return_exceptions=True)
        for one in (limiter, other):
            await one.reset_all()
            await one.close()

    asyncio.run(main())


@pytest.mark.parametrize("call", [
    lambda l: l.check(None), lambda l: l.check(["a"]), lambda l: l.check("a", None), lambda l: l.check("a", [1]),
    lambda l: l.charge("a", None), lambda l: l.commit(None, 1),
])
def test_other_values_are_type_errors(limiter, call):
    opened = weir.Limiter("api", URL)
    with pytest.raises(TypeError):
        call(opened)
    assert opened.failures == 0


@pytest.mark.parametrize("reply", [b"+OK", b":1", b"*1\r\n:1", b"*6\r\n+a\r\n+a\r\n+a\r\n+a\r\n+a\r\n+a"])
def test_a_reply_that_is_no_decision(reply):
    async def answer(reader, writer):
        while data := await reader.read(4096):
            writer.write(((reply if b"WEIR." in data else b"+OK") + b"\r\n") * data.count(b"*"))
        writer.close()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        seen = []
        limiter = weir.AsyncLimiter("api", f"weir://127.0.0.1:{port}?timeout=30&on_error=closed", on_failure=seen.append)
        for named in (False, True):
            assert await limiter.check("a", named=named) == weir.Decision(False, 0, 0, None, 0, reason="on-error")
        assert str(seen[0]).startswith("expected a reply of weir, found ")
        await limiter.close()
        server.close()

    asyncio.run(main())


@pytest.mark.parametrize("call, error, text", [
    (lambda l: l.check("a", -1), weir.ArgumentError, "the cost: expected a whole number from 0 to 2147483647"),
    (lambda l: l.check(""), weir.ArgumentError, "the key has 0 bytes, expected 1 to 65536"),
    (lambda l: l.check("\ud800"), weir.ArgumentError, "the key or the policy: "),
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


def test_closing_while_a_request_waits():
    hello, decision = b"%1\r\n+proto\r\n:3\r\n", b"*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:0\r\n:0\r\n"
    found = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        limiter = weir.Limiter("api", f"weir://127.0.0.1:{server.getsockname()[1]}?timeout=30")
        thread = threading.Thread(target=lambda: found.append(limiter.check("a")))
        thread.start()
        peer, _ = server.accept()
        for data in iter(lambda: peer.recv(4096), b""):
            if b"WEIR." in data:
                break
            peer.sendall(hello if b"HELLO" in data else b"+OK\r\n" * data.count(b"*"))
        limiter.close()
        peer.sendall(decision)
        thread.join()
        peer.close()
    assert found == [weir.Decision(True, 5, 4, 0, 0)]


def test_tls():
    ca = os.environ["WEIR_CA"]
    assert weir.Limiter("api", TLS, password="open", ssl_ca_certs=ca, on_error="raise").check("tls").allowed
    for options in ({}, {"ssl_check_hostname": "false"}):
        with pytest.raises(weir.Unavailable):
            weir.Limiter("api", TLS, password="open", on_error="raise", **options).check("tls")
    for options in ("ssl_cert_reqs=none&ssl_check_hostname=false", f"ssl_ca_certs={ca}&ssl_min_version=TLSv1_3"):
        assert weir.Limiter("api", f"{TLS}&{options}", password="open", on_error="raise").check("tls").allowed
    another_name = TLS.replace("localhost", "127.1")  # the address of localhost, and not in the certificate
    with pytest.raises(weir.Unavailable):
        weir.Limiter("api", another_name, password="open", on_error="raise", ssl_ca_certs=ca).check("tls")
    assert weir.Limiter("api", f"{another_name}&ssl_check_hostname=false", password="open", on_error="raise",
                        ssl_ca_certs=ca).check("tls").allowed

    async def main():
        limiter = weir.AsyncLimiter("api", TLS, password="open", ssl_ca_certs=ca, on_error="raise")
        assert (await limiter.check("tls")).allowed
        await limiter.close()

    asyncio.run(main())

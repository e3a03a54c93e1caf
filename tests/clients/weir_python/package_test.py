# SPDX-License-Identifier: BSD-2-Clause
"""What the package does in this process, with a file. clients_test.py runs it with pytest; the tests with a daemon, and
with several processes, are in tests/clients/weir_python.py."""

import asyncio
import gc
import os
import re

import pytest

import weir

POLICY = "gcra 10/m burst 5"


class Clock:
    def __init__(self):
        self.ns = 1_800_000_000_000_000_000

    def __call__(self):
        return self.ns


@pytest.fixture
def url(tmp_path):
    return f"weir+file://{tmp_path}/limits?size=8m"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def limiter(url, clock):
    return weir.Limiter(POLICY, url, clock=clock)


# ---- decisions


def test_a_decision_has_exact_numbers(limiter, clock):
    assert limiter.check("a", 4) == weir.Decision(True, 5, 1, 0, 24_000_000_000, layer=0)
    clock.ns += 1
    assert limiter.check("a", 2) == weir.Decision(False, 5, 1, 5_999_999_999, 23_999_999_999, layer=0)
    assert limiter.check("a", 6).retry_after_ns is None


def test_times_in_larger_units_are_rounded_up():
    d = weir.Decision(False, 1, 0, 1_000_000_001, 1_000_001, 1_500_000_000)
    assert (d.retry_after_ms, d.retry_after, d.reset_after_ms, d.reset_after, d.delay) == (1001, 2, 2, 1, 1.5)
    d = weir.Decision(False, 1, 0, None, 1_000_000)
    assert (d.retry_after_ms, d.retry_after, d.reset_after_ms, d.reset_after) == (None, None, 1, 1)


def test_a_named_decision_has_the_time_of_the_next_unit(limiter):
    assert limiter.check("a", 4, named=True).next_ns == 0
    assert limiter.check("a", 1, named=True).next_ns == 6_000_000_000
    assert limiter.check("a", 1, named=True).next_ns == 6_000_000_000
    assert limiter.check("b", 1, 5, named=True) == weir.Decision(False, 5, 0, None, 0, layer=0, next_ns=-1)


def test_peek_charges_nothing(limiter):
    assert limiter.peek("a", 5).allowed and not limiter.peek("a", 6).allowed
    assert limiter.peek("a").remaining == 5


def test_keep_leaves_units_for_others(limiter):
    assert limiter.check("a", 3, keep=2).remaining == 0
    assert not limiter.check("a", 1, keep=2).allowed
    assert limiter.check("a", 1, keep="20%").remaining == 0
    assert limiter.check("a", 1).remaining == 0


def test_refund_charge_and_reset(limiter):
    assert limiter.charge("a", 7) == weir.Decision(False, 5, 0, 12_000_000_000, 42_000_000_000, layer=0)
    assert limiter.refund("a", 3).remaining == 1
    limiter.reset("a")
    assert limiter.peek("a").remaining == 5
    for key in "ab":
        limiter.check(key, 5)
    limiter.reset_all()
    assert [limiter.peek(key).remaining for key in "ab"] == [5, 5]


def test_keys_are_bytes_or_text(limiter):
    limiter.check("ä", 2)
    assert limiter.peek("ä".encode()).remaining == 3
    assert limiter.check(b"\0\xff").remaining == 4


def test_figures(url, clock):
    counter = weir.Limiter("sliding-counter 5/1h", url, clock=clock)
    counter.check("a", 3)
    assert counter.figures("a") == weir.Figures(3, 0, clock.ns)
    clock.ns += 3600 * 10**9
    assert counter.figures("a") == weir.Figures(0, 3, clock.ns)
    assert weir.Limiter(POLICY, url, clock=clock).figures("a") == weir.Figures(-1, -1, -1)


# ---- reservations


def test_a_block_commits_what_it_says(limiter):
    with limiter.reserve("a", 5, ttl=30) as reservation:
        assert reservation.allowed and re.fullmatch("[0-9a-f]{16}", reservation.id)
        assert reservation.commit(2).remaining == 3
    assert limiter.peek("a").remaining == 3


def test_a_block_without_commit_charges_what_was_reserved(limiter):
    with limiter.reserve("a", 4, ttl=30):
        pass
    assert limiter.peek("a").remaining == 1


def test_an_exception_cancels(limiter):
    with pytest.raises(ZeroDivisionError):
        with limiter.reserve("a", 4, ttl=30):
            raise ZeroDivisionError
    assert limiter.peek("a").remaining == 5


def test_cancel_in_a_block(limiter):
    with limiter.reserve("a", 4, ttl=30) as reservation:
        assert reservation.cancel().remaining == 5
    assert limiter.peek("a").remaining == 5


def test_a_denied_block_is_not_entered(limiter):
    limiter.check("a", 3)
    with pytest.raises(weir.Denied) as denied:
        with limiter.reserve("a", 4, ttl=30):
            pytest.fail("entered")
    assert denied.value.decision.retry_after == 12
    reservation = limiter.reserve("a", 4, ttl=30)
    assert (reservation.allowed, reservation.id, reservation.ended) == (False, "", True)
    assert reservation.commit().remaining == reservation.cancel().remaining == reservation.renew(1).remaining == 2


def test_a_reservation_expires_and_is_renewed(limiter, clock):
    first, second = limiter.reserve("a", 2, ttl=30), limiter.reserve("a", 2, ttl=0.5)
    assert second.renew(60).remaining == 1
    clock.ns += 30 * 10**9
    assert limiter.peek("a").remaining == 5
    with pytest.raises(weir.ReservationError):
        first.renew(1)
    second.commit(0)
    with pytest.raises(weir.ReservationError):
        limiter.commit(second.id, 0)


def test_another_limiter_ends_a_reservation(limiter, url, clock):
    reservation = limiter.reserve("a", 3, ttl=30)
    assert weir.Limiter(POLICY, url, clock=clock).cancel(reservation.id).remaining == 5


def test_slots_are_held_for_a_block(url, clock):
    limiter = weir.Limiter("concurrent 2 lease 30s", url, clock=clock)
    with limiter.concurrent("a"), limiter.concurrent("a") as slot:
        with pytest.raises(weir.Denied), limiter.concurrent("a"):
            pytest.fail("entered")
        clock.ns += 20 * 10**9
        slot.renew()
        clock.ns += 20 * 10**9
        assert limiter.peek("a").remaining == 1
    assert limiter.peek("a").remaining == 2


def test_a_slot_that_fails_still_counts_as_a_request(url, clock):
    limiter = weir.Limiter("concurrent 2 lease 30s & fixed-window 2/h", url, clock=clock)
    with pytest.raises(ZeroDivisionError), limiter.concurrent("a"):
        raise ZeroDivisionError
    assert limiter.peek("a").remaining == 1


def test_a_block_whose_reservation_is_gone_counts_a_failure(url, clock):
    seen = []
    for on_error, raises in (("open", False), ("raise", True)):
        limiter = weir.Limiter(POLICY, url, clock=clock, on_failure=seen.append, on_error=on_error)

        def block():
            with limiter.reserve("a", 1, ttl=30) as reservation:
                limiter.cancel(reservation.id)

        if raises:
            with pytest.raises(weir.ReservationError):
                block()
        else:
            block()
        assert limiter.failures == 1
    assert [type(error) for error in seen] == [weir.ReservationError] * 2


# ---- asyncio


def test_async(url, clock):
    async def main():
        limiter = weir.AsyncLimiter(POLICY, url, clock=clock)
        assert (await limiter.check("a", 2, keep=1)).remaining == 2
        assert (await limiter.peek("a")).remaining == 3
        assert (await limiter.charge("a", 1)).remaining == 2
        assert (await limiter.refund("a", 2)).remaining == 4
        async with limiter.reserve("a", 4, ttl=30) as reservation:
            assert (await reservation.renew(20)).remaining == 0
            await reservation.commit(1)
        with pytest.raises(ZeroDivisionError):
            async with limiter.reserve("a", 2, ttl=30):
                raise ZeroDivisionError
        with pytest.raises(weir.Denied):
            async with limiter.reserve("a", 4, ttl=30):
                pytest.fail("entered")
        with pytest.raises(weir.ArgumentError):
            async with limiter.reserve("a", 2, ttl=30) as reservation:
                await reservation.commit(-1)
        async with limiter.reserve("a", 1, ttl=30):
            pass
        assert (await limiter.peek("a")).remaining == 2
        reservation = await limiter.reserve("a", 2, ttl=30)
        assert reservation.allowed and (await reservation.cancel()).remaining == 2
        assert (await limiter.cancel((await limiter.reserve("a", 2, ttl=30)).id)).remaining == 2
        denied = await limiter.reserve("a", 3, ttl=30)
        assert not denied.allowed and not (await denied.commit()).allowed and not (await denied.renew()).allowed
        await limiter.reset("a")
        await limiter.check("b", 5)
        await limiter.reset_all()
        assert (await limiter.figures("b")).current == -1
        await limiter.ping()
        await limiter.close()
        slots = weir.AsyncLimiter("concurrent 1 lease 9s", url, clock=clock)
        async with slots.concurrent("a"):
            assert not (await slots.check("a")).allowed

    asyncio.run(main())


def test_async_failures(url, clock):
    async def main():
        limiter = weir.AsyncLimiter(POLICY, url, clock=clock)
        async with limiter.reserve("a", 1, ttl=30) as reservation:
            await limiter.cancel(reservation.id)
        assert limiter.failures == 1

    asyncio.run(main())


# ---- errors


@pytest.mark.parametrize("call, error, text", [
    (lambda l: l.check("a", -1), weir.ArgumentError, "the cost is -1, expected 0 to 2147483647"),
    (lambda l: l.check("a", 1 << 31), weir.ArgumentError, "the cost is 2147483648, expected 0 to 2147483647"),
    (lambda l: l.check(""), weir.ArgumentError, "the key has 0 bytes, expected 1 to 65536"),
    (lambda l: l.peek("a" * 65537), weir.ArgumentError, "the key has 65537 bytes, expected 1 to 65536"),
    (lambda l: l.check("a", 1, -1), weir.ArgumentError, "keep: expected a number of units or a share such as '20%', found -1"),
    (lambda l: l.check("a", 1, "101%"), weir.ArgumentError, "keep: expected a number of units or a share such as '20%', found '101%'"),
    (lambda l: l.reserve("a", 1), weir.ArgumentError, "ttl: expected at most the lease of the policy, or a time if it has none"),
    *((lambda l, ttl=ttl: l.reserve("a", 1, ttl), weir.ArgumentError,
       f"ttl: expected seconds above 0 and at most 1152921504, found {ttl!r}")
      for ttl in (0, 1e-10, 1152921505, float("inf"), float("nan"))),
    (lambda l: l.check("a", 1 << 63), weir.ArgumentError, "the cost is 9223372036854775808, expected 0 to 2147483647"),
    (lambda l: l.commit("1", 1 << 64), weir.ArgumentError, "the cost is 18446744073709551616, expected 0 to 2147483647"),
    (lambda l: l.check("a", 1, 1 << 31), weir.ArgumentError,
     "keep: expected a number of units or a share such as '20%', found 2147483648"),
    (lambda l: l.check("a\ud800"), weir.ArgumentError,
     "the key: 'utf-8' codec can't encode character '\\ud800' in position 1: surrogates not allowed"),
    (lambda l: l.commit("x", 1), weir.ArgumentError, "the id: expected 16 hexadecimal digits, found 'x'"),
    (lambda l: l.commit("1", 1), weir.ReservationError, "no open reservation has this id"),
    (lambda l: l.headers(l.peek("a"), name="a b"), weir.ArgumentError,
     "the name of a policy: expected up to 64 letters, digits and -_.:/, found 'a b'"),
    (lambda l: l.headers(l.peek("a"), "draft-9"), weir.ArgumentError,
     "headers 'draft-9': expected draft-6, draft-7, draft-8, legacy, ietf, ietf-07, ietf-03, x-ratelimit, github, openai "
     "or none"),
    (lambda l: l.headers(l.peek("a"), "draft-7, draft-8"), weir.ArgumentError,
     "headers 'draft-7, draft-8': ietf and ietf-07 give RateLimit different forms: use one of them"),
])
def test_mistakes_are_named(limiter, call, error, text):
    with pytest.raises(error) as found:
        call(limiter)
    assert str(found.value) == text
    assert limiter.failures == 0


UNKNOWN = "the policy 'api': expected a policy text, such as 'gcra 10/m burst 5', or a name in policies"
NAME = "the name of a policy: expected 1 to 64 letters, digits and - _ . : /"


@pytest.mark.parametrize("policy, more, error, text", [
    ("gcra 10/m bust 5", {}, weir.PolicyError, "column 11: found 'bust', expected burst and a number, '&' or the end"),
    ("api", {}, weir.PolicyError, f"{UNKNOWN}"),
    ("api", {"policies": {}}, weir.PolicyError, f"{UNKNOWN}"),
    ("api", {"policies": {"a": POLICY, "b": POLICY}}, weir.PolicyError, f"{UNKNOWN}: a, b"),
    ("api", {"policies": {"api": "gcra 1/x"}}, weir.PolicyError, None),
    ("x" * 65, {"policies": {"x" * 65: POLICY}}, weir.PolicyError, NAME),
    ("\0", {"policies": {"\0": POLICY}}, weir.PolicyError, NAME),
    (POLICY, {"policies": {"api": POLICY}}, weir.ArgumentError,
     f"policies: expected the name of a policy with it, found '{POLICY}'"),
    ("gcra " + "é" * 100, {}, weir.PolicyError, None),
    (POLICY, {"timeout": 1}, weir.ArgumentError,
     "unknown option 'timeout' of weir+file, expected one of clock, on_error, on_failure, size, sync, when_full"),
    (POLICY, {"size": "8 MB"}, weir.ArgumentError, "the option size: expected bytes, such as 67108864 or 64m, found '8 MB'"),
    (POLICY, {"size": 1 << 63}, weir.ArgumentError, None),
    (POLICY, {"size": "\u0668m"}, weir.ArgumentError, None),
    (POLICY, {"size": 1}, weir.ArgumentError, None),
    (POLICY, {"sync": "2s"}, weir.ArgumentError, "the option sync: expected never, 1s or always, found '2s'"),
    (POLICY, {"when_full": "x"}, weir.ArgumentError, "the option when_full: expected evict or refuse, found 'x'"),
    (POLICY, {"on_error": "x"}, weir.ArgumentError, "the option on_error: expected open, closed or raise, found 'x'"),
    (POLICY, {"on_failure": "x"}, weir.ArgumentError, "the option on_failure: expected a function, found 'x'"),
])
def test_bad_options_are_named(tmp_path, policy, more, error, text):
    with pytest.raises(error) as found:
        weir.Limiter(policy, f"weir+file://{tmp_path}/limits", **more)
    assert text is None or str(found.value) == text


@pytest.mark.parametrize("url, text", [
    ("redis://h", "the URL 'redis://h': expected weir+file:///path, weir://host:port or weirs://host:port"),
    ("weir+file://x/y", "the URL 'weir+file://x/y': expected weir+file:///path, with an absolute path"),
    ("weir://", "the URL 'weir://': expected weir://host:port"),
    ("weir://h/0", "the URL 'weir://h/0': expected weir://host:port"),
    ("weir://h:0", "the URL 'weir://h:0': expected weir://host:port"),
    ("weir://h#x", "the URL 'weir://h#x': expected no '#'; in a path it is %23"),
    ("weir+file:///x#y", "the URL 'weir+file:///x#y': expected no '#'; in a path it is %23"),
    ("weir+file:///x%00y", "the URL 'weir+file:///x%00y': expected weir+file:///path, with an absolute path"),
    ("weir+file:///\ud800", None),
    ("weir://h:x", None),
    ("weir://[::1", None),
    *((f"weir://h?timeout={wrong}", f"the option timeout: expected seconds above 0 and at most 2147483, such as 0.1, found '{wrong}'")
      for wrong in ("0", "x", "nan", "inf", "2147484")),
    ("weirs://h?ssl_ca_certs=/none", "the option ssl_ca_certs: expected a file that exists, found '/none'"),
    ("weirs://h?ssl_check_hostname=0", "the option ssl_check_hostname: expected true or false, found '0'"),
    ("weirs://h?ssl_cert_reqs=x", "the option ssl_cert_reqs: expected none, optional or required, found 'x'"),
    ("weirs://h?ssl_min_version=1.3", "the option ssl_min_version: expected TLSv1_2 or TLSv1_3, found '1.3'"),
    ("weir://h?max_connections=0", "the option max_connections: expected a whole number from 1, found '0'"),
    ("weir://h?ssl_ca_certs=x", "unknown option 'ssl_ca_certs' of weir, expected one of max_connections, on_error, "
                                "on_failure, password, timeout, username"),
])
def test_bad_urls_are_named(url, text):
    with pytest.raises(weir.ArgumentError) as found:
        weir.Limiter("api", url)
    assert text is None or str(found.value) == text


def test_a_clock_out_of_range(limiter, clock):
    for clock.ns in (0, 7 << 60):
        assert limiter.check(f"at {clock.ns}").allowed
    for clock.ns in (-1, (7 << 60) + 1, 1 << 64):
        with pytest.raises(weir.ArgumentError, match=f"^clock: expected ns from 0 to 8070450532247928832, found {clock.ns}$"):
            limiter.check("a")


def test_a_mistake_does_not_end_a_reservation(limiter):
    for mistake in (-1, "1"):
        with pytest.raises((weir.ArgumentError, TypeError)), limiter.reserve("a", 4, ttl=30) as reservation:
            reservation.commit(mistake)
        assert limiter.peek("a").remaining == 5


def test_a_policy_with_a_name(url):
    longest, policies = "x" * 64, {"api": POLICY, "other": POLICY, "x" * 64: POLICY}
    api, other, text = weir.Limiter("api", url, policies=policies), weir.Limiter("other", url, policies=policies), \
        weir.Limiter(POLICY, url)
    assert [limiter.check("a", cost).remaining for limiter, cost in ((api, 1), (other, 2), (text, 3), (api, 1))] == \
        [4, 3, 2, 3]
    assert api.headers(api.peek("a"))[0] == ("RateLimit-Policy", '"api";q=5;w=30')
    assert weir.Limiter(longest, url, policies=policies).check("a").remaining == 4
    api.reset_all()
    assert [limiter.peek("a").remaining for limiter in (api, other, text)] == [5, 3, 2]
    later = weir.AsyncLimiter("other", url, policies={"other": "gcra 10/m burst 9"})
    assert asyncio.run(later.check("a")).remaining == 6, "the keys keep what they used"
    with pytest.raises(weir.ArgumentError, match="^policies: expected weir.file:///path with it, because a daemon"):
        weir.Limiter("api", "weir://h", policies=policies)


def test_operations_that_a_policy_does_not_support(url):
    with pytest.raises(weir.UnsupportedError):
        weir.Limiter("leaky-queue 1/s depth 2", url).refund("a")


def test_other_values_are_type_errors(limiter):
    for call in (lambda: limiter.check(1), lambda: limiter.check("a", 1.5), lambda: limiter.check("a", "1")):
        with pytest.raises(TypeError):
            call()


# ---- files


def test_limiters_share_the_file_of_a_process(url, tmp_path):
    a, b = weir.Limiter(POLICY, url), weir.Limiter(POLICY, f"weir+file://{tmp_path}/limits")
    a.check("a", 5)
    assert b.peek("a").remaining == 0 and a.commands.file is b.commands.file
    with pytest.raises(weir.ArgumentError, match="is open in this process with other options"):
        weir.Limiter(POLICY, f"weir+file://{tmp_path}/limits?size=9m")
    with pytest.raises(weir.ArgumentError, match="is open in this process with other options"):
        weir.Limiter(POLICY, url, sync="always")


def test_states_survive_closing(url):
    limiter = weir.Limiter(POLICY, url)
    limiter.check("a", 5)
    del limiter
    gc.collect()
    assert weir.Limiter(POLICY, url + "&sync=always").check("a").remaining == 0


def test_the_size_of_a_file(url, tmp_path):
    assert weir.Limiter(POLICY, url).commands.file.store.stats()["memory_max"] == 8 << 20
    gc.collect()
    assert weir.Limiter(POLICY, f"weir+file://{tmp_path}/limits").commands.file.store.stats()["memory_max"] == 8 << 20


def test_a_deleted_file_is_noticed(url, tmp_path):
    limiter = weir.Limiter(POLICY, url)
    limiter.ping()
    (tmp_path / "limits").unlink()
    with pytest.raises(weir.Unavailable, match="was deleted"):
        limiter.ping()


def test_a_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(weir.Unavailable, match="there is no such directory"):
        weir.Limiter(POLICY, f"weir+file://{tmp_path}/none/limits")
    (tmp_path / "limits").write_bytes(b"something else" * 1000000)
    with pytest.raises(weir.Unavailable):
        weir.Limiter(POLICY, f"weir+file://{tmp_path}/limits")
    (tmp_path / "limits").write_bytes(b"")
    with pytest.raises(weir.Unavailable, match="it is empty; delete it to begin with an empty one$"):
        weir.Limiter(POLICY, f"weir+file://{tmp_path}/limits")


def test_a_file_of_another_version(url, tmp_path):
    limiter = weir.Limiter(POLICY, url)
    del limiter
    gc.collect()
    file = tmp_path / "limits"
    head = bytearray(file.read_bytes()[:4096])
    head[8:12] = (9999).to_bytes(4, "little")
    with open(file, "r+b") as out:
        out.write(head)
    with pytest.raises(weir.Unavailable):
        weir.Limiter(POLICY, url)


@pytest.mark.parametrize("on_error, allowed", [("open", True), ("closed", False)])
def test_a_full_file_is_answered_by_on_error(url, on_error, allowed):
    seen = []
    limiter = weir.Limiter(f"fixed-window 10/365d from-first & fixed-window 5/m", url, when_full="refuse",
                           on_error=on_error, on_failure=seen.append)
    number = 0
    while not seen:
        number += 1
        decision = limiter.check(f"key-{number}")
    assert decision == weir.Decision(allowed, 0, 0, 0 if allowed else None, 0, reason="on-error")
    assert (limiter.failures, type(seen[0]), limiter.headers(decision)) == (1, weir.Full, [])
    assert limiter.peek("key-1").remaining == 4
    with pytest.raises(weir.Full):
        limiter.charge(f"key-{number}", 1)


def test_a_child_of_fork_opens_the_file_for_itself(url, tmp_path):
    limiter = weir.Limiter(POLICY, url, on_error="raise")
    limiter.check("a", 2)
    pid = os.fork()
    if pid == 0:
        os._exit(limiter.check("a").remaining)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    assert limiter.peek("a").remaining == 2
    pid = os.fork()
    if pid == 0:
        (tmp_path / "limits").unlink()
        (tmp_path / "limits").mkdir()
        try:
            limiter.check("a")
        except weir.Unavailable:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


# ---- header fields


@pytest.mark.parametrize("flavours, fields", [
    ("draft-6", [("RateLimit-Limit", "5, 5;w=30"), ("RateLimit-Remaining", "0"), ("RateLimit-Reset", "6")]),
    ("draft-7", [("RateLimit-Policy", "5;w=30"), ("RateLimit", "limit=5, remaining=0, reset=6")]),
    ("draft-8", [("RateLimit-Policy", '"limit";q=5;w=30'), ("RateLimit", '"limit";r=0;t=6')]),
    ("legacy", [("X-RateLimit-Limit", "5"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "30")]),
    ("draft-7,legacy", [("RateLimit-Policy", "5;w=30"), ("RateLimit", "limit=5, remaining=0, reset=6"),
                        ("X-RateLimit-Limit", "5"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "30")]),
    ("none", []),
])
def test_headers(limiter, flavours, fields):
    limiter.check("a", 5)
    denied = limiter.check("a", named=True)
    assert limiter.headers(denied, flavours) == [*fields, ("Retry-After", "6")]


def test_headers_of_a_decision_that_never_fits(limiter):
    never = limiter.check("a", 6, named=True)
    assert limiter.headers(never, name="api") == [("RateLimit-Policy", '"api";q=5;w=30'), ("RateLimit", '"api";r=5')]
    nothing = limiter.check("a", 5, 0, named=True)
    assert limiter.headers(nothing)[1] == ("RateLimit", '"limit";r=0;t=6')
    kept = limiter.check("b", 0, 5, named=True)
    assert kept.next_ns == -1 and limiter.headers(kept)[1] == ("RateLimit", '"limit";r=0')

# SPDX-License-Identifier: BSD-2-Clause
"""Sends the same random requests to weir and to the reference service, which have the same configuration
directory, and compares the responses. docs/envoy.md lists the differences; here each is a rule with a
name, and the test prints how often it applied."""

import collections
import contextlib
import json
import os
import re
import time

import generated
from kit import envoy as kit
from kit.envoy import OK, OVER_LIMIT, WINDOWS_S
from kit.process import Failed, equal, expect, say, until
from kit.redis import Redis

SEED = 18
REQUESTS = int(os.environ.get("SIDE_BY_SIDE", "20000"))
JSON_EVERY = 100
MAX = 2**32 - 1
MOST = 2**31 - 1
ALLOW = "peek_at_limit: allow"
HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


class Difference(Exception):
    pass


# ---- what a response must be by itself -----------------------------------------------------------


def is_reset(seconds, unit, clock):
    """Whether this is the time until the window's end at one of the clock's seconds."""
    window = WINDOWS_S[unit]
    return any(seconds == window - now % window for now in clock)


def is_quota(descriptor, status):
    return descriptor["entries"][-1:] and descriptor["entries"][-1][0] == "quota" and status.HasField("current_limit")


def expected_code(request, statuses):
    """OVER_LIMIT if a limit is exceeded, or if all limits with quota_mode are."""
    over, quotas = 0, []
    for descriptor, status in zip(request["descriptors"], statuses):
        if is_quota(descriptor, status):
            quotas.append(status.code == OVER_LIMIT)
        else:
            over += status.code == OVER_LIMIT
    return OVER_LIMIT if over or quotas and all(quotas) else OK


def expected_status(request, statuses):
    """The status that the headers are about."""
    least, ret = MAX, None
    for descriptor, status in zip(request["descriptors"], statuses):
        if status.HasField("current_limit") and status.limit_remaining < least:
            least, ret = status.limit_remaining, status
        if status.code == OVER_LIMIT and not is_quota(descriptor, status):
            least, ret = 0, status
    return ret


def check_response(request, response, clock, shadow=False, names=HEADERS):
    """Checks what does not depend on the counts: the overall code, the headers, and the times.
     shadow  whether SHADOW_MODE is set.
     names   of the headers."""
    equal(len(response.statuses), len(request["descriptors"]), "statuses")
    equal(response.overall_code, OK if shadow else expected_code(request, response.statuses), "overall_code")
    for status in response.statuses:
        if status.HasField("current_limit"):
            reset = status.duration_until_reset
            expect(reset.nanos == 0 and is_reset(reset.seconds, status.current_limit.unit, clock),
                   f"duration_until_reset is {reset}, the clock is {clock}")
        else:
            expect(not status.HasField("duration_until_reset"), "a reset without a limit")
    headers = [(header.key, header.value) for header in response.response_headers_to_add]
    about = expected_status(request, response.statuses)
    if about is None:
        equal(headers, [], "headers")
        return
    equal([name for name, _ in headers], list(names), "headers")
    equal([value for _, value in headers[:2]], [str(about.current_limit.requests_per_unit), str(about.limit_remaining)],
          "headers")
    expect(is_reset(int(headers[2][1]), about.current_limit.unit, clock), f"the header is {headers[2]}")


# ---- the differences that are expected -----------------------------------------------------------


def hits_of(request, descriptor):
    return descriptor.get("hits_addend", max(1, request.get("hits_addend", 0)))


def peek_at_a_limit_of_none(request, descriptor, weir, other):
    """A request of 0 hits at a limit of 0: the reference says OK until a hit was denied."""
    return (hits_of(request, descriptor) == 0 and weir.code == OVER_LIMIT and other.code == OK
            and weir.current_limit.requests_per_unit == other.current_limit.requests_per_unit == 0)


def quota_of_the_newer_reference(_request, descriptor, weir, other):
    """quota_mode: the release that the tests run says OK and sends no reset; a newer one does as weir."""
    return (is_quota(descriptor, weir) and weir.code == OVER_LIMIT and other.code == OK
            and weir.limit_remaining == other.limit_remaining == 0 and not other.HasField("duration_until_reset"))


def wildcard_of_the_newer_reference(_request, descriptor, weir, other):
    """A wildcard that is not at the end: the release that the tests run does not know it."""
    return descriptor["entries"][-1][0] == "middle" and weir.HasField("current_limit") and other.code == OK \
        and not other.HasField("current_limit")


def override_shares_the_count(_request, descriptor, weir, other):
    """A limit in the request: the reference counts it together with the configured limit of the same unit."""
    return descriptor["entries"][-1:] and descriptor["entries"][-1][0] == "both" and (
        weir.current_limit == other.current_limit) and (weir.limit_remaining >= other.limit_remaining
                                                        or "limit" not in descriptor)


def limit_above_the_most(_request, _descriptor, weir, other):
    """A limit above 2,147,483,647 counts as that: limit_remaining is less."""
    above = other.current_limit.requests_per_unit - MOST
    return (above > 0 and weir.current_limit == other.current_limit and weir.code == other.code
            and weir.limit_remaining == other.limit_remaining - above)


RULES = (limit_above_the_most, peek_at_a_limit_of_none, quota_of_the_newer_reference, wildcard_of_the_newer_reference,
         override_shares_the_count)


def without_reset(status):
    return status.code, status.current_limit.SerializeToString(deterministic=True), status.limit_remaining


def metadata_of(response):
    """The dynamic metadata as a text. Go writes one or two spaces in the text of a limit. The release that the tests
    run also sends what it knows of quota_mode; a newer one does as weir."""
    from google.protobuf import json_format  # pylint: disable=import-outside-toplevel

    found = json_format.MessageToDict(response.dynamic_metadata)
    kept = {name: value for name, value in found.items() if not name.startswith("quotaMode")}
    return json.dumps(kept, sort_keys=True).replace("  ", " ")


def compare(request, weir, other, applied):
    """Compares two responses, and counts in `applied` the rules that explain a difference."""
    rules = set()
    equal(metadata_of(weir), metadata_of(other), "dynamic_metadata")
    for i, (descriptor, one, two) in enumerate(zip(request["descriptors"], weir.statuses, other.statuses)):
        if without_reset(one) == without_reset(two):
            continue
        rule = next((rule for rule in RULES if rule(request, descriptor, one, two)), None)
        if rule is None:
            raise Difference(f"status {i} of weir is\n{one}and of the reference\n{two}")
        rules.add(rule.__name__)
    applied.update(rules)
    if rules:
        return
    equal(weir.overall_code, other.overall_code, "overall_code")
    equal([(header.key, header.value) for header in weir.response_headers_to_add][:2],
          [(header.key, header.value) for header in other.response_headers_to_add][:2], "headers")


# ---- sending -------------------------------------------------------------------------------------


class Pair:
    """Sends each request to both services, and compares the answers. `checks` are arguments of
    check_response()."""

    def __init__(self, box, weir, reference, **checks):
        self.services, self.checks = (weir, reference), checks
        self.channels = [service.channel() for service in self.services]
        self.messages, self.applied, self.codes = box.messages, collections.Counter(), collections.Counter()

    def by_grpc(self, request):
        """The responses, or the errors as (code, text)."""
        import grpc  # pylint: disable=import-outside-toplevel

        answers = []
        for future in [channel.send(request) for channel in self.channels]:
            try:
                answers.append(future.result())
            except grpc.RpcError as error:
                answers.append((error.code().name, error.details()))
        return answers

    def by_json(self, request):
        from google.protobuf import json_format  # pylint: disable=import-outside-toplevel

        body = json_format.MessageToJson(self.messages.message(request))
        answers = [service.post(body) for service in self.services]
        if 400 in (answers[0].status, answers[1].status):
            return [("HTTP", answer.status, answer.body) for answer in answers]
        messages = [json_format.Parse(answer.body, self.messages.response()) for answer in answers]
        for answer, message in zip(answers, messages):
            equal(answer.status, 429 if message.overall_code == OVER_LIMIT else 200, "HTTP status")
            equal(json.loads(answer.body), json.loads(json_format.MessageToJson(message)), "JSON")
        return messages

    def send(self, request, by=None):
        began = int(time.time())
        weir, other = (by or self.by_grpc)(request)
        clock = range(began, int(time.time()) + 1)
        if isinstance(weir, tuple) or isinstance(other, tuple):
            equal(weir, other, "error")
            self.codes[weir[0]] += 1
            return
        check_response(request, weir, clock, **self.checks)
        compare(request, weir, other, self.applied)
        self.codes["OVER_LIMIT" if weir.overall_code == OVER_LIMIT else "OK"] += 1


# ---- tests ---------------------------------------------------------------------------------------


def lasting_units(seconds):
    """The units whose windows do not end within this time."""
    now = time.time()
    return tuple(unit for unit in generated.UNITS
                 if WINDOWS_S[kit.UNITS[unit]] - now % WINDOWS_S[kit.UNITS[unit]] > seconds)


def limit_stats(service):
    """The statistics of the limits, without those that the rules change."""
    return {name: count for name, count in service.stats().items()
            if name.startswith("ratelimit.service.rate_limit.")
            and not re.search(r"\.(quota|middle|both)", name)}


def compare_stats(weir, reference):
    """Compares the statistics, once the reference has sent all of them."""
    with contextlib.suppress(Failed):
        until(lambda: limit_stats(reference) == limit_stats(weir), "equal statistics", patience_s=10, every_s=.2)
    found = limit_stats(weir)
    kit.same(found, limit_stats(reference), "statistics of weir, and of the reference")
    return len(found)


def run(pair, source, count, with_stats=True):
    """Sends this many requests, some of them as JSON."""
    for number in range(count):
        request = source.next()
        try:
            pair.send(request, pair.by_json if number % JSON_EVERY == JSON_EVERY - 1 else None)
        except Exception as error:
            raise Difference(f"request {number}: {json.dumps(request)}\n{error}") from error
    say(f"{count} requests, seed {SEED}: {dict(pair.codes)}")
    for rule in RULES:
        say(f"{rule.__name__}: {pair.applied[rule.__name__]}")
    if with_stats:
        say(f"{compare_stats(*pair.services)} statistics are equal")


def services(box, configuration, envoy=(), **settings):
    """weir and the reference. `envoy` are lines of weir.yaml, and `settings` the same for the reference."""
    files = configuration.files()
    reference = kit.Reference(box, files, **settings).start()
    return kit.Weir(box, files, envoy=(*(envoy or kit.HEADERS_ON), ALLOW)).start(), reference


def the_same_random_requests(box):
    """Every status, limit, remaining and header is that of the reference, but for the listed differences."""
    configuration = generated.Configuration(SEED, lasting_units(600))
    pair = Pair(box, *services(box, configuration))
    run(pair, generated.Requests(SEED, configuration), REQUESTS)
    print(f"1 tests, {REQUESTS} compared cases")


def the_same_in_shadow_mode(box):
    """With SHADOW_MODE, another ratio for near_limit, and other headers."""
    names = ("X-Limit", "X-Left", "X-Reset")
    configuration = generated.Configuration(SEED + 1, lasting_units(600))
    pair = Pair(box, *services(
        box, configuration, envoy=(
            "headers: {enabled: true, limit: X-Limit, remaining: X-Left, reset: X-Reset}", "near_limit_ratio: 0.5",
            "shadow_mode: true"),
        SHADOW_MODE="true", NEAR_LIMIT_RATIO="0.5", LIMIT_LIMIT_HEADER=names[0], LIMIT_REMAINING_HEADER=names[1],
        LIMIT_RESET_HEADER=names[2]), shadow=True, names=names)
    run(pair, generated.Requests(SEED + 1, configuration), REQUESTS // 10)


def the_same_with_redis(box):
    """weir with engine: redis. Its statistics of requests with several hits are less exact."""
    configuration = generated.Configuration(SEED + 3, lasting_units(600))
    files = configuration.files()
    reference = kit.Reference(box, files).start()
    redis = Redis(box).start()
    weir = kit.Weir(box, files, envoy=(*kit.HEADERS_ON, ALLOW), more=["engine: redis", f"redis: {{url: {redis.url()}, deadline: 20s}}"]).start()
    run(Pair(box, weir, reference), generated.Requests(SEED + 3, configuration), REQUESTS // 10, False)


class SingleHits(generated.Requests):
    """Requests of one hit for each descriptor, without repeated descriptors and without quota_mode."""

    def next(self):
        ret = super().next()
        seen = {}
        for descriptor in ret["descriptors"]:
            descriptor.pop("hits_addend", None)
            if descriptor["entries"][-1:] and descriptor["entries"][-1][0] != "quota":
                seen.setdefault(tuple(descriptor["entries"]), descriptor)
        ret["descriptors"] = list(seen.values())
        ret.pop("hits_addend", None)
        return ret


def the_same_when_denied_hits_do_not_count(box):
    """STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT, without limits that deny nothing: if one of these is over, the
    reference does not count the hits of the others either."""
    configuration = generated.Configuration(SEED + 4, lasting_units(600), shadow=0)
    lines = (*kit.HEADERS_ON, "stop_when_over: true")
    pair = Pair(box, *services(box, configuration, lines, STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT="true"))
    run(pair, SingleHits(SEED + 4, configuration), REQUESTS // 10, False)


def seconds_and_minutes(box):
    """Short windows. If a second passes within a scene, the scene is repeated with another key."""
    root = {"domain": "short", "descriptors": [
        {"key": "second", "rate_limit": {"unit": "second", "requests_per_unit": 3}},
        {"key": "minute", "rate_limit": {"unit": "minute", "requests_per_unit": 4}}]}
    files = {"short.yaml": generated.text(root)}
    pair = Pair(box, kit.Weir(box, files).start(), kit.Reference(box, files).start())
    done, tries = 0, 0
    while done < 50:
        tries += 1
        expect(tries < 2000, f"only {done} scenes of {tries} were within a second")
        request = {"domain": "short",
                   "descriptors": [{"entries": [(key, f"v{tries}")]} for key in ("second", "minute")]}
        began = int(time.time())
        answers = [pair.by_grpc(request) for _ in range(6)]
        if int(time.time()) != began:
            continue
        for weir, other in answers:
            check_response(request, weir, [began])
            compare(request, weir, other, pair.applied)
        done += 1
    equal(dict(pair.applied), {}, "differences")


TESTS = (seconds_and_minutes, the_same_in_shadow_mode, the_same_with_redis,
         the_same_when_denied_hits_do_not_count, the_same_random_requests)

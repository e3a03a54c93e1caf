# SPDX-License-Identifier: BSD-2-Clause
"""Parses the fields RateLimit-Policy and RateLimit with http-sfv, a parser of structured fields (RFC 9651),
and compares them with the decision in the body. It reads a JSON object a line, and prints what is wrong."""

import json
import sys

import http_sfv

IN_FLIGHT = "concurrent-requests"
LARGEST = 999_999_999_999_999  # of an integer in a structured field


def items(text):
    """The items of a list: their names and parameters."""
    found = http_sfv.List()
    found.parse(text.encode("ascii"))
    assert found and all(type(one.value) is str for one in found), "a list of strings"
    assert len({one.value for one in found}) == len(found), "names that differ"
    return [(one.value, dict(one.params)) for one in found]


def integers(params, least):
    for name, value in least.items():
        if name in params:
            assert type(params[name]) is int and value <= params[name] <= LARGEST, f"{name}={params[name]}"


def check(answer):
    decision = answer["decision"]
    policies = items(answer["policy"])
    for _, params in policies:
        assert set(params) <= {"q", "w"} or set(params) == {"q", "qu"}, params
        assert "q" in params and params.get("qu", IN_FLIGHT) == IN_FLIGHT, params
        integers(params, {"q": 1, "w": 1})
    assert sum("qu" in params for _, params in policies) == answer["text"].count("concurrent"), "layers in flight"
    [(name, params)] = items(answer["ratelimit"])
    integers(params, {"r": 0, "t": 0})
    layer, names = decision["layer"], [one for one, _ in policies]
    assert name in names if layer == len(names) else name == names[layer], f"the layer {layer}"  # the last is a block
    assert params["r"] == decision["remaining"], "r is what remains"
    never = decision["retry_after_ms"] < 0
    assert set(params) == ({"r"} if never else {"r", "t"}), params
    reset, retry = (-(-decision[name] // 1000) for name in ("reset_after_ms", "retry_after_ms"))
    if not decision["allowed"]:
        assert never or params["t"] == min(retry, reset), "t is the wait"
    elif decision["remaining"] > 0:
        assert params["t"] == reset, "t is the reset"
    else:
        assert params["t"] <= reset, "t is the time until a unit is free"
    wait = None if decision["allowed"] or never else str(retry)
    assert answer["retry_after"] == wait, f"Retry-After: {answer['retry_after']}"


def main():
    for line in sys.stdin:
        answer = json.loads(line)
        try:
            check(answer)
        except (AssertionError, ValueError, KeyError) as error:
            print(f"{error!r}: {answer}")


main()

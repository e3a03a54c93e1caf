#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests weir with a real HAProxy, over SPOE and with the Lua action: the files of docs/haproxy.md.

    haproxy_test.py WEIR MODULE [NAME...]"""

import subprocess
import sys
import threading
import time

from kit import haproxy as kit
from kit.haproxy import App, Haproxy, Weir, fetch, wrk
from kit.process import equal, expect, run, until

DOORS = ("spoe", "lua")
THREADS_MAX = 64  # of a HAProxy, by default one for each processor
# None of these is the key `a`, although each would be if it were not escaped.
ODD_KEYS = ("a&cost=0", "a&policy=other", "a#", "a HTTP/1.1", "a\r\nX: y", "a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "%61", "a%00", "a\0", "a+", "a ", "é", "a;b", "$key", "a\n", "a/../b", "a?b=c")


def policy(limit):
    return f"fixed-window {limit}/w from-first"


def each_door(test):
    """The test as one test for each door."""
    def of(door):
        def run(box):
            test(box, door)
        run.__name__ = f"{test.__name__}_{door}"
        return run
    return [of(door) for door in DOORS]


def both(box, door, limit, **more):
    weir = Weir(box, {"api": policy(limit), "other": policy(1)}).start()
    return weir, Haproxy(box, door, weir, **more).start()


def is_limited(one, key):
    """Whether weir decides the requests, and not the error."""
    return "x-allowed" in one.get(key).headers


# ---- decisions -----------------------------------------------------------------------------------


def denials_have_headers(box, door):
    """A denial is a 429 with Retry-After and RateLimit, and never reaches the application."""
    app = App()
    _, one = both(box, door, 3, app=app)
    before = app.requests
    answers = [one.get("a") for _ in range(5)]
    equal([answer.status for answer in answers], [200] * 3 + [429] * 2, "statuses")
    equal(app.requests - before, 3, "requests of the application")
    equal([answer.headers["ratelimit"].split(";t=")[0] for answer in answers],
          [f'"api";r={n}' for n in (2, 1, 0, 0, 0)], "RateLimit")
    equal(["retry-after" in answer.headers for answer in answers], [False] * 3 + [True] * 2, "Retry-After")
    expect(604700 <= int(answers[3].headers["retry-after"]) <= 604800, str(answers[3].headers))
    equal((answers[0].headers["x-limit"], answers[0].headers["x-reason"]), ("3", "limit"), "variables")
    equal([answer.headers["x-ratelimit"].split(";t=")[0] for answer in answers],
          [f'"api";r={n}' for n in (2, 1, 0, 0, 0)], "the variable ratelimit")
    equal({answer.headers["x-ratelimit-policy"] for answer in answers}, {'"api";q=3;w=604800'}, "ratelimit_policy")
    equal(one.get("b").status, 200, "another key")


def the_policy_of_the_page(box, door):
    """weir.yaml of the page, as it is."""
    weir = Weir(box, {"api": "gcra 10/s burst 20"}).start()
    one = Haproxy(box, door, weir).start()
    passed, denied = wrk(one.url("a"))
    expect(passed >= 20 and denied > 0, f"{passed} requests passed, {denied} were denied")
    # wrk does not count the requests that are open at its end.
    expect(passed <= weir.allowed() <= passed + 32, f"{passed} passed, weir allowed {weir.allowed()}")


def odd_keys_are_other_keys(box, door):
    """Bytes of a key that have a meaning in HTTP are part of the key."""
    weir, one = both(box, door, 2)
    for key in ODD_KEYS:
        if "\0" in key and door == "lua":
            continue  # url_dec ends a text there
        equal(one.statuses(key, 3), [200, 200, 429], repr(key))
    equal(one.statuses("a", 3), [200, 200, 429], "the key a")
    equal(weir.allowed("other"), 0, "requests of another policy")


def variables_of_the_page(box):
    """weir sets the variables that weir.yaml lists, and `allowed`."""
    weir = Weir(box, {"api": policy(1)}, all_variables=False).start()
    one = Haproxy(box, "spoe", weir).start()
    found = [one.get("a") for _ in range(2)] + [one.get("")]
    equal([answer.status for answer in found], [200, 429, 429], "statuses")
    names = ("x-allowed", "x-limit", "x-reason", "x-delay", "x-ratelimit", "x-ratelimit-policy", "x-error")
    equal([[name[2:] for name in names if name in answer.headers] for answer in found],
          [["allowed", "ratelimit"], ["allowed", "ratelimit"], ["allowed"]], "variables")
    expect(found[1].headers["retry-after"].isdigit(), f"Retry-After: {found[1].headers}")


def costs(box, door):
    """The cost of a request is a variable."""
    weir = Weir(box, {"api": policy(10)}, message='{policy: api, key: $key, cost: $cost}').start()
    one = Haproxy(box, door, weir, replaced=[
        ("args key", "args cost=url_param(c),add(0) key"),
        ("http-request lua.weir api txn.weir_key", "http-request set-var(txn.cost) url_param(c)\n"
         "    http-request lua.weir-cost api txn.weir_key txn.cost")]).start()
    statuses = [fetch(one.port, f"/?k=a&c={cost}").status for cost in (4, 6, 1)]
    equal(statuses, [200, 200, 429], "costs 4, 6 and 1 of 10")
    answer = fetch(one.port, "/?k=b&c=11")
    equal((answer.status, "retry-after" in answer.headers), (429, False), "a cost that never passes")


def a_decision_replaces_another(box, door):
    """Of two decisions of a request, one after another, the second sets all variables: a denial that no wait
    helps has no Retry-After of the first."""
    template = "{policy: $policy, key: $key, cost: $cost}"
    weir = Weir(box, {"api": policy(5), "other": policy(5)}, message=f"{template}\n    two: {template}").start()
    group = "    http-request send-spoe-group weir again\n" if door == "spoe" else ""
    one = Haproxy(box, door, weir, replaced=[
        ("    messages check-client\n", "    messages check-client\n    groups again\n"),
        ("spoe-message check-client\n", "spoe-group again\n    messages two\n\nspoe-message two\n"
         "    args policy=str(other) cost=url_param(c),add(0) key=url_param(k)\n\nspoe-message check-client\n"),
        ("args key", "args policy=str(api) cost=int(1) key"),
        ("    http-after-response set-header RateLimit", f"{group}    http-after-response set-header RateLimit"),
        ("http-request lua.weir api txn.weir_key", "http-request lua.weir api txn.weir_key\n    http-request set-var("
         "txn.cost) url_param(c)\n    http-request lua.weir-cost other txn.weir_key txn.cost")]).start()
    answer = fetch(one.port, "/?k=a&c=2")
    equal((answer.status, answer.headers["x-limit"]), (200, "5"), "both allow")
    answer = fetch(one.port, "/?k=a&c=6")
    equal((answer.status, answer.headers["x-allowed"], answer.headers.get("retry-after")), (429, "0", None),
          "the second never allows")
    equal(weir.allowed(), 2, "the first decisions")


def one_method(box, door):
    """The condition of the page limits one method of a path, and no other request."""
    event, action = "event on-frontend-http-request", "http-request lua.weir api txn.weir_key"
    condition = " if METH_POST { path /login }"
    page = kit.PAGE.read_text(encoding="utf-8")
    expect(all(f"    {line}{condition}\n" in page for line in (event, action)), "the page has the lines")
    weir, one = both(box, door, 2, replaced=[(event, event + condition), (action, action + condition)])
    for method, path, wanted in (("POST", "/login", [200, 200, 429]), ("GET", "/login", [200] * 3),
                                 ("POST", "/", [200] * 3)):
        found = [fetch(one.port, f"{path}?k=a", method=method).status for _ in range(3)]
        equal(found, wanted, f"{method} {path}")
    equal(weir.allowed(), 2, "decisions")


def errors_are_a_variable(box, door):
    """With an unknown policy there is no decision, and a variable says why."""
    weir = Weir(box, {"api": policy(1)}, message="{policy: $policy, key: $key}").start()
    one = Haproxy(box, door, weir, replaced=[("lua.weir api", "lua.weir none"),
                                             ("args key", "args policy=str(none) key")]).start()
    for key in ("a", "a"):
        answer = one.get(key)
        equal(answer.status, 200, f"{key!r}: status")
        expect("x-allowed" not in answer.headers and answer.headers["x-error"], f"{key!r}: {answer.headers}")


def is_refused(answer, what):
    """Whether the standard rule denied a request that weir could not decide."""
    equal((answer.status, answer.headers.get("x-allowed")), (429, "0"), what)
    expect(answer.headers.get("x-error"), f"{what}: {answer.headers}")
    equal([name for name in ("retry-after", "ratelimit", "x-limit", "x-reason") if name in answer.headers], [], what)


def undecidable_requests_are_denied(box, door):
    """A client cannot avoid its limit with content that weir cannot decide: an empty or long key, or a bad cost."""
    weir = Weir(box, {"api": policy(2)}, message="{policy: api, key: $key, cost: $cost}").start()
    one = Haproxy(box, door, weir, replaced=[
        ("args key", "args cost=url_param(c) key"),
        ("http-request lua.weir api txn.weir_key", "http-request set-var(txn.cost) url_param(c)\n"
         "    http-request lua.weir-cost api txn.weir_key txn.cost")]).start()
    long = "%25" * 3000
    for _ in range(4):  # more often than failures that stop the Lua action from asking
        is_refused(fetch(one.port, "/?k=&c=1"), "an empty key")
        is_refused(fetch(one.port, "/?c=1"), "no key")
        is_refused(fetch(one.port, "/?k=a&c=x"), "a bad cost")
        is_refused(fetch(one.port, "/?k=a"), "no cost")
        if door == "lua":  # an action sends the key in a request target
            is_refused(fetch(one.port, f"/?c=1&k={long}"), "a long key")
    key = "a" if door == "lua" else long
    equal([fetch(one.port, f"/?c=1&k={key}").status for _ in range(3)], [200, 200, 429], "decisions")
    weir.kill()
    if door == "lua":
        is_refused(fetch(one.port, f"/?c=1&k={long}"), "a long key without weir")


def exact_under_load(box, door):
    """Of thousands of requests over many connections, exactly as many pass as the policy allows."""
    weir, one = both(box, door, 1000)
    passed, denied = wrk(one.url("a"))
    equal(passed, 1000, f"passed, beside {denied} denied")
    equal(weir.allowed(), 1000, "allowed by weir")


def two_servers_share_a_limit(box, door):
    """Two HAProxy processes that ask one weir admit together exactly what the policy allows."""
    weir, one = both(box, door, 1500)
    two = Haproxy(box, door, weir).start()
    found = []
    loads = [threading.Thread(target=lambda each=each: found.append(wrk(each.url("a"), 2, 16))) for each in (one, two)]
    for load in loads:
        load.start()
    for load in loads:
        load.join()
    equal(len(found), 2, "loads")
    equal(sum(passed for passed, _ in found), 1500, f"passed and denied: {found}")
    expect(min(passed for passed, _ in found) > 0, f"both passed requests: {found}")


# ---- failures ------------------------------------------------------------------------------------


def killed(box, door):
    """Without weir all requests pass; with weir again, they are limited."""
    weir, one = both(box, door, 2, patient=False)
    until(lambda: is_limited(one, "warm"), "weir decides")
    for number in range(2):
        weir.kill()
        equal(one.statuses("a", 8), [200] * 8, "without weir")
        expect(not is_limited(one, "a"), "no decision without weir")
        weir.start()
        until(lambda n=number: is_limited(one, f"again{n}"), "weir decides again")
        # A decision may still be missed on a busy machine; then a request passes.
        until(lambda n=number: one.get(f"again{n}").status == 429, "a denial")


def stopped(box, door):
    """If weir hangs, each request passes after the configured timeout."""
    weir, one = both(box, door, 2, patient=False)
    until(lambda: is_limited(one, "warm"), "weir decides")
    weir.pause()
    answers = [one.get("a") for _ in range(8)]
    equal([answer.status for answer in answers], [200] * 8, "while weir hangs")
    equal(["x-allowed" in answer.headers for answer in answers], [False] * 8, "no decision")
    if door == "spoe":
        equal(answers[0].headers["x-engine-error"], "1", "a timeout ended the first")
    else:
        equal(answers[0].headers["x-error"], "weir did not respond in time", "a timeout ended the first")
    weir.resume()
    until(lambda: one.get("again").status == 429, "weir decides again")


def fail_closed(box, door):
    """The rule of the page denies requests without a decision."""
    rule = "http-request deny deny_status 503 if !{ var(txn.weir.allowed) -m found }"
    expect(rule in kit.PAGE.read_text(encoding="utf-8"), "the page has the rule")
    weir, one = both(box, door, 2, patient=False, more=f"    {rule}\n")
    until(lambda: one.get("warm").status == 200, "weir decides")
    weir.kill()
    equal(one.statuses("a", 4), [503] * 4, "without weir")


def reloads_fail_no_request(box, door):
    """HAProxy and weir load their files again while requests arrive. None fails, and states are kept."""
    weir, one = both(box, door, 1000000)
    found, end = [], threading.Event()

    def send():
        while not end.is_set():
            answer = one.get("a")
            found.append((answer.status, answer.headers.get("x-allowed"), answer.headers.get("x-error")))

    def failing():
        try:
            send()
        except OSError as error:
            found.append(repr(error))

    clients = [threading.Thread(target=failing) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        for number in range(3):
            until(lambda least=len(found) + 50: len(found) >= least or "Error" in str(found[-1:]), "requests")
            one.reload()
            weir.reload({"api": policy(1000000), "other": policy(1), f"new{number}": policy(1)})
    finally:
        end.set()
        for client in clients:
            client.join()
    equal(set(found), {(200, "1", None)}, "status, decision and error of each answer")
    equal(weir.allowed(), len(found), "every request was counted once")
    remaining = int(one.get("a").headers["ratelimit"].split(";")[1][2:])
    equal(remaining, 1000000 - len(found) - 1, "what remains")
    weir.reload({"api": policy(1)})
    until(lambda: one.get("b").status == 429, "the new policy decides")


# ---- one door ------------------------------------------------------------------------------------


def lua_delays_requests(box):
    """The Lua action delays a request of a leaky-queue."""
    weir = Weir(box, {"api": "leaky-queue 10/s depth 3"}).start()
    one = Haproxy(box, "lua", weir).start()
    began, delays = time.monotonic(), []

    def send():
        answer = one.get("a")
        delays.append((answer.status, int(answer.headers["x-delay"]), time.monotonic() - began))

    clients = [threading.Thread(target=send) for _ in range(3)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    equal([status for status, _, _ in delays], [200] * 3, "statuses")
    expect(max(delay for _, delay, _ in delays) > 0, f"delays: {delays}")
    for _, delay, took in delays:
        expect(took * 1000 >= delay, f"a request was not delayed: {delays}")


def lua_password(box):
    """The Lua action sends the password; without it there is no decision."""
    weir = Weir(box, {"api": policy(1)}, more="password: a secret\n").start()
    one = Haproxy(box, "lua", weir, password="a secret").start()
    equal(one.statuses("a", 2), [200, 429], "with the password")
    two = Haproxy(box, "lua", weir).start()
    answer = two.get("a")
    equal(answer.status, 200, "without the password")
    expect("401" in answer.headers["x-error"], str(answer.headers))


def lua_logs_mistakes(box):
    """A key that is text by mistake, and requests that weir does not decide, are logged, but not each of them."""
    weir = Weir(box, {"api": policy(1)}).start()
    for key in ("src", "%[src]", "path()"):
        one = Haproxy(box, "lua", weir, replaced=[("lua.weir api txn.weir_key", f"lua.weir api '{key}'")]).start()
        one.statuses("a", 3)
        text = one.log_text()
        expect(1 <= text.count(f"the key '{key}' is a text, the same for all requests") <= THREADS_MAX, text)
    for old, new, line in (("lua.weir api", "lua.weir none", "not limited, because weir responded with 404"),
                           ("lua.weir api txn.weir_key", "lua.weir api txn.nosuch",
                            "denied, because the variable txn.nosuch is not set")):
        one = Haproxy(box, "lua", weir, replaced=[(old, new)]).start()
        one.statuses("a", 3)
        text = one.log_text()
        expect(1 <= text.count(line) <= THREADS_MAX, text)
    one = Haproxy(box, "lua", weir, replaced=[("lua.weir api txn.weir_key", "lua.weir api all")]).start()
    equal(one.statuses("a", 2)[1], 429, "a key for all")
    expect("weir:" not in one.log_text(), one.log_text())


def lua_environment(box):
    """A variable of the environment that cannot be used keeps HAProxy from starting."""
    for name, value, part in (("WEIR_ADDRESS", "localhost:8080", "not an IP address with a port"),
                              ("WEIR_ADDRESS", "127.0.0.1:0", "not an IP address with a port"),
                              ("WEIR_ADDRESS", "127.0.0.1:65536", "not an IP address with a port"),
                              ("WEIR_ADDRESS", "127.0.0.1", "not an IP address with a port"),
                              ("WEIR_TIMEOUT_MS", "0", "not a number from 1 to 60000")):
        one = Haproxy(box, "lua", patient=False, replaced=[
            ("setenv WEIR_ADDRESS 127.0.0.1:8080", "setenv WEIR_ADDRESS 127.0.0.1:8080\n    "
             f"setenv {name} {value}"), ("    setenv WEIR_TIMEOUT_MS 50\n", "")])
        one.write()
        done = subprocess.run([kit.HAPROXY, "-c", "-f", one.config], capture_output=True, text=True, check=False)
        expect(done.returncode != 0 and part in done.stderr, f"{name}={value}: {done.stderr}")


def lua_keeps_connections(box):
    """Requests one after another use one connection a thread, even if they are a while apart."""
    weir, one = both(box, "lua", 1000000, patient=False)
    for _ in range(30):
        one.get("a")
    text = fetch(weir.http, "/metrics").text()
    accepted = int(text.rsplit("weir_connections_accepted_total ", 1)[1].split()[0])
    expect(accepted <= 12, f"{accepted} connections for 30 requests")
    equal(weir.allowed(), 30, "each request was counted once")


def lua_idle_connections_end(box):
    """Connections that timed out while they were idle, or that weir closed, are replaced without an error."""
    module = box.path / "idle.lua"
    text = kit.LUA.read_text(encoding="utf-8")
    expect("IDLE_S = 20" in text, "the module has the time")
    module.write_text(text.replace("IDLE_S = 20", "IDLE_S = 0.1"), encoding="utf-8")
    weir = Weir(box, {"api": policy(1000)}).start()
    one = Haproxy(box, "lua", weir, replaced=[(str(kit.LUA), str(module))]).start()
    for _ in range(3):
        expect(all(is_limited(one, "a") for _ in range(8)), "decisions")
        until(lambda: weir.connections() == 1, "only the connection that asks for the metrics is left")
    two = Haproxy(box, "lua", weir).start()
    expect(all(is_limited(two, "a") for _ in range(8)), "decisions")
    weir.kill()
    weir.start()
    expect(all(is_limited(two, "a") for _ in range(8)), "decisions of the new weir")
    for each in (one, two):
        expect("Lua" not in each.log_text(), each.tail())


def lua_late_responses(box):
    """HAProxy survives responses that come after the timeout, and connections that are used long after it. Some
    versions abort if a script lowers the timeout of a socket."""
    text = kit.LUA.read_text(encoding="utf-8")
    expect(text.count(":settimeout(TIMEOUT_MS / 1000)") == 1 and text.count("settimeout, socket, KEPT_S)") == 1
           and text.count("settimeout") == 2, "the module sets it when the socket is new, and then to a longer one")
    weir = Weir(box, {"api": policy(1000000)}).start()
    one = Haproxy(box, "lua", weir, patient=False, replaced=[("WEIR_TIMEOUT_MS 50", "WEIR_TIMEOUT_MS 1")]).start()
    equal(one.statuses("a", 200), [200] * 200, "statuses")


def spoe_frames_have_a_limit(box):
    """HAProxy sends no frame above max-frame-size: such a request passes, unless its key has a limited length. Others
    are decided meanwhile."""
    weir = Weir(box, {"api": policy(2)}).start()
    small = ("    messages check-client", "    max-frame-size 1024\n    messages check-client")
    one = Haproxy(box, "spoe", weir, replaced=[small]).start()
    for _ in range(3):
        answer = one.get("a" * 2000)
        equal((answer.status, answer.headers.get("x-engine-error")), (200, "3"), "HAProxy's error")
        expect(is_limited(one, "other"), "another key is decided")
    rule = "http-request deny deny_status 413 if { var(txn.weir.engine_error) -m int 3 }"
    hashed = "args key=req.hdr(x-api-key),sha2(256),hex"
    page = kit.PAGE.read_text(encoding="utf-8")
    expect(rule in page and hashed in page, "the page has the lines")
    strict = Haproxy(box, "spoe", weir, replaced=[small], more=f"    {rule}\n").start()
    equal(strict.statuses("a" * 2000, 2), [413] * 2, "with the rule of the page")
    equal(strict.statuses("b", 3), [200, 200, 429], "another key with the rule")
    two = Haproxy(box, "spoe", weir, replaced=[small, (f"args key={kit.KEY}", hashed)]).start()
    equal([fetch(two.port, headers={"x-api-key": "a" * 2000}).status for _ in range(3)], [200, 200, 429], "a hashed key")
    is_refused(two.get("a"), "no header")


def lua_keeps_units(box):
    """What a request keeps is left for others."""
    weir = Weir(box, {"api": policy(5)}).start()
    one = Haproxy(box, "lua", weir, replaced=[
        ("http-request lua.weir api txn.weir_key", "http-request set-var(txn.keep) url_param(m)\n"
         "    http-request lua.weir-keep api txn.weir_key 1 txn.keep")]).start()
    statuses = [fetch(one.port, f"/?k=a&m={keep}").status for keep in (3, "60", "4", 3, 2, 2, 0)]
    equal(statuses, [200, 429, 429, 200, 200, 429, 200], "keep 3, 60, 4, 3, 2, 2 and 0 of 5")
    equal(fetch(one.port, "/?k=a&m=x").status, 429, "an invalid keep")
    share = Haproxy(box, "lua", weir, replaced=[
        ("http-request lua.weir api txn.weir_key", "http-request lua.weir-keep api txn.weir_key 1 80%")]).start()
    equal([fetch(share.port, "/?k=b").status for _ in range(2)], [200, 429], "keep 80 % of 5")


def stick_table(box):
    """The configuration with the stick table, which weir replaces."""
    one = Haproxy(box, "stick-table").start()
    passed, denied = wrk(one.url("a"))
    expect(passed <= 101 and denied > 0, f"{passed} passed, {denied} were denied")


BOTH = (denials_have_headers, the_policy_of_the_page, odd_keys_are_other_keys, costs, a_decision_replaces_another,
        one_method, errors_are_a_variable, undecidable_requests_are_denied, exact_under_load,
        two_servers_share_a_limit, killed, stopped, fail_closed, reloads_fail_no_request)
TESTS = [*(one for test in BOTH for one in each_door(test)), variables_of_the_page, lua_delays_requests, lua_password,
         lua_logs_mistakes, lua_environment, lua_keeps_connections, lua_idle_connections_end, lua_late_responses,
         lua_keeps_units, spoe_frames_have_a_limit, stick_table]

if __name__ == "__main__":
    sys.exit(run(TESTS, sys.argv, needs_redis=False))

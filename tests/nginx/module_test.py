#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests which requests the nginx module limits, by which limit, and how often they are charged. Limits
have long periods, so that no answer depends on the time that a test takes.

    module_test.py WEIR MODULE [TEST ...]
"""

import contextlib
import re
import sys
import time

from kit.nginx import Client, Nginx, curl, run
from kit.process import equal, expect, until

# Each admits three requests of a key, one after another.
THREE = ["gcra 1/h burst 3", "token-bucket 3 refill 1/h", "token-bucket 3 refill 1 every 1h",
         "leaky-bucket 1/h capacity 3", "fixed-window 3/52w", "fixed-window 3/year tz Europe/Berlin",
         "fixed-window 3/w from-first", "fixed-window 3/52w count-denied", "sliding-log 3/w",
         "sliding-counter 3/52w", "sliding-slices 3/52w slices 12", "gcra 1/h burst 9 & sliding-log 3/w"]
FILES = ["ok", "a", "b", "c", "d", "part"]


def nginx(box, server, http="", **more):
    """Starts an nginx with the zone z and a few small files. /peek?k=KEY shows what remains of `A`."""
    started = Nginx(box, f"weir_zone z 1m; {http}", server, **more)
    for name in FILES:
        (started.html / name).write_text(f"<{name}>\n")
    return started.start()


def peek(path, limit):
    """A location that shows what remains of a limit in a header, without charging it."""
    return f"location = {path} {{ weir z {limit} cost=0; weir_headers legacy; alias html/ok; }}\n"


def left(server, path):
    return int(server.get(path)["X-RateLimit-Remaining"])


# ---- rates, bursts and delays --------------------------------------------------------------------


def test_burst(box):
    """A key has its burst, and then is denied; another key has its own."""
    n = nginx(box, 'location / { weir z "gcra 1/h burst 3" key=$arg_k; }')
    equal(n.statuses(*["/ok?k=a"] * 5, "/ok?k=b"), [200, 200, 200, 429, 429, 200])
    seconds = int(n.get("/ok?k=a")["Retry-After"])
    expect(3000 < seconds <= 3600, f"Retry-After {seconds}")
    equal(n.get("/ok?k=b")["Retry-After"], None, "an allowed response has no Retry-After")


def test_rate(box):
    """Without a burst, one request passes, and quota comes back with time."""
    n = nginx(box, 'location /a { weir z "gcra 1/h" key=a; } location /b { weir z "gcra 10/s" key=b; }')
    equal(n.statuses("/a", "/a"), [200, 429])
    with n.client() as client:
        until(lambda: client.get("/b").status == 429, "the key is exhausted", every_s=0.0001)
        until(lambda: client.get("/b").status == 200, "quota comes back")


def test_algorithms(box):
    """Every algorithm of the policy language admits what it says."""
    n = nginx(box, "\n".join(f'location /a{i} {{ alias html/ok; weir z "{policy}" key=$arg_k; }}'
                             for i, policy in enumerate(THREE)), http="weir_zone y 1m large=128k;")
    for i, policy in enumerate(THREE):
        for key in "xy":
            equal(n.statuses(*[f"/a{i}?k={key}"] * 5), [200] * 3 + [429] * 2, policy)


def test_queue(box):
    """A leaky queue serves the first request, holds as many as its depth, and denies the others. A
    request that is held keeps no other waiting."""
    n = nginx(box, 'location / { weir z "leaky-queue 1/h depth 2" key=$arg_k; }')
    held = [n.client() for _ in range(2)]
    equal(n.get("/ok?k=a").status, 200)
    for client in held:
        client.send("/ok?k=a")
        until(lambda: len(n.logged(r"delaying request by")) > held.index(client), "the request is held")
    equal(n.statuses("/ok?k=a", "/ok?k=b"), [429, 200])
    expect(not any(client.is_readable(0.01) for client in held), "a held request was served early")
    for client in held:
        client.close()
    equal(n.get("/ok?k=a").status, 429, "clients that leave keep their charge")


def test_queue_order(box):
    """Held requests are served in the order in which they came, not before their time."""
    n = nginx(box, 'location / { weir z "leaky-queue 20/s depth 100" key=a; }',
              http="log_format d '$arg_n $weir_status $weir_delay $status'; access_log access.log d;")
    began = time.monotonic()
    clients = [n.client() for _ in range(8)]
    for i, client in enumerate(clients):
        client.send(f"/ok?n={i}")
        if i:  # the next is sent once this one is in the queue, or was served
            until(lambda: len(n.logged(r"delaying request by")) >= i or client.is_readable(0.001), "it is held")
    equal([client.read().status for client in clients], [200] * 8)
    lines = [line.split() for line in n.accesses(8)]
    equal([int(line[0]) for line in lines], list(range(8)), "order")
    equal(lines[0][1:], ["PASSED", "0.000", "200"])
    delays = [float(line[2]) for line in lines]
    for number, status, delay, _ in lines:
        expect(re.fullmatch(r"\d+\.\d{3}", delay), f"$weir_delay {delay}")
        equal(status, "DELAYED" if float(delay) > 0 else "PASSED", f"request {number}")
    # The eighth is due 350 ms after the first. A timer of nginx may be a few milliseconds early.
    expect(time.monotonic() - began > 0.33, "a request was served early")
    expect(max(delays) <= 0.35, f"delays {delays}")


def test_delay(box):
    """delay=: so many queued requests are not delayed, and the delay of the others is shorter by as much."""
    n = nginx(box, 'location / { weir z "leaky-queue 1/h depth 3" key=$arg_k delay=2; }'
                   'location /b { weir z "leaky-queue 2/s depth 9 & gcra 1/h burst 5" key=$arg_k delay=3; }'
                   'location /c { weir z "leaky-queue 1/h depth 2" key=$arg_k delay=2; }',
              http="log_format d '$weir_status $weir_delay'; access_log access.log d;")
    equal(n.statuses(*["/ok?k=a"] * 3), [200] * 3)
    equal(n.accesses(3), ["PASSED 0.000"] * 3)
    with n.client() as held:
        held.send("/ok?k=a")
        until(lambda: n.logged("delaying request by 3[56]"), "the fourth waits for one hour, not three")
        equal(n.get("/ok?k=a").status, 429)
    equal(n.statuses(*["/c?k=a"] * 4), [200] * 3 + [429], "nothing is held")
    equal(n.statuses(*["/b?k=a"] * 6), [200] * 5 + [429], "with another layer")
    expect(all(float(line.split()[1]) <= 0.5 for line in n.accesses(15)[9:]), "the fifth waits for half a second")


# limit_req, its translation in docs/nginx.md, and of 1, 2, ... simultaneous requests the number that pass, and
# the number that wait.
AS_LIMIT_REQ = [("", "gcra 1/m", 1, 0), ("burst=5 nodelay", "gcra 1/m burst 6", 6, 0),
                ("burst=5", "leaky-queue 1/m depth 5", 1, 5),
                ("burst=20 delay=8", "leaky-queue 1/m depth 20 nodelay 8", 9, 12),
                ("burst=4 delay=4", "leaky-queue 1/m depth 4 nodelay 4", 5, 0)]


def stages(n, path, count):
    """Sends requests to a path, each after the one before it was decided. Returns what became of each: its
    status, or the whole minutes for which it is held."""
    found = []
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(n.client())
            held = len(n.logged("delaying request"))
            client.send(path)
            until(lambda: client.is_readable(0.001) or len(n.logged("delaying request")) > held, "it is decided")
            lines = n.logged("delaying request")
            found.append(client.read().status if len(lines) == held else minutes(lines[-1], path))
    return found


def minutes(line, path):
    """The delay of a log line. limit_req logs how many requests are in the queue and not for how long one waits,
    and its rate=1r/m is 0.96 a minute; so both are rounded."""
    expect(path in line, line)
    if excess := re.search(r"excess: ([0-9.]+)", line):
        undelayed = int(re.search(r"/delay(\d+)", path).group(1))
        return f"{round(float(excess.group(1)) - undelayed)} min"
    return f"{round(float(re.search(r'by ([0-9.]+) s', line).group(1)) / 60)} min"


def test_as_limit_req(box):
    """The same requests to limit_req and to its translation have the same answers, and wait for as long."""
    http, server, paths = "limit_req_status 429;", "", []
    for i, (options, policy, _, _) in enumerate(AS_LIMIT_REQ):
        delay = re.search(r"delay=(\d+)|$", options).group(1) or 0
        paths.append((f"/r{i}/delay{delay}", f"/w{i}/delay{delay}"))
        http += f"limit_req_zone $host zone=r{i}:1m rate=1r/m;\n"
        server += (f"location {paths[i][0]} {{ alias html/ok; limit_req zone=r{i} {options}; }}\n"
                   f'location {paths[i][1]} {{ alias html/ok; weir z "{policy}" key=$host; }}\n')
    n = nginx(box, server, http=http)
    for (limit_req, weir), (options, policy, passed, held) in zip(paths, AS_LIMIT_REQ):
        wanted = [200] * passed + [f"{m + 1} min" for m in range(held)] + [429] * 3
        equal(stages(n, limit_req, len(wanted)), wanted, f"limit_req {options}")
        equal(stages(n, weir, len(wanted)), wanted, policy)


# Uses of one zone of limit_req, and their translations.
ONE_ZONE = [("", "gcra 1/m"), ("burst=1 nodelay", "gcra 1/m burst 2"),
            ("burst=3", "leaky-queue 1/m depth 3"), ("burst=5 delay=4", "leaky-queue 1/m depth 5 nodelay 4")]


def test_one_zone(box):
    """Locations that use one zone of limit_req with different bursts have one count, and so have their
    translations: limits with one name and one rate."""
    http, server = "limit_req_status 429; limit_req_zone $arg_k zone=r:1m rate=1r/m;", ""
    for i, (options, policy) in enumerate(ONE_ZONE):
        server += (f"location /r{i} {{ alias html/ok; limit_req zone=r {options}; }}\n"
                   f'location /w{i} {{ alias html/ok; weir z "{policy}" key=$arg_k name=r; }}\n')
    n = nginx(box, server, http=http)
    # By key, the locations of the requests, and what becomes of these. `held`: the request waits.
    for uses, wanted in [("0011", [200, 429, 200, 429]), ("110", [200, 200, 429]),
                         ("33322103", [200, 200, 200, "held", 429, 429, 429, 200]),
                         ("1233333", [200, "held", 200, 200, 200, "held", 429])]:
        for side in "rw":
            equal([held(n, f"/{side}{use}?k={uses}") for use in uses], wanted, f"/{side}, {uses}")
    n.write(server=server.replace("gcra 1/m burst 2", "gcra 1/m burst 3"))
    n.reload()
    equal(n.statuses(*["/w1?k=0011"] * 2), [200, 429], "the count stays if a smaller burst changes")


def held(n, path):
    """The status of a response, or "held" if the request waits."""
    before = len(n.logged("delaying request"))
    with n.client() as client:
        client.send(path)
        until(lambda: client.is_readable(0.001) or len(n.logged("delaying request")) > before, "it is decided")
        return client.read().status if client.is_readable(0.001) else "held"


def test_dry_run(box):
    """A limit with shadow and one without have one count, if they have one name."""
    n = nginx(box, """
        location /planned { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k name=n shadow; }
        location /now { alias html/ok; weir z "leaky-queue 1/h depth 2 nodelay 2" key=$arg_k name=n; }
    """)
    equal(n.statuses("/planned?k=a", "/planned?k=a", "/planned?k=a", "/now?k=a", "/now?k=a"), [200] * 4 + [429])


def test_queue_and_bucket(box):
    """With a queue and other limits, a request is held if all admit it, and is otherwise denied at once."""
    n = nginx(box, 'location / { weir z "leaky-queue 1/h depth 5" key=$arg_k name=queue;'
                   '             weir z "gcra 1/h burst 2" key=$arg_k name=bucket; }'
              + peek("/queue", '"leaky-queue 1/h depth 5" key=$arg_k name=queue'))
    equal(n.get("/ok?k=a").status, 200)
    with n.client() as client:
        client.send("/ok?k=a")
        until(lambda: n.logged(r'delaying request by .* by "queue"'), "the request is held")
        equal(n.statuses("/ok?k=a", "/ok?k=a"), [429, 429])
        expect(n.logged(r'limiting requests by "bucket"'), "the bucket denies")
        equal(client.is_readable(0.01), False)
    with n.client() as client:  # a cost of 0 is delayed, too
        client.send("/queue?k=a", method="HEAD")
        equal(client.is_readable(0.01), False)


# ---- several limits ------------------------------------------------------------------------------


def test_all_or_none(box):
    """Several limits of a location are charged together, or none of them is."""
    a, b = '"gcra 1/h burst 5" key=$arg_a name=a', '"fixed-window 2/52w" key=$arg_b name=b'
    c = '"sliding-log 9/w" key=$arg_a name=c'
    n = nginx(box, f"location / {{ weir z {a}; weir z {b}; weir z {c}; }}"
              + peek("/left_a", a) + peek("/left_b", b) + peek("/left_c", c))
    equal(n.statuses(*["/ok?a=x&b=y"] * 6), [200] * 2 + [429] * 4)
    equal([left(n, path) for path in ("/left_a?a=x", "/left_b?b=y", "/left_c?a=x")], [3, 0, 7])
    equal(n.statuses(*["/ok?a=x&b=z"] * 2), [200] * 2)
    equal(n.statuses(*["/ok?a=x&b=w"] * 2), [200, 429], "now a denies")
    equal([left(n, path) for path in ("/left_a?a=x", "/left_b?b=w", "/left_c?a=x")], [0, 1, 4])


def test_zones(box):
    """Limits in two zones are charged together, or none is. A key has its own state in each zone."""
    a, b = '"gcra 1/h burst 5" key=$arg_a', '"gcra 1/h burst 2" key=$arg_b'
    n = nginx(box, f"location / {{ weir z {a}; weir y {b}; }} location /b {{ weir y {a}; }}"
              + peek("/left_a", a) + peek("/left_b", b).replace("weir z", "weir y"),
              http="weir_zone y 1m;")
    equal(n.statuses(*["/ok?a=x&b=y"] * 4), [200, 200, 429, 429])
    equal([left(n, "/left_a?a=x"), left(n, "/left_b?b=y")], [3, 0])
    equal(n.statuses(*["/b?a=x"] * 6), [200] * 5 + [429], "the other zone")


def test_sixteen_limits(box):
    """A location has up to 16 limits. Each of them can deny."""
    limits = [f'weir z "gcra 1/h burst {i + 2}" key=$arg_k{i} name=n{i};' for i in range(16)]
    n = nginx(box, f"location / {{ {' '.join(limits)} }}",
              http="log_format p '$weir_policy $status'; access_log access.log p;")
    with n.client() as client:
        for i in range(16):
            found = []
            while not found or found[-1] == 200:
                # Only limit i gets the same key in each request.
                keys = [f"k{j}={i}.0" if j == i else f"k{j}={i}.{1 + len(found)}" for j in range(16)]
                found.append(client.get("/ok?" + "&".join(keys)).status)
            equal(found, [200] * (i + 2) + [429], f"limit {i}")
    lines = n.accesses(sum(range(3, 19)))
    denied = [line.split()[0] for line in lines if line.endswith("429")]
    equal(denied, [f"n{i}" for i in range(16)])


def test_same_key_twice(box):
    """Two limits with the same states are charged twice."""
    limit = '"gcra 1/h burst 5" key=$arg_k name=n'
    n = nginx(box, f"location / {{ weir z {limit}; weir z {limit} cost=2; }}" + peek("/left", limit))
    equal(n.statuses(*["/ok?k=a"] * 2), [200, 429])
    equal(left(n, "/left?k=a"), 2)


def test_shadow(box):
    """A shadow limit denies nothing, and is charged alone."""
    a, s = '"gcra 1/h burst 2" key=$arg_k name=a', '"gcra 1/h burst 3" key=$arg_k name=s'
    n = nginx(box, f"location / {{ weir z {a}; weir z {s} shadow; }} location /b {{ weir z {s} shadow; }}"
              + peek("/left_a", a) + peek("/left_s", s),
              http="log_format s '$weir_status'; access_log access.log s;")
    equal(n.statuses(*["/b?k=x"] * 5), [200] * 5)
    equal(n.accesses(5), ["PASSED"] * 3 + ["REJECTED_SHADOW"] * 2)
    equal([left(n, "/left_a?k=x"), left(n, "/left_s?k=x")], [2, 0])
    equal(n.statuses(*["/ok?k=x"] * 3), [200, 200, 429])
    equal([left(n, "/left_a?k=x"), left(n, "/left_s?k=x")], [0, 0])
    equal(n.statuses(*["/ok?k=y"] * 4), [200, 200, 429, 429])
    equal(left(n, "/left_s?k=y"), 0, "a shadow limit is charged when another denies")
    expect(n.logged(r'\[error\].* limiting requests by "s", retry after \d+\.\d{3} s, zone "z" \(shadow\)'),
           "the log says shadow")


def test_shadow_queue(box):
    """A shadow queue holds nothing."""
    n = nginx(box, 'location / { weir z "leaky-queue 1/h depth 1" key=$arg_k shadow; }',
              http="log_format s '$weir_status'; access_log access.log s;")
    equal(n.statuses(*["/ok?k=x"] * 3), [200] * 3)
    equal(n.accesses(3), ["PASSED", "DELAYED_SHADOW", "REJECTED_SHADOW"])
    expect(n.logged(r'\[warn\].* delaying request by \d+\.\d{3} s, by "[^"]*", zone "z" \(shadow\)'),
           "one level below")


# ---- which limits a location has -----------------------------------------------------------------


def test_inheritance(box):
    """A level inherits limits only if it has none of its own."""
    n = nginx(box, """
        location /a { }
        location /b { weir z "gcra 1/h burst 2" key=b; location /b/in { alias html/ok; } }
        location /c { weir off; location /c/in { alias html/ok; weir z "gcra 1/h burst 1" key=in; } }
        location /d { weir off; }
    """, http='weir z "gcra 1/h burst 3" key=all;')
    equal(n.statuses(*["/b"] * 3), [200, 200, 429], "own limits replace those of http")
    equal(n.statuses("/b/in"), [429], "a nested location inherits those of its parent")
    equal(n.statuses(*["/d"] * 9), [200] * 9, "off")
    equal(n.statuses(*["/c/in"] * 2), [200, 429], "limits below off")
    equal(n.statuses(*["/a"] * 4, "/ok"), [200] * 3 + [429] * 2, "http, which the server inherits")


def test_server_level(box):
    """Limits of a server replace those of http; another server has those of http."""
    n = Nginx(box, 'weir_zone z 1m; weir z "gcra 1/h burst 1" key=all;'
                   "server { listen unix:%s; }", 'weir z "gcra 1/h burst 2" key=mine;')
    n.http %= n.directory / "other"
    (n.html / "ok").write_text("ok\n")
    n.start()
    equal(n.statuses(*["/ok"] * 3), [200, 200, 429])
    other = ["--unix-socket", n.directory / "other", "-o", "/dev/null", "-w", "%{http_code}", "http://a.test/ok"]
    equal([curl(*other) for _ in range(2)], ["200", "429"])


def test_names(box):
    """The same limit in several locations is one limit: the same name and rate, or the same text of its
    key and the same policy."""
    n = nginx(box, """
        location /a1 { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k; }
        location /a2 { alias html/ok; weir z "gcra  1/60m  burst 02" key=$arg_k; }
        location /b { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k$arg_none; }
        location /c1 { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k name=c; }
        location /c2 { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_other name=c; }
        location /d { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k name=d; }
        location /e { alias html/ok; weir z "gcra 1/h burst 3" key=$arg_k name=c; }
        location /f { alias html/ok; weir z "gcra 2/h burst 3" key=$arg_k name=c; }
        location /g { alias html/ok; weir z "gcra 1/h burst 3" key=$arg_k; }
    """)
    equal(n.statuses("/a1?k=x", "/a2?k=x", "/a1?k=x", "/a2?k=x"), [200, 200, 429, 429], "canonical text")
    equal(n.statuses(*["/b?k=x"] * 3), [200, 200, 429], "another text of the key")
    equal(n.statuses("/c1?k=x", "/c2?other=x", "/c1?k=x", "/c2?other=x"), [200, 200, 429, 429], "name")
    equal(n.statuses(*["/d?k=x"] * 3), [200, 200, 429], "another name")
    equal(n.statuses(*["/e?k=x"] * 2), [200, 429], "the same name and rate")
    equal(n.statuses(*["/f?k=x"] * 4), [200, 200, 200, 429], "another rate")
    equal(n.statuses(*["/g?k=x"] * 4), [200, 200, 200, 429], "another burst without a name")


# ---- a request is decided once -------------------------------------------------------------------

LIMIT = '"gcra 1/h burst 9" key=a name=n'
DENY = 'weir z "gcra 1/h" key=deny name=deny;'  # admits one request


def test_internal_redirects(box):
    """An internal redirect does not charge a request again."""
    n = nginx(box, f"""
        location /files {{ weir z {LIMIT}; alias html/; index none ok; }}
        location /try {{ weir z {LIMIT}; try_files /none /none2 /part; }}
        location /named {{ weir z {LIMIT}; try_files /none @named; }}
        location @named {{ weir z {LIMIT}; {DENY} try_files /ok =404; }}
        location /missing {{ weir z {LIMIT}; error_page 404 /b; }}
        location = /b {{ weir z {LIMIT}; {DENY} }}
        location = /part {{ {DENY} }}
        location /old {{ weir z {LIMIT} cost=100; rewrite ^ /a last; }}
        location = /a {{ weir z {LIMIT}; }}
        location /loop {{ weir z {LIMIT}; error_page 404 = /loop2; }}
        location /loop2 {{ weir z {LIMIT}; try_files /none @named; }}
    """ + peek("/left", LIMIT))
    count = 9
    for path, status in [("/files/", 200), ("/try", 200), ("/named", 200), ("/missing", 404), ("/old", 200),
                         ("/loop", 200)]:
        equal(n.get(path).status, status, path)
        count -= 1
        equal(left(n, "/left"), count, path)
    equal(n.statuses("/b", "/part"), [200, 429], "until now the other limit was not asked")


def test_subrequests(box):
    """A subrequest is not limited: SSI, auth_request and mirror."""
    n = nginx(box, f"""
        location /ssi {{ weir z {LIMIT}; ssi on; ssi_types *; alias html/ssi; }}
        location = /part {{ weir z {LIMIT}; {DENY} }}
        location /auth {{ weir z {LIMIT}; auth_request /check; alias html/ok; }}
        location = /check {{ {DENY} alias html/ok; }}
        location /mirrored {{ weir z {LIMIT}; mirror /copy; alias html/ok; }}
        location = /copy {{ internal; {DENY} proxy_pass http://unix:{box.path}/nginx1/up; }}
    """ + peek("/left", LIMIT), http=f"""
        log_format u "$uri"; server {{ listen unix:{box.path}/nginx1/up; access_log access.log u;
        location / {{ return 204; }} }}""")
    (n.html / "ssi").write_text('<!--#include virtual="/part" -->' * 3)
    for i, path in enumerate(["/ssi", "/auth", "/mirrored", "/ssi", "/auth", "/mirrored"]):
        found = n.get(path)
        equal(found.status, 200, path)
        if path == "/ssi":
            equal(found.body, b"<part>\n" * 3)
        equal(left(n, "/left"), 8 - i, path)
    until(lambda: n.access_log.read_text().count("/copy\n") == 2, "both copies are sent")
    equal(n.statuses("/part", "/part"), [200, 429], "as requests of their own they are limited")


def test_subrequests_of_unlimited_requests(box):
    """If a request has no limits, those of its first subrequest decide. A held one wakes up."""
    n = nginx(box, """
        location /auth { auth_request /check; alias html/ok; }
        location = /check { weir z "gcra 1/h burst 3" key=all status=403; alias html/ok; }
        location /ssi { ssi on; ssi_types *; alias html/ssi; }
        location = /part { weir z "leaky-queue 50/s depth 9" key=ssi; alias html/ok; }
        location /mirrored { mirror /copy; alias html/ok; }
        location = /copy { internal; weir z "leaky-queue 50/s depth 9" key=mirror; alias html/ok; }
    """)
    (n.html / "ssi").write_text('<!--#include virtual="/part" -->' * 3)
    equal(n.statuses(*["/auth"] * 5), [200] * 3 + [403] * 2)
    with n.client() as client:
        for path in ["/ssi", "/mirrored"] * 3:
            client.send(path, path)
            equal([client.read().status for _ in range(2)], [200, 200], path)
    expect(n.logged("delaying"), "some were held")


def test_queue_with_body(box):
    """A request with a body is held, and its body is then passed on. It may arrive meanwhile."""
    up = f"unix:{box.path}/nginx1/up"
    n = nginx(box, f'location /a {{ weir z "leaky-queue 20/s depth 9" key=a; proxy_pass http://{up}; }}',
              http=f"client_max_body_size 1m; server {{ listen {up}; location / {{ proxy_pass http://{up}2; }} }}"
                   f"server {{ listen {up}2; location / {{ return 200 $content_length; }} }}")
    clients = [n.client() for _ in range(4)]
    for client in clients:
        client.send("/a", method="POST", body=b"x" * 500_000)
    equal([client.read().body for client in clients], [b"500000"] * 4)
    request = Client.request("/a", "POST", body=b"x" * 1000)
    with n.client() as client:
        for _ in range(5):  # the first may pass at once
            client.methods.append("POST")
            client.socket.sendall(request[:-500])
            client.socket.sendall(request[-500:])
            equal(client.read().body, b"1000")


def test_return_is_not_limited(box):
    """`return` runs before limits. A request that is refused later is charged."""
    n = nginx(box, f"""
        location /ret {{ weir z {LIMIT}; return 204; }}
        location /denied {{ weir z {LIMIT}; deny all; }}
    """ + peek("/left", LIMIT))
    equal(n.statuses(*["/ret"] * 20), [204] * 20)
    equal(left(n, "/left"), 9)
    equal(n.get("/denied").status, 403)
    equal(left(n, "/left"), 8)


def test_error_page(box):
    """error_page 429 can replace the body, and its headers remain, once."""
    n = nginx(box, """
        weir_headers both;
        error_page 418 /busy;
        location = /busy { internal; weir z "gcra 1/h" key=busy; alias html/part; }
        location /a { weir z "gcra 1/h" key=a; error_page 429 /busy; }
        location /b { weir z "gcra 1/h" key=b; error_page 429 = @json; }
        location @json { default_type application/json; return 429 '{"error":"slow down"}'; }
        location /c { weir z "gcra 1/h" key=c; error_page 429 =503 /busy; }
        location /d { weir z "gcra 1/h" key=d status=418; }
    """)
    for path, status, body in [("/a", 429, b"<part>\n"), ("/b", 429, b'{"error":"slow down"}'),
                               ("/c", 503, b"<part>\n"), ("/d", 418, b"<part>\n")]:
        equal(n.get(path).status, 200, path)
        for _ in range(2):
            found = n.get(path)
            equal((found.status, found.body), (status, body), path)
            expect(0 < int(found["Retry-After"]) <= 3600, "Retry-After")
            equal((found["X-RateLimit-Limit"], found["X-RateLimit-Remaining"]), ("1", "0"), path)
            expect(found["RateLimit"].startswith('"limit";r=0;t='), found["RateLimit"])


# ---- connections ---------------------------------------------------------------------------------


def test_connections(box):
    """A connection is kept after a denial, with a body too, and in a pipeline."""
    n = nginx(box, 'location / { weir z "gcra 1/h burst 3" key=$arg_k; }')
    with n.client() as client:
        client.send(*["/ok?k=a"] * 6)
        equal([client.read().status for _ in range(6)], [200] * 3 + [429] * 3)
        found = client.get("/ok?k=a", method="POST", body=b"x" * 100_000)
        equal(found.status, 429)
        equal(found["Connection"], "keep-alive")
        equal(client.get("/ok?k=b").status, 200)
        equal(client.get("/ok?k=b", method="HEAD").status, 200)
        equal(client.get("/ok?k=b", headers={"Expect": "100-continue"}).status, 200)
        equal(client.get("/ok?k=b", method="HEAD").status, 429)
        client.send("/ok?k=a", "/ok?k=c")
        equal([client.read().status for _ in range(2)], [429, 200])


def test_http2(box):
    """HTTP/2: the streams of a connection are limited one by one."""
    tls = box.tls()
    n = nginx(box, f"""
        ssl_certificate {tls.cert}; ssl_certificate_key {tls.key}; weir_headers both;
        location / {{ weir z "gcra 1/h burst 3" key=$arg_k; }}
        location /q {{ alias html/ok; weir z "leaky-queue 100/s depth 20" key=$arg_k; }}
    """, listen="ssl http2")
    secure = n.url().replace("http:", "https:").rstrip("/")
    curl2 = ["--http2", "--cacert", tls.ca]

    def streams(path, count, *more):
        """Sends requests in one connection."""
        words = [word for _ in range(count) for word in ("-o", "/dev/null", secure + path)]
        found = curl(*curl2, *more, *words, "-w", "%{http_version} %{http_code} %{num_connects};").split(";")
        expect(all(line.startswith("2 ") for line in found[:-1]), f"expected HTTP/2, found {found}")
        equal(sum(int(line.split()[2]) for line in found[:-1]), 1, "connections")
        return [int(line.split()[1]) for line in found[:-1]]

    equal(streams("/ok?k=a", 5), [200] * 3 + [429] * 2)
    equal(sorted(streams("/ok?k=b", 5, "-Z")), [200] * 3 + [429] * 2)
    equal(streams("/q?k=a", 10, "-Z"), [200] * 10, "held streams")
    found = curl(*curl2, "-i", f"{secure}/ok?k=c").lower()
    expect('ratelimit-policy: "limit";q=3;w=10800' in found and "x-ratelimit-remaining: 2" in found, found)
    expect("\nretry-after: 3" in curl(*curl2, "-i", f"{secure}/ok?k=a").lower(), "Retry-After")


def test_real_ip(box):
    """The key is the address that realip finds."""
    n = nginx(box, 'set_real_ip_from 127.0.0.1; location / { weir z "gcra 1/h" key=$binary_remote_addr; }')
    for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
        equal([n.get("/ok", headers={"X-Real-IP": address}).status for _ in range(2)], [200, 429], address)


# ---- costs and keys ------------------------------------------------------------------------------


def test_cost(box):
    """A request costs 1, or what cost= says. A bad number counts as 1 and is logged."""
    limit = '"gcra 1/h burst 10" key=$arg_k name=n'
    n = nginx(box, f"location / {{ weir z {limit} cost=$arg_c; }} location /b {{ weir z {limit} cost=3; }}"
              + peek("/left", limit))
    equal(n.statuses("/ok?k=a&c=4", "/ok?k=a&c=7", "/ok?k=a&c=6", "/ok?k=a&c=0", "/ok?k=a"),
          [200, 429, 200, 200, 429])
    for i, (text, cost) in enumerate([("", 1), ("0", 0), ("1", 1), ("10", 10), ("007", 7)]):
        equal((n.get(f"/ok?k=b{i}&c={text}").status, left(n, f"/left?k=b{i}")), (200, 10 - cost), text)
    equal(n.logged("bad cost"), [], "good costs are not logged")
    bad = ["-1", "+1", "1.5", "abc", "1x", "0x1", "%201"]
    for i, text in enumerate(bad):
        equal((n.get(f"/ok?k=c{i}&c={text}").status, left(n, f"/left?k=c{i}")), (200, 9), text)
    equal(len(n.logged("bad cost")), len(bad), "bad costs are logged")
    for text in ("11", "2147483647"):
        found = n.get(f"/ok?k=d&c={text}")
        equal((found.status, found["Retry-After"]), (429, None), "no wait helps")
    equal(n.statuses(*["/b?k=e"] * 4), [200] * 3 + [429])


def test_empty_key(box):
    """A limit with an empty key is left out; the others of the location still count."""
    n = nginx(box, 'location / { weir z "gcra 1/h burst 2" key=$arg_a; weir z "gcra 1/h burst 3" key=$arg_b; }',
              http="log_format s '$weir_status $weir_policy'; access_log access.log s;")
    equal(n.statuses(*["/ok"] * 9), [200] * 9)
    equal(n.accesses(9), ["- -"] * 9)
    equal(n.statuses(*["/ok?b=x"] * 4), [200] * 3 + [429])
    equal(n.statuses(*["/ok?a=x"] * 3), [200] * 2 + [429])


def test_undecided_request(box):
    """A request whose keys were all empty is still undecided after an internal redirect."""
    n = nginx(box, """
        location /try { weir z "gcra 1/h" key=$arg_none; try_files /none @next; }
        location /off { weir off; try_files /none @next; }
        location @next { weir z "gcra 1/h burst 2" key=a; try_files /ok =404; }
    """)
    equal(n.statuses("/try", "/off", "/try", "/off"), [200, 200, 429, 429])


def test_long_key(box):
    """A key of 65536 bytes is limited. A longer one is not, and is logged."""
    n = nginx(box, f"""
        set $long {'$arg_k' * 16};
        location / {{ weir z "gcra 1/h" key=$long$arg_x; weir z "gcra 1/h burst 3" key=$arg_y; }}
    """)
    one, other = "k=" + "a" * 4096, "k=" + "b" * 4096
    equal(n.statuses(*[f"/ok?{one}"] * 2, f"/ok?{other}"), [200, 429, 200])
    equal(n.logged("65537"), [])
    equal(n.statuses(*[f"/ok?{one}&x=c&y=d"] * 4), [200] * 3 + [429], "the other limit counts")
    expect(n.logged("65537"), "the log has the length")


def test_keys_are_bytes(box):
    """Every byte of a key counts, such as those of $binary_remote_addr."""
    n = nginx(box, 'location / { weir z "gcra 1/h" key=$arg_k; } '
                   'location /b { weir z "gcra 1/h" key=$binary_remote_addr; }'
                   'location /c { weir z "gcra 1/h" key=$remote_addr; } ')
    equal(n.statuses("/ok?k=a", "/ok?k=A", "/ok?k=a%00", "/ok?k=%61"), [200] * 4, "arguments are not decoded")
    equal(n.statuses("/b", "/b", "/c", "/c"), [200, 429, 200, 429])


def test_statuses(box):
    """status= of the limit that denies; the longest wait chooses it."""
    n = nginx(box, """
        location / { weir z "gcra 1/h" key=$arg_a status=503; weir z "gcra 1/d" key=$arg_b status=599;
                     weir z "gcra 1/m" key=$arg_c status=400; }
    """)
    for key, status in (("a", 503), ("b", 599), ("c", 400)):
        equal(n.statuses(*[f"/ok?{key}=x"] * 2), [200, status])
    equal(n.get("/ok?a=x&b=x&c=x").status, 599)
    equal(n.get("/ok?a=x&c=x").status, 503)
    equal(n.get("/ok?c=x&a=x&b=fresh").status, 503)


def test_lines_are_summed(box):
    """Clients do not fill the error log: of each kind, a worker logs 20 lines for a limit in ten seconds, and the sum
    of the others, at the end of these or of the worker."""
    n = nginx(box, """
        location / { weir z "gcra 1/h" key=$arg_k name=api cost=$arg_c; }
        location /b { weir z "gcra 1/h" key=$arg_k name=b; }
        location /quiet { error_log error.log crit; weir z "gcra 1/h" key=q name=quiet; }
        location /long { weir z "gcra 1/h" key=$http_k$http_k$http_k name=long; }
    """, http="large_client_header_buffers 4 32k;")
    equal(n.statuses(*["/ok?k=a"] * 501), [200] + [429] * 500)
    equal(len(n.logged('limiting requests by "api"')), 20, "denials")
    n.statuses(*["/b?k=a"] * 3)
    equal(len(n.logged('limiting requests by "b"')), 2, "denials by another limit")
    n.statuses(*[f"/ok?k=c{i}&c=x" for i in range(100)])
    equal(len(n.logged('bad cost "x" of "api"')), 20, "bad costs")
    n.statuses(*["/quiet"] * 100)
    for _ in range(30):
        n.get("/long", headers={"K": "x" * 22000})
    equal(len(n.logged('the key of "long"')), 20, "long keys")
    equal(n.logged(" more "), [], "sums before their time")
    n.stop()
    for level, count, what in (("error", 480, 'requests were limited by "api"'), ("error", 10, 'long keys were not limited by "long"'),
                               ("warn", 80, 'bad costs were counted as 1 by "api"')):
        equal(len(n.logged(rf'\[{level}\] .* {count} more {what} within 10 s')), 1, what)
    equal(len(n.logged(" more ")), 3, "sums")
    equal(n.logged('"quiet"'), [], "lines of a level that is not logged")


def test_two_workers(box):
    """Workers share the states, and those of all zones."""
    n = nginx(box, 'location / { weir z "gcra 1/h burst 100" key=$arg_k; weir y "sliding-log 150/w" key=all; }',
              http="weir_zone y 1m;", workers=2)
    found = []
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(n.client()) for _ in range(16)]
        for key in "ab":
            for _ in range(10):
                for client in clients:
                    client.send(f"/ok?k={key}")
                found += [client.read().status for client in clients]
    equal((found.count(200), found[:160].count(200)), (150, 100))


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]

if __name__ == "__main__":
    sys.exit(run(TESTS))

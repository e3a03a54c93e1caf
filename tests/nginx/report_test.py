#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests what the nginx module reports: headers, variables, log lines, weir_status and weir_reset.

    report_test.py WEIR MODULE [TEST ...]
"""

import re
import sys
import time

from kit.nginx import Nginx, run
from kit.process import equal, expect, until

LEGACY = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
IETF = ["ratelimit-policy", "ratelimit"]
DRAFT_03 = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]
GITHUB = [*LEGACY, "x-ratelimit-used", "x-ratelimit-resource"]
OPENAI = ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"]
MODES = {"off": [], "none": [], "legacy": LEGACY, "x-ratelimit": LEGACY, "ietf": IETF, "on": LEGACY + IETF,
         "both": LEGACY + IETF, "ietf-07": IETF, "ietf-03": DRAFT_03, "github": GITHUB, "openai": OPENAI,
         "ietf github openai": IETF + GITHUB + OPENAI}


def nginx(box, server, http="", **more):
    started = Nginx(box, f"weir_zone z 1m; {http}", server, **more)
    (started.html / "ok").write_text("ok\n")
    return started.start()


def ours(response):
    """The names of the headers that the module has added."""
    return sorted(name for name, _ in response.headers if "ratelimit" in name or name == "retry-after")


def seconds(text, most, name):
    """Checks a whole number of seconds that was `most` at the beginning of the test."""
    expect(re.fullmatch(r"\d+", text) and most - 600 < int(text) <= most, f"{name}: {text}, at most {most}")


# ---- headers -------------------------------------------------------------------------------------


def test_headers(box):
    """Each mode of weir_headers, on allowed and denied responses."""
    n = nginx(box, "".join(f"""
        location = /{mode.replace(" ", "-")} {{ alias html/ok; weir_headers {mode};
                            weir z "gcra 1/h burst 2" key=$arg_k name=api; }}""" for mode in MODES))
    for mode, names in MODES.items():
        path = f"/{mode}?k={mode}".replace(" ", "-")
        allowed, _, denied = [n.get(path) for _ in range(3)]
        equal((allowed.status, denied.status), (200, 429), mode)
        equal(ours(allowed), sorted(names), mode)
        equal(ours(denied), sorted([*names, "retry-after"]), mode)
        seconds(denied["Retry-After"], 3600, "Retry-After")
        for found, remaining, reset in ((allowed, 1, 3600), (denied, 0, 7200)):
            if LEGACY[0] in names:
                equal((found["X-RateLimit-Limit"], found["X-RateLimit-Remaining"]), ("2", str(remaining)), mode)
                since = int(time.time()) if "github" in mode else 0
                seconds(str(int(found["X-RateLimit-Reset"]) - since), reset + (since > 0), "X-RateLimit-Reset")
            if DRAFT_03[0] in names:
                equal((found["RateLimit-Limit"], found["RateLimit-Remaining"]), ("2, 2;w=7200", str(remaining)), mode)
                seconds(found["RateLimit-Reset"], 3600, "RateLimit-Reset")
            if GITHUB[-1] in names:
                equal((found["X-RateLimit-Used"], found["X-RateLimit-Resource"]), (str(2 - remaining), "api"), mode)
            if OPENAI[0] in names:
                equal([found[name] for name in OPENAI[:2]], ["2", str(remaining)], mode)
                expect(re.fullmatch(r"[012]h\d+m[0-9.]+s", found[OPENAI[2]]), found[OPENAI[2]])
            if mode == "ietf-07":
                equal(found["RateLimit-Policy"], "2;w=7200")
                parts = re.fullmatch(r"limit=2, remaining=(\d+), reset=(\d+)", found["RateLimit"])
                expect(parts and int(parts[1]) == remaining, f"RateLimit: {found['RateLimit']}")
                seconds(parts[2], 3600, "reset")
            elif IETF[0] in names:
                equal(found["RateLimit-Policy"], '"api";q=2;w=7200')
                parts = re.fullmatch(r'"api";r=(\d+);t=(\d+)', found["RateLimit"])
                expect(parts and int(parts[1]) == remaining, f"RateLimit: {found['RateLimit']}")
                seconds(parts[2], 3600, "t")


def test_headers_of_layers(box):
    """A policy with several layers has an item for each; without a name it is called limit."""
    n = nginx(box, 'weir_headers both; location / { weir z "gcra 1/h burst 9 & fixed-window 3/52w" key=$arg_k; }'
                   'location /month { alias html/ok; weir z "fixed-window 3/month" key=$arg_k; }')
    found = n.get("/ok?k=a")
    equal(found["RateLimit-Policy"], '"limit-1";q=9;w=32400, "limit-2";q=3;w=31449600')
    expect(found["RateLimit"].startswith('"limit-2";r=2;t='), found["RateLimit"])
    equal((found["X-RateLimit-Limit"], found["X-RateLimit-Remaining"]), ("3", "2"))
    equal(n.get("/month?k=a")["RateLimit-Policy"], '"limit";q=3')


def test_headers_of_several_limits(box):
    """Headers and variables describe the limit with the least remaining or, on a denial, that with the
    longest wait. A shadow limit is in the variables if it would deny, and never in headers."""
    n = nginx(box, """
        weir_headers legacy;
        location / { weir z "gcra 1/h burst 9" key=$arg_a name=a; weir z "gcra 1/d burst 5" key=$arg_b name=b;
                     weir z "gcra 1/w burst 1" key=$arg_c name=c shadow; }
    """, http="log_format p '$weir_policy $weir_remaining'; access_log access.log p;")
    for i in range(5):
        found = n.get("/ok?a=x&b=y" + "&c=z" * (i > 2))
        equal((found["X-RateLimit-Limit"], found["X-RateLimit-Remaining"]), ("5", str(4 - i)))
    for _ in range(4):
        n.get("/ok?a=x")
    found = n.get("/ok?a=x&b=y")
    equal(found.status, 429)
    seconds(found["Retry-After"], 86400, "the longest wait")
    equal((found["X-RateLimit-Limit"], found["X-RateLimit-Remaining"]), ("5", "0"))
    equal(n.accesses(10),
          ["b 4", "b 3", "b 2", "c 0", "c 0", "a 3", "a 2", "a 1", "a 0", "b 0"])


def test_headers_of_all_limits(box):
    """RateLimit-Policy and RateLimit have items of every enforced limit; the other fields are those of one."""
    n = nginx(box, """
        weir_headers ietf github;
        location / { weir z "gcra 1/h burst 9" key=$arg_a name=a;
                     weir z "gcra 1/d burst 5 & fixed-window 30/month" key=$arg_b name=b;
                     weir z "gcra 1/w burst 4" key=a name=c shadow; }
    """)
    found = n.get("/ok?a=x&b=y")
    equal(found["RateLimit-Policy"], '"b-1";q=5;w=432000, "b-2";q=30, "a";q=9;w=32400')
    equal(re.sub(r"t=\d+", "t=T", found["RateLimit"]), '"b-1";r=4;t=T, "a";r=8;t=T')
    equal((found["X-RateLimit-Resource"], found["X-RateLimit-Used"]), ("b", "1"))
    for _ in range(8):
        n.get("/ok?a=x")
    found = n.get("/ok?a=x&b=y")
    equal((found.status, found["X-RateLimit-Resource"]), (429, "a"))
    equal(re.sub(r"t=\d+", "t=T", found["RateLimit"]), '"a";r=0;t=T, "b-1";r=4;t=T')


def test_units(box):
    n = nginx(box, """
        weir_headers ietf openai;
        location / { weir z "gcra 1/h burst 9" key=$arg_k name=calls; weir z "gcra 1/h burst 900" key=$arg_k
                     cost=100 name=tokens unit=tokens; weir z "gcra 1/h burst 99" key=a name=size unit=bytes; }
    """)
    found = n.get("/ok?k=a")
    equal([found[f"X-RateLimit-Remaining-{unit}"] for unit in ("Requests", "Tokens", "Bytes")], ["8", "800", None])
    equal(found["RateLimit-Policy"],
          '"calls";q=9;w=32400, "tokens";q=900;w=3240000, "size";q=99;w=356400;qu="content-bytes"')


# ---- bodies of denials ---------------------------------------------------------------------------


def test_denied_body(box):
    """A template, in place of nginx's page; placeholders are replaced, and nothing else."""
    n = nginx(box, """
        weir_denied_body "{policy} {limit} {remaining} {cost} {retry_after} $arg_k {x: {}}";
        location / { weir z "gcra 1/h burst 2" key=$arg_k cost=2 name=api; }
        location /json { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k name=b status=403;
                         weir_denied_body '{"error":"{policy}","after":{retry_after}}' type=application/json; }
        location /off { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k name=c; weir_denied_body off; }
        location /never { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k cost=3;
                          weir_denied_body "{policy} {retry_after}"; }
        location /page { alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k name=d; error_page 429 /ok; }
    """)
    equal(n.get("/ok?k=a").body, b"ok\n")
    denied = n.get("/ok?k=a")
    equal((denied.status, denied["Content-Type"]), (429, "text/plain; charset=utf-8"))
    words = denied.body.decode().split(" ", 5)
    equal(words[:4] + words[5:], ["api", "2", "0", "2", "$arg_k {x: {}}"])
    seconds(words[4], 7200, "{retry_after}")
    equal((words[4], str(len(denied.body))), (denied["Retry-After"], denied["Content-Length"]))
    head = n.get("/ok?k=a", method="HEAD")
    equal((head.status, head.body, int(head["Content-Length"])), (429, b"", len(denied.body)))
    equal(n.statuses(*["/json?k=a"] * 3), [200, 200, 403])
    denied = n.get("/json?k=a")
    equal((denied["Content-Type"], denied.json()),
          ("application/json", {"error": "b", "after": int(denied["Retry-After"])}))
    equal(n.statuses(*["/off?k=a"] * 3), [200, 200, 429])
    expect(b"429 Too Many" in n.get("/off?k=a").body, "nginx's own page")
    found = n.get("/never?k=a")
    equal((found.status, found.body, found["Retry-After"]), (429, b"limit 0", None))
    equal(n.statuses(*["/page?k=a"] * 3), [200, 200, 429])
    expect(n.get("/page?k=a").body.startswith(b"d 2 0 1 "), "error_page does not apply")


def test_denied_body_of_requests_with_a_body(box):
    """The connection is kept alive: the body of the request is read and dropped."""
    n = nginx(box, 'weir z "gcra 1/h" key=a; weir_denied_body "{policy}";'
                   "location / { proxy_pass http://127.0.0.1:1; }")
    with n.client() as client:
        equal(client.get("/", method="POST", body=b"x" * 3000).status, 502)
        for size in (10, 300_000, 1):
            denied = client.get("/", method="POST", body=b"x" * size)
            equal((denied.status, denied.body), (429, b"limit"), size)


def test_denied_body_of_a_file(box):
    """A path is relative to the configuration's directory. A reload reads the file again."""
    n = Nginx(box, "weir_zone z 1m;", """
        location / { weir z "gcra 1/h" key=a name=f; weir_denied_body file=denied.html type=text/html; }
    """)
    page = n.directory / "denied.html"
    page.write_text("<p>{policy} é")
    n.start()
    n.get()
    denied = n.get()
    equal((denied.status, denied.body.decode(), denied["Content-Type"]), (429, "<p>f é", "text/html"))
    page.write_text("<b>{policy}")
    n.reload()
    equal(n.get().body, b"<b>f")


def test_denied_body_of_subrequests(box):
    """A denial of a subrequest of auth_request denies the request itself."""
    n = nginx(box, """
        weir_denied_body "{policy}";
        location / { auth_request /auth; }
        location = /auth { weir z "gcra 1/h" key=a name=sub status=403; proxy_pass http://127.0.0.1:1; }
    """)
    equal([n.get("/ok").status, n.get("/ok").status], [500, 403])


def test_headers_of_other_responses(box):
    """304, 204, 206, HEAD, errors and responses of an upstream have the headers, each once."""
    n = nginx(box, f"""
        weir_headers both;
        location / {{ weir z "gcra 1/h burst 100" key=a; }}
        location /up {{ weir z "gcra 1/h burst 100" key=b; proxy_pass http://unix:{box.path}/nginx1/up; }}
        location /queue {{ weir z "leaky-queue 100/s depth 50" key=q; alias html/ok; }}
    """, http=f"server {{ listen unix:{box.path}/nginx1/up; location / {{ return 204; }} }}")
    etag = n.get("/ok")["ETag"]
    found = {
        304: n.get("/ok", headers={"If-None-Match": etag}),
        200: n.get("/ok", method="HEAD"),
        206: n.get("/ok", headers={"Range": "bytes=0-0"}),
        404: n.get("/nothing"),
        405: n.get("/ok", method="POST"),
        204: n.get("/up"),
    }
    for status, response in found.items():
        equal((response.status, ours(response)), (status, sorted(LEGACY + IETF)), status)
    for _ in range(3):
        equal(ours(n.get("/queue")), sorted(LEGACY + IETF), "delayed")


def test_headers_inheritance(box):
    n = nginx(box, """
        weir z "gcra 1/h burst 9" key=a;
        location /a { alias html/ok; }
        location /b { alias html/ok; weir_headers off; }
        location /c { alias html/ok; weir_headers ietf; }
        location /d { alias html/ok; weir off; }
    """, http="weir_headers legacy;")
    equal([ours(n.get(path)) for path in ("/a", "/b", "/c", "/d")], [sorted(LEGACY), [], sorted(IETF), []])


def test_never(box):
    """If no wait helps, there is no Retry-After."""
    n = nginx(box, 'weir_headers both; location / { weir z "gcra 1/h burst 2" key=a cost=3; }',
              http="log_format p '$weir_status [$weir_retry_after]'; access_log access.log p;")
    found = n.get("/ok")
    equal((found.status, found["Retry-After"], found["X-RateLimit-Remaining"]), (429, None, "2"))
    equal(found["X-RateLimit-Reset"], None)
    equal(n.accesses(1), ["REJECTED [-]"])


# ---- variables and log lines ---------------------------------------------------------------------

NAMES = ["status", "limit", "remaining", "retry_after", "reset", "policy", "delay"]


def test_variables(box):
    """The variables of access_log and add_header."""
    fields = "|".join(f"$weir_{name}" for name in NAMES)
    n = nginx(box, """
        add_header V "[$weir_status$weir_limit$weir_policy]" always;
        location / { weir z "gcra 1/h burst 2" key=$arg_k name=api; }
        location /text { alias html/ok; weir z "gcra 1/60m  burst 2" key=$arg_k; }
        location /none { alias html/ok; }
    """, http=f"log_format v '{fields}'; access_log access.log v;")
    headers = [n.get("/ok?k=a")["V"] for _ in range(3)]
    equal(headers, ["[PASSED2api]", "[PASSED2api]", "[REJECTED2api]"])
    equal(n.get("/none")["V"], "[]")
    equal(n.get("/ok")["V"], "[]", "an empty key")
    n.get("/text?k=a")
    lines = [dict(zip(NAMES, line.split("|"))) for line in n.accesses(6)]
    equal([line["status"] for line in lines], ["PASSED", "PASSED", "REJECTED", "-", "-", "PASSED"])
    equal([line["remaining"] for line in lines], ["1", "0", "0", "-", "-", "1"])
    equal([line["policy"] for line in lines], ["api"] * 3 + ["-", "-", "gcra 1/h burst 2"])
    equal([line["delay"] for line in lines], ["0.000"] * 3 + ["-", "-", "0.000"])
    for line, reset in zip(lines, (3600, 7200, 7200)):
        equal(line["limit"], "2")
        seconds(line["reset"], reset, "$weir_reset")
    equal([line["retry_after"] for line in lines[:2]], ["0", "0"])
    seconds(lines[2]["retry_after"], 3600, "$weir_retry_after")


def test_variables_survive_redirects(box):
    """The variables describe the decision after an internal redirect, too."""
    n = nginx(box, """
        location / { weir z "gcra 1/h burst 1" key=a name=api; error_page 429 @busy; }
        location @busy { add_header V "$weir_status $weir_policy $weir_limit" always; return 429; }
    """, http="log_format v '$weir_status $weir_policy'; access_log access.log v;")
    n.get("/ok")
    equal(n.get("/ok")["V"], "REJECTED api 1")
    equal(n.accesses(2), ["PASSED api", "REJECTED api"])


def test_log_lines(box):
    """A denial is logged at log_level, a delay one level below."""
    n = nginx(box, """
        location /a { alias html/ok; weir z "gcra 1/h" key=a name=api; }
        location /b { alias html/ok; weir z "gcra 1/h" key=b log_level=warn; }
        location /c { alias html/ok; weir z "gcra 1/h" key=c log_level=notice; }
        location /d { alias html/ok; weir z "gcra 1/h" key=d log_level=info; }
        location /q { alias html/ok; weir z "leaky-queue 20/s depth 1" key=q name=q; }
        location /r { alias html/ok; weir z "leaky-queue 20/s depth 1" key=r name=r log_level=warn; }
        location /never { alias html/ok; weir z "gcra 1/h" key=e name=e cost=2; }
    """)
    for path in "abcd":
        n.statuses(f"/{path}", f"/{path}")
    for name, level in (("api", "error"), ("gcra 1/h burst 1", "warn"), ("gcra 1/h burst 1", "notice"),
                        ("gcra 1/h burst 1", "info")):
        lines = n.logged(rf'\[{level}\] .* limiting requests by "{name}", retry after \d+\.\d{{3}} s, zone "z"')
        equal(len(lines), 1, level)
        expect("client: 127.0.0.1" in lines[0] and "(shadow)" not in lines[0], lines[0])
    for name, level in (("q", "warn"), ("r", "notice")):
        with n.client() as client:
            until(lambda: client.get(f"/{name}") and n.logged("delaying request"), "a request is delayed", every_s=0.001)
            lines = n.logged(rf'\[{level}\] .* delaying request by 0\.\d{{3}} s, by "{name}", zone "z"')
            expect(lines, f"no delay was logged at {level}: {n.logged('delaying')}")
            n.error_log.write_text("")
    n.get("/never")
    equal(len(n.logged(r'limiting requests by "e"')), 1, "a cost that is never admitted")
    expect(not n.logged(r'retry after -|retry after \d{6,}'), "no wait helps")


# ---- weir_status and weir_reset ------------------------------------------------------------------

RESULTS = ["passed", "delayed", "rejected", "delayed_shadow", "rejected_shadow", "failed"]
STATUS = "location = /status { weir_status; } location = /metrics { weir_status prometheus; }"


def limits_of(n, zone="z"):
    """The counters of a zone's limits: the label -> a list of counters, in the order of RESULTS."""
    found = next(one for one in n.get("/status").json()["zones"] if one["zone"] == zone)
    for limit in found["limits"]:
        equal(list(limit), ["policy", *RESULTS])
    return {limit["policy"]: [limit[name] for name in RESULTS] for limit in found["limits"]}


def metrics_of(n):
    """The samples of the Prometheus text: the name and the labels -> the value."""
    response = n.get("/metrics")
    equal((response.status, response["Content-Type"]), (200, "text/plain; version=0.0.4"))
    types, samples = {}, {}
    for line in response.body.decode().splitlines():
        if match := re.fullmatch(r"# (HELP|TYPE) (\w+) (.+)", line):
            if match[1] == "TYPE":
                expect(match[2] not in types, f"{match[2]} has two types")
                types[match[2]] = match[3]
            continue
        match = re.fullmatch(r'(\w+)\{((?:\w+="[^"]*",?)*)\} (\d+)', line)
        expect(match and match[1] in types, f"a sample without a type, or not a sample: {line!r}")
        expect((match[1], match[2]) not in samples, f"{line!r} is there twice")
        expect(match[1].endswith("_total") == (types[match[1]] == "counter"), line)
        samples[match[1], match[2]] = int(match[3])
    return samples


def test_status(box):
    """weir_status counts each decision once, in JSON and for Prometheus, over all workers."""
    n = nginx(box, f"""
        {STATUS}
        location /a {{ alias html/ok; weir z "gcra 1/h burst 3" key=$arg_k name=api; }}
        location /b {{ alias html/ok; weir z "gcra 1/h burst 2" key=$arg_k; weir z "gcra 1/h" key=$arg_s shadow; }}
        location /q {{ alias html/ok; weir y "leaky-queue 1000/s depth 9" key=q; }}
        location /s {{ alias html/ok; weir y "leaky-queue 1/h depth 1" key=s name=s shadow; }}
    """, http="weir_zone y 2m;", workers=2)
    equal(limits_of(n), {"api": [0] * 6, "gcra 1/h burst 2": [0] * 6, "gcra 1/h burst 1": [0] * 6})
    for key in "xyz":
        equal(n.statuses(*[f"/a?k={key}"] * 5), [200] * 3 + [429] * 2)
    equal(n.statuses(*["/b?k=x"] * 3, *["/b?s=x"] * 3), [200, 200, 429, 200, 200, 200])
    equal(n.statuses(*["/q"] * 20, *["/s"] * 4), [200] * 24)
    n.get("/a")
    z, y = limits_of(n), limits_of(n, "y")
    equal(z, {"api": [9, 0, 6, 0, 0, 0], "gcra 1/h burst 2": [2, 0, 1, 0, 0, 0], "gcra 1/h burst 1": [1, 0, 0, 0, 2, 0]})
    queue = y["leaky-queue 1000/s depth 9"]
    equal((queue[0] + queue[1], queue[2:]), (20, [0] * 4))
    equal(y["s"], [1, 0, 0, 1, 2, 0])
    zones = {one["zone"]: one for one in n.get("/status").json()["zones"]}
    equal(sorted(zones), ["y", "z"])
    equal((zones["z"]["keys"], zones["y"]["keys"]), (5, 2), "keys with a state")
    for zone, most in (("z", 1 << 20), ("y", 2 << 20)):
        one = zones[zone]
        equal((one["open"], one["evicted"]), (True, 0))
        expect(0 < one["memory_bytes"] <= one["memory_max_bytes"] <= most, one)
    samples = metrics_of(n)
    for zone, limits in (("z", z), ("y", y)):
        for label, counts in limits.items():
            for result, count in zip(RESULTS, counts):
                equal(samples["weir_nginx_decisions_total", f'zone="{zone}",policy="{label}",result="{result}"'], count)
    for zone, one in zones.items():
        for metric, member in (("keys", "keys"), ("memory_bytes", "memory_bytes"), ("evicted_total", "evicted"),
                               ("memory_max_bytes", "memory_max_bytes")):
            equal(samples[f"weir_nginx_zone_{metric}", f'zone="{zone}"'], one[member])


def test_status_requests(box):
    """weir_status answers GET and HEAD."""
    n = nginx(box, STATUS)
    with n.client() as client:
        found = client.get("/status")
        equal((found.status, found["Content-Type"], found.json()["zones"][0]["limits"]), (200, "application/json", []))
        equal(client.get("/status", method="HEAD").body, b"")
        equal(client.get("/status", method="POST", body=b"x" * 1000).status, 405)
        equal([client.get("/metrics", method=method).status for method in ("GET", "HEAD", "PUT")], [200, 200, 405])


def test_status_of_many_limits(box):
    """A zone counts up to 255 labels apart. All others share a row."""
    n = nginx(box, STATUS + "".join(f'location /{i} {{ alias html/ok; weir z "gcra 1/h" key=a name=n{i}; }}'
                                    for i in range(300)))
    equal(n.statuses(*[f"/{i}" for i in range(300)]), [200] * 300)
    found = limits_of(n)
    equal((len(found), found["(others)"][0], found["n0"][0]), (256, 45, 1))
    equal(sum(counts[0] for counts in found.values()), 300)


def test_reset(box):
    """weir_reset gives a key its whole quota back."""
    n = nginx(box, """
        location / { weir z "gcra 1/h burst 2" key=$arg_k name=api; }
        location /log { alias html/ok; weir z "sliding-log  2/60m" key=$arg_k; }
        location /log2 { alias html/ok; weir z "sliding-log 2/h" key=$arg_k$arg_none; }
        location /two { alias html/ok; weir z "gcra 1/d burst 2" key=$arg_k name=api; }
        location = /reset { weir_reset z api key=$arg_k; }
        location = /reset_log { weir_reset z "sliding-log 2/1h" key=$arg_k; }
    """)
    equal(n.statuses(*["/ok?k=a"] * 3, *["/ok?k=b"] * 3, *["/two?k=a"] * 3), [200, 200, 429] * 3)
    found = n.get("/reset?k=a", method="POST", body=b"ignored" * 1000)
    equal((found.status, found["Content-Type"], found.json()), (200, "application/json", {"reset": True}))
    equal(n.statuses("/ok?k=b", *["/ok?k=a"] * 3), [429, 200, 200, 429])
    equal(n.statuses(*["/two?k=a"] * 3), [200, 200, 429], "every limit of that name")
    equal(n.get("/reset?k=b", method="DELETE").status, 200)
    equal(n.statuses(*["/ok?k=b"] * 3), [200, 200, 429])
    equal(n.get("/reset?k=unknown", method="POST").json(), {"reset": True})
    for path in ("/log", "/log2"):
        equal(n.statuses(*[f"{path}?k=a"] * 3), [200, 200, 429])
    equal(n.get("/reset_log?k=a", method="POST").status, 200)
    equal(n.statuses("/log?k=a", "/log2?k=a"), [200, 200], "every limit of that policy without a name")
    with n.client() as client:
        for method in ("GET", "HEAD", "PUT", "OPTIONS"):
            equal(client.get("/reset?k=a", method=method).status, 405, method)
        found = client.get("/reset?k=", method="POST")
        equal((found.status, found.json()["reset"]), (400, False), "an empty key")
        equal(client.get("/reset", method="DELETE").status, 400)
    equal(n.get("/ok?k=a").status, 429, "no other method resets")


def test_reset_address(box):
    """addr= takes the text of an address for a limit by $binary_remote_addr."""
    n = nginx(box, """
        set_real_ip_from 127.0.0.1;
        location / { weir z "gcra 1/h" key=$binary_remote_addr name=api; }
        location = /reset { weir_reset z api addr=$arg_a; }
    """)
    addresses = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "::1"]
    get = lambda address: n.get("/ok", headers={"X-Real-IP": address}).status  # noqa: E731
    equal([get(address) for address in addresses * 2], [200] * 4 + [429] * 4)
    for text, address in [("192.0.2.1", "192.0.2.1"), ("2001:DB8:0::1", "2001:db8::1"), ("::1", "::1")]:
        equal(n.get(f"/reset?a={text}", method="POST").json(), {"reset": True}, text)
        equal([get(address), get(address)], [200, 429], text)
    equal(get("192.0.2.2"), 429)
    for text in ("", "a", "192.0.2", "192.0.2.1.", "192.0.2.256", "2001:db8::1::", "localhost", "192.0.2.1:80", "unix:/a",
                 "1" * 4000):
        found = n.get(f"/reset?a={text}", method="POST")
        equal((found.status, found.json()["reset"]), (400, False), text)


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]

if __name__ == "__main__":
    sys.exit(run(TESTS))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests the errors of the nginx module's directives with `nginx -t`: the text, the line of the file,
and the column of a policy.

    config_test.py WEIR MODULE [TEST ...]
"""

import re
import sys

from kit.nginx import Nginx, run
from kit.process import equal, expect

OK = 'weir z "gcra 1/h" key=a'
SIZE = "expected a number with k, m or g, at least"


class Checker:
    """Checks configurations in one directory. The directive in question is in a line of its own."""

    def __init__(self, box):
        self.nginx = Nginx(box)

    def said(self, http, server):
        self.nginx.http, self.nginx.server = http, server
        status, text = self.nginx.test_configuration()
        return status, [line.split("[emerg] ", 1)[1] for line in text.splitlines() if "[emerg]" in line]

    def warns(self, http, server, *texts):
        """Checks the warnings. Each text is one of them, without the name of the file, and with the number of the
        line as nginx writes it."""
        self.nginx.http, self.nginx.server = http, server
        status, text = self.nginx.test_configuration()
        lines = self.nginx.config.read_text().splitlines()
        expected = [f"{text} in {self.nginx.config}:{1 + lines.index(directive)}" for directive, text in texts]
        found = [line.split("[warn] ", 1)[1].split(": ", 1)[1] if re.search(r"\[warn\] \d+#", line) else
                 line.split("[warn] ", 1)[1] for line in text.splitlines() if "[warn]" in line]
        equal((status, sorted(found)), (0, sorted(expected)), (http, server))

    def is_good(self, directive, place="location", zone="weir_zone z 1m;"):
        status, errors = self.said(*self.blocks(directive, place, zone))
        equal((status, errors), (0, []), directive)

    def is_bad(self, directive, text, place="location", zone="weir_zone z 1m;", line=True):
        """`text` is the whole error, without the name and the line of the file."""
        status, errors = self.said(*self.blocks(directive, place, zone))
        equal((status, len(errors)), (1, 1), f"{directive}: {errors}")
        number = 1 + self.nginx.config.read_text().splitlines().index(directive + ";")
        where = f" in {self.nginx.config}:{number}" if line else ""
        equal(errors[0], text + where, directive)

    @staticmethod
    def blocks(directive, place, zone):
        line = f"\n{directive};\n"
        if place == "http":
            return zone + line, ""
        return zone, line if place == "server" else f"location / {{{line}}}"


def test_limits(box):
    """The parameters of `weir`."""
    c = Checker(box)
    for place in ("http", "server", "location"):
        c.is_good(OK, place)
        c.is_good("weir off", place)
    for more in ("cost=$arg_c", "cost=5", "name=a-b_c.d:e/F9", "status=400", "status=599", "shadow", "keep=5", "keep=20%", "log_level=info",
                 "log_level=notice", "log_level=warn", "log_level=error",
                 "cost=$arg_c$arg_d name=n status=503 shadow log_level=info"):
        c.is_good(f"{OK} {more}")
    c.is_good('weir z "gcra 1/h" key=$arg_a-$remote_addr')
    c.is_good('weir z "gcra 1/h" "key=a b"')
    c.is_bad('weir z "gcra 1/h" name=a', "no key, expected a parameter such as key=$binary_remote_addr")
    known = "key=, cost=, keep=, name=, status=, delay=, unit=, log_level= or shadow"
    for text, expected in [
            ("key=", "key=EXPRESSION"), ("cost=", "cost=EXPRESSION"),
            ("keep=-1", "keep= with a number of units, or a share from 0% to 100%"),
            ("name=", "name= with 1 to 64 letters, digits and - _ . : /"),
            ("name=a,b", "name= with 1 to 64 letters, digits and - _ . : /"),
            ("name=" + "n" * 65, "name= with 1 to 64 letters, digits and - _ . : /"),
            ("status=399", "status= from 400 to 599"), ("status=600", "status= from 400 to 599"),
            ("status=", "status= from 400 to 599"), ("status=4x9", "status= from 400 to 599"),
            ("log_level=debug", "log_level= info, notice, warn or error"),
            ("log_level=err", "log_level= info, notice, warn or error"),
            ("shadows", known), ("Shadow", known), ("burst=5", known), ("nodelay", known)]:
        directive = f"{OK} {text}" if not text.startswith("key") else f'weir z "gcra 1/h" {text}'
        status, errors = c.said(*c.blocks(directive, "location", "weir_zone z 1m;"))
        equal((status, len(errors)), (1, 1), directive)
        expect(f'"{text}"' in errors[0], errors[0])
        expect(errors[0].rsplit(" in ", 1)[0].endswith(f", expected {expected}"), errors[0])
    c.is_bad(f"{OK} key=$arg_b", 'duplicate parameter "key="')
    c.is_bad(f"{OK} status=400 shadow status=500", 'duplicate parameter "status="')
    c.is_bad(f"{OK} shadow name=shadow shadow", 'duplicate parameter "shadow"')
    for value in ("0", "5", "-1", "x", ""):
        c.is_bad(f'weir z "leaky-queue 1/s depth 4" key=a delay={value}',
                 f'bad parameter "delay={value}", expected delay= from 1 to the depth of the leaky-queue in the policy')
    c.is_good('weir z "leaky-queue 1/s depth 4" key=a delay=4')
    c.is_bad('weir z "leaky-queue 1/s depth 4 nodelay 2" key=a delay=1',
             "delay= and nodelay in the policy mean the same, use one of them")
    c.is_bad(f"{OK} delay=1", 'bad parameter "delay=1", expected delay= from 1 to the depth of the leaky-queue in the policy')
    c.is_bad("weir", 'invalid number of arguments in "weir" directive')
    for words in ("z", 'z "gcra 1/h"', "on", "off off"):
        c.is_bad(f"weir {words}", 'expected weir ZONE "POLICY" key=EXPRESSION ..., or weir off')
    status, errors = c.said(*c.blocks(f"{OK} cost=$", "location", "weir_zone z 1m;"))
    expect(status == 1 and errors[0].startswith("invalid variable name in "), errors)
    c.is_bad('weir z "gcra 1/h" key=$nosuch', 'unknown "nosuch" variable', line=False)


def test_policies(box):
    """An error in a policy has its column and the text of the parser."""
    c = Checker(box)
    algorithms = ("gcra token-bucket leaky-bucket leaky-queue fixed-window sliding-log sliding-counter "
                  "sliding-slices block concurrent")
    for policy, column, text in [
            ("gcra 100/x", 10, "unknown unit 'x', expected one of ns us ms s m h d w"),
            ("gcra 5", 7, "found the end, expected '/' and a period, as in 100/s"),
            ("", 1, f"found the end, expected one of {algorithms}"),
            ("gcra 1/s & gcraa 1/s", 12, f"found 'gcraa', expected one of {algorithms}"),
            ("gcra 0.5/s", 6, "found '0.5/s', expected a whole number: write 1/2s"),
            ("fixed-window 5/day tz Mars/Base", 23, "found 'Mars/Base', expected the name of a time zone, as in tz "
             "Europe/Berlin")]:
        c.is_bad(f'weir z "{policy}" key=a', f'policy "{policy}", column {column}: {text}')
        c.is_bad(f'weir_reset z "{policy}" key=a', f'policy "{policy}", column {column}: {text}') \
            if policy and " " in policy else None


def test_lists(box):
    """At most 16 limits in a level, and none beside `off`."""
    c = Checker(box)
    others = "".join(f"{OK} name=n{i};" for i in range(15))
    c.is_good(f"{others} {OK}")
    c.is_bad(f"{OK} name=last", "too many limits, expected at most 16", zone=f"weir_zone z 1m; {others} {OK};",
             place="http")
    only = '"weir off" excludes other limits here'
    c.is_bad("weir off", only, place="http", zone=f"weir_zone z 1m; {OK};")
    c.is_bad(OK, only, place="http", zone="weir_zone z 1m; weir off;")
    c.is_bad("weir off", only, place="http", zone="weir_zone z 1m; weir off;")


def test_places(box):
    """The blocks that have each directive."""
    c = Checker(box)
    for directive, places in [("weir_zone y 1m", ["http"]), ("weir_status", ["location"]),
                              ("weir_reset z name key=a", ["location"]),
                              ("weir_headers both", ["http", "server", "location"])]:
        zone = f"weir_zone z 1m; {OK} name=name;"
        for place in ("http", "server", "location"):
            if place in places:
                c.is_good(directive, place, zone)
            else:
                c.is_bad(directive, f'"{directive.split()[0]}" directive is not allowed here', place, zone)
    status, errors = c.said("weir_zone z 1m;", f"location / {{ if ($arg_a) {{\n{OK};\n}} }}")
    expect(status == 1 and '"weir" directive is not allowed here' in errors[0], errors)


def test_zones(box):
    """The parameters of `weir_zone`."""
    c = Checker(box)
    for size in ("1m", "1024k", "1048576", "3m large=64k", "8m large=4m", f"8m file={box.path}/state",
                 f"16m large=1m file={box.path}/state2"):
        c.is_good(f"weir_zone y {size}", "http", "")
    for size in ("1", "0", "1023k", "-1", "1mb", "x", ""):
        c.is_bad(f'weir_zone y "{size}"', f'bad size "{size}" of zone "y", {SIZE} 1m', "http", "")
    c.is_bad(f"weir_zone y 7m file={box.path}/s", f'bad size "7m" of zone "y", {SIZE} 8m with file=', "http", "")
    c.is_bad(f"weir_zone y 8m file={box.path}/s file={box.path}/t", 'duplicate parameter "file="', "http", "")
    c.is_bad(f"weir_zone y 8m file={box.path}/s", f'zone "x" already has the file "{box.path}/s"',
             "http", f"weir_zone x 8m file={box.path}/s;")
    for large in ("large=0", "large=63k", "large=x", "large="):
        c.is_bad(f"weir_zone y 2m {large}", f'bad parameter "{large}", expected large=SIZE of at least 64k',
                 "http", "")
    for other in ("file=", "File=x", "size=1m", "x"):
        c.is_bad(f"weir_zone y 2m {other}", f'bad parameter "{other}", expected file=PATH or large=SIZE', "http", "")
    for name in ("a,b", '"a b"', "n" * 65, '"é"', '""'):
        plain = name.strip('"')
        c.is_bad(f"weir_zone {name} 1m",
                 f'bad zone name "{plain}", expected 1 to 64 letters, digits and - _ . : /', "http", "")
    c.is_bad("weir_zone z 2m", 'zone "z" is already declared', "http")
    c.is_bad("weir_zone z", 'invalid number of arguments in "weir_zone" directive', "http", "")
    c.is_bad(OK, 'unknown zone "z", expected the name of a weir_zone', zone="weir_zone y 1m;")
    c.is_bad(OK, 'unknown zone "z", expected the name of a weir_zone', zone="")
    status, errors = c.said(f"{OK}; weir_zone z 1m;", "")
    equal((status, errors), (0, []), "a zone may be declared later")
    c.is_bad("weir_zone z 2m large=2m", 'zone "z": the memory for large states has 2097152 bytes, expected at least '
             "64 KiB, and at least 64 KiB less than the whole memory of 2097152 bytes", "http", "")


def test_zone_of_another_module(box):
    """A zone of limit_req may have the same name."""
    c = Checker(box)
    equal(c.said("limit_req_zone $arg_a zone=z:1m rate=1r/s;\nweir_zone z 1m;", ""), (0, []))


def test_files(box):
    """A state file that cannot be used is an error of the configuration."""
    c = Checker(box)
    status, errors = c.said(f"weir_zone z 8m file={box.path}/none/state;", "")
    expect(status == 1 and f"{box.path}/none/state" in errors[0], errors)
    (box.path / "text").write_text("this is no state file\n" * 1000)
    status, errors = c.said(f"weir_zone z 8m file={box.path}/text;", "")
    expect(status == 1 and f"{box.path}/text" in errors[0], errors)
    equal((box.path / "text").read_text(), "this is no state file\n" * 1000, "the file is left alone")


def test_headers_status_reset(box):
    c = Checker(box)
    for mode in ("off", "none", "on", "legacy", "ietf", "both", "x-ratelimit", "ietf-03 github", "ietf github openai"):
        c.is_good(f"weir_headers {mode}")
    c.is_bad("weir_headers yes", 'bad value "yes", expected off, on, legacy, both, none, ietf, ietf-07, ietf-03, x-ratelimit, '
                                 "github or openai")
    for modes in ("off ietf", "x-ratelimit github", "both github"):
        status, errors = c.said(*c.blocks(f"weir_headers {modes}", "location", "weir_zone z 1m;"))
        equal((status, len(errors)), (1, 1), modes)
    c.is_bad("weir_headers on; weir_headers on", '"weir_headers" directive is duplicate')
    for words in ("", " json", " prometheus"):
        c.is_good(f"weir_status{words}")
    c.is_bad("weir_status text", 'bad format "text", expected json or prometheus')
    zone = f'weir_zone z 1m; {OK}; {OK} name=n;'
    for words in ('"gcra 1/h burst 1" key=$arg_a', '"gcra  1/60m" key=$arg_a', "n key=$arg_a", "n addr=$arg_a"):
        c.is_good(f"weir_reset z {words}", zone=zone)
    for words in ("n name=a", "n key=", "n addr=", "n key"):
        c.is_bad(f"weir_reset z {words}",
                 f'bad parameter "{words[2:]}", expected key=EXPRESSION, addr=EXPRESSION or all', zone=zone)
    status, errors = c.said(zone, "location / { weir_reset z other key=a; }")
    expect(status == 1 and 'no limit "other" in zone "z"' in errors[0], errors)
    status, errors = c.said(zone, "location / { weir_reset y n key=a; }")
    expect(status == 1 and ('unknown zone "y"' in errors[0]), errors)


def test_retry_spread(box):
    c = Checker(box)
    for place in ("http", "server", "location"):
        c.is_good("weir_retry_spread 10%", place)
    c.is_good("weir_retry_spread off")
    for value in ("10", "101%", "Off"):
        c.is_bad(f"weir_retry_spread {value}",
                 f'bad value "{value}", expected off or a share of the wait from 0% to 100%, such as 10%')
    c.is_bad("weir_retry_spread 1%; weir_retry_spread 1%", '"weir_retry_spread" directive is duplicate')


def test_denied_body(box):
    c = Checker(box)
    for place in ("http", "server", "location"):
        c.is_good('weir_denied_body "wait {retry_after_ms} ms {a b} {}"', place)
    c.is_good("weir_denied_body off")
    c.is_good('weir_denied_body "" type=application/json')
    for more in ("type=", "type=html", "type=text/html\x7f", "kind=text/html"):
        c.is_bad(f'weir_denied_body "x" "{more}"',
                 f'bad parameter "{more}", expected type= such as type=text/html')
    status, errors = c.said("", "location / { weir_denied_body 'wait {retry_aftr} s'; }")
    expect(status == 1 and errors[0].startswith("byte 6 of the body: "), errors)
    (box.path / "denied").write_text("x" * 16385)
    for path in ("denied", "absent", ""):
        status, errors = c.said("", f"location / {{ weir_denied_body file={box.path}/{path}; }}")
        expect(status == 1 and f'"{box.path}/{path}"' in errors[0], errors)
    (box.path / "denied").write_bytes(b"a\0b")
    status, errors = c.said("", f"location / {{ weir_denied_body file={box.path}/denied; }}")
    expect(status == 1 and "NUL" in errors[0], errors)


def test_no_effect(box):
    """What is valid and has no effect gives a warning with its line."""
    c = Checker(box)
    zone, limit = "weir_zone z 1m;", f"{OK};"
    c.warns(f"\n{zone}\n", "", (zone, 'no weir uses the zone "z"'))
    none = "has no effect, because no weir is here or below"
    bare = "has no effect, because no weir without shadow is here or below"
    for directive, text in [("weir_daemon 127.0.0.1:1;", none), ("weir_headers ietf;", bare),
                            ("weir_retry_spread 10%;", bare), ("weir_denied_body x;", bare)]:
        said = (directive, f'"{directive.split()[0]}" {text}')
        c.warns(f"\n{directive}\n", "", said)
        c.warns(zone + f"\n{directive}\n", f"location /a {{ {limit} }}")
        c.warns(zone, f"location /a {{ {limit} }} location /b {{\n{directive}\n}}", said)
        c.warns(zone, f"{limit} location /b {{ weir off;\n{directive}\n}}", said)
        c.warns(zone, f"{limit} location /b {{ weir off;\n{directive}\nlocation /b/c {{ {limit} }} }}")
        name = directive.split()[0]
        c.warns(zone, f"\n{directive}\nlocation /b {{ {name} off; {limit} }}", said)
        c.warns("", f"{name} off; location /b {{ weir off; }}")
        if text == bare:
            c.warns(zone, f"\n{directive}\n{OK} shadow;", said)
    c.warns(f"{zone}\n{limit}\n", f"{OK} name=a;", (limit, '"weir" has no effect, because each server has one of its own'))
    unit = f"{OK} unit=tokens;"
    c.warns(zone, f"\n{unit}\n", (unit, '"unit=tokens" has no effect without weir_headers openai'))
    c.warns(zone, f"weir_headers openai;\n{unit}\n")
    c.warns(zone, f"weir_headers ietf;\n{OK} unit=bytes;\n")
    status = f"{OK} shadow status=503;"
    c.warns(zone, f"\n{status}\n", (status, '"status=503" has no effect, because a limit with shadow denies nothing'))


def test_costs_and_keys(box):
    """A cost or a key that is the same for all requests, or that nothing has yet."""
    c = Checker(box)
    zone = "weir_zone z 1m;"
    for cost in ("x", "-1", "1.5", "arg_cost"):
        c.is_bad(f"{OK} cost={cost}", f'bad parameter "cost={cost}", expected a whole number or a variable')
    for directive, text in [
            (f"{OK} cost=0;", "a cost of 0 charges nothing"),
            (f"{OK} cost=2;", "no request is allowed, because the policy allows a cost of at most 1"),
            ('weir z "gcra 1/h" key=remote_addr;',
             'the key "remote_addr" is the same for all requests, did you mean "$remote_addr"?'),
            ('weir z "gcra 1/h" key=a$weir_status;', "the variable $weir_... has no value yet when limits are checked"),
            ('weir z "gcra 1/h" key=${upstream_http_x};',
             "the variable $upstream_... has no value yet when limits are checked"),
            (f"{OK} cost=$bytes_sent;", "the variable $bytes_sent has no value yet when limits are checked")]:
        c.warns(zone, f"\n{directive}\n", (directive, text))
    c.warns(zone, f'weir z "gcra 1/h burst 5" key=all cost=5; {OK} shadow cost=2; weir z "gcra 1/h" key=$arg_weir_x;')
    c.is_bad(OK, '"weir" directive is duplicate: it would charge each request twice', zone=f"weir_zone z 1m; {OK};",
             place="http")
    c.is_bad(f"{OK}; weir z  'gcra 1/60m' key=a shadow",
             '"weir" directive is duplicate: it would charge each request twice')
    c.is_good(f"{OK}; {OK} cost=$arg_a; {OK} name=b; weir z 'gcra 1/h' key=b")
    c.is_bad("weir_denied_body off type=text/html", '"weir_denied_body" directive has no type= with off')


def test_operators(box):
    """Locations that answer nobody, or reset nothing."""
    c = Checker(box)
    zone = f'weir_zone z 1m; {OK} name=n; weir z "gcra 1/h" key=$binary_remote_addr name=a;'
    for directive in ("weir_status;", "weir_reset z n key=$arg_a;"):
        name = directive.split()[0].rstrip(";")
        c.warns(zone, f"location /a {{\n{directive}\nproxy_pass http://127.0.0.1:1; }}",
                (directive, f'"{name}" has no effect, because another handler of the location replaces it'))
        c.warns(zone, f"location /a {{ proxy_pass http://127.0.0.1:1;\n{directive}\n}}",
                (directive, f'"{name}" replaces another handler of the location'))
    reset = "weir_reset z n addr=$arg_a;"
    nothing = "weir_reset resets nothing, because "
    c.warns(zone, f"location /a {{\n{reset}\n}} location /b {{ weir_reset z a addr=$arg_a; }}",
            (reset, nothing + "the key of the limit is not $binary_remote_addr: use key="))
    reset = "weir_reset z a addr=$arg_a;"
    for on_error, texts in [("open", [(reset, nothing + "a daemon decides: use weir reset")]), ("local", [])]:
        c.warns(zone, f"weir_daemon 127.0.0.1:1 on_error={on_error}; location /a {{\n{reset}\n}}", *texts)
    file = f"weir_zone z 8m file={box.path}/states;"
    c.warns(f"\n{file}\n", f"weir_daemon 127.0.0.1:1; {OK};",
            (file, 'the file of zone "z" has no effect, because a daemon decides'))
    c.warns(f"\n{file}\n", f"location /a {{ weir_daemon 127.0.0.1:1; {OK}; }} location /b {{ {OK}; }}")


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]

if __name__ == "__main__":
    sys.exit(run(TESTS))

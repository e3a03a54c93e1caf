# SPDX-License-Identifier: BSD-2-Clause
"""What every proxy must do in front of weir: pass on denials and headers, keep denied requests from the
application, pass bodies and WebSockets, believe no client about its address and its request, and do
what docs/proxies.md says while weir is down."""

import collections
import http.client
import json

from kit import proxies as kit
from kit.process import Failed, Skipped, equal, expect, until
from kit.proxies import API, BOB, OTHER, SHOP, Setup, WebSocket, fetch, statuses

FULL = 5  # requests that per-client allows at once
POLICY = '"per-client";q=5;w=30'
BODY = bytes(range(256)) * 4096  # 1 MiB

# What a proxy can do. `headers`: it adds the headers of weir to responses of the application. `body`: a
# denial has the body of weir. `down`: the status of requests while weir is killed; `silent`: while it
# does not answer; None: the proxy waits longer than a test should. `closed`: the statuses while weir is killed,
# if the proxy is to fail closed.
Features = collections.namedtuple("Features", "closed headers body down silent", defaults=(True, True, 200, 200))
FEATURES = {
    kit.Caddy: Features({502, 503}),
    kit.Nginx: Features({500}, body=False),
    kit.Envoy: Features({403}),
    kit.Haproxy: Features({503}, body=False),
    kit.Traefik: Features({500}, headers=False, down=500, silent=None),
}


def is_field(value, remaining):
    """Whether this is a RateLimit field with so many requests remaining."""
    return value is not None and value.startswith(f'"per-client";r={remaining};t=')


def denials(box, proxy):
    """Allowed requests have the headers of weir, and a denied one its status, Retry-After and body. The
    application sees none that is denied."""
    setup, features = Setup(box, proxy), FEATURES[proxy]
    for left in range(FULL - 1, -1, -1):
        answer = fetch(setup.port)
        equal(answer.status, 200, "status")
        if features.headers:
            equal(answer["RateLimit-Policy"], POLICY, "RateLimit-Policy")
            expect(is_field(answer["RateLimit"], left), f"RateLimit is {answer['RateLimit']}, {left} remain")
    for number in range(3):
        answer = fetch(setup.port, method=("GET", "POST", "DELETE")[number], body=b"more" if number else None)
        equal(answer.status, 429, "status")
        expect(1 <= int(answer["Retry-After"]) <= 6, f"Retry-After is {answer['Retry-After']}")
        equal(answer["RateLimit-Policy"], POLICY, "RateLimit-Policy of a denial")
        expect(is_field(answer["RateLimit"], 0), f"RateLimit of a denial is {answer['RateLimit']}")
        if features.body:
            equal(answer["Content-Type"], "application/problem+json", "Content-Type")
            equal(json.loads(answer.body)["violated-policies"], ["per-client"], "violated-policies")
        else:
            expect(b"Too many requests" in answer.body, f"body: {answer.body}")
    equal(len(setup.application.seen), FULL, "requests that reached the application")
    equal(statuses(setup.port, 1, client=BOB), [200], "another client")


ORIGIN = [("Origin", "https://app.example.com")]


def other_origins(box, proxy):
    """Preflights are neither counted nor denied, and a page of a listed origin can read a denial."""
    setup = Setup(box, proxy)
    preflight = {"method": "OPTIONS", "headers": [*ORIGIN, ("Access-Control-Request-Method", "POST")]}
    for host, path in ((SHOP, "/"), (SHOP, "/login"), (API, "/v1/items")):
        equal(statuses(setup.port, FULL + 1, path, host=host, **preflight), [200] * (FULL + 1), f"preflights of {host}")
    equal(statuses(setup.port, FULL), [200] * FULL, "requests after preflights")
    answer = fetch(setup.port, headers=ORIGIN)
    equal((answer.status, answer["Access-Control-Allow-Origin"]), (429, ORIGIN[0][1]), "a denial")
    expect("Retry-After" in answer["Access-Control-Expose-Headers"], "the page can read Retry-After")
    equal(answer["Vary"], "Origin", "Vary")
    other = fetch(setup.port, headers=[("Origin", "https://evil.example")])
    equal((other.status, other["Access-Control-Allow-Origin"]), (429, None), "a denial of another origin")
    equal(statuses(setup.port, 1, **preflight), [200], "a preflight of a client that is denied")


def fetch_body(setup, method):
    """Sends BODY. Traefik 3.6 and Caddy close some connections to the application before they have read the whole
    response ("use of closed network connection" in their logs); then the request is sent again."""
    for client in (kit.ALICE, "127.0.4.1", "127.0.4.2", "127.0.4.3"):
        try:
            return fetch(setup.port, client=client, method=method, body=BODY,
                         headers=[("Content-Type", "application/octet-stream")])
        except http.client.IncompleteRead:
            expect(isinstance(setup.proxy, (kit.Caddy, kit.Traefik)), "the whole body arrives")
            setup.application.seen.pop()
    raise Failed("the proxy passes on no whole body")


def bodies(box, proxy):
    """Bodies reach the application unchanged, of a known length and in chunks, and come back."""
    setup = Setup(box, proxy)
    for method in ("POST", "PUT"):
        answer = fetch_body(setup, method)
        equal((answer.status, answer.body == BODY), (200, True), f"a body of 1 MiB with {method}")
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:70000], b"end")) + b"0\r\n\r\n"
    with kit.Raw(setup.port) as raw:
        raw.send(f"POST /chunks HTTP/1.1\r\nHost: {SHOP}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks)
        status, _, body = raw.read()
        equal((status, body), (200, BODY[:70000] + b"end"), "a body in chunks")
        raw.send(f"GET /next HTTP/1.1\r\nHost: {SHOP}\r\n\r\n".encode())
        equal(raw.read()[0], 200, "the next request on the connection")
    equal([seen.path for seen in setup.application.seen], ["/", "/", "/chunks", "/next"], "paths")


def expect_continue(box, proxy):
    """A client that waits for 100 (Continue) gets it, and a denied one its 429."""
    setup = Setup(box, proxy)
    head = f"POST / HTTP/1.1\r\nHost: {SHOP}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode()
    with kit.Raw(setup.port) as raw:
        raw.send(head + b"hello")
        equal(raw.read()[::2], (200, b"hello"), "with Expect")
    equal(statuses(setup.port, FULL - 1), [200] * (FULL - 1), "statuses")
    with kit.Raw(setup.port) as raw:
        raw.send(head)
        equal(raw.read()[0], 429, "denied, with Expect")


def websockets(box, proxy):
    """A WebSocket is one request, whatever it carries. A denied handshake gets 429."""
    setup = Setup(box, proxy)
    for _ in range(FULL):
        web = WebSocket(setup.port)
        equal(web.status, 101, "handshake")
        for size in (200, 60000, 300):
            equal(web.echo(BODY[:size]) == BODY[:size], True, f"a message of {size} bytes")
        web.close()
    web = WebSocket(setup.port)
    equal((web.status, web.headers["Retry-After"] is not None), (429, True), "the handshake after the last")
    web.close()
    equal(len(setup.application.seen), FULL, "handshakes that reached the application")


# Headers with which a client claims another address.
CLAIMS = (
    [("X-Forwarded-For", "198.51.100.{n}")],
    [("X-Forwarded-For", "198.51.100.{n}, 198.51.100.200")],
    [("X-Forwarded-For", "198.51.100.{n}"), ("X-Forwarded-For", "198.51.100.1{n}")],
    [("X-Forwarded-For", "127.0.0.1")],
    [("X-Forwarded-For", "198.51.100.{n},127.0.0.1")],
    [("X-Forwarded-For", "198.51.100.{n}, unknown")],
    [("X-Forwarded-For", '"198.51.100.{n}')],
    [("X-Forwarded-For", "")],
    [("x_forwarded_for", "198.51.100.{n}")],
    [("Forwarded", "for=198.51.100.{n}")],
    [("Forwarded", 'for="198.51.100.{n}')],
    [("X-Real-IP", "198.51.100.{n}")],
    [("X-Client", "198.51.100.{n}"), ("X-Client-IP", "198.51.100.{n}"), ("True-Client-IP", "198.51.100.{n}")],
    [("CF-Connecting-IP", "198.51.100.{n}"), ("X-Envoy-External-Address", "198.51.100.{n}")],
    [("Connection", "X-Forwarded-For"), ("X-Forwarded-For", "198.51.100.{n}")],
    [("Connection", "close, X-Forwarded-For")],
)


def forged_addresses(box, proxy):
    """No header of a client chooses its key: it stays denied, and uses up no other client's requests."""
    setup = Setup(box, proxy)
    equal(statuses(setup.port, FULL + 1), [200] * FULL + [429], "without forged headers")
    for number, claim in enumerate(CLAIMS):
        headers = [(name, value.format(n=number)) for name, value in claim]
        found = fetch(setup.port, headers=headers).status
        expect(found in (429, 400), f"with {headers}: status {found}")  # Envoy refuses such a Connection
        victim = f"127.0.1.{number + 1}"
        if claim[0][0] != "Connection":
            for _ in range(FULL):
                fetch(setup.port, headers=[(name, victim) for name, _ in claim])
        equal(statuses(setup.port, FULL, client=victim), [200] * FULL, f"{victim}, after requests in its name")


# Headers with which a client claims another request than it sent.
OTHER_REQUESTS = (
    [("X-Forwarded-Uri", "/free")],
    [("X-Forwarded-Method", "GET")],
    [("X-Forwarded-Host", OTHER)],
    [("X-Forwarded-Host", OTHER), ("X-Forwarded-Host", OTHER)],
    [("X-Original-URL", f"http://{OTHER}/free")],
    [("X-Original-URI", "/free"), ("X-Original-Method", "GET")],
    [("X-Rewrite-URL", "/free")],
    [("X-HTTP-Method-Override", "GET"), ("X-Method-Override", "GET")],
    [("X-Forwarded-Prefix", "/free"), ("X-Envoy-Original-Path", "/free")],
    [("Connection", "X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host"), ("X-Forwarded-Uri", "/free")],
    [("Connection", "X-Forwarded-Method"), ("X-Original-Method", "GET"), ("X-Original-URI", "/free")],
    [("Sec-Fetch-Site", "cross-site"), ("Origin", "https://evil.example")],
)
# Paths that are not "/login" to a careless reader, and queries that weir reads in its own requests.
OTHER_PATHS = ("/%6cogin", "/%6Cogin", "//login", "/./login", "/free/../login", "/free/%2e%2e/login",
               "/free/..;/login", "/free/..%2flogin", "/free//../login", "/login/",
               "/login?route=shop", "/login?denied=403", "/login?policy=per-client&key=mallory", "/login?key=1#x",
               "/login?x=/free")
LOGINS = 3


def forged_requests(box, proxy):
    """Neither a header nor the spelling of a path chooses the route."""
    setup = Setup(box, proxy, ("gcra 10/m burst 5", "gcra 1000/s burst 1000"))
    login = {"path": "/login", "method": "POST", "body": b""}
    equal(statuses(setup.port, LOGINS + 1, **login), [200] * LOGINS + [429], "logins")
    for headers in OTHER_REQUESTS:
        found = fetch(setup.port, headers=headers, **login).status
        expect(found in (429, 400), f"with {headers}: status {found}")
    for path in OTHER_PATHS:
        found = fetch(setup.port, **{**login, "path": path}).status
        refused = {500} if proxy is kit.Nginx and "/free/" in path else set()  # auth_request makes 500 of 400
        expect(found in {429, 400, 404, 301, 308} | refused, f"{path}: status {found}")
    equal([seen.path for seen in setup.application.seen], ["/login"] * LOGINS, "what reached the application")
    equal(fetch(setup.port, "/login").status, 200, "GET, which is not limited as a login")


# For applications that decode a path before they split it, these are "/login".
SLASHES = ("/login%2F", "/login%2f", "/%2flogin", "/%2Flogin", "/login%5C", "/%5clogin", "/login\\")


def encoded_slashes(box, proxy):
    """A slash that is encoded, a backslash and another Host do not get around the limit of a route."""
    setup = Setup(box, proxy, ("gcra 10/m burst 5", "gcra 1000/s burst 1000"))
    for number, path in enumerate(SLASHES):
        found = fetch(setup.port, path, method="POST", body=b"", client=f"127.0.5.{number + 1}").status
        expect(found in {400, 404} | ({500} if proxy is kit.Nginx else set()), f"{path}: status {found}")
    for host in (OTHER, f"x{SHOP}", "localhost", "127.0.0.1"):
        found = fetch(setup.port, "/login", method="POST", body=b"", host=host).status
        expect(found in {404, 421}, f"host {host}: status {found}")
    equal(setup.application.seen, [], "requests that reached the application")


def slashes_of_wsgi(box, proxy):
    """With http.encoded_slash: separate, the paths that a WSGI application gets as "/login/" count as logins; with
    keep, they get around the route."""
    for mode, wanted in (("separate", [200] * LOGINS + [429] * 2), ("keep", [200] * (LOGINS + 2))):
        setup = Setup(box, proxy, ("gcra 10/m burst 5", "gcra 1000/s burst 1000"),
                      ("http: {", f"http: {{encoded_slash: {mode}, "), application=kit.Wsgi)
        found = statuses(setup.port, LOGINS + 2, "/login%2F", method="POST", body=b"")
        equal(found, wanted, f"encoded_slash: {mode}")
        equal({seen.path for seen in setup.application.seen}, {"/login/"}, "what the application was asked for")


def applications(box, proxy):
    """Routes divide the applications behind one proxy. Neither an invented key nor another host has no limit."""
    setup = Setup(box, proxy)
    items = {"path": "/v1/items", "host": API}

    def with_key(name):
        return [("X-Api-Key", name)]

    equal(statuses(setup.port, FULL + 1, host=SHOP), [200] * FULL + [429], "shop")
    for name in ("one", "two"):
        equal(statuses(setup.port, 3, **items, headers=with_key(name), client=BOB), [200, 200, 429], f"key {name}")
    found = [fetch(setup.port, **items, headers=with_key(f"new{number}"), client=BOB).status for number in range(4)]
    equal(found, [200, 429, 429, 429], "a new key for each request")
    setup.application.seen.clear()
    for number, host in enumerate((OTHER, "x", "[::1]", f"{SHOP}.", f"{API}.:80")):
        client = f"127.0.2.{number + 1}"
        found = statuses(setup.port, FULL + 1, "/v10", host=host, client=client)
        expect(found == [200] * FULL + [429] or set(found) <= {404, 421}, f"host {host}: {found}")
        expect(number > 2 or not setup.application.seen, f"host {host} reached the application")


def weir_killed(box, proxy):
    """While weir is down, requests get the documented status. When it is back, it decides again."""
    setup, features = Setup(box, proxy), FEATURES[proxy]
    for _ in range(2):
        equal(statuses(setup.port, FULL + 1), [200] * FULL + [429], "with weir")
        setup.application.seen.clear()
        setup.weir.kill()
        found = [fetch(setup.port, method="POST", body=BODY[:size]) for size in (0, 100, len(BODY))]
        equal([answer.status for answer in found], [features.down] * 3, "without weir")
        equal([answer["RateLimit"] for answer in found], [None] * 3, "RateLimit without weir")
        equal(len(setup.application.seen), 3 if features.down == 200 else 0, "requests that reached the application")
        setup.weir.start()
        until(lambda: fetch(setup.port, client=BOB)["Retry-After"], "weir decides again", every_s=0.1)


def fail_closed(box, proxy):
    """Changed as docs/proxies.md says, a proxy refuses requests while weir is down."""
    setup, closed = Setup(box, proxy, edit=proxy.closed), FEATURES[proxy].closed
    equal(statuses(setup.port, 1), [200], "with weir")
    setup.application.seen.clear()
    setup.weir.kill()
    found = statuses(setup.port, 4)
    expect(set(found) <= closed, f"without weir: found {found}, expected {closed}")
    equal(setup.application.seen, [], "requests that reached the application")
    setup.weir.start()
    until(lambda: fetch(setup.port).status == 200, "requests pass again", every_s=0.1)


def weir_silent(box, proxy):
    """While weir does not answer, requests get the documented status. When it continues, it decides again."""
    setup, features = Setup(box, proxy), FEATURES[proxy]
    equal(statuses(setup.port, FULL + 1), [200] * FULL + [429], "with weir")
    setup.weir.pause()
    equal(statuses(setup.port, 4), [features.silent] * 4, "without an answer")
    setup.weir.resume()
    until(lambda: fetch(setup.port).status == 429, "weir decides again", every_s=0.1)


def reloads(box, proxy):
    """While weir reloads its file, no request fails, and the new limits are used."""
    setup = Setup(box, proxy)
    equal(statuses(setup.port, FULL + 1), [200] * FULL + [429], "before")
    for burst in (3, 2):
        setup.weir.reload(("gcra 10/m burst 5", f"gcra 10/m burst {burst}"))
        equal(statuses(setup.port, burst + 1, client=f"127.0.0.{10 + burst}"), [200] * burst + [429],
              f"after a reload with burst {burst}")


def untrusted(box, proxy):
    """Without trusted_proxies, weir refuses to decide for a proxy: no request of a client can be believed."""
    setup = Setup(box, proxy, ("trusted_proxies: [127.0.0.1]", "trusted_proxies: []"))
    answer = fetch(setup.port)
    # nginx cannot distinguish a 403 from a denial.
    expect(answer.status in ((429, 500) if proxy is kit.Nginx else (403,)), f"status {answer.status}")
    equal(setup.application.seen, [], "requests that reached the application")
    direct = kit.fetch(setup.weir.port, "/v1/forward-auth", client="127.0.0.1", host="localhost")
    equal((direct.status, b"trusted_proxies" in direct.body), (403, True), "weir itself")


SCENES = (denials, other_origins, bodies, expect_continue, websockets, forged_addresses, forged_requests,
          encoded_slashes, slashes_of_wsgi, applications, weir_killed, fail_closed, weir_silent, reloads, untrusted)


def has(proxy, function):
    """Whether a scene makes sense with a proxy. HAProxy chooses the policy itself, and describes no request."""
    if function is slashes_of_wsgi:
        return proxy is kit.Nginx
    if function is weir_silent:
        return FEATURES[proxy].silent is not None
    return proxy is not kit.Haproxy or function not in (forged_requests, untrusted)


def scene(function, proxy):
    """A test: one scene with one proxy."""
    def test(box):
        try:
            function(box, proxy)
        except Skipped:
            print(f"skipped: 1 in {proxy.directory}: see the next line")  # for tools/gate
            raise
    test.__name__ = f"{proxy.directory}_{function.__name__}"
    test.__doc__ = function.__doc__
    return test


TESTS = tuple(scene(function, proxy) for proxy in kit.PROXIES for function in SCENES if has(proxy, function))

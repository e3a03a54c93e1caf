#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The edge of the daemon over real sockets: malformed requests, junk, guessed passwords, names that
# are not its own, web pages, readiness, proxies.
#
#   edge_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
docs=$(realpath "$(dirname "$0")/../../docs")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
tmp=$(mktemp -d)
skipped=0
caddy_pid=
redis_pid=
trap 'daemon_kill; for p in $caddy_pid $redis_pid; do kill "$p" 2>/dev/null; done; rm -rf "$tmp"' EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

status() { # CURL-ARG...: the status; the body goes to $tmp/body, the head to $tmp/head
    curl -s -o "$tmp/body" -D "$tmp/head" -w '%{http_code}' "$@"
}

# NUMBER PATTERN: waits until the log holds the pattern so many times
await() {
    timeout 20 tail -n +1 -f --pid="$daemon_pid" "$daemon_log" | grep -m"$1" -- "$2" | wc -l
}

counted() { # checks that a script of Python has said
    while read -r result; do
        echo "$result"
        [[ $result == ok* ]] && passed=$((passed + 1)) || failed=$((failed + 1))
    done < <(python3 "$@" 2>&1 || echo "not ok - $1 failed")
}

cat >"$tmp/kit.py" <<'PYTHON'
import socket, sys


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def rest(s):
    got = b""
    try:
        while more := s.recv(65536):
            got += more
    except ConnectionResetError:
        pass
    return got


def say(name, good):
    print(f"{'ok' if good else 'not ok'} - {name}", flush=True)
PYTHON

# ---- bytes that are no requests
printf 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}\npolicies: {a: "gcra 1/365d burst 3"}\n' >"$tmp/open.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/open.yaml"
port=$(daemon_port resp)
http=$(daemon_port http)
cat >"$tmp/bytes.py" <<'PYTHON'
from kit import *
import ssl

resp, http = int(sys.argv[1]), int(sys.argv[2])
HOST = b"Host: localhost\r\n"
CHUNKED = b"POST /healthz HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
for name, sent, status in [
    ("a head that ends in a bare LF", b"GET /healthz HTTP/1.1\r\n" + HOST + b"\n", b"400"),
    ("RTSP", b"GET /healthz RTSP/1.0\r\n" + HOST + b"\r\n", b"400"),
    ("ICE", b"SOURCE /healthz ICE/1.0\r\n" + HOST + b"\r\n", b"400"),
    ("a CR before the request line", b"\r\r\nGET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    ("a user in the target", b"GET http://a@localhost/healthz HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    ("two blanks before the version", b"GET /healthz  HTTP/1.1\r\n" + HOST + b"\r\n", b"400"),
    ("Transfer-Encoding: gzip, chunked", CHUNKED.replace(b"chunked", b"gzip, chunked"), b"501"),
    ("a folded trailer", CHUNKED + b"0\r\nA: b\r\n c\r\n\r\n", b"400"),
    ("a chunk above the limit, before it came", CHUNKED + b"20001\r\n", b"413"),
    ("a chunk size beyond 64 bits", CHUNKED + b"fffffffffffffffff", b"400"),
]:
    s = connect(http)
    s.sendall(sent)
    got = rest(s)
    say(f"{name}: {status.decode()}, and the connection closes", got.split(b" ")[1:2] == [status])

s = connect(resp)
try:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.wrap_socket(s)
    say("a TLS handshake on the RESP port fails", False)
except (ssl.SSLError, ConnectionError):
    say("a TLS handshake on the RESP port fails", True)
for name, sent in [("a TLS record", b"\x16\x03\x01\x00\xa5\x01\x00"), ("junk", b"WHAT \x01\x02\r\nPING\r\n")]:
    s = connect(resp)
    s.sendall(sent)
    got = rest(s)
    say(f"{name}: one error, then the connection closes", got.startswith(b"-ERR ") and got.count(b"\r\n") == 1)
PYTHON
counted "$tmp/bytes.py" "$port" "$http"

# ---- names and pages, without a password
web=http://127.0.0.1:$http
check "an address as Host" 200 "$(status "$web/v1/policies")"
check "localhost as Host" 200 "$(status -H 'Host: localhost:1' "$web/v1/policies")"
check "another name as Host is misdirected" 421 "$(status -H 'Host: evil.example' "$web/v1/policies")"
check "and is told what to do" 1 "$(grep -c 'a name listed in http.hosts; add it there' "$tmp/body")"
check "another name in the target, too" 421 "$(status --request-target http://evil.example/v1/policies "$web")"
check "localhost. as Host" 200 "$(status -H 'Host: localhost.' "$web/v1/policies")"
check "a name in brackets as Host" 400 "$(status -H 'Host: [localhost]' "$web/healthz")"
check "OPTIONS *" 204 "$(status -X OPTIONS --request-target '*' "$web")"
check "a browser's extension" 403 "$(status -H "Origin: chrome-extension://${web#http://}" "$web/v1/take?policy=a&key=p")"
check "healthz has any Host" 200 "$(status -H 'Host: evil.example' "$web/healthz")"
check "a page of an origin that is not listed" 403 "$(status -H 'Origin: https://app.example' "$web/v1/take?policy=a&key=p")"
check "ready" '200 {"ready":true,"reasons":[]}' "$(status "$web/readyz") $(cat "$tmp/body")"
daemon_stop
cat >"$tmp/names.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
http: {hosts: [weir.example], origins: [https://app.example]}
policies: {a: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/names.yaml"
web=http://127.0.0.1:$(daemon_port http)
check "a name of http.hosts" 200 "$(status -H 'Host: weir.example:80' "$web/v1/policies")"
check "a page of http.origins" 200 "$(status -H 'Origin: https://app.example' "$web/v1/take?policy=a&key=p")"
check "is allowed to read it" 1 "$(grep -ci '^Access-Control-Allow-Origin: https://app.example' "$tmp/head")"
check "its preflight" 204 "$(status -X OPTIONS -H 'Origin: https://app.example' -H 'Access-Control-Request-Method: POST' "$web/v1/take")"
sed -i 's/app.example/two.example/' "$tmp/names.yaml"
check "a change of http waits for a restart" 1 "$(await 1 ' warning restart-needed key=http ')"
daemon_stop

# ---- passwords
cat >"$tmp/secret.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", unix: "$tmp/socket"}
threads: 1
password: open sesame
policies: {a: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/secret.yaml" --log-format json
read -r port http < <(python3 - "$daemon_log" <<'PYTHON'
import json, sys

started = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "started"][0]
print(started["resp"].split(",")[0].rsplit(":", 1)[1], started["http"].rsplit(":", 1)[1])
PYTHON
)
cat >"$tmp/guess.py" <<'PYTHON'
from kit import *

resp, http = int(sys.argv[1]), int(sys.argv[2])
WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
guesses = [connect(resp) for _ in range(20)]
for s in guesses:
    s.sendall(b"AUTH guess\r\n" * 1000)
pages = [connect(http) for _ in range(5)]
for s in pages:
    s.sendall(b"GET /v1/policies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n" * 1000)
friend = connect(resp)
friend.sendall(b'AUTH "open sesame"\r\nPING\r\n')
other_scheme = connect(http)
REQUEST = b"GET /v1/policies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Digest x\r\n"
other_scheme.sendall((REQUEST + b"\r\n") * 9 + REQUEST + b"Connection: close\r\n\r\n")
say("another scheme is no guess", rest(other_scheme).count(b"HTTP/1.1 401 ") == 10)
say("others are served meanwhile", friend.recv(64) == b"+OK\r\n+PONG\r\n")
say("three guesses a connection, however many are sent", all(rest(s) == WRONG * 3 for s in guesses))
say("HTTP has three, too", all(rest(s).count(b"HTTP/1.1 401 ") == 3 for s in pages))
PYTHON
counted "$tmp/guess.py" "$port" "$http"
wrong=$(curl -s -H 'Authorization: Bearer open sesame' "http://127.0.0.1:$http/metrics" | grep ^weir_wrong_passwords_total | tr '\n' ' ')
check "the metrics count them" 'weir_wrong_passwords_total{protocol="resp"} 60 weir_wrong_passwords_total{protocol="http"} 15 ' "$wrong"
cat >"$tmp/log.py" <<'PYTHON'
from kit import *
import json, time

wrong, until = [], time.monotonic() + 20
while sum(e["times"] for e in wrong) < 75 and time.monotonic() < until:  # the rest is logged within a second
    wrong = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "wrong-password"]
say("the log has all of them", sum(e["times"] for e in wrong) == 75)
say("in a few lines", 1 <= len(wrong) < 20)
say("with an address", all(e["peer"].startswith("127.0.0.1:") for e in wrong))
unix = socket.socket(socket.AF_UNIX)
unix.connect(sys.argv[2])
unix.sendall(b"AUTH guess\r\n")
while not any(e["peer"] == "unix" for e in wrong) and time.monotonic() < until + 20:
    wrong = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "wrong-password"]
say("a socket file has none", any(e["peer"] == "unix" for e in wrong))
text = open(sys.argv[1]).read()
say("and no password", "guess" not in text and "sesame" not in text)
started = json.loads(text.split("\n")[0])
say("numbers are numbers", all(type(started[k]) is int for k in ("policies", "memory_bytes", "threads")))
PYTHON
counted "$tmp/log.py" "$daemon_log" "$tmp/socket"
daemon_stop

# ---- readiness
if command -v redis-server >/dev/null; then
    redis_port=$(free_port)
    cat >"$tmp/inline.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
engine: redis
redis: {url: "redis://127.0.0.1:$redis_port", on_error: closed}
YAML
    daemon_start "$tmp" "$weir" serve "$tmp/inline.yaml"
    check "not ready: inline policies need the server" 503 "$(status "http://127.0.0.1:$(daemon_port http)/readyz")"
    check "and it names them" \
        '{"ready":false,"reasons":["a thread has no usable connection to Redis, so inline policies deny all requests (on_error: closed)"]}' \
        "$(cat "$tmp/body")"
    daemon_stop
    cat >"$tmp/ready.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
threads: 2
redis: {url: "redis://127.0.0.1:$redis_port"}
policies:
  lenient: {limit: gcra 1/s, engine: redis}
YAML
    daemon_start "$tmp" "$weir" serve "$tmp/ready.yaml"
    web=http://127.0.0.1:$(daemon_port http)
    check "a server that no closed policy needs is not missed" 200 "$(status "$web/readyz")"
    echo '  login: {limit: gcra 1/s, engine: redis, on_error: closed}' >>"$tmp/ready.yaml"
    check "a closed policy is added" 1 "$(await 1 ' info reloaded ')"
    check "not ready: the server was never reached" 503 "$(status "$web/readyz")"
    check "and it says why" \
        '{"ready":false,"reasons":["a thread has no usable connection to Redis, so policy login denies all requests (on_error: closed)"]}' \
        "$(cat "$tmp/body")"
    check "it lives all the same" 200 "$(status "$web/healthz")"
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --dir "$tmp" >"$tmp/redis.log" 2>&1 &
    redis_pid=$!
    # Each thread connects again by itself, within two seconds or so.
    curl -s -o /dev/null --fail --retry 100 --retry-all-errors --retry-delay 0 --retry-max-time 30 "$web/readyz"
    check "ready when it is there" 200 "$(status "$web/readyz")"
    # One that hangs: its connection stays, and the breaker opens.
    cat >"$tmp/hang.py" <<'PYTHON'
from kit import *
import os, signal, time

web = connect(int(sys.argv[1]))
HOST = b"Host: localhost\r\n\r\n"


def ready(takes):  # on one connection, so that one thread's breaker sees the takes
    web.sendall(b"GET /v1/take?policy=login&key=hang HTTP/1.1\r\n" + HOST)
    got = web.recv(65536)
    for _ in range(takes - 1):
        web.sendall(b"GET /v1/take?policy=login&key=hang HTTP/1.1\r\n" + HOST)
        got = web.recv(65536)
    web.sendall(b"GET /readyz HTTP/1.1\r\n" + HOST)
    return web.recv(65536).startswith(b"HTTP/1.1 200 ")


def await_ready(wanted, takes):  # until the pause of the breaker, of 2 s at most, is over
    until = time.monotonic() + 20
    while (is_ready := ready(takes)) != wanted and time.monotonic() < until:
        pass
    return is_ready == wanted


say("a take, and ready", ready(1))
os.kill(int(sys.argv[2]), signal.SIGSTOP)
say("not ready while the server hangs", await_ready(False, 6))
os.kill(int(sys.argv[2]), signal.SIGCONT)
say("ready when it goes on", await_ready(True, 1))
PYTHON
    counted "$tmp/hang.py" "${web##*:}" "$redis_pid"
    kill "$redis_pid"
    wait "$redis_pid"
    redis_pid=
    check "the server goes" 1 "$(await 1 ' warning redis-down .*closed the connection\| warning redis-down .*broke\| warning redis-down .*refused')"
    check "not ready: it has gone" 503 "$(status "$web/readyz")"
    daemon_stop
else
    echo "skip - redis-server is not installed"
    skipped=$((skipped + 1))
fi

# A connection that is open when the daemon stops, held by an answer under way, hears of it.
cat >"$tmp/queue.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
threads: 1
limits: {drain: 20s}
policies: {q: leaky-queue 1/s depth 5}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/queue.yaml"
cat >"$tmp/drain.py" <<'PYTHON'
from kit import *
import os, signal

s = connect(int(sys.argv[1]))
take = b"GET /v1/take?policy=q&key=a HTTP/1.1\r\nHost: localhost\r\n\r\n"
s.sendall(take)
s.recv(4096)
s.sendall(take + b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the take waits a second
other = connect(int(sys.argv[1]))
other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
other.recv(4096)  # so the loop has read what was sent before
os.kill(int(sys.argv[2]), signal.SIGTERM)
got = rest(s)
say("a stopping daemon is not ready", b"503" in got and b'"the daemon is stopping"' in got)
PYTHON
counted "$tmp/drain.py" "$(daemon_port http)" "$daemon_pid"
wait "$daemon_pid"
daemon_pid=

# ---- Caddy, forward_auth before a backend
if command -v caddy >/dev/null; then
    cat >"$tmp/caddy.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
http: {key: {header: X-Client}}
policies: {api: "fixed-window 2/365d"}
YAML
    daemon_start "$tmp" "$weir" serve "$tmp/caddy.yaml"
    web=127.0.0.1:$(daemon_port http)
    front=$(free_port)
    back=$(free_port)
    # What docs/http.md shows, with the places of this test. A browser sends all of these headers.
    {
        printf '{\n\tadmin off\n\tauto_https off\n}\nhttp://127.0.0.1:%s {\n\trespond "the backend"\n}\n' "$back"
        sed -n '/^```caddy/,/^```$/p' "$docs/http.md" | sed -e '/^```/d' \
            -e "s|127.0.0.1:8080|$web|; s|127.0.0.1:8000|127.0.0.1:$back|; s|^example.com|http://site.test:$front|"
    } >"$tmp/Caddyfile"
    XDG_DATA_HOME=$tmp XDG_CONFIG_HOME=$tmp caddy run --config "$tmp/Caddyfile" --adapter caddyfile >"$tmp/caddy.log" 2>&1 &
    caddy_pid=$!
    curl -s --retry 100 --retry-connrefused --retry-delay 0 --retry-max-time 20 -o /dev/null "http://127.0.0.1:$back/"
    browser=(--resolve "site.test:$front:127.0.0.1" -H 'Sec-Fetch-Site: cross-site' -H 'Origin: http://elsewhere.test')
    codes=$(for _ in 1 2 3 4; do status "${browser[@]}" "http://site.test:$front/"; echo; done | sort | uniq -c | awk '{print $2 "x" $1}' | tr '\n' ' ')
    check "Caddy lets two through, and no more" "200x2 429x2 " "$codes"
    check "with RateLimit" 1 "$(grep -ci '^ratelimit: "api";r=0' "$tmp/head")"
    kill "$caddy_pid"
    wait "$caddy_pid" 2>/dev/null
    caddy_pid=
    daemon_stop
else
    echo "skip - caddy is not installed"
    skipped=$((skipped + 1))
fi

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The daemon against hostile input and behind proxies: malformed requests, guessed passwords, Host and
# Origin, readiness and shutdown.
#
#   edge_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
tmp=$(mktemp -d)
skipped=0
redis_pid=
trap 'daemon_kill; [ -z "$redis_pid" ] || kill "$redis_pid" 2>/dev/null; rm -rf "$tmp"' EXIT

status() { # CURL-ARG...: the status; the body goes to $tmp/body, the head to $tmp/head
    curl -s -o "$tmp/body" -D "$tmp/head" -w '%{http_code}' "$@"
}

# ---- malformed requests
printf 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}\npolicies: {a: "gcra 1/365d burst 3"}\n' >"$tmp/open.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/open.yaml"
port=$(daemon_port resp)
http=$(daemon_port http)
cat >"$tmp/bytes.py" <<'PYTHON'
from connections import *
import sys
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
    ("a chunk above the limit, before its data", CHUNKED + b"20001\r\n", b"413"),
    ("a chunk size beyond 64 bits", CHUNKED + b"fffffffffffffffff", b"400"),
]:
    s = connect(http)
    s.sendall(sent)
    got = read_to_end(s)
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
    got = read_to_end(s)
    say(f"{name}: one error, then the connection closes", got.startswith(b"-ERR ") and got.count(b"\r\n") == 1)
PYTHON
check_python "$tmp/bytes.py" "$port" "$http"

# ---- Host and Origin, without a password
web=http://127.0.0.1:$http
check "an address as Host" 200 "$(status "$web/v1/policies")"
check "localhost as Host" 200 "$(status -H 'Host: localhost:1' "$web/v1/policies")"
check "another name as Host is refused" 421 "$(status -H 'Host: evil.example' "$web/v1/policies")"
check "the error says what to do" 1 "$(grep -c 'a name listed in http.hosts; add it there' "$tmp/body")"
check "another name in the request target is refused" 421 "$(status --request-target http://evil.example/v1/policies "$web")"
check "localhost. as Host" 200 "$(status -H 'Host: localhost.' "$web/v1/policies")"
check "a name in brackets as Host" 400 "$(status -H 'Host: [localhost]' "$web/healthz")"
check "OPTIONS *" 204 "$(status -X OPTIONS --request-target '*' "$web")"
check "an Origin of a browser extension is refused" 403 "$(status -H "Origin: chrome-extension://${web#http://}" "$web/v1/take?policy=a&key=p")"
check "/healthz accepts any Host" 200 "$(status -H 'Host: evil.example' "$web/healthz")"
check "an Origin that is not listed is refused" 403 "$(status -H 'Origin: https://app.example' "$web/v1/take?policy=a&key=p")"
check "the daemon is ready" '200 {"ready":true,"reasons":[]}' "$(status "$web/readyz") $(cat "$tmp/body")"
daemon_stop
cat >"$tmp/names.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
http: {hosts: [weir.example], origins: [https://app.example]}
policies: {a: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/names.yaml"
web=http://127.0.0.1:$(daemon_port http)
check "a Host of http.hosts is accepted" 200 "$(status -H 'Host: weir.example:80' "$web/v1/policies")"
check "an Origin of http.origins is accepted" 200 "$(status -H 'Origin: https://app.example' "$web/v1/take?policy=a&key=p")"
check "the response has Access-Control-Allow-Origin" 1 "$(grep -ci '^Access-Control-Allow-Origin: https://app.example' "$tmp/head")"
check "its preflight request is accepted" 204 "$(status -X OPTIONS -H 'Origin: https://app.example' -H 'Access-Control-Request-Method: POST' "$web/v1/take")"
sed -i 's/app.example/two.example/' "$tmp/names.yaml"
check "the section http is read again" 1 "$(await 1 ' info reloaded why="file changed" policies=1 changed=http.origins$')"
check "the other Origin is accepted" 200 "$(status -H 'Origin: https://two.example' "$web/v1/take?policy=a&key=p")"
check "the Origin that was removed is not" 403 "$(status -H 'Origin: https://app.example' "$web/v1/take?policy=a&key=p")"
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
from connections import *
import sys

resp, http = int(sys.argv[1]), int(sys.argv[2])
WRONG = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
guesses = [connect(resp) for _ in range(20)]
for s in guesses:
    s.sendall(b"AUTH guess\r\n" * 1000)
pages = [connect(http) for _ in range(5)]
for s in pages:
    s.sendall(b"GET /v1/policies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer guess\r\n\r\n" * 1000)
honest = connect(resp)
honest.sendall(b'AUTH "open sesame"\r\nPING\r\n')
other_scheme = connect(http)
REQUEST = b"GET /v1/policies HTTP/1.1\r\nHost: localhost\r\nAuthorization: Digest x\r\n"
other_scheme.sendall((REQUEST + b"\r\n") * 9 + REQUEST + b"Connection: close\r\n\r\n")
say("another authentication scheme does not count as a guess", read_to_end(other_scheme).count(b"HTTP/1.1 401 ") == 10)
say("other clients are served meanwhile", honest.recv(64) == b"+OK\r\n+PONG\r\n")
say("RESP: a connection has three guesses", all(read_to_end(s) == WRONG * 3 for s in guesses))
say("HTTP: a connection has three guesses", all(read_to_end(s).count(b"HTTP/1.1 401 ") == 3 for s in pages))
PYTHON
check_python "$tmp/guess.py" "$port" "$http"
wrong=$(curl -s -H 'Authorization: Bearer open sesame' "http://127.0.0.1:$http/metrics" | grep ^weir_wrong_passwords_total | tr '\n' ' ')
check "the metrics count wrong passwords" 'weir_wrong_passwords_total{protocol="resp"} 60 weir_wrong_passwords_total{protocol="http"} 15 weir_wrong_passwords_total{protocol="grpc"} 0 ' "$wrong"
cat >"$tmp/log.py" <<'PYTHON'
from connections import *
import sys
import json, time

wrong, until = [], time.monotonic() + 20
while sum(e["times"] for e in wrong) < 75 and time.monotonic() < until:  # the rest is logged within a second
    wrong = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "wrong-password"]
say("the log has all wrong passwords", sum(e["times"] for e in wrong) == 75)
say("the log sums them up in a few lines", 1 <= len(wrong) < 20)
say("the log has the client's address", all(e["peer"].startswith("127.0.0.1:") for e in wrong))
unix = socket.socket(socket.AF_UNIX)
unix.connect(sys.argv[2])
unix.sendall(b"AUTH guess\r\n")
while not any(e["peer"] == "unix" for e in wrong) and time.monotonic() < until + 20:
    wrong = [e for e in map(json.loads, open(sys.argv[1])) if e["event"] == "wrong-password"]
say("the address of a client on a Unix socket is 'unix'", any(e["peer"] == "unix" for e in wrong))
text = open(sys.argv[1]).read()
say("the log has no password", "guess" not in text and "sesame" not in text)
started = json.loads(text.split("\n")[0])
say("numbers in the log are JSON numbers", all(type(started[k]) is int for k in ("policies", "memory_bytes", "threads")))
PYTHON
check_python "$tmp/log.py" "$daemon_log" "$tmp/socket"
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
    check "not ready: inline policies are denied without the server" 503 "$(status "http://127.0.0.1:$(daemon_port http)/readyz")"
    check "the reason names inline policies" \
        '{"ready":false,"reasons":["a thread has no usable connection to Redis (127.0.0.1:'"$redis_port"': connection refused), so inline policies deny all requests (on_error: closed)"]}' \
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
    check "ready without the server if no policy has on_error: closed" 200 "$(status "$web/readyz")"
    echo '  login: {limit: gcra 1/s, engine: redis, on_error: closed}' >>"$tmp/ready.yaml"
    check "a policy with on_error: closed is added" 1 "$(await 1 ' info reloaded ')"
    check "not ready: the policy is denied without the server" 503 "$(status "$web/readyz")"
    check "the reason names the policy" \
        '{"ready":false,"reasons":["a thread has no usable connection to Redis (127.0.0.1:'"$redis_port"': connection refused), so policy login denies all requests (on_error: closed)"]}' \
        "$(cat "$tmp/body")"
    check "/healthz succeeds while the daemon is not ready" 200 "$(status "$web/healthz")"
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --dir "$tmp" >"$tmp/redis.log" 2>&1 &
    redis_pid=$!
    # Each thread reconnects within about two seconds.
    curl -s -o /dev/null --fail --retry 100 --retry-all-errors --retry-delay 0 --retry-max-time 30 "$web/readyz"
    check "ready once the server is up" 200 "$(status "$web/readyz")"
    # A server that hangs keeps its connection, but the circuit breaker opens.
    cat >"$tmp/hang.py" <<'PYTHON'
from connections import *
import sys
import os, signal, time

web = connect(int(sys.argv[1]))
HOST = b"Host: localhost\r\n\r\n"


def ready(takes):  # on one connection, so that the circuit breaker of one thread sees all requests
    web.sendall(b"GET /v1/take?policy=login&key=hang HTTP/1.1\r\n" + HOST)
    got = web.recv(65536)
    for _ in range(takes - 1):
        web.sendall(b"GET /v1/take?policy=login&key=hang HTTP/1.1\r\n" + HOST)
        got = web.recv(65536)
    web.sendall(b"GET /readyz HTTP/1.1\r\n" + HOST)
    return web.recv(65536).startswith(b"HTTP/1.1 200 ")


def await_ready(wanted, takes):  # the circuit breaker stays open for 2 s at most
    until = time.monotonic() + 20
    while (is_ready := ready(takes)) != wanted and time.monotonic() < until:
        pass
    return is_ready == wanted


say("ready after a request", ready(1))
os.kill(int(sys.argv[2]), signal.SIGSTOP)
say("not ready while the server hangs", await_ready(False, 6))
os.kill(int(sys.argv[2]), signal.SIGCONT)
say("ready once the server continues", await_ready(True, 1))
PYTHON
    check_python "$tmp/hang.py" "${web##*:}" "$redis_pid"
    kill "$redis_pid"
    wait "$redis_pid"
    redis_pid=
    check "redis-down is logged" 1 "$(await 1 ' warning redis-down .*closed the connection\| warning redis-down .*broke\| warning redis-down .*refused')"
    check "not ready: the server has stopped" 503 "$(status "$web/readyz")"
    daemon_stop
else
    echo "skip - redis-server is not installed"
    skipped=$((skipped + 1))
fi

# /readyz on a connection that stays open during the shutdown, because a reply is delayed.
cat >"$tmp/queue.yaml" <<YAML
listen: {resp: off, http: "127.0.0.1:0"}
threads: 1
limits: {drain: 20s}
policies: {q: leaky-queue 1/s depth 5}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/queue.yaml"
cat >"$tmp/drain.py" <<'PYTHON'
from connections import *
import sys
import os, signal

s = connect(int(sys.argv[1]))
take = b"GET /v1/take?policy=q&key=a HTTP/1.1\r\nHost: localhost\r\n\r\n"
s.sendall(take)
s.recv(4096)
s.sendall(take + b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the take waits a second
other = connect(int(sys.argv[1]))
other.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
other.recv(4096)  # so the event loop has read the earlier requests
os.kill(int(sys.argv[2]), signal.SIGTERM)
got = read_to_end(s)
say("the daemon is not ready during the shutdown", b"503" in got and b'"the daemon is stopping"' in got)
PYTHON
check_python "$tmp/drain.py" "$(daemon_port http)" "$daemon_pid"
wait "$daemon_pid"
daemon_pid=

# During limits.grace, new connections are accepted, and say that the daemon is stopping. A second signal ends it.
cat >"$tmp/grace.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
limits: {grace: 1h}
policies: {q: fixed-window 1/d}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/grace.yaml"
web=http://127.0.0.1:$(daemon_port http)
check "the daemon is ready before SIGTERM" 200 "$(status "$web/readyz")"
kill -TERM "$daemon_pid"
check "SIGTERM is logged" 1 "$(await 1 'received SIGTERM .* new ones are accepted for 3600.000 s')"
check "a new connection reads that it is stopping" '503 {"ready":false,"reasons":["the daemon is stopping"]}' \
    "$(status "$web/readyz") $(cat "$tmp/body")"
check "also that of Envoy's health check" 500 "$(status "$web/healthcheck")"
check "the process still lives" 200 "$(status "$web/healthz")"
check "new connections are served" "200 PONG" \
    "$(status "$web/v1/take?policy=q&key=a") $(request_to "$(daemon_port resp)" PING)"
daemon_stop
check "a second SIGTERM stops the daemon with status 0" 0 $?

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

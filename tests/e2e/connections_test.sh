#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Clients that open many connections, or do nothing with them, do not lock the others out.
#
#   connections_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

# ---- all connections are open
cat >"$tmp/full.yaml" <<YAML
listen: {resp: "127.0.0.1:0", unix: "$tmp/socket", http: "127.0.0.1:0"}
limits: {connections: 64}
policies: {api: "gcra 1/h burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/full.yaml"
port=$(sed -n 's/.* info started .* resp=127.0.0.1:\([0-9]*\).*/\1/p' "$daemon_log")
http=$(daemon_port http)
cat >"$tmp/full.py" <<'PYTHON'
from connections import *
import http.client
import sys


def get(path):
    c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
    c.request("GET", path)
    r = c.getresponse()
    return r.status, r.read().decode()


def ping(connection):
    connection.sendall(b"PING\r\n")
    return read(connection, 7)


say("the daemon is ready", get("/readyz")[0] == 200)
taken = [connect(sys.argv[1]) for _ in range(62)]
say("loopback clients get 62 of 64 connections", all(ping(c) == b"+PONG\r\n" for c in taken))
say("the next one is refused", read_to_end(connect(sys.argv[1])).startswith(b"-ERR max number of clients"))
silent = [connect(sys.argv[2]) for _ in range(300)]
say("/healthz answers 200", get("/healthz") == (200, "ok\n"))
status, body = get("/readyz")
say("/readyz answers 503 with the reason", status == 503 and "limits.connections" in body)
say("a decision answers 503", get("/v1/take?policy=api&key=a")[0] == 503)
unix = socket.socket(socket.AF_UNIX)
unix.connect(sys.argv[3])
say("the Unix socket has a connection left", ping(unix) == b"+PONG\r\n")
for _ in range(10000):  # another loop may not have accepted all silent connections yet
    unix.sendall(b"INFO\r\n")
    info = unix.recv(65536)
    if b"\r\nrejected_connections:304\r\n" in info:
        break
say("INFO counts the refused connections", b"\r\nrejected_connections:304\r\n" in info)
say("INFO counts those of one client", b"\r\nrejected_connections_per_address:0\r\n" in info)
for c in taken:
    c.close()
while get("/readyz")[0] != 200:
    pass
say("the daemon is ready again", get("/v1/take?policy=api&key=a")[0] == 200)
PYTHON
check_python "$tmp/full.py" "$port" "$http" "$tmp/socket"
daemon_stop

# ---- many connections of one client, behind a proxy
cat >"$tmp/one.yaml" <<YAML
listen: {resp: {address: "127.0.0.1:0", proxy_protocol: true}, http: "127.0.0.1:0"}
trusted_proxies: 127.0.0.1
limits: {per_address: 2}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/one.yaml"
cat >"$tmp/one.py" <<'PYTHON'
from connections import *
import sys


def proxied(address):
    c = connect(sys.argv[1])
    c.sendall(b"PROXY TCP4 %s 192.0.2.99 1 2\r\nPING\r\n" % address)
    return c, read(c, 5)


open_ones = [proxied(b"192.0.2.7") for _ in range(3)]
say("a client gets two connections", [r for _, r in open_ones] == [b"+PONG", b"+PONG", b"-ERR "])
say("another client is not concerned", proxied(b"192.0.2.8")[1] == b"+PONG")
PYTHON
check_python "$tmp/one.py" "$(daemon_port resp)"
check "the refusal is logged with the client" 1 \
    "$(grep -c ' warning refused text="refused a connection from 192.0.2.7:1: the maximum is 2 of one address (limits.per_address)"' "$daemon_log")"
check "the refusal is counted" 1 \
    "$(curl -s "http://127.0.0.1:$(daemon_port http)/metrics" | grep -c '^weir_connections_refused_per_address_total 1$')"
daemon_stop

# ---- clients that send nothing, or no password
cat >"$tmp/new.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}
limits: {request: 500ms}
password: secret
YAML
daemon_start "$tmp" "$weir" serve "$tmp/new.yaml"
cat >"$tmp/new.py" <<'PYTHON'
from connections import *
import sys

REQUEST = b"GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n"
resp, web, grpc = sys.argv[1:4]
known, new = connect(resp), connect(resp)
known_web, new_web = connect(web), connect(web)
silent = [connect(p) for p in (resp, web, grpc)]
known.sendall(b"AUTH secret\r\n")
new.sendall(b"PING\r\n")
known_web.sendall(REQUEST % b"/v1/policies")
new_web.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
say("the password is accepted", read(known, 5) == b"+OK\r\n")
say("a command needs the password", read(new, 7) == b"-NOAUTH")
say("an HTTP client is answered", known_web.recv(9999).startswith(b"HTTP/1.1 200"))
say("a health check is answered", new_web.recv(9999).startswith(b"HTTP/1.1 200"))
say("clients that send nothing are closed", all(read_to_end(c) == b"" for c in silent))
read_to_end(new)
say("one without the password is closed", True)
say("and one of HTTP", read_to_end(new_web) == b"")
known.sendall(b"PING\r\n")
known_web.sendall(REQUEST % b"/v1/policies")
say("one with the password is not", read(known, 7) == b"+PONG\r\n")
say("nor one of HTTP", known_web.recv(9999).startswith(b"HTTP/1.1 200"))
PYTHON
check_python "$tmp/new.py" "$(daemon_port resp)" "$(daemon_port http)" "$(daemon_port grpc)"
check "the log says why" 1 "$(grep -c ' warning timed-out text="closed a connection: its client has \(sent nothing\|not authenticated in time\) (limits.request)' "$daemon_log")"
daemon_stop

echo "$passed passed, $failed failed"
exit $((failed > 0))

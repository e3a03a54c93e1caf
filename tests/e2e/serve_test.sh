#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir serve`: redis-cli, redis-benchmark, raw TCP connections, and usage errors.
#
#   serve_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

daemon_start "$tmp" "$weir" serve --port 0 --http 0
port=$(daemon_port resp)
try() { eval "$(grep "$1" "$daemon_log")" 2>&1 | tr '\n' ' ' | sed 's/ *$//'; }
check "the first suggested command works" "1 20 19 0 10 0" "$(try '^  redis-cli.*WEIR.CHECK')"
check "the second suggested command works" "0 16 15 -1 2" "$(try '^  redis-cli.*CL.THROTTLE')"
check "the third suggested command works" 1 "$(try '^  curl' | grep -c '"allowed":true')"

check "PING" PONG "$(request PING)"
check "first of two a day" "1 2 1 0" "$(request WEIR.CHECK 'gcra 2/3650d burst 2' a | cut -d' ' -f1-4)"
check "second of two a day" "1 2 0 0" "$(request WEIR.CHECK 'gcra 2/3650d burst 2' a | cut -d' ' -f1-4)"
check "third of two a day is denied" "0 2 0" "$(request WEIR.CHECK 'gcra 2/3650d burst 2' a | cut -d' ' -f1-3)"
check "another key has a quota of its own" "1 2 0 0" "$(request WEIR.CHECK 'gcra 2/3650d burst 2' b COST 2 | cut -d' ' -f1-4)"
check "a cost above the limit is never allowed" "0 5 5 -1 0 0" "$(request WEIR.CHECK 'sliding-log 5/m' a COST 6)"
check "a binary key" "1 1 0 0" "$(printf 'k\x01\xff' | redis-cli -p "$port" -x WEIR.CHECK 'gcra 1/3650d' 2>&1 | head -4 | tr '\n' ' ' | sed 's/ *$//')"
check "an invalid policy is an error with its column" \
    "ERR policy: column 10: unknown unit 'x', expected one of ns us ms s m h d w" \
    "$(request WEIR.CHECK 'gcra 100/x' a)"
check "a time zone of the system is found" "1 100 99 0" \
    "$(request WEIR.CHECK 'fixed-window 100/day tz America/New_York' a | cut -d' ' -f1-4)"
check "CL.THROTTLE replies as redis-cell" "0 16 15 -1 2" "$(request CL.THROTTLE u 15 30 60)"
check "CL.THROTTLE has the errors of redis-cell" "Cell error: Store error: Zero rates are not supported" "$(request CL.THROTTLE u 15 0 60)"
check "an unknown command" "ERR unknown command 'GET'; WEIR.HELP lists the commands" "$(request GET a)"

# Every algorithm denies exactly at its limit.
while IFS='|' read -r policy limit; do
    denied=$(for _ in $(seq $((limit + 1))); do echo "WEIR.CHECK '$policy' each"; done |
        redis-cli -p "$port" 2>&1 | awk 'NR % 6 == 1' | grep -c '^0$')
    check "$policy denies one of $((limit + 1))" 1 "$denied"
done <<'POLICIES'
gcra 1/h burst 5|5
gcra 7/3650d burst 7|7
token-bucket 5 refill 1/h|5
token-bucket 5 refill 5 every 3650d|5
leaky-bucket 1/h capacity 5|5
leaky-queue 1/h depth 4|5
fixed-window 5/3650d|5
fixed-window 5/year tz Europe/Berlin|5
fixed-window 5/h from-first|5
fixed-window 5/3650d count-denied|5
sliding-log 5/h|5
sliding-log 5/h count-denied|5
sliding-counter 5/3650d|5
sliding-counter 5/3650d relaxed|5
sliding-slices 5/3650d slices 60|5
gcra 1/h burst 9 & sliding-log 5/h|5
POLICIES

# 50 pipelined connections on one key: exactly the burst is admitted.
redis-benchmark -p "$port" -c 50 -P 16 -n 50000 -q WEIR.CHECK 'gcra 1/3650d burst 3' hot >"$tmp/benchmark" 2>&1
check "a pipelined load gets no error" 0 "$(grep -c -i error "$tmp/benchmark")"
check "after it, the key has no quota left" "0 3 0" "$(request WEIR.CHECK 'gcra 1/3650d burst 3' hot | cut -d' ' -f1-3)"

cat >"$tmp/sockets.py" <<'PYTHON'
import sys

import connections
from connections import read, say


def connect():
    return connections.connect(sys.argv[1])


s = connect()
for byte in b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n":
    s.sendall(bytes([byte]))
say("a request that arrives byte by byte is served", read(s, 8) == b"$2\r\nhi\r\n")

s.sendall(b"PING\r\nQUIT\r\nPING\r\n")
say("QUIT replies and closes", read(s, 99) == b"+PONG\r\n+OK\r\n")

s = connect()
s.sendall(b"PING\r\n*1\r\n:1\r\nPING\r\n")
say("a protocol error is reported, and the connection closes",
    read(s, 999) == b"+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n")

s = connect()
s.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n")
say("an HTTP request on the RESP port is not served", read(s, 99) == b"")

# Back-pressure: the daemon stops reading from a client that does not read. The client loses no
# reply, and other clients do not wait.
slow = connect()
slow.settimeout(0.3)  # a send that is blocked for so long means that the daemon has stopped reading
request, sent = b"*2\r\n$4\r\nPING\r\n$100\r\n" + b"x" * 100 + b"\r\n", 0
data = request * 400000
try:
    while sent < len(data):
        sent += slow.send(data[sent : sent + 65536])
except TimeoutError:
    pass
other = connect()
other.sendall(b"PING\r\n")
say("the daemon stops reading from a client that does not read", sent < len(data))
say("other clients are served meanwhile", read(other, 7) == b"+PONG\r\n")
whole = sent // len(request)
slow.setblocking(True)
slow.settimeout(20)
reply = b"$100\r\n" + b"x" * 100 + b"\r\n"
say("the client gets every reply once it reads", read(slow, whole * len(reply)) == reply * whole)

many = [connect() for _ in range(300)]
for c in many:
    c.sendall(b"PING\r\n")
say("300 connections at once are served", all(read(c, 7) == b"+PONG\r\n" for c in many))
PYTHON
check_python "$tmp/sockets.py" "$port"

# The limit on connections: closed connections do not count, and one too many gets an error.
: >"$tmp/few.log" # `tail` may start before the daemon
"$weir" serve --port 0 --http 0 --connections 2 >>"$tmp/few.log" 2>&1 &
few_pid=$!
timeout 20 tail -n +1 -f --pid="$few_pid" "$tmp/few.log" | grep -q -m1 ' info started '
few_port=$(sed -n 's/.* resp=127.0.0.1:\([0-9]*\).*/\1/p' "$tmp/few.log")
cat >"$tmp/few.py" <<'PYTHON'
import socket, sys

TRIES = 1000


def connect():
    return socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)


def served():
    """Returns a connection that is served. The daemon may not have noticed yet that another was closed."""
    for _ in range(TRIES):
        s = connect()
        try:
            s.sendall(b"PING\r\n")
            if s.recv(99).startswith(b"+PONG"):
                return s
        except ConnectionError:
            pass
        s.close()
    sys.exit("no connection is served")


for _ in range(3):
    served().close()
two = [served(), served()]
third = connect()
print(third.recv(99).decode().strip(), third.recv(99))
PYTHON
check "closed connections do not count, and one too many is refused" \
    "-ERR max number of clients reached b''" "$(python3 "$tmp/few.py" "$few_port")"
kill -TERM "$few_pid"
wait "$few_pid"

# Options replace the values of the file, also after a reload; a port replaces the TCP addresses of its
# protocol.
mkdir "$tmp/file"
cat >"$tmp/file/weir.yaml" <<YAML
listen: {resp: ["127.0.0.1:0", "127.0.0.1:0"], http: ["127.0.0.1:0", "127.0.0.1:0"], unix: $tmp/file/sock}
threads: 1
limits: {connections: 5}
policies: {api: gcra 1/s}
YAML
(
    daemon_start "$tmp/file" "$weir" serve "$tmp/file/weir.yaml" --port 0 --threads 2 --connections 7
    trap daemon_kill EXIT
    started=$(sed -nE '/ info started /s/127.0.0.1:[0-9]+/TCP/gp' "$daemon_log" | cut -d' ' -f5-)
    check "options and a file" "resp=$tmp/file/sock,TCP http=TCP,TCP policies=1 memory_bytes=268435456 threads=2" "$started"
    check "nothing is suggested to a user who has a file" 0 "$(grep -c '^weir is ready' "$daemon_log")"
    metrics=http://127.0.0.1:$(sed -nE 's/.* http=127.0.0.1:([0-9]+).*/\1/p' "$daemon_log")/metrics
    check "--connections" 7 "$(curl -s "$metrics" | sed -n 's/^weir_connections_max //p')"
    sed -i 's/gcra 1/gcra 2/' "$tmp/file/weir.yaml"
    check "a reload with options" 1 "$(await 1 ' info reloaded ')"
    check "the options are kept: no restart is needed" 0 "$(grep -c restart-needed "$daemon_log")"
    daemon_stop
    echo "$passed $failed" >"$tmp/file/counts"
)
read -r passed failed <"$tmp/file/counts"

in_use=$("$weir" serve --port "$port" 2>&1)
check "a port in use: status" 1 $?
check "a port in use: the error says what to do" \
    "error not-started error=\"cannot listen on 127.0.0.1:$port: address already in use: another server uses it; stop that server or choose another address\"" "${in_use#* }"
for bad in 65536 -1 x '' ' 5' +5; do
    out=$("$weir" serve --port "$bad" 2>&1)
    check "--port '$bad': status and text" "2 weir serve: --port $bad: expected a number from 0 to 65535" "$? $out"
done
usage() { # TEXT ARGUMENT...: a usage error
    local out
    out=$(timeout 20 "$weir" serve "${@:2}" 2>&1)
    check "weir serve ${*:2}" "2 weir serve: $1" "$? $out"
}
for bad in 0 257 -1 x ''; do
    usage "--threads $bad: expected a number from 1 to 256" --threads "$bad"
done
for bad in 0 1000001 x; do
    usage "--connections $bad: expected a number from 1 to 1000000" --connections "$bad"
done
usage "--http 65536: expected a number from 0 to 65535" --http 65536
usage "--log-format xml: expected text or json" --log-format xml
usage "--reset-state: no state file, expected memory.file in the configuration" --reset-state
usage "--redis needs a value" --redis
usage "unknown option '--prot', expected --port, --http, --grpc, --spoe, --threads, --connections, --redis, --reset-state, --envoy, --take-over, --log-format or --help; see weir serve --help" --prot 1
out=$(timeout 20 "$weir" serve --redis http://h 2>&1)
check "--redis with a URL that is none" "1 weir serve: --redis: " "$? ${out:0:21}"
check "weir serve --help" "0 Usage: weir serve [OPTION]... [FILE]" "$("$weir" serve --help >"$tmp/help"; echo $?) $(head -n 1 "$tmp/help")"
out=$("$weir" serve one two 2>&1)
check "an extra argument" "2 weir serve: unexpected 'two'; see weir serve --help" "$? $out"
out=$("$weir" serve /no/such/file 2>&1)
check "a file that does not exist" "1 /no/such/file: error: c" "$? ${out:0:23}"
out=$("$weir" bake 2>&1)
check "an unknown command" "2 weir: unknown command 'bake', expected serve, check, replay, suggest, accuracy, policy, demo, state, take, peek, refund, charge, reserve, renew, commit, cancel, reset, explain, top, policies, ping, help or version" "$? $out"
check "\`weir policy\` prints the canonical text" "gcra 5/m burst 3" "$("$weir" policy 'gcra 5/60s burst 3' | head -1)"
out=$("$weir" policy 'gcra 5/q' 2>&1)
check "\`weir policy\` points at the column of an error" "2          ^" "$? $(tail -n 1 <<<"$out")"

# A client that never reads its replies does not prevent the shutdown.
cat >"$tmp/stuck.py" <<'PYTHON'
import os, signal, socket, sys

s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.settimeout(0.3)
try:
    s.sendall((b"*2\r\n$4\r\nPING\r\n$100\r\n" + b"x" * 100 + b"\r\n") * 400000)
except TimeoutError:
    pass
print("stuck", flush=True)
sys.stdin.read()
PYTHON
coproc STUCK { exec python3 "$tmp/stuck.py" "$port"; }
read -r -t 30 stuck <&"${STUCK[0]}"
check "a client has stopped reading" stuck "$stuck"
daemon_stop
check "SIGTERM stops the daemon with status 0 while a client does not read" 0 $?
kill "$STUCK_PID" 2>/dev/null

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

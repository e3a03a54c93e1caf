#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The configuration of a running daemon: reload, password, public addresses, limits, log format.
#
#   config_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

# ---- reload
config() { # LIMIT: replaces the file atomically; policy a has this limit
    cat >"$tmp/new.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
policies: {a: "$1", b: "gcra 1/365d burst 2"}
YAML
    mv "$tmp/new.yaml" "$tmp/weir.yaml"
}
config "gcra 1/365d burst 3"
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
port=$(daemon_port resp)
http=$(daemon_port http)
check "before the reload: policy a" "1 3 2 0" "$(request WEIR.TAKE a k | cut -d' ' -f1-4)"
check "before the reload: policy b" "1 2 1 0" "$(request WEIR.TAKE b k | cut -d' ' -f1-4)"
config "gcra 1/365d burst 7"
check "a change of the file is loaded" 1 "$(await 1 ' info reloaded why="file changed" policies=2')"
check "a policy with a new limit keeps what was used" "1 7 5 0" "$(request WEIR.TAKE a k | cut -d' ' -f1-4)"
check "a policy with the same text keeps its states" "1 2 0 0" "$(request WEIR.TAKE b k | cut -d' ' -f1-4)"
printf 'policies:\n  a: "gcra 1/x"\n  c:\n    limits: 3\n' >"$tmp/new.yaml"
mv "$tmp/new.yaml" "$tmp/weir.yaml"
check "an invalid file is refused" 1 "$(await 1 ' error reload-refused ')"
check "the log has the error with its position" 1 "$(grep -c ' error config-error .*line=2 column=14 path=policies.a error=.*unknown unit' "$daemon_log")"
check "the log has all errors" 1 "$(grep -c ' error config-error .*line=4 ' "$daemon_log")"
check "the old policies stay active" "1 7 4 0" "$(request WEIR.TAKE a k | cut -d' ' -f1-4)"
check "WEIR.POLICY SET adds a policy" OK "$(request WEIR.POLICY SET c 'gcra 1/365d')"
kill -HUP "$daemon_pid"
check "SIGHUP reads the file again" 2 "$(await 2 ' error reload-refused ')"
config "gcra 1/365d burst 3"
check "a valid file is loaded" 2 "$(await 2 ' info reloaded ')"
check "what was used is kept" "0 3 0" "$(request WEIR.TAKE a k | cut -d' ' -f1-3)"
check "a reload drops policies that SET added" "ERR no policy 'c'; WEIR.POLICY LIST shows all policies" "$(request WEIR.TAKE c k)"
sed -i 's/^listen.*/&\nthreads: 3/' "$tmp/weir.yaml"
check "restart-needed is logged" 1 "$(await 1 ' warning restart-needed key=threads ')"
check "the log names the keys that changed" 1 "$(grep -c ' info reloaded why="file changed" policies=2 changed=threads$' "$daemon_log")"
check "the metrics count reloads" "weir_reloads_total 3 weir_reloads_refused_total 2" \
    "$(curl -s "http://127.0.0.1:$http/metrics" | grep -E '^weir_reloads' | tr '\n' ' ' | sed 's/ $//')"
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

# ---- keys that need no restart
printf 'threads: 1\nlisten: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}\nlimits: {request: 60s}\n' >"$tmp/live.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/live.yaml"
cat >"$tmp/live.py" <<'PYTHON'
import pathlib
import sys

from connections import connect, read, read_to_end, say
from kit.process import until

resp, http, path, log = sys.argv[1:]
file = pathlib.Path(path)
begin = file.read_text()


REQUEST = (b"GET /v1/check?limit=gcra+1/s&key=k HTTP/1.1\r\nHost: localhost\r\n"
           b"Connection: close\r\n\r\n")


def take():
    """The response to a request."""
    s = connect(http)
    s.sendall(REQUEST)
    return read_to_end(s).lower()


def refused(s):
    """Whether a new client gets an error."""
    try:
        s.sendall(b"PING\r\n")
        return read(s, 1) == b"-"
    except ConnectionError:
        return True
    finally:
        s.close()


def ping(s):
    s.sendall(b"PING\r\n")
    return read(s, 7) == b"+PONG\r\n"


def said(text):
    return text in pathlib.Path(log).read_text()


kept = connect(http)
clients = [connect(resp) for _ in range(3)]
say("three clients are connected", all(ping(s) for s in clients))
file.write_text(begin + "headers: github\nlog: {level: warning}\n")
until(lambda: b"x-ratelimit-resource" in take(), "the other headers")
kept.sendall(REQUEST)
say("an open connection has the other headers", b"x-ratelimit-resource" in read_to_end(kept).lower())
say("log.level: warning drops the line of the reload", not said(" info reloaded "))
file.write_text(begin.replace("request", "connections: 2, request"))
until(lambda: said(" info reloaded "), "the default of log.level")
say("the log names the keys", said(" policies=0 changed=limits.connections,headers,log.level\n"))
until(lambda: refused(connect(resp)), "a client is refused")
say("with fewer connections, open ones stay", all(ping(s) for s in clients))
for s in clients[1:]:
    s.close()
until(lambda: not refused(connect(resp)), "a client is accepted when fewer are open")
file.write_text(begin.replace("60s", "1ms") + "threads: 0\nheaders: none\n")
until(lambda: said(" error reload-refused "), "an invalid file is refused")
say("an invalid file changes no key", ping(clients[0]) and b"x-ratelimit-limit" in take())
file.write_text(begin.replace("request: 60s", "idle: 1ms"))
say("a new timeout ends an open connection", read_to_end(clients[0]) == b"")
PYTHON
check_python "$tmp/live.py" "$(daemon_port resp)" "$(daemon_port http)" "$tmp/live.yaml" "$daemon_log"
daemon_stop

# ---- included files, and variables of the environment
mkdir "$tmp/conf.d"
cat >"$tmp/main.yaml" <<YAML
include: conf.d/*.yaml
listen: {resp: "127.0.0.1:0", http: off}
YAML
WEIR_BURST=3 daemon_start "$tmp" "$weir" serve "$tmp/main.yaml"
port=$(daemon_port resp)
# shellcheck disable=SC2016 # weir replaces the variable
echo 'policies: {a: "gcra 1/365d burst ${WEIR_BURST}"}' >"$tmp/conf.d/a.yaml"
check "a file that appears is loaded" 1 "$(await 1 ' info reloaded why="file changed" policies=1')"
check "the variable is replaced" "1 3 2 0" "$(request WEIR.TAKE a k | cut -d' ' -f1-4)"
# shellcheck disable=SC2016
echo 'policies: {a: "gcra 1/365d burst ${WEIR_NONE}"}' >"$tmp/conf.d/a.yaml"
check "a variable that is not set is refused" 1 \
    "$(await 1 ' error config-error file=.*/conf.d/a.yaml line=1 column=15 path=policies.a error="the environment variable WEIR_NONE is not set')"
daemon_stop

# ---- the password, and public addresses
cat >"$tmp/secret.yaml" <<YAML
listen: {resp: "0.0.0.0:0", http: "127.0.0.1:0"}
limits: {grace: off}
password: open sesame
policies: {a: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/secret.yaml"
port=$(daemon_port resp)
http=http://127.0.0.1:$(daemon_port http)
check "RESP without the password" "NOAUTH Authentication required." "$(request WEIR.TAKE a k)"
check "RESP with the password" "1 3 2 0" "$(REDISCLI_AUTH='open sesame' request WEIR.TAKE a k | cut -d' ' -f1-4)"
check "HTTP without the password" 401 "$(curl -s -o /dev/null -w '%{http_code}' "$http/v1/take?policy=a&key=k")"
check "HTTP with the password" 200 "$(curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer open sesame' "$http/v1/take?policy=a&key=k")"
check "/healthz needs no password" 200 "$(curl -s -o /dev/null -w '%{http_code}' "$http/healthz")"
check "the password is not in the log" 0 "$(grep -c sesame "$daemon_log")"
daemon_stop
printf 'listen: {resp: "0.0.0.0:0"}\n' >"$tmp/public.yaml"
out=$("$weir" serve "$tmp/public.yaml" 2>&1)
check "a public address without a password: status" 1 $?
check "a public address without a password: the error says what to do" 1 "$(grep -c 'insecure: true' <<<"$out")"
printf 'listen: {resp: "0.0.0.0:0"}\ninsecure: true\nlimits: {grace: off}\n' >"$tmp/public.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/public.yaml"
port=$(daemon_port resp)
check "insecure: true permits a public address" PONG "$(request PING)"
daemon_stop

# ---- limits
cat >"$tmp/limits.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
threads: 1
limits: {request: 300ms, idle: 10m, connections: 3, buffers: 1m}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/limits.yaml" --log-format json
# daemon_port() cannot read the log, which is in JSON.
ports=$(python3 - "$daemon_log" <<'PYTHON'
import json, sys

events = [json.loads(line) for line in open(sys.argv[1])]
started = [e for e in events if e["event"] == "started"][0]
print(started["resp"].rsplit(":", 1)[1], started["http"].rsplit(":", 1)[1], started["level"])
PYTHON
)
read -r port http level <<<"$ports"
check "a log line is an object" info "$level"
cat >"$tmp/limits.py" <<'PYTHON'
import sys

from connections import connect, read_to_end

resp, http = sys.argv[1:3]


def heard():
    """A connection that has had a reply. On a busy machine, limits.request may end it before it is heard."""
    while True:
        s = connect(resp)
        try:
            s.sendall(b"PING\r\n")
            if s.recv(7) == b"+PONG\r\n":
                return s
        except ConnectionError:
            pass


three = [heard() for _ in range(3)]
print(read_to_end(connect(resp)), read_to_end(connect(http)).split(b"\r\n")[0])
for s in three[1:]:
    s.close()
three[0].sendall(b"*2\r\n$4\r\nPING\r\n$70000\r\n")
print(read_to_end(three[0]))
s = connect(resp)
s.sendall(b"*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na")
print(read_to_end(s))
s = connect(http)
s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
print(read_to_end(s).split(b"\r\n")[0])
PYTHON
check "too many connections, too long a request, too slow a request: each gets an error" \
    "b'-ERR max number of clients reached\r\n' b'HTTP/1.1 503 Service Unavailable'
b'-ERR Protocol error: invalid bulk length\r\n'
b'-ERR timeout: the request was not completed in time\r\n'
b'HTTP/1.1 408 Request Timeout'" \
    "$(PYTHONPATH=$(dirname "$0") python3 "$tmp/limits.py" "$port" "$http" 2>&1)"
daemon_stop
check "--reset-state needs memory.file" "weir serve: --reset-state: no state file, expected memory.file in the configuration 2" \
    "$("$weir" serve --port 0 --reset-state 2>&1) $?"
check "every line of the log is an object" 0 "$(python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$daemon_log" 2>&1 | wc -l)"
cat >"$tmp/events.py" <<'PYTHON'
import json, re, sys

events = {json.loads(line)["event"] for line in open(sys.argv[1])}
print([e for e in sorted(events) if not re.fullmatch("[a-z0-9-]+", e)], "timed-out" in events)
PYTHON
check "events have names of lower-case letters, digits and '-'" "[] True" "$(python3 "$tmp/events.py" "$daemon_log")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

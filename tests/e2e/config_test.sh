#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What a configuration does to a running daemon: reloads, passwords, public addresses, limits, logs.
#
#   config_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
tmp=$(mktemp -d)
trap 'daemon_kill; rm -rf "$tmp"' EXIT

ask() { # ARG...: the reply on one line
    redis-cli -p "$port" "$@" 2>&1 | tr '\n' ' ' | sed 's/ *$//'
}

# NUMBER PATTERN: waits until the log holds the pattern so many times
await() {
    timeout 20 tail -n +1 -f --pid="$daemon_pid" "$daemon_log" | grep -m"$1" -- "$2" | wc -l
}

# ---- reload
config() { # LIMIT-OF-A: the file, as a whole and at once
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
check "before" "1 3 2 0" "$(ask WEIR.TAKE a k | cut -d' ' -f1-4)"
check "before, the other" "1 2 1 0" "$(ask WEIR.TAKE b k | cut -d' ' -f1-4)"
config "gcra 1/365d burst 7"
check "the change of the file is seen" 1 "$(await 1 ' info reloaded why="file changed" policies=2')"
check "a new text, a fresh key" "1 7 6 0" "$(ask WEIR.TAKE a k | cut -d' ' -f1-4)"
check "the same text, the same state" "1 2 0 0" "$(ask WEIR.TAKE b k | cut -d' ' -f1-4)"
printf 'policies:\n  a: "gcra 1/x"\n  c:\n    limits: 3\n' >"$tmp/new.yaml"
mv "$tmp/new.yaml" "$tmp/weir.yaml"
check "a bad file is refused" 1 "$(await 1 ' error reload-refused ')"
check "and said in the log, with the place" 1 "$(grep -c ' error config-error .*line=2 column=14 path=policies.a error=.*unknown unit' "$daemon_log")"
check "all that is wrong" 1 "$(grep -c ' error config-error .*line=4 ' "$daemon_log")"
check "the old one goes on" "1 7 5 0" "$(ask WEIR.TAKE a k | cut -d' ' -f1-4)"
check "what SET added is in force" OK "$(ask WEIR.POLICY SET c 'gcra 1/365d')"
kill -HUP "$daemon_pid"
check "SIGHUP reads it again" 2 "$(await 2 ' error reload-refused ')"
config "gcra 1/365d burst 3"
check "a good one is taken" 2 "$(await 2 ' info reloaded ')"
check "with the states of before" "1 3 1 0" "$(ask WEIR.TAKE a k | cut -d' ' -f1-4)"
check "the file is all there is" "ERR no policy 'c'; WEIR.POLICY LIST shows all policies" "$(ask WEIR.TAKE c k)"
sed -i 's/^listen.*/&\nthreads: 3/' "$tmp/weir.yaml"
check "what needs a restart is said" 1 "$(await 1 ' warning restart-needed key=threads ')"
check "reloads are counted" "weir_reloads_total 3 weir_reloads_refused_total 2" \
    "$(curl -s "http://127.0.0.1:$http/metrics" | grep -E '^weir_reloads' | tr '\n' ' ' | sed 's/ $//')"
daemon_stop
check "and it ends well" 0 $?

# ---- a password, and who may be asked from outside
cat >"$tmp/secret.yaml" <<YAML
listen: {resp: "0.0.0.0:0", http: "127.0.0.1:0"}
password: open sesame
policies: {a: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/secret.yaml"
port=$(daemon_port resp)
http=http://127.0.0.1:$(daemon_port http)
check "without the password" "NOAUTH Authentication required." "$(ask WEIR.TAKE a k)"
check "with it" "1 3 2 0" "$(REDISCLI_AUTH='open sesame' ask WEIR.TAKE a k | cut -d' ' -f1-4)"
check "HTTP without it" 401 "$(curl -s -o /dev/null -w '%{http_code}' "$http/v1/take?policy=a&key=k")"
check "HTTP with it" 200 "$(curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer open sesame' "$http/v1/take?policy=a&key=k")"
check "healthz needs none" 200 "$(curl -s -o /dev/null -w '%{http_code}' "$http/healthz")"
check "it is not in the log" 0 "$(grep -c sesame "$daemon_log")"
daemon_stop
printf 'listen: {resp: "0.0.0.0:0"}\n' >"$tmp/public.yaml"
out=$("$weir" serve "$tmp/public.yaml" 2>&1)
check "a public address without a password: status" 1 $?
check "and what to do" 1 "$(grep -c 'insecure: true' <<<"$out")"
printf 'listen: {resp: "0.0.0.0:0"}\ninsecure: true\n' >"$tmp/public.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/public.yaml"
port=$(daemon_port resp)
check "unless it is said to be meant" PONG "$(ask PING)"
daemon_stop

# ---- limits
cat >"$tmp/limits.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
threads: 1
limits: {request: 50ms, idle: 10m, connections: 3, buffers: 1m}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/limits.yaml" --log-format json
# The log is JSON, so the ports are found in another way than daemon_port finds them.
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
import socket, sys

resp, http = int(sys.argv[1]), int(sys.argv[2])


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def rest(s):
    got = b""
    try:
        while more := s.recv(65536):
            got += more
    except ConnectionResetError:
        pass
    return got


three = [connect(resp) for _ in range(3)]
for s in three:
    s.sendall(b"PING\r\n")
    s.recv(7)
print(rest(connect(resp)), rest(connect(http)).split(b"\r\n")[0])
for s in three[1:]:
    s.close()
three[0].sendall(b"*2\r\n$4\r\nPING\r\n$70000\r\n")
print(rest(three[0]))
s = connect(resp)
s.sendall(b"*3\r\n$9\r\nWEIR.TAKE\r\n$1\r\na")
print(rest(s))
s = connect(http)
s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
print(rest(s).split(b"\r\n")[0])
PYTHON
check "too many, too long, slow: each gets an error" \
    "b'-ERR max number of clients reached\r\n' b'HTTP/1.1 503 Service Unavailable'
b'-ERR Protocol error: invalid bulk length\r\n'
b'-ERR timeout: the request was not completed in time\r\n'
b'HTTP/1.1 408 Request Timeout'" \
    "$(python3 "$tmp/limits.py" "$port" "$http" 2>&1)"
daemon_stop
check "no state file to reset" "weir serve: --reset-state: no state file, expected memory.file in the configuration 2" \
    "$("$weir" serve --port 0 --reset-state 2>&1) $?"
check "every line of the log is an object" 0 "$(python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$daemon_log" 2>&1 | wc -l)"
cat >"$tmp/events.py" <<'PYTHON'
import json, re, sys

events = {json.loads(line)["event"] for line in open(sys.argv[1])}
print([e for e in sorted(events) if not re.fullmatch("[a-z0-9-]+", e)], "timed-out" in events)
PYTHON
check "events have names of letters, digits and '-'" "[] True" "$(python3 "$tmp/events.py" "$daemon_log")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

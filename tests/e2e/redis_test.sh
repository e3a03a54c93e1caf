#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Daemons whose states are in a Redis: two that share one limit, over TCP, a socket file and TLS, with
# passwords; by functions, a script and the module; when the server goes and when the file changes.
#
#   redis_test.sh WEIR MODULE
set -uo pipefail
weir=$(realpath "$1") module=$(realpath "$2")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
tmp=$(mktemp -d)
redis_pid='' one_pid=''
finish() {
    daemon_kill
    [ -z "$one_pid" ] || kill -KILL "$one_pid" 2>/dev/null
    [ -z "$redis_pid" ] || redis_stop
    rm -rf "$tmp"
}
trap finish EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# FILE NUMBER PATTERN: waits until the file holds the pattern so many times
await() {
    timeout 20 tail -n +1 -f "$1" | grep -m"$2" -- "$3" | wc -l
}

redis_start() { # ARG...: a server that ends with the test
    : >"$tmp/redis.log"
    redis-server --bind 127.0.0.1 --save '' --dir "$tmp" "$@" >>"$tmp/redis.log" 2>&1 &
    redis_pid=$!
    await "$tmp/redis.log" 1 'Ready to accept connections' >/dev/null
}

redis_stop() {
    kill -KILL "$redis_pid"
    wait "$redis_pid" 2>/dev/null
    redis_pid=
}

# PORT ARG...: the reply on one line
ask() {
    redis-cli -p "$@" 2>&1 | tr '\n' ' ' | sed 's/ *$//'
}

# The first of two daemons: what daemon.sh knows of it is put aside.
put_aside() {
    one_pid=$daemon_pid one_log=$daemon_log one=$(daemon_port resp) one_http=$(daemon_port http)
    daemon_pid=
}

stop_one() {
    kill -TERM "$one_pid"
    wait "$one_pid"
    one_pid=
}

# NAME REDIS-SECTION: a configuration
config() {
    cat >"$tmp/new.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
threads: 2
engine: redis
redis: $2
policies:
  few: gcra 1/365d burst 5
  many: gcra 1/w burst 500
  here: {limit: gcra 1/365d burst 5, engine: local}
  shut: {limit: gcra 1/365d burst 5, on_error: closed}
YAML
    mv "$tmp/new.yaml" "$tmp/$1.yaml"
}

metric() { # HTTP-PORT NAME
    curl -s "http://127.0.0.1:$1/metrics" | sed -n "s/^$2 //p"
}

# ---- two daemons, one limit
port=$(free_port)
mkdir "$tmp/one" "$tmp/two"
redis_start --port "$port" --requirepass 'open sesame' --unixsocket "$tmp/redis.sock"
echo 'open sesame' >"$tmp/secret"
config one "{url: \"redis://:open%20sesame@127.0.0.1:$port\", deadline: 5s}"
config two "{url: \"unix://$tmp/redis.sock\", password_file: secret, deadline: 5s}"
daemon_start "$tmp/one" "$weir" serve "$tmp/one.yaml"
check "a server that decides is told of, once" 1 "$(await "$daemon_log" 1 " info redis-up node=127.0.0.1:$port by=functions")"
put_aside
daemon_start "$tmp/two" "$weir" serve "$tmp/two.yaml"
check "and one behind a socket file" 1 "$(await "$daemon_log" 1 " info redis-up node=$tmp/redis.sock by=functions")"
two=$(daemon_port resp) two_http=$(daemon_port http)
check "what is asked stands in the log" 1 "$(grep -c ' info started .* engine=redis' "$daemon_log")"
check "the first daemon takes" "1 5 2 0" "$(ask "$one" WEIR.TAKE few k COST 3 | cut -d' ' -f1-4)"
check "the second takes what is left" "1 5 0 0" "$(ask "$two" WEIR.TAKE few k COST 2 | cut -d' ' -f1-4)"
check "then both deny" "0 0" "$(ask "$one" WEIR.TAKE few k | cut -d' ' -f1) $(ask "$two" WEIR.TAKE few k | cut -d' ' -f1)"
check "over HTTP too" 429 "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$one_http/v1/take?policy=few&key=k")"
check "a refund is for both" "1 5 0 0" "$(ask "$one" WEIR.TAKE few r COST 5 >/dev/null; ask "$one" WEIR.REFUND few r 1 >/dev/null; ask "$two" WEIR.TAKE few r | cut -d' ' -f1-4)"
ask "$two" WEIR.RESET few r >/dev/null
check "and a reset" "1 5 4 0" "$(ask "$one" WEIR.TAKE few r | cut -d' ' -f1-4)"
check "a policy by its text" "1 7 5 0" "$(ask "$one" WEIR.CHECK 'gcra 1/365d burst 7' t >/dev/null; ask "$two" WEIR.CHECK 'gcra 1/365d burst 7' t | cut -d' ' -f1-4)"
check "a local one is each one's own" "1 5 4 0 1 5 4 0" "$(ask "$one" WEIR.TAKE here k | cut -d' ' -f1-4) $(ask "$two" WEIR.TAKE here k | cut -d' ' -f1-4)"
check "several keys as one" 1 "$(ask "$one" WEIR.TAKEALL 2 few '{t}a' 1 few '{t}b' 1 | cut -d' ' -f1)"

# Many clients of both at once, in pipelines: what is admitted in all is what the policy says.
for at in "$one" "$two"; do
    redis-benchmark -p "$at" -n 2000 -c 10 -P 16 WEIR.TAKE many k >/dev/null 2>&1 &
    pids="${pids:-} $!"
done
# shellcheck disable=SC2086
wait $pids
allowed() { metric "$1" 'weir_decisions_total{policy="many",verdict="allowed"}'; }
denied() { metric "$1" 'weir_decisions_total{policy="many",verdict="denied"}'; }
check "500 were admitted by both together" 500 "$(($(allowed "$one_http") + $(allowed "$two_http")))"
check "and 3500 were not" 3500 "$(($(denied "$one_http") + $(denied "$two_http")))"
check "most of which nobody had to ask" 1 "$(($(metric "$two_http" weir_redis_deny_cache_hits_total) > 1000))"
check "nothing was decided without the server" "0 0" "$(metric "$two_http" 'weir_redis_by_error_total{on_error="open"}') $(metric "$one_http" 'weir_redis_failures_total{reason="late"}')"
check "no password stands in a log" 0 "$(cat "$one_log" "$daemon_log" | grep -c sesame)"
stop_one
check "the first ends well" 0 $?
daemon_stop
check "the second ends well" 0 $?

# ---- the server goes, and comes back
redis_stop
redis_start --port "$port"
config one "{url: \"redis://127.0.0.1:$port\", by: script, deadline: 1s}"
sed -i 's/threads: 2/threads: 1/' "$tmp/one.yaml"
daemon_start "$tmp/one" "$weir" serve "$tmp/one.yaml"
one=$(daemon_port resp) one_http=$(daemon_port http)
check "a script, if it is wanted" 1 "$(await "$daemon_log" 1 ' info redis-up .*by=.*script')"
check "which decides alike" "1 5 4 0" "$(ask "$one" WEIR.TAKE few k | cut -d' ' -f1-4)"
redis_stop
check "that it is gone is said" 1 "$(await "$daemon_log" 1 " warning redis-down node=127.0.0.1:$port")"
check "on_error is open if nothing is said" 1 "$(ask "$one" WEIR.TAKE few k COST 5 | cut -d' ' -f1)"
check "or closed" 0 "$(ask "$one" WEIR.TAKE shut k | cut -d' ' -f1)"
check "and counted" "1 1" "$(metric "$one_http" 'weir_redis_by_error_total{on_error="open"}') $(metric "$one_http" 'weir_redis_by_error_total{on_error="closed"}')"
redis_start --port "$port"
check "that it is back is said" 2 "$(await "$daemon_log" 2 ' info redis-up ')"
for ((i = 0; i < 2000; i++)); do # until the breaker has seen it too
    [ "$(ask "$one" WEIR.PEEK shut k | cut -d' ' -f1)" = 0 ] || break
done
check "and it is asked again" "1 5 1 0" "$(ask "$one" WEIR.TAKE few k COST 4 | cut -d' ' -f1-4)"
kill -STOP "$redis_pid"
check "one that hangs is not waited for" 0 "$(ask "$one" WEIR.TAKE shut k2 | cut -d' ' -f1)"
kill -CONT "$redis_pid"

# ---- a change of the file
sed -i 's/few: .*/few: {limit: gcra 1\/365d burst 5, engine: local}/; s/deadline: 1s/deadline: 2s/' "$tmp/one.yaml"
check "another file is taken" 1 "$(await "$daemon_log" 1 ' info reloaded ')"
check "the engine of a policy changes at once" "1 5 4 0" "$(ask "$one" WEIR.TAKE few k | cut -d' ' -f1-4)"
check "how a server is asked, at the next start" 1 "$(await "$daemon_log" 1 ' warning restart-needed key=redis ')"
daemon_stop
printf 'listen: {resp: "127.0.0.1:0"}\npolicies: {a: gcra 1/s}\n' >"$tmp/plain.yaml"
daemon_start "$tmp/one" "$weir" serve "$tmp/plain.yaml"
printf 'listen: {resp: "127.0.0.1:0"}\npolicies: {a: gcra 1/s}\nengine: redis\nredis: {url: "redis://127.0.0.1:%s"}\n' "$port" >"$tmp/new.yaml"
mv "$tmp/new.yaml" "$tmp/plain.yaml"
check "an engine that was not opened is refused" 1 "$(await "$daemon_log" 1 ' error reload-refused .*without redis')"
check "and the old policies go on" 1 "$(ask "$(daemon_port resp)" WEIR.TAKE a k | cut -d' ' -f1)"
daemon_stop
redis_stop

# ---- the module
redis_start --port "$port" --loadmodule "$module"
daemon_start "$tmp/one" "$weir" serve --port 0 --threads 1 --redis "redis://127.0.0.1:$port"
one=$(daemon_port resp)
check "the module is used if it is there" 1 "$(await "$daemon_log" 1 ' info redis-up .*by=.*module')"
check "also for CL.THROTTLE" "0 16 15 -1 2" "$(ask "$one" CL.THROTTLE user 15 30 60)"
check "and for texts" "1 3 2 0" "$(ask "$one" WEIR.CHECK 'sliding-log 3/365d' k | cut -d' ' -f1-4)"
daemon_stop
redis_stop
out=$("$weir" serve --port 0 --redis http://h 2>&1)
check "--redis wants a URL: status" 1 $?
check "and says which" 1 "$(grep -c 'redis://127.0.0.1:6379' <<<"$out")"

# ---- TLS
cat >"$tmp/openssl.cnf" <<'CNF'
[req]
distinguished_name = name
prompt = no
[name]
CN = weir
[ca]
basicConstraints = critical,CA:TRUE
[server]
subjectAltName = IP:127.0.0.1,DNS:redis.test
CNF
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -config "$tmp/openssl.cnf" -extensions ca \
    -keyout "$tmp/ca.key" -out "$tmp/ca.pem" 2>/dev/null
openssl req -newkey rsa:2048 -nodes -config "$tmp/openssl.cnf" -keyout "$tmp/key.pem" -out "$tmp/csr.pem" 2>/dev/null
openssl x509 -req -in "$tmp/csr.pem" -CA "$tmp/ca.pem" -CAkey "$tmp/ca.key" -CAcreateserial -days 2 \
    -extfile "$tmp/openssl.cnf" -extensions server -out "$tmp/cert.pem" 2>/dev/null
redis_start --port 0 --tls-port "$port" --tls-cert-file "$tmp/cert.pem" --tls-key-file "$tmp/key.pem" \
    --tls-ca-cert-file "$tmp/ca.pem" --requirepass 'open sesame'
tls() { # KEYS OF THE SECTION tls: starts a daemon
    config one "{url: \"rediss://127.0.0.1:$port\", password: open sesame, deadline: 5s, tls: {$1}}"
    daemon_start "$tmp/one" "$weir" serve "$tmp/one.yaml"
    one=$(daemon_port resp)
}
tls 'ca: ca.pem, cert: cert.pem, key: key.pem'
check "a server with TLS" 1 "$(await "$daemon_log" 1 ' info redis-up ')"
check "decides" "1 5 4 0" "$(ask "$one" WEIR.TAKE few k | cut -d' ' -f1-4)"
daemon_stop
tls 'ca: ca.pem, cert: cert.pem, key: key.pem, name: other.test'
check "a certificate for another name" 1 "$(await "$daemon_log" 1 ' warning redis-down .*certificate is not valid for ')"
daemon_stop
tls 'cert: cert.pem, key: key.pem'
check "one that nobody here trusts" 1 "$(await "$daemon_log" 1 ' warning redis-down .*certificate is not trusted: ')"
check "is not asked" 0 "$(ask "$one" WEIR.TAKE shut k | cut -d' ' -f1)"
daemon_stop
tls 'insecure: true, cert: cert.pem, key: key.pem'
check "unless that is said to be meant" 1 "$(await "$daemon_log" 1 ' info redis-up ')"
daemon_stop
config one "{url: \"rediss://127.0.0.1:$port\", tls: {ca: nowhere.pem}}"
out=$("$weir" serve "$tmp/one.yaml" 2>&1)
check "a file that is not there: status" 1 $?
check "and which one" 1 "$(grep -c 'error: redis.tls.ca: cannot read .*nowhere.pem: No such file' <<<"$out")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

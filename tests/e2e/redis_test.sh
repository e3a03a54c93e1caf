#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Daemons with the redis engine: two share one limit over TCP, a Unix socket and TLS, with passwords,
# by functions, a script and the module; the server stops and returns; the configuration changes.
#
#   redis_test.sh WEIR MODULE
set -uo pipefail
weir=$(realpath "$1") module=$(realpath "$2")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
. "$(dirname "$0")/certificates.sh"
tmp=$(mktemp -d)
redis_pid='' one_pid=''
finish() {
    daemon_kill
    [ -z "$one_pid" ] || kill -KILL "$one_pid" 2>/dev/null
    [ -z "$redis_pid" ] || redis_stop
    rm -rf "$tmp"
}
trap finish EXIT

redis_start() { # ARGUMENT...: a server that is stopped at the end of the test
    : >"$tmp/redis.log"
    redis-server --bind 127.0.0.1 --save '' --dir "$tmp" "$@" >>"$tmp/redis.log" 2>&1 &
    redis_pid=$!
    await 1 'Ready to accept connections' "$tmp/redis.log" >/dev/null
}

redis_stop() {
    kill -KILL "$redis_pid"
    wait "$redis_pid" 2>/dev/null
    redis_pid=
}

# Keeps the first of two daemons: saves the variables of daemon.sh.
keep_first() {
    one_pid=$daemon_pid one_log=$daemon_log one=$(daemon_port resp) one_http=$(daemon_port http)
    daemon_pid=
}

stop_first() {
    kill -TERM "$one_pid"
    wait "$one_pid"
    one_pid=
}

# config NAME REDIS-SECTION: writes a configuration
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

# figures RESP-PORT: the wait for the next unit, and what a window counts
figures() {
    request_to "$1" WEIR.TAKE few figures COST 5 WITHNAMES | grep -oE 'next_ms [0-9]+'
    request_to "$1" WEIR.CHECK 'fixed-window 7/365d' figures COST 3 >/dev/null
    request_to "$1" WEIR.PEEK 'fixed-window 7/365d' figures WITHNAMES | grep -oE '(count|window_start_ms) [0-9]+'
}
year=$((365 * 86400000)) now_ms=$(date +%s000)
all_figures="next_ms $year count 3 window_start_ms $((now_ms - now_ms % year))"

# ---- two daemons, one limit
port=$(free_port)
mkdir "$tmp/one" "$tmp/two"
redis_start --port "$port" --requirepass 'open sesame' --unixsocket "$tmp/redis.sock"
echo 'open sesame' >"$tmp/secret"
config one "{url: \"redis://:open%20sesame@127.0.0.1:$port\", deadline: 5s}"
config two "{url: \"unix://$tmp/redis.sock\", password_file: secret, deadline: 5s}"
daemon_start "$tmp/one" "$weir" serve "$tmp/one.yaml"
check "redis-up is logged once for a server" 1 "$(await 1 " info redis-up node=127.0.0.1:$port by=functions")"
keep_first
daemon_start "$tmp/two" "$weir" serve "$tmp/two.yaml"
check "redis-up is logged for a server on a Unix socket" 1 "$(await 1 " info redis-up node=$tmp/redis.sock by=functions")"
two=$(daemon_port resp) two_http=$(daemon_port http)
check "the log has the default engine" 1 "$(grep -c ' info started .* engine=redis' "$daemon_log")"
check "the first daemon charges" "1 5 2 0" "$(request_to "$one" WEIR.TAKE few k COST 3 | cut -d' ' -f1-4)"
check "the second charges what is left" "1 5 0 0" "$(request_to "$two" WEIR.TAKE few k COST 2 | cut -d' ' -f1-4)"
check "both deny then" "0 0" "$(request_to "$one" WEIR.TAKE few k | cut -d' ' -f1) $(request_to "$two" WEIR.TAKE few k | cut -d' ' -f1)"
check "the key is denied over HTTP" 429 "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$one_http/v1/take?policy=few&key=k")"
check "a refund is visible to both" "1 5 0 0" "$(request_to "$one" WEIR.TAKE few r COST 5 >/dev/null; request_to "$one" WEIR.REFUND few r 1 >/dev/null; request_to "$two" WEIR.TAKE few r | cut -d' ' -f1-4)"
request_to "$two" WEIR.RESET few r >/dev/null
check "a reset is visible to both" "1 5 4 0" "$(request_to "$one" WEIR.TAKE few r | cut -d' ' -f1-4)"
check "an inline policy is shared" "1 7 5 0" "$(request_to "$one" WEIR.CHECK 'gcra 1/365d burst 7' t >/dev/null; request_to "$two" WEIR.CHECK 'gcra 1/365d burst 7' t | cut -d' ' -f1-4)"
check "replies with names have figures by the functions" "$all_figures" "$(figures "$one" | xargs)"
check "a policy with engine: local is not shared" "1 5 4 0 1 5 4 0" "$(request_to "$one" WEIR.TAKE here k | cut -d' ' -f1-4) $(request_to "$two" WEIR.TAKE here k | cut -d' ' -f1-4)"
check "WEIR.TAKEALL charges several keys" 1 "$(request_to "$one" WEIR.TAKEALL 2 few '{t}a' 1 few '{t}b' 1 | cut -d' ' -f1)"

# Pipelined clients of both daemons: together they admit exactly the limit.
for at in "$one" "$two"; do
    redis-benchmark -p "$at" -n 2000 -c 10 -P 16 WEIR.TAKE many k >/dev/null 2>&1 &
    pids="${pids:-} $!"
done
# shellcheck disable=SC2086
wait $pids
allowed() { metric "$1" 'weir_decisions_total{policy="many",verdict="allowed"}'; }
denied() { metric "$1" 'weir_decisions_total{policy="many",verdict="denied"}'; }
check "both together admit 500" 500 "$(($(allowed "$one_http") + $(allowed "$two_http")))"
check "both together deny 3500" 3500 "$(($(denied "$one_http") + $(denied "$two_http")))"
check "the deny cache answers most of the denials" 1 "$(($(metric "$two_http" weir_redis_deny_cache_hits_total) > 1000))"
check "no request was decided by on_error" "0 0" "$(metric "$two_http" 'weir_redis_by_error_total{on_error="open"}') $(metric "$one_http" 'weir_redis_failures_total{reason="timeout"}')"
check "no log contains the password" 0 "$(cat "$one_log" "$daemon_log" | grep -c sesame)"
stop_first
check "the first daemon stops with status 0" 0 $?
daemon_stop
check "the second daemon stops with status 0" 0 $?

# ---- the server stops, and returns
redis_stop
redis_start --port "$port"
config one "{url: \"redis://127.0.0.1:$port\", by: script, deadline: 1s}"
sed -i 's/threads: 2/threads: 1/' "$tmp/one.yaml"
daemon_start "$tmp/one" "$weir" serve "$tmp/one.yaml"
one=$(daemon_port resp) one_http=$(daemon_port http)
check "redis.by selects the script" 1 "$(await 1 ' info redis-up .*by=.*script')"
check "replies with names have figures by the script" "$all_figures" "$(figures "$one" | xargs)"
check "the script decides alike" "1 5 4 0" "$(request_to "$one" WEIR.TAKE few k | cut -d' ' -f1-4)"
redis_stop
check "redis-down is logged" 1 "$(await 1 " warning redis-down node=127.0.0.1:$port")"
check "on_error is open by default" 1 "$(request_to "$one" WEIR.TAKE few k COST 5 | cut -d' ' -f1)"
check "on_error: closed denies" 0 "$(request_to "$one" WEIR.TAKE shut k | cut -d' ' -f1)"
check "the metrics count decisions by on_error" "1 1" "$(metric "$one_http" 'weir_redis_by_error_total{on_error="open"}') $(metric "$one_http" 'weir_redis_by_error_total{on_error="closed"}')"
redis_start --port "$port"
check "redis-up is logged again" 2 "$(await 2 ' info redis-up ')"
for ((i = 0; i < 2000; i++)); do # until the circuit breaker is closed
    [ "$(request_to "$one" WEIR.PEEK shut k | cut -d' ' -f1)" = 0 ] || break
done
check "the server decides again" "1 5 1 0" "$(request_to "$one" WEIR.TAKE few k COST 4 | cut -d' ' -f1-4)"
kill -STOP "$redis_pid"
check "a server that hangs is not waited for" 0 "$(request_to "$one" WEIR.TAKE shut k2 | cut -d' ' -f1)"
kill -CONT "$redis_pid"

# ---- the configuration changes
sed -i 's/few: .*/few: {limit: gcra 1\/365d burst 5, engine: local}/; s/deadline: 1s/deadline: 2s/' "$tmp/one.yaml"
check "the new configuration is loaded" 1 "$(await 1 ' info reloaded ')"
check "the engine of a policy changes at once" "1 5 4 0" "$(request_to "$one" WEIR.TAKE few k | cut -d' ' -f1-4)"
check "a change of the section redis needs a restart" 1 "$(await 1 ' warning restart-needed key=redis ')"
daemon_stop
printf 'listen: {resp: "127.0.0.1:0"}\npolicies: {a: gcra 1/s}\n' >"$tmp/plain.yaml"
daemon_start "$tmp/one" "$weir" serve "$tmp/plain.yaml"
printf 'listen: {resp: "127.0.0.1:0"}\npolicies: {a: gcra 1/s}\nengine: redis\nredis: {url: "redis://127.0.0.1:%s"}\n' "$port" >"$tmp/new.yaml"
mv "$tmp/new.yaml" "$tmp/plain.yaml"
check "a reload cannot add the redis engine" 1 "$(await 1 ' error reload-refused .*without redis')"
check "the old policies stay active" 1 "$(request_to "$(daemon_port resp)" WEIR.TAKE a k | cut -d' ' -f1)"
daemon_stop
redis_stop

# ---- the module
redis_start --port "$port" --loadmodule "$module"
printf 'policies: {few: gcra 1/365d burst 5}\n' >"$tmp/few.yaml"
daemon_start "$tmp/one" "$weir" serve --port 0 --threads 1 --redis "redis://127.0.0.1:$port" "$tmp/few.yaml"
one=$(daemon_port resp)
check "replies with names have figures by the module" "$all_figures" "$(figures "$one" | xargs)"
check "a server with the module decides by the module" 1 "$(await 1 ' info redis-up .*by=.*module')"
check "the module decides CL.THROTTLE" "0 16 15 -1 2" "$(request_to "$one" CL.THROTTLE user 15 30 60)"
check "the module decides inline policies" "1 3 2 0" "$(request_to "$one" WEIR.CHECK 'sliding-log 3/365d' k | cut -d' ' -f1-4)"
daemon_stop
redis_stop
out=$("$weir" serve --port 0 --redis http://h 2>&1)
check "--redis with a wrong URL: status" 1 $?
check "--redis with a wrong URL: the error has an example" 1 "$(grep -c 'redis://127.0.0.1:6379' <<<"$out")"

# ---- TLS
(cd "$tmp" && authority ca && pair redis ca 2 IP:127.0.0.1,DNS:redis.test)
check "the certificates are valid for a strict verifier" 0 $?
redis_start --port 0 --tls-port "$port" --tls-cert-file "$tmp/redis.pem" --tls-key-file "$tmp/redis.key" \
    --tls-ca-cert-file "$tmp/ca.pem" --requirepass 'open sesame'
tls() { # KEYS: starts a daemon with these keys of the section redis.tls
    config one "{url: \"rediss://127.0.0.1:$port\", password: open sesame, deadline: 5s, tls: {$1}}"
    daemon_start "$tmp/one" "$weir" serve "$tmp/one.yaml"
    one=$(daemon_port resp)
}
tls 'ca: ca.pem, cert: redis.pem, key: redis.key'
check "the daemon connects with TLS" 1 "$(await 1 ' info redis-up ')"
check "the server decides over TLS" "1 5 4 0" "$(request_to "$one" WEIR.TAKE few k | cut -d' ' -f1-4)"
daemon_stop
tls 'ca: ca.pem, cert: redis.pem, key: redis.key, name: other.test'
check "a certificate for another name is refused" 1 "$(await 1 ' warning redis-down .*certificate is not valid for ')"
daemon_stop
tls 'cert: redis.pem, key: redis.key'
check "a certificate that is not trusted is refused" 1 "$(await 1 ' warning redis-down .*certificate is not trusted: ')"
check "a server that is refused does not decide" 0 "$(request_to "$one" WEIR.TAKE shut k | cut -d' ' -f1)"
daemon_stop
tls 'insecure: true, cert: redis.pem, key: redis.key'
check "tls.insecure accepts any certificate" 1 "$(await 1 ' info redis-up ')"
daemon_stop
config one "{url: \"rediss://127.0.0.1:$port\", tls: {ca: nowhere.pem}}"
out=$("$weir" serve "$tmp/one.yaml" 2>&1)
check "a missing CA file: status" 1 $?
check "a missing CA file: the error names it" 1 "$(grep -c 'error: redis.tls.ca: cannot read .*nowhere.pem: No such file' <<<"$out")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir check` from the outside.
#
#   tests/e2e/check_test.sh path/to/weir path/to/example.yaml
set -u
weir=${1:?usage: check_test.sh path/to/weir path/to/example.yaml}
example=${2:?usage: check_test.sh path/to/weir path/to/example.yaml}
# shellcheck source=tests/e2e/check.sh
. "$(dirname "$0")/check.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

status() { "$@" >"$dir/out" 2>"$dir/err"; echo $?; }

check "the example is good" 0 "$(status "$weir" check "$example")"
check "nothing is said of it on stderr" "" "$(cat "$dir/err")"
check "its first line" "$example: good" "$(head -n 1 "$dir/out")"
check "each policy is there" 2 "$(grep -cE '^  (login|api)$' "$dir/out")"
check "a policy in canonical form" "    sliding-log 5/m" "$(grep -A 1 '^  login$' "$dir/out" | tail -n 1)"
check "--quiet says nothing" "0" "$(status "$weir" check --quiet "$example")$(cat "$dir/out" "$dir/err")"

echo 'memory: {size: 8m, file: state, sync: always, when_full: refuse, shared: true}' >"$dir/state.yaml"
check "a state file" 0 "$(status "$weir" check "$dir/state.yaml")"
check "what is said of it" "memory      8m, of it 2m for large states; when full, new keys are refused
state       $dir/state, sync always, shared with other processes" "$(grep -E '^(memory|state)' "$dir/out")"
check "it is not opened" "" "$(ls "$dir/state" 2>/dev/null)"
check "none" 1 "$(echo 'memory: {size: 8m}' | "$weir" check - | grep -c '^state       in memory alone$')"

cat >"$dir/redis.yaml" <<'YAML'
engine: redis
redis: {urls: ["redis://weir:s3cret@[::1]", "redis://10.0.0.5:7000"], on_error: local}
policies:
  a: gcra 1/s
  b: {limit: gcra 1/s, on_error: closed}
  c: {limit: gcra 1/s, engine: hybrid}
  d: {limit: gcra 1/s, engine: local}
YAML
check "state in Redis" 0 "$(status "$weir" check "$dir/redis.yaml")"
check "which engine, where, and as whom" "engine      redis
redis       2 servers, by module, functions or script, on_error local, deadline 50ms
            [::1]:6379
            10.0.0.5:7000
user        weir, with a password
hybrid      count 1000, interval 100ms, idle 1s, memory 4m of each thread" "$(sed -n '/^engine/,/^hybrid/p' "$dir/out")"
check "what each policy does without it" "redis, on_error local
redis, on_error closed
hybrid, on_error local" "$(sed -n 's/^    decided by the engine //p' "$dir/out")"
check "the password is not said" 0 "$(grep -c s3cret "$dir/out")"
echo 'redis: {urls: ["rediss://s1", "rediss://s2:5"], sentinel: {name: mymaster}}' >"$dir/redis.yaml"
check "Sentinels, whom nobody asks" "engine      local
redis       2 Sentinels, by module, functions or script, on_error open, deadline 50ms
            TLS to s1:26379
            TLS to s2:5
master      mymaster
user        default, without a password
            nobody asks: no policy has the engine redis or hybrid" "$("$weir" check "$dir/redis.yaml" | sed -n '/^engine/,/nobody/p')"
echo 'redis: {url: "unix:///run/redis.sock?db=3", tls: {ca: none.pem}}' >"$dir/redis.yaml"
check "a file of TLS that is not there" 1 "$("$weir" check "$dir/redis.yaml" 2>&1 | grep -c "redis.tls.ca: $dir/none.pem cannot be read: No such file")"
echo 'redis: {url: "unix:///run/redis.sock?db=3"}' >"$dir/redis.yaml"
check "a socket file" 1 "$("$weir" check "$dir/redis.yaml" | grep -c '^            /run/redis.sock, database 3$')"

printf 'threads: 0\npolices: 1\n' >"$dir/bad.yaml"
check "a wrong file" 1 "$(status "$weir" check "$dir/bad.yaml")"
check "what is told of it" "$dir/bad.yaml:1:10: error: threads: expected a number from 1 to 256, found '0'
  threads: 0
           ^
$dir/bad.yaml:2:1: error: unknown key 'polices', did you mean 'policies'?
  polices: 1
  ^" "$(cat "$dir/err")"
check "nothing on stdout" "" "$(cat "$dir/out")"

check "standard input" 1 "$(echo 'threads: 0' | status "$weir" check -)"
check "its name" "<stdin>:1:10:" "$(head -n 1 "$dir/err" | cut -d' ' -f1)"
check "a pipe" 0 "$(status "$weir" check <(echo 'threads: 1'))"
check "no such file" 1 "$(status "$weir" check "$dir/none")"
check "what is told of that" "$dir/none: error: cannot be read: No such file or directory" "$(cat "$dir/err")"
check "a directory" 1 "$(status "$weir" check "$dir")"
check "what is told of it" "$dir: error: cannot be read: Is a directory" "$(cat "$dir/err")"
check "a program" 1 "$(status "$weir" check "$weir")"
check "what is told of one" "control character" "$(head -n 1 "$dir/err" | grep -o 'control character\|byte 0x')"
check "three lines, no more" 3 "$(wc -l <"$dir/err")"

check "no file" 2 "$(status "$weir" check)"
check "two files" 2 "$(status "$weir" check a b)"
check "an unknown option" 2 "$(status "$weir" check --loud a)"
check "--help" 0 "$(status "$weir" check --help)"
check "it has examples" 1 "$(grep -c '^Examples:' "$dir/out")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

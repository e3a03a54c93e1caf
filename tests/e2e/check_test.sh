#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir check`: output, errors, exit status, and preflight checks.
#
#   tests/e2e/check_test.sh path/to/weir path/to/example.yaml
set -u
weir=${1:?usage: check_test.sh path/to/weir path/to/example.yaml}
example=${2:?usage: check_test.sh path/to/weir path/to/example.yaml}
# shellcheck source=tests/e2e/check.sh
. "$(dirname "$0")/check.sh"
dir=$(mktemp -d) || exit 1

status() { "$@" >"$dir/out" 2>"$dir/err"; echo $?; }

. "$(dirname "$0")/daemon.sh"
skipped=0
trap 'daemon_kill; rm -rf "$dir"' EXIT

check "the example is valid" 0 "$(status "$weir" check --syntax "$example")"
check "it prints nothing on stderr" "" "$(cat "$dir/err")"
check "its first line" "$example: valid" "$(head -n 1 "$dir/out")"
check "each policy is printed" 2 "$(grep -cE '^  (login|api)$' "$dir/out")"
check "a policy in canonical form" "    sliding-log 5/m" "$(grep -A 1 '^  login$' "$dir/out" | tail -n 1)"
check "--quiet prints nothing" "0" "$(status "$weir" check --syntax --quiet "$example")$(cat "$dir/out" "$dir/err")"

echo 'memory: {size: 8m, file: state, sync: always, when_full: refuse, shared: true}' >"$dir/state.yaml"
check "a state file" 0 "$(status "$weir" check "$dir/state.yaml")"
check "the values of memory" \
    "memory      size 8m, large 2m, file $dir/state, sync always, when_full refuse, shared true, trust_others false, prefault false" \
    "$(grep '^memory' "$dir/out")"
check "the state file is not created" "" "$(ls "$dir/state" 2>/dev/null)"
check "no state file" 1 "$(echo 'memory: {size: 8m}' | "$weir" check - | grep -c '^memory .* file none, ')"
check "the values of limits" "limits      connections 10000, per_address 1000, buffers 256m, idle off, request 10s, write 30s, grace off, drain 5s" \
    "$(grep '^limits' "$dir/out")"

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
check "the engine, the servers and the user" "engine      redis
servers     [::1]:6379
            10.0.0.5:7000
user        weir, with a password" "$(sed -n '/^engine/,/^user/p' "$dir/out")"
check "the values of redis and hybrid" \
    "redis       by any, deadline 50ms, in_flight 16384, on_error local, deny_cache 1m
hybrid      interval 100ms, count 1000, idle 1s, memory 4m" "$(grep -E '^(redis|hybrid)' "$dir/out")"
check "the engine of each policy" "redis, on_error local
redis, on_error closed
hybrid, on_error local" "$(sed -n 's/^    engine //p' "$dir/out")"
check "the password is not printed" 0 "$(grep -c s3cret "$dir/out")"
echo 'redis: {urls: ["rediss://s1", "rediss://s2:5"], sentinel: {name: mymaster}}' >"$dir/redis.yaml"
check "Sentinels that no policy uses" "engine      local
sentinels   TLS to s1:26379
            TLS to s2:5
master      mymaster
user        default, without a password" "$("$weir" check "$dir/redis.yaml" 2>/dev/null | sed -n '/^engine/,/^user/p')"
check "a warning about them" 1 "$("$weir" check "$dir/redis.yaml" 2>&1 | grep -c 'warning: redis: this has no effect, because no policy has the engine redis or hybrid')"
echo 'redis: {url: "unix:///run/redis.sock?db=3", tls: {ca: none.pem}}' >"$dir/redis.yaml"
check "a TLS file that does not exist" 1 "$("$weir" check "$dir/redis.yaml" 2>&1 | grep -c "redis.tls.ca: cannot read $dir/none.pem: No such file")"
echo 'redis: {url: "unix:///run/redis.sock?db=3"}' >"$dir/redis.yaml"
check "a socket file" 1 "$("$weir" check "$dir/redis.yaml" | grep -c '^servers     /run/redis.sock, database 3$')"

cat >"$dir/all.yaml" <<'YAML'
listen: {resp: ["127.0.0.1:0", "0.0.0.0:0"], http: "[::1]:0", unix: /tmp/weir-check-with-a-path-that-is-longer-than-usual.sock}
password: secret
threads: 3
http: {hosts: [a.example, b.example], origins: "https://app.example", key: {header: X-Real-IP, hops: 2}}
top: off
redis: {url: "redis://127.0.0.1", on_error: closed}
policies:
  plain: gcra 1/s
  lists: {limit: gcra 1/s, overrides: {a: gcra 2/s, b: gcra 3/s}, allow: [c], deny: [d, e, f]}
  deny: {limit: gcra 1/s, deny: [d]}
  shadow: {limit: gcra 1/s, shadow: true, ip: false, candidate: gcra  2/s}
  nets: {limit: gcra 1/s, ip: {v4: 24}}
  nets6: {limit: gcra 1/s, ip: {v6: 48}}
  remote: {limit: gcra 1/s, engine: redis}
  open: {limit: gcra 1/s, engine: hybrid, on_error: open}
YAML
check "the whole summary, without the reports of limits" "$dir/all.yaml: valid

listen      resp on 127.0.0.1:0
            resp on 0.0.0.0:0, public
            http on [::1]:0
            resp on /tmp/weir-check-with-a-path-that-is-longer-than-usual.sock
password    set
threads     3
hosts       a.example, b.example
origins     https://app.example
http key    header X-Real-IP, element 2 from the right
engine      local
servers     127.0.0.1:6379
user        default, without a password
memory      size 256m, large 64m, file none, sync 1s, when_full evict, shared false, trust_others false, prefault false
clock       step_above 1h
limits      connections 10000, per_address 1000, buffers 256m, idle off, request 10s, write 30s, grace 5s, drain 5s
log         level info, format text
top         keys 0, memory 16m, metrics false
redis       by any, deadline 50ms, in_flight 16384, on_error closed, deny_cache 1m
hybrid      interval 100ms, count 1000, idle 1s, memory 4m
policies    8

  plain

  lists
    2 overrides, 1 always allowed, 3 always denied

  deny
    0 overrides, 0 always allowed, 1 always denied

  shadow
    shadow: allows every request, and counts those that it would deny
    candidate gcra 2/s burst 1: also decides each request, and changes no answer
    keys are never read as IP addresses

  nets
    one limit for each IPv4 network of size /24, and each IPv6 network of size /64

  nets6
    one limit for each IPv4 network of size /32, and each IPv6 network of size /48

  remote
    engine redis, on_error closed

  open
    engine hybrid, on_error open" "$("$weir" check --syntax "$dir/all.yaml" | grep -v '^    \(gcra\|  [saw]\|state\)')"
check "the report of a limit" 8 "$("$weir" check --syntax "$dir/all.yaml" | grep -cx '      worst case  1 within 1s: a full burst and the refill')"
check "the defaults, and a key of a query" "<stdin>: valid

listen      resp on 127.0.0.1:6380
            http on 127.0.0.1:8080
password    none
threads     one for each core
hosts       *
http key    query user" "$(echo 'http: {key: {query: user}, hosts: "*"}' | "$weir" check --syntax - | head -n 8)"
check "the messages of HAProxy" \
    "2 messages of HAProxy
  a: policy api, key \$key or \$src, cost 1
  b: policy \$p, key \$src/\$path, cost \$cost
  variables: allowed retry_after x_ratelimit_reset" "$(printf 'policies: {api: gcra 1/s}
spoe: {variables: [x_ratelimit_reset, retry_after],
       messages: {a: api, b: {policy: $p, key: $src/$path, cost: $cost}}}' | "$weir" check --syntax - | tail -n 4)"
rm "$dir/all.yaml"

printf 'threads: 0\npolices: 1\n' >"$dir/bad.yaml"
check "an invalid file" 1 "$(status "$weir" check "$dir/bad.yaml")"
check "its errors" "$dir/bad.yaml:1:10: error: threads: expected a number from 1 to 256, found '0'
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
check "its error" "$dir/none: error: cannot be read: No such file or directory" "$(cat "$dir/err")"
check "a directory" 1 "$(status "$weir" check "$dir")"
check "the error for a directory" "$dir: error: cannot be read: found a directory, expected a regular file" "$(cat "$dir/err")"

# No process writes to these pipes. A command that opened one for reading would hang.
mkfifo "$dir/pipe"
quick() { timeout 20 "$@"; }
not_pipe="found a named pipe, expected a regular file"
check "a named pipe" 1 "$(status quick "$weir" check "$dir/pipe")"
check "the error for a named pipe" "$dir/pipe: error: cannot be read: $not_pipe" "$(cat "$dir/err")"
check "a named pipe for serve" 1 "$(status quick "$weir" serve "$dir/pipe")"
check "the error of serve" "$dir/pipe: error: cannot be read: $not_pipe" "$(cat "$dir/err")"
# shellcheck disable=SC2016 # the text must not be expanded
printf 'password: $WEIR_PASSWORD\nmemory: {file: none/state}\n' >"$dir/variable.yaml"
chmod 600 "$dir/variable.yaml"
check "a warning does not suppress the preflight checks" 1 "$(status "$weir" check "$dir/variable.yaml")"
check "both are printed" "1:11: warning: password: the password begins with '$'; variables are written as in \${NAME}, in capitals
2:16: error: memory.file: ..." "$(sed -n "s,^$dir/variable.yaml:,,p" "$dir/err" |
    sed 's/\(memory.file: \).*/\1.../; / is already in use;/d')" # by a daemon on the default ports
rm "$dir/variable.yaml"
echo 'password_file: pipe' >"$dir/bad.yaml"
check "a password in a named pipe" 1 "$(status quick "$weir" check "$dir/bad.yaml")"
check "its error" 1 "$(grep -c "password_file: .*$not_pipe" "$dir/err")"
echo 'redis: {url: "rediss://127.0.0.1", tls: {ca: pipe}}' >"$dir/bad.yaml"
check "a certificate in a named pipe" 1 "$(status quick "$weir" check "$dir/bad.yaml")"
check "its error" 1 "$(grep -c "redis.tls.ca: .*$not_pipe" "$dir/err")"
rm "$dir/pipe"
check "a device" 1 "$(status quick "$weir" check /dev/zero)"
check "its error" "/dev/zero: error: cannot be read: found a device, expected a regular file" "$(cat "$dir/err")"
head -c 100000 "$weir" >"$dir/program"
check "a program" 1 "$(status "$weir" check "$dir/program")"
check "its error" "control character" "$(head -n 1 "$dir/err" | grep -o 'control character\|byte 0x')"
check "only three lines" 3 "$(wc -l <"$dir/err")"
rm "$dir/program"

check "no file" 2 "$(status "$weir" check)"
check "two files" 2 "$(status "$weir" check a b)"
check "an unknown option" 2 "$(status "$weir" check --loud a)"
check "--help" 0 "$(status "$weir" check --help)"
check "the usage has examples" 1 "$(grep -c '^Examples:' "$dir/out")"

# ---- preflight checks ----------------------------------------------------------------------------

chmod 755 "$dir"
user=() # permissions mean nothing to root
[ "$(id -u)" -ne 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
cp "$weir" "$dir/weir"
chmod 755 "$dir/weir"
try() { # CONFIGURATION ARGUMENT...: prints the status and the output of weir check, with DIR for the directory
    local out
    printf '%s\n' "${1//DIR/$dir}" >"$dir/try.yaml"
    out=$(${user[@]+"${user[@]}"} "$dir/weir" check "$dir/try.yaml" "${@:2}" 2>&1 >/dev/null)
    out="$? ${out//$dir/DIR}"
    sed -e 's/^\([01] \)*DIR\/try.yaml:/\1/' -e '/^  /d' <<<"$out"
}
check "a directory that does not exist" \
    "1 2:16: error: memory.file: the directory DIR/none does not exist; create it, or choose another file" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
memory: {file: DIR/none/state}')"
mkdir "$dir/shut" && chmod 555 "$dir/shut"
check "a directory that may not be written" \
    "1 2:16: error: memory.file: cannot create a file in DIR/shut: Permission denied; give the user of weir serve write permission, or choose another file" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
memory: {file: DIR/shut/state}')"
check "--syntax skips the preflight checks" "0 " "$(try 'memory: {file: DIR/none/state}' --syntax)"
echo hello >"$dir/text" && chmod 666 "$dir/text"
check "a file that is no state file" "1 2:16: error: memory.file: DIR/text: it is not a state file of weir" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
memory: {file: DIR/text}')"
check "the file is unchanged" hello "$(cat "$dir/text")"
touch "$dir/theirs" && chmod 600 "$dir/theirs" && chown 0 "$dir/theirs" 2>/dev/null
[ "$(id -u)" -eq 0 ] || chmod 000 "$dir/theirs"
check "a state file that may not be written" "1 2:16: error: memory.file: DIR/theirs: writing there is not allowed" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
memory: {file: DIR/theirs}')"
mkdir "$dir/open" && chmod 777 "$dir/open"
check "a disk that is too small" "1 2:29: error: memory.file: not enough disk space: the state file needs 1024g, and DIR/open has SIZE free" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
memory: {size: 1024g, file: DIR/open/state}' | sed 's/has [0-9]*[mg] free/has SIZE free/')"
check "an address of another machine" \
    "1 1:16: error: listen.resp: cannot listen on 192.0.2.1:6380: address not available: this machine does not have that address" \
    "$(try 'listen: {resp: "192.0.2.1:6380"}
insecure: true')"
if [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start 2>/dev/null || echo 1024)" -gt 80 ]; then
    check "a port that needs privileges" \
        "1 1:37: error: listen.http: cannot listen on 127.0.0.1:80: permission denied: ports below 1024 need privileges; choose another" \
        "$(try 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:80"}')"
else
    echo "ok - a port that needs privileges # SKIP every port is free for all users here"
    skipped=$((skipped + 1))
fi
check "a state file in the root directory" "/" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
memory: {size: 1024g, file: /weir-check-state}' | sed -n 's/.* \(create a file in\|needs 1024g, and\) \([^ :]*\)[ :].*/\2/p')"
check "a socket file without its directory" \
    "1 1:16: error: listen.unix: cannot listen on DIR/none/weir.sock: no such file or directory: its directory does not exist; create it" \
    "$(try 'listen: {unix: DIR/none/weir.sock}')"
check "a socket file where a file is" \
    "1 1:16: error: listen.unix: cannot listen on DIR/text: a file that is not a socket exists at this path; move it or choose another path" \
    "$(try 'listen: {unix: DIR/text}')"
check "a file that is no certificate" \
    "1 3:43: error: redis.tls: cannot load the trusted certificates DIR/text: no certificate or crl found" \
    "$(try 'listen: {resp: "127.0.0.1:0"}
engine: redis
redis: {url: "rediss://127.0.0.1:1", tls: {ca: DIR/text}}')"

# The configuration of a running daemon.
cat >"$dir/run.yaml" <<YAML
listen: {resp: "127.0.0.1:0", unix: $dir/weir.sock}
memory: {size: 8m, file: $dir/run-state}
YAML
daemon_start "$dir" "$weir" serve "$dir/run.yaml"
port=$(daemon_port resp)
sed -i "s/127.0.0.1:0/127.0.0.1:$port/" "$dir/run.yaml"
check "files and addresses of a running daemon are no errors" 0 "$(status "$weir" check "$dir/run.yaml")"
check "they are warnings, with positions" "1:16: warning: listen.resp: 127.0.0.1:$port is
1:$((36 + ${#port})): warning: listen.unix: $dir/weir.sock is
2:26: warning: memory.file: $dir/run-state: the state file is in use by another weir process (pid $daemon_pid)" \
    "$(grep "; this is expected if this configuration's daemon is running; otherwise weir serve cannot start" "$dir/err" |
        sed -e 's/ already in use;.*//' -e 's/; this is expected if.*//' -e "s,^$dir/run.yaml:,,")"
check "--quiet does not print warnings" "0" "$(status "$weir" check --quiet "$dir/run.yaml")$(cat "$dir/err")"
check "the daemon still replies" 0 "$(status "$weir" take --server "$dir/weir.sock" --text 'gcra 1/s' a)"
daemon_stop
chmod 666 "$dir/run-state"
check "a state file that others may write" \
    "1 2:26: error: memory.file: $dir/run-state: writable by other users (mode 0666), expected mode 0600" \
    "$(status "$weir" check "$dir/run.yaml") $(sed -e 's/; run chmod.*//' -e "s,^$dir/run.yaml:,," "$dir/err" | grep error:)"
chmod 600 "$dir/run-state"
if [ "$(id -u)" -eq 0 ]; then
    chown 1 "$dir/run-state"
    check "a state file of another user is a warning" \
        "0 2:26: warning: memory.file: $dir/run-state: owned by uid 1, expected uid 0 (this process)" \
        "$(status "$weir" check "$dir/run.yaml") $(sed -e 's/; change the.*//' -e "s,^$dir/run.yaml:,," "$dir/err" | grep warning:)"
    chown 0 "$dir/run-state"
else
    echo "# skipped: only root can give a file to another user"
    skipped=$((skipped + 1))
fi
check "after the daemon has stopped, nothing is in use" "0" "$(status "$weir" check "$dir/run.yaml")$(cat "$dir/err")"
check "no file was created" "err log none open out redis.yaml run-state run.yaml shut state.yaml text theirs try.yaml weir" \
    "$(mkdir "$dir/none"; cd "$dir" && echo * | sed 's/bad.yaml //')"

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir take` and the other client commands with a daemon. src/cmd/client/commands_test.c and
# connection_test.c have all other replies, addresses and errors.
#
#   client_commands_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

has_ipv6() { python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; }
also= && has_ipv6 && also=', "[::1]:0"'
cat >"$tmp/weir.yaml" <<YAML
listen: {resp: ["127.0.0.1:0"$also], unix: $tmp/weir.sock}
password: "secret"
policies:
  api:
    limit: "gcra 1/3650d burst 2"
    deny: [evil]
    overrides: {vip: gcra 1/s burst 9}
  queue: "leaky-queue 1/365d depth 3"
  seen: {limit: gcra 1/s, shadow: true}
YAML
export WEIR_PASSWORD=secret
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
at=$(sed -n 's/.* info started .* resp=127.0.0.1:\([0-9]*\).*/\1/p' "$daemon_log")
export WEIR_SERVER=127.0.0.1:$at

run() { # ARGUMENT...: prints the status and the output
    local out
    out=$("$weir" "$@" 2>&1)
    echo "$? $out"
}
check "daemon: take" "0 allowed  1 of 2 remaining, full again in 3650 d" "$(run take api alice)"
check "daemon: take over its Unix socket" "0 allowed  0 of 2 remaining, next in 3650 d, full again in 7300 d" "$(run take --server "$tmp/weir.sock" api alice)"
skipped=0 forms=('' :)
# A chroot without /etc/hosts does not know the name.
getent hosts localhost >/dev/null && forms+=(localhost:) || skipped=1
for form in "${forms[@]}"; do
    check "daemon: --server ${form}PORT" "0 reset" "$(WEIR_SERVER=127.0.0.1:1 run reset --server "$form$at" api bob)"
done
if [ -n "$also" ]; then
    at6=$(sed -n 's/.* info started .*\(\[::1\]:[0-9]*\).*/\1/p' "$daemon_log")
    check "daemon: --server [::1]:PORT" "0 reset" "$(run reset --server "$at6" api bob)"
fi
check "daemon: peek" "3 denied   retry in 3650 d" "$(run peek api alice)"
check "daemon: denied" "3 denied   retry in 3650 d" "$(run take api alice)"
check "daemon: denied, as JSON" '3 {"allowed":false,"limit":2,"remaining":0,"retry_after_ms":N,"reset_after_ms":N,"delay_ms":0,"next_ms":N,"policy":"api","layer":0}' \
    "$(run take api alice --json | sed -E 's/_ms":[1-9][0-9]*/_ms":N/g')"
check "daemon: reset" "0 reset" "$(run reset api alice)"
check "daemon: two keys are charged" "0 allowed  0 of 2 remaining, next in 3650 d, full again in 7300 d" "$(run take --cost 2 api alice)"
check "daemon: one of them has an override" "0 allowed  0 of 9 remaining, next in 9 s, full again in 9 s" "$(run take --cost 9 api vip | sed -E 's/in [0-9.]+ s/in 9 s/g')"
check "daemon: all keys are reset" "0 reset" "$(run reset api --all)"
check "daemon: the override is full" "0 allowed  9 of 9 remaining, full" "$(run peek api vip)"
check "daemon: full" "0 allowed  2 of 2 remaining, full" "$(run peek api alice)"
check "daemon: a cost above the limit" "3 denied   always: the cost of 3 exceeds the limit of 2" "$(run take --cost 3 api alice)"
check "daemon: a cost of 0" "0 allowed  2 of 2 remaining, full" "$(run take --cost 0 api alice)"
check "daemon: keep" "0 allowed  1 of 5 remaining, full" "$(run peek --text 'gcra 1/365d burst 5' --keep 80% dora)"
check "daemon: keep too much" "3 denied   always: the cost of 2, and 4 kept, exceed the limit of 5" \
    "$(run take --text 'gcra 1/365d burst 5' --cost 2 --keep 4 dora)"
check "daemon: a bad keep" "1 weir take: $WEIR_SERVER: what to keep: expected a whole number from 0 to 2147483647, or a share of the limit from 0% to 100%" \
    "$(run take --keep 101% api dora)"
check "daemon: the deny list" "3 denied   always: the key is on the policy's deny list" "$(run take api evil)"
check "daemon: the deny list, with keep" "3 denied   always: the key is on the policy's deny list" "$(run take --keep 1 api evil)"
check "daemon: a policy text" "0 allowed  4 of 5 remaining, full again in 365 d" "$(run take --text ' gcra  1/365d burst 5' bob)"
check "daemon: an invalid policy text without --text" "1 weir take: $WEIR_SERVER: policy: column 10: unknown unit 'x', expected one of ns us ms s m h d w" "$(run take 'gcra 100/x' bob)"
check "daemon: an unknown policy" "1 weir take: $WEIR_SERVER: no policy 'apj'; weir policies lists them" "$(run take apj bob)"
check "daemon: an unknown policy cannot be reset" "1 weir reset: $WEIR_SERVER: no policy 'apj'; weir policies lists them" "$(run reset apj bob)"
check "daemon: all keys of an unknown policy cannot be reset" "1 weir reset: $WEIR_SERVER: no policy 'apj'; weir policies lists them" "$(run reset apj --all)"
check "daemon: a key that is too long" "1 weir take: $WEIR_SERVER: the key has 65537 bytes, expected 1 to 65536" "$(run take api "$(printf 'x%.0s' {1..65537})")"
check "daemon: a key that exceeds the protocol's limit" 1 "$(run take api "$(printf 'x%.0s' {1..90000})" | grep -c '^1 weir take: ')"
check "daemon: a wrong password" "1 weir take: $WEIR_SERVER: the password in WEIR_PASSWORD is wrong" "$(WEIR_PASSWORD=x run take api bob)"
check "daemon: no password" "1 weir take: $WEIR_SERVER: the daemon requires a password: set WEIR_PASSWORD, or use --password-file" "$(WEIR_PASSWORD='' run take api bob)"
run take queue q >/dev/null
check "daemon: a queue" "0 allowed  2 of 4 remaining, serve after 365 d, full again in 730 d" "$(run take queue q)"
check "daemon: a key on the deny list, explained" "0 policy   api
key      evil
limit    gcra 1/3650d burst 2
list     on the deny list: always denied" "$(run explain api evil)"
check "daemon: ping" "0 PONG" "$(run ping)"
check "daemon: ping without a password" "1 weir ping: $WEIR_SERVER: the daemon requires a password: set WEIR_PASSWORD, or use --password-file" "$(WEIR_PASSWORD='' run ping)"
check "daemon: policies" "0 api    gcra 1/3650d burst 2; overrides: 1; always denied: 1
queue  leaky-queue 1/365d depth 3
seen   gcra 1/s; shadow" "$(run policies)"
check "daemon: policies as JSON" '0 {"policies":[{"name":"api","limit":"gcra 1/3650d burst 2","overrides":1,"allow":0,"deny":1,"shadow":false},{"name":"queue"' \
    "$(run policies --json | cut -c 1-124)"
run take --cost 1000 api evil >/dev/null # a cost of 1 would vanish if the counts are halved now
check "daemon: top" "0 denied by api recently: N units (half-life 1 m)
       units    at least    requests  key" "$(run top api | sed '1s/[0-9]* units/N units/' | head -2)"
check "daemon: top has the key" 1 "$(run top api | grep -c '^ .*[0-9]  evil$')"
check "daemon: top of one key" 1 "$(run top api --keys 1 | grep -c '^ .*[0-9]  ')"
check "daemon: top of an unknown policy" "1 weir top: $WEIR_SERVER: no policy 'apj'; weir policies lists them" "$(run top apj)"
check "daemon: top in a pipe prints one table and ends" 1 "$(timeout 60 "$weir" top 2>&1 | grep -c "^weir ")"
text='gcra 1/365d burst 5'
run take --text "$text" carol --cost 3 >/dev/null
check "daemon: peek at a policy text" "0 allowed  2 of 5 remaining, full again in 1095 d" "$(run peek --text "$text" carol)"
check "daemon: refund by a policy text" "0 refunded 4 of 5 remaining, full again in 365 d" "$(run refund --text "$text" --cost 2 carol)"
check "daemon: explain by a policy text" "0 key      carol
limit    gcra 1/365d burst 5
state    4 of 5 free; full again in 365 d
next     now" "$(run explain --text "$text" carol | sed -E 's/36[45] d[^,]*/365 d/')"
check "daemon: reset by a policy text" "0 reset" "$(run reset --text "$text" carol)"
check "daemon: after the reset, the key has its full quota" "0 allowed  5 of 5 remaining, full" "$(run peek --text "$text" carol)"
check "daemon: a time zone, which only the daemon reads" "0 allowed  99 of 100 remaining" \
    "$(run take --text 'fixed-window 100/day tz Europe/Berlin' carol | cut -d, -f1)"
check "daemon: refund by name" "0 refunded 2 of 2 remaining, full" "$(run take api dave >/dev/null; run refund api dave)"
check "daemon: a leaky queue does not support refunds" 1 "$(run refund queue q | grep -c '^1 weir refund: ')"
text='concurrent 2 lease 365d'
reserved=$(run reserve --text "$text" erin)
id=${reserved##*$'\n'}
check "daemon: reserve" "0 reserved 1 of 2 remaining, full again in 365 d"$'\n'"$id" "$reserved"
check "daemon: reserve with a TTL, as JSON" '0 {"allowed":true,"limit":2,"remaining":0,"retry_after_ms":0,' \
    "$(run reserve --json --ttl 1h --text "$text" erin | cut -c 1-61)"
check "daemon: a reservation that is denied" "3 denied   retry in 1 h" \
    "$(run reserve --text "$text" erin | sed -E 's/59 m.*|1 h.*/1 h/')"
check "daemon: renew" "0 renewed  0 of 2 remaining, next in 1 h, full again in 1 d" \
    "$(run renew --ttl 24h "$id" | sed -E 's/59 m [^,]*|1 h/1 h/; s/23 h.*|1 d/1 d/')"
check "daemon: a TTL above the lease" "1 weir renew: $WEIR_SERVER: --ttl: expected at most the lease of the policy, found 366d" \
    "$(run renew --ttl 366d "$id")"
check "daemon: commit as JSON" '0 {"settled":true,"over":0,"limit":2,"remaining":1,"reset_after_ms":N,"next_ms":0,"layer":0}' \
    "$(run commit --json "$id" 1 | sed -E 's/_ms":[1-9][0-9]*/_ms":N/g')"
check "daemon: a reservation is committed once" "1 weir cancel: $WEIR_SERVER: no open reservation $id: it was committed, was cancelled or has expired" \
    "$(run cancel "$id")"
id=$("$weir" reserve --cost 2 --ttl 1h api erin | tail -n 1)
check "daemon: cancel" "0 settled  2 of 2 remaining, full" "$(run cancel "$id")"
id=$("$weir" reserve --ttl 1h api erin | tail -n 1)
check "daemon: commit more" "0 settled  in debt, paid off in 3650 d, full again in 10950 d" "$(run commit "$id" 3)"
if [ -w /dev/full ]; then
    for args in "" --json; do
        # shellcheck disable=SC2086 # it is a word or none
        out=$("$weir" peek $args api bob 2>&1 >/dev/full)
        check "daemon: a full disk $args" "1 1" "$? $(grep -c "cannot write to standard output: No space left on device" <<<"$out")"
    done
    check "daemon: a full disk, top" $'weir top: cannot write to standard output: No space left on device\n1' \
        "$("$weir" top --count 1 --interval 100ms 2>&1 >/dev/full; echo $?)"
fi
closed="cannot write to standard output: Bad file descriptor"
check "daemon: standard output is closed, top" $'weir top: '"$closed"$'\n1' \
    "$(timeout 60 "$weir" top --count 1 --interval 100ms 2>&1 >&-; echo $?)"
for command in "take api vip" "take --json api vip" policies "top api"; do
    # shellcheck disable=SC2086 # these are words
    out=$(timeout 60 "$weir" $command 2>&1 <&- >&-)
    check "daemon: standard output is closed, $command" "1 1" "$? $(grep -c "$closed" <<<"$out")"
done
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

hint='start a daemon with `weir serve`, or set its address with --server or WEIR_SERVER'
check "no daemon listens on the address" "1 weir take: cannot connect to 127.0.0.1:$at: Connection refused; $hint" \
    "$(run take --server ":$at" api alice)"
check "the socket does not exist" "1 weir take: cannot connect to $tmp/none.sock: No such file or directory; $hint" \
    "$(run take --server "$tmp/none.sock" api alice)"

# The largest number of policies.
{
    echo 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}'
    echo 'policies:'
    for i in {1..1024}; do echo "  policy-$i: gcra $i/s"; done
} >"$tmp/many.yaml"
unset WEIR_PASSWORD
daemon_start "$tmp" "$weir" serve "$tmp/many.yaml"
http='expected a RESP server, found an HTTP server; use the address of listen.resp, port 6380 by default'
check "daemon: --server with its HTTP port" "weir policies: 127.0.0.1:$(daemon_port http): $http" \
    "$("$weir" policies --server "127.0.0.1:$(daemon_port http)" 2>&1)"
export WEIR_SERVER=127.0.0.1:$(daemon_port resp)
check "daemon: 1024 policies" "1024 policy-1024  gcra 1024/s" "$("$weir" policies | wc -l) $("$weir" policies | grep -- '-1024 ')"
check "daemon: 1024 policies as JSON" 1024 "$("$weir" policies --json | grep -o '"name":' | wc -l)"
daemon_stop

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

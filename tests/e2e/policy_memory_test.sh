#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Policies with memory of their own: floods in both directions, metrics, INFO, the log, restarts and
# `weir state`.
#
#   policy_memory_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

config() { # LOGIN-MEMORY LOG-MEMORY [MORE-OF-MEMORY]
    cat >"$tmp/new.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
memory: {size: 24m, large: 4m${3:-}}
policies:
  login: {limit: "gcra 10/365d burst 10"$1}
  audit: {limit: "sliding-log 10/365d"$2}
  api: "gcra 10/365d burst 10"
  api-log: "sliding-log 10/365d"
YAML
    mv "$tmp/new.yaml" "$tmp/weir.yaml"
}
start() {
    daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
    port=$(daemon_port resp)
    http=http://127.0.0.1:$(daemon_port http)
}
metric() { # NAME{LABELS}
    curl -s "$http/metrics" | grep -v "^#" | grep -F "$1 " | sed 's/.* //'
}
more_than() { [ "$2" -gt "$1" ] && echo yes || echo "no: $2"; }

# flood POLICY KEYS: takes 2 of each key, and prints how many were allowed
cat >"$tmp/flood.py" <<'PYTHON'
import socket, sys

port, policy, keys = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
s = socket.create_connection(("127.0.0.1", port), timeout=10)
allowed = 0
for begin in range(0, keys, 500):
    s.sendall(b"".join(b"WEIR.TAKE %s flood-%d COST 2\r\n" % (policy, i) for i in range(begin, begin + 500)))
    got = b""
    while got.count(b"\r\n") < 500 * 7:
        part = s.recv(1 << 20)
        if not part:
            sys.exit("closed")
        got += part
    allowed += got.count(b"*6\r\n:1\r\n")
print(allowed)
PYTHON
flood() {
    python3 "$tmp/flood.py" "$port" "$1" "$2"
}
left() { # POLICY: the sum of what remains for keys 1 to 5
    local i sum=0
    for i in 1 2 3 4 5; do sum=$((sum + $(request WEIR.PEEK "$1" "k$i" | cut -d' ' -f3))); done
    echo "$sum"
}

# ---- floods
config ", memory: 5m" ", memory: 25%"
start
for policy in login audit api api-log; do
    for i in 1 2 3 4 5; do request WEIR.TAKE "$policy" "k$i" >/dev/null; done
done
check "the memory of login" 5242880 "$(metric 'weir_policy_memory_max_bytes{policy="login"}')"
check "the memory of audit" 1048576 "$(metric 'weir_policy_memory_max_bytes{policy="audit"}')"
check "keys in it" "5 5" "$(metric 'weir_policy_keys{policy="login"}') $(metric 'weir_policy_keys{policy="audit"}')"
check "nothing is logged yet" 0 "$(grep -c policy-memory-full "$daemon_log")"
check "a flood of api-log" 60000 "$(flood api-log 60000)"
evicted=$(metric weir_store_evicted_total)
check "it evicts keys" yes "$(more_than 1000 "$evicted")"
check "but none of audit" "0 45" "$(metric 'weir_policy_evicted_total{policy="audit"}') $(left audit)"
check "a flood of audit" 40000 "$(flood audit 40000)"
audit=$(metric 'weir_policy_evicted_total{policy="audit"}')
check "it evicts keys of its own" yes "$(more_than 1000 "$audit")"
check "and no others" $((evicted + audit)) "$(metric weir_store_evicted_total)"
check "a flood of login" 400000 "$(flood login 400000)"
login=$(metric 'weir_policy_evicted_total{policy="login"}')
check "it evicts keys of its own, too" yes "$(more_than 10000 "$login")"
check "and still no others" "$((evicted + audit + login)) 45" "$(metric weir_store_evicted_total) $(left api)"
check "INFO has the memory of login" 1 "$(request_to "$port" INFO | grep -c "memory_login:keys=[0-9]*,bytes=[0-9]*,max_bytes=5242880,evicted=$login,refused=0")"
check "the log names login" 1 "$(await 1 ' warning policy-memory-full policy=login keys=[0-9]* memory_bytes=5242880 text="the policy.s own memory is full, and keys without full quota are evicted')"
check "the log names audit" 1 "$(await 1 ' warning policy-memory-full policy=audit ')"
check "once each" 2 "$(grep -c policy-memory-full "$daemon_log")"

# ---- a policy that is set, and overrides
before=$(metric 'weir_policy_keys{policy="login"}')
check "WEIR.POLICY SET keeps the memory" OK "$(request WEIR.POLICY SET login "gcra 9/365d burst 9")"
request WEIR.RESET login k1 >/dev/null
check "a flood under the new limit" 400000 "$(flood login 400000)"
check "evicts in the memory of login" yes "$(more_than $((login + 10000)) "$(metric 'weir_policy_evicted_total{policy="login"}')")"
check "and there only" "$((evicted + audit + $(metric 'weir_policy_evicted_total{policy="login"}')))" "$(metric weir_store_evicted_total)"
check "weir check prints the memory" "    memory        5m, for its keys alone;    memory        1m for large states, for its keys alone" \
    "$("$weir" check --syntax "$tmp/weir.yaml" | grep 'for its keys alone' | paste -sd';')"

# ---- reload
config ", memory: 6m" ", memory: 25%"
check "another size needs a restart" 1 "$(await 1 ' warning restart-needed key=policies.login.memory ')"
check "nothing else does" 1 "$(grep -c restart-needed "$daemon_log")"
check "the store keeps its memory" 5242880 "$(metric 'weir_policy_memory_max_bytes{policy="login"}')"
daemon_stop

# ---- a state file
config ", memory: 5m" ", memory: 25%" ", file: state"
start
for policy in login audit api api-log; do
    for i in 1 2 3 4 5; do request WEIR.TAKE "$policy" "k$i" >/dev/null; done
done
check "a reservation in the memory of login" 1 "$(request WEIR.RESERVE login k1 5 TTL 100s | cut -d' ' -f1)"
kill -KILL "$daemon_pid"
wait "$daemon_pid" 2>/dev/null
config ", memory: 8m" "" ", file: state"
start
check "a larger memory keeps the keys" 40 "$(left login)"
check "without memory of its own, keys start anew" 50 "$(left audit)"
check "other keys stay" "45 45" "$(left api) $(left api-log)"
daemon_stop
check "weir state prints the memory of login" 1 "$("$weir" state "$tmp/state" | grep -c '^partitions *login: 5 keys, .* of 8192 KiB, 0 evicted$')"
"$weir" state "$tmp/state" --export --with-secret >"$tmp/lines"
check "the export has the keys of login" 5 "$(grep -c '"partition":"' "$tmp/lines")"
"$weir" state "$tmp/copy" --import "$tmp/lines" >"$tmp/out" 2>&1
check "the import succeeds" 0 $?
check "the copy has the memory of login" 1 "$("$weir" state "$tmp/copy" | grep -c '^partitions *login: 5 keys, .* of 8192 KiB, 0 evicted$')"
mv "$tmp/copy" "$tmp/state"
start
check "a daemon finds the keys in the copy" "40 45" "$(left login) $(left api)"
daemon_stop
sed -i '1s/,"partitions":\[[^]]*\]//' "$tmp/lines"
check "keys of a partition that the file does not have are refused" 1 "$("$weir" state "$tmp/bare" --import "$tmp/lines" 2>&1 | grep -c 'partition: .* has no partition with this hash')"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

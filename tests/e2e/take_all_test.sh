#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Requests for several keys (WEIR.TAKEALL) and reservations: redis-cli, redis-py and curl against the
# daemon.
#
#   take_all_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

cat >"$tmp/weir.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
threads: 2
policies:
  user: {limit: "gcra 1/3650d burst 3", allow: [vip], deny: [evil]}
  org: "gcra 1/365d burst 20"
  whole: "gcra 1/13d burst 500"
  look: {limit: "gcra 1/3650d", shadow: true}
  tokens: "gcra 1/13d burst 1000"
  queue: "leaky-queue 1/h depth 5"
YAML
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
port=$(daemon_port resp)
web=http://127.0.0.1:$(daemon_port http)

without_times() { # ARGUMENT...: the reply without the times, which depend on the clock
    request "$@" | cut -d' ' -f1-3,7-
}

# ---- redis-cli: WEIR.TAKEALL
check "WEIR.TAKEALL charges all keys" "1 3 1 0" "$(without_times WEIR.TAKEALL 2 user alice 2 org acme 2)"
check "WEIR.TAKEALL charges no key if one denies" "0 3 1 0" "$(without_times WEIR.TAKEALL 2 user alice 2 org acme 2)"
check "the other key was not charged" "1 20 18" "$(request WEIR.PEEK org acme | cut -d' ' -f1-3)"
check "the reply has the index of the key that denies" "0 20 18 1" "$(without_times WEIR.TAKEALL 2 user bob 3 org acme 19)"
check "a key on an allow list is not counted" "1 20 17 1" "$(without_times WEIR.TAKEALL 2 user vip 99 org acme 1)"
check "a key on a deny list denies the request" "0 3 0 1" "$(without_times WEIR.TAKEALL 2 org acme 1 user evil 1)"
check "a request in shadow mode alone is allowed" "1 1 1 0" "$(without_times WEIR.TAKEALL 1 look k 6)"
check "a policy in shadow mode does not deny" "1 20 11 1" "$(without_times WEIR.TAKEALL 2 look k 6 org acme 6)"
check "a key whose sum is above the limit never passes" "0 20 11 -1 1" \
    "$(request WEIR.TAKEALL 2 org acme 11 org acme 10 | cut -d' ' -f1-4,7)"
check "an unknown policy is an error with the request's index" "ERR request 1: no policy 'no'; WEIR.POLICY LIST shows all policies" \
    "$(request WEIR.TAKEALL 2 org acme 1 no k 1)"
check "RESP3 has the same reply" "1 20 20 0 0 0 0" "$(request -3 WEIR.TAKEALL 1 org x 0)"
check "WITHNAMES adds names" "allowed limit remaining retry_after_ms reset_after_ms delay_ms next_ms index policy key layer" \
    "$(redis-cli -3 -p "$port" WEIR.TAKEALL 1 org x 0 WITHNAMES | awk '{print $1}' | tr '\n' ' ' | sed 's/ $//')"
check "WITHNAMES adds names in RESP2" "index 0 policy org key x layer 0" \
    "$(request WEIR.TAKEALL 1 org x 0 WITHNAMES | cut -d' ' -f15-)"
check "the metrics count the denials" "user: 1 org: 2" \
    "$(curl -s "$web/metrics" | awk -F'[" ]' '/decisions_total.*denied"/ && ($2 == "user" || $2 == "org") {n[$2] = $NF}
        END {print "user: " n["user"] " org: " n["org"]}')"

# ---- redis-cli: reservations
reply=$(request WEIR.RESERVE tokens a 600 TTL 1h)
id=${reply##* }
check "WEIR.RESERVE charges the units" "1 1000 400" "$(cut -d' ' -f1-3 <<<"$reply")"
check "the id has 16 digits" 1 "$(grep -c -E '^[0-9a-f]{16}$' <<<"$id")"
check "a denied reservation has no id" "0 1000 400" "$(without_times WEIR.RESERVE tokens a 600 TTL 1h)"
check "WEIR.COMMIT returns the unused units" "1 1000 750 0" "$(without_times WEIR.COMMIT "$id" 250)"
check "RESP3 has the id in the same position" "1 1000 999 7" \
    "$(request -3 WEIR.RESERVE tokens three 1 TTL 1h | awk '{print $1, $2, $3, NF}')"
check "WITHNAMES names the id" "id policy layer" \
    "$(redis-cli -3 -p "$port" WEIR.RESERVE tokens three 1 TTL 1h WITHNAMES | awk '{print $1}' | tail -n 3 | tr '\n' ' ' | sed 's/ $//')"
check "a second commit is an error" "ERR no open reservation $id: it was committed, was cancelled or has expired" "$(request WEIR.COMMIT "$id" 250)"
id=$(request WEIR.RESERVE tokens a 700 TTL 90m)
check "a commit above the reservation charges the rest as debt" "0 1000 0 0" "$(without_times WEIR.COMMIT "${id##* }" 770)"
id=$(request WEIR.RESERVE tokens b 1000 TTL 1d)
check "WEIR.CANCEL returns all units" "1 1000 1000 0" "$(without_times WEIR.CANCEL "${id##* }")"
id=$(request WEIR.RESERVE tokens b 1000 TTL 1ns)
check "an expired reservation returns its units" "1 1000 0" "$(request WEIR.TAKE tokens b COST 1000 | cut -d' ' -f1-3)"
check "an expired reservation is committed as debt" "0 1000 0 0" "$(without_times WEIR.COMMIT "${id##* }" 5)"
check "an expired reservation is committed once" "ERR no open reservation ${id##* }: it was committed, was cancelled or has expired" \
    "$(request WEIR.CANCEL "${id##* }")"
check "a reservation for a key on an allow list has the id 0" "1 3 3 0000000000000000" "$(without_times WEIR.RESERVE user vip 9 TTL 5)"
check "a commit of the id 0 succeeds" "1 2147483647 2147483647 0" "$(without_times WEIR.COMMIT 0000000000000000 9)"
check "a leaky queue does not support reservations" "ERR leaky-queue and count-denied policies do not support refunds" \
    "$(request WEIR.RESERVE queue k 1 TTL 5)"
id=$(request WEIR.RESERVE user carol 3 TTL 1h)
check "the policy of a reservation is deleted" 1 "$(request WEIR.POLICY DEL user)"
check "the reservation can still be committed" "1 3 2 0" "$(without_times WEIR.COMMIT "${id##* }" 1)"
check "WEIR.HELP lists the commands" 4 "$(request WEIR.HELP | grep -o -E 'WEIR\.(TAKEALL n|RESERVE p|COMMIT i|CANCEL i)' | wc -l)"

# ---- redis-py on several threads: the units charged equal the requests allowed
python=
for candidate in /usr/bin/python3 python3; do
    "$candidate" -c 'import redis' 2>/dev/null && python=$candidate && break
done
cat >"$tmp/client.py" <<'PYTHON'
import sys, threading
import redis

port = int(sys.argv[1])
allowed = []


def take(number):
    own, sum_ = redis.Redis(host="127.0.0.1", port=port), 0
    for i in range(300):
        asks = [("gcra 1/13d burst 900", f"user{i % 3}", 1), ("whole", "all", 1)]
        if (i + number) % 2:
            asks.reverse()
        sum_ += own.execute_command("WEIR.TAKEALL", 2, *asks[0], *asks[1])[0]
    allowed.append(sum_)


threads = [threading.Thread(target=take, args=(n,)) for n in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
r = redis.Redis(host="127.0.0.1", port=port)
left = [r.execute_command("WEIR.PEEK", "gcra 1/13d burst 900", f"user{i}")[2] for i in range(3)]
print(sum(allowed), 2700 - sum(left), r.execute_command("WEIR.PEEK", "whole", "all")[2])
reply = r.execute_command("WEIR.RESERVE", "tokens", "py", 10, "TTL", "30s")
print(reply[:3], r.execute_command("WEIR.COMMIT", reply[6], 4)[2])
PYTHON
skipped=0
if [ -n "$python" ]; then
    check "redis-py: the units charged equal the requests allowed" "500 500 0
[1, 1000, 990] 996" "$("$python" "$tmp/client.py" "$port" 2>&1)"
else
    echo "skip - redis-py is not installed"
    skipped=1
fi

# ---- curl
post() { # PATH JSON [ARG...]
    curl -s -H 'Content-Type: application/json' -d "$2" "${@:3}" "$web$1"
}
body='{"requests":[{"policy":"org","key":"web","cost":15},{"policy":"tokens","key":"web","cost":15}]}'
check "/v1/takeall charges all keys" '"remaining":5 "policy":"org" "index":0 "key":"web"' \
    "$(post /v1/takeall "$body" | grep -o -E '"(remaining|index)":[0-9]+|"(policy|key)":"[a-z]+"' | tr '\n' ' ' | sed 's/ $//')"
check "a denial has status 429 and Retry-After" "429 1" "$(post /v1/takeall "$body" -o "$tmp/body" -D "$tmp/head" -w '%{http_code}') $(grep -c -i '^retry-after: [0-9]' "$tmp/head")"
check "RateLimit names the policy that denies" 'RateLimit: "org";r=5' "$(grep -o -E '^RateLimit: "org";r=5' "$tmp/head")"
check "an error names the request" 'requests[1]: missing key, expected the parameter \"key\"' \
    "$(post /v1/takeall '{"requests":[{"policy":"org","key":"a"},{"policy":"org"}]}' | sed 's/.*"detail":"\(.*\)"}/\1/')"
id=$(post /v1/reserve '{"policy":"tokens","key":"web","cost":900,"ttl":"30m"}' | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/')
check "/v1/commit returns the unused units" '{"settled":true,"over":0,"limit":1000,"remaining":945,' \
    "$(post /v1/commit "{\"id\":\"$id\",\"actual\":40}" | sed 's/"reset.*//')"
check "a committed reservation cannot be cancelled" 404 "$(curl -s -o /dev/null -w '%{http_code}' -X POST "$web/v1/cancel?id=$id")"
id=$(request WEIR.RESERVE tokens web 5 TTL 1m)
check "a reservation made over RESP can be cancelled over HTTP" '"remaining":945' \
    "$(curl -s -X POST "$web/v1/cancel?id=${id##* }" | grep -o '"remaining":[0-9]*')"
check "a request from a page of another site is refused" 403 \
    "$(post /v1/takeall "$body" -H 'Sec-Fetch-Site: cross-site' -o /dev/null -w '%{http_code}')"

daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The daemon with common clients: redis-cli, redis-py, node-redis, curl and wrk.
#
#   clients_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"
skipped=0

cat >"$tmp/weir.yaml" <<YAML
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", unix: $tmp/weir.sock}
threads: 2
http: {key: {header: X-Client}}
policies:
  login: "sliding-log 5/m & fixed-window 100/day tz Europe/Berlin"
  api:
    limit: "gcra 1/3650d burst 3"
    overrides: {big: "gcra 1/365d burst 30", "trial-*": "gcra 1/3650d burst 1"}
    allow: ["10.0.0.0/8", vip]
    deny: [evil]
  look: {limit: "gcra 1/3650d", shadow: true}
  hot: "gcra 1/13d burst 1000"
  few: "gcra 1/60d burst 200"
  queue: "leaky-queue 1/s depth 5"
  slow: "leaky-queue 1/h depth 5"
YAML
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
port=$(daemon_port resp)
web=http://127.0.0.1:$(daemon_port http)

# ---- redis-cli
check "WEIR.TAKE" "1 3 2 0" "$(request WEIR.TAKE api alice | cut -d' ' -f1-4)"
check "WEIR.PEEK" "0 3 2 -1" "$(request WEIR.PEEK api alice COST 4 | cut -d' ' -f1-4)"
check "WEIR.TAKE takes the rest" "1 3 0 0" "$(request WEIR.TAKE api alice COST 2 | cut -d' ' -f1-4)"
check "denied" "0 3 0" "$(request WEIR.TAKE api alice | cut -d' ' -f1-3)"
check "an override" "1 30 29 0" "$(request WEIR.TAKE api big | cut -d' ' -f1-4)"
check "an override by prefix" "1 1 0 0" "$(request WEIR.TAKE api trial-9 | cut -d' ' -f1-4)"
check "on the allow list" "1 3 3 0 0 0" "$(request WEIR.TAKE api 10.9.8.7 COST 1000)"
check "on the deny list" "0 3 0 -1 0 0" "$(request WEIR.TAKE api evil)"
check "shadow" "1 1 1" "$(for _ in 1 2 3; do request WEIR.TAKE look k | cut -d' ' -f1; done | tr '\n' ' ' | sed 's/ $//')"
check "refund" "1 3 1 0" "$(request WEIR.REFUND api alice 1 | cut -d' ' -f1-4)"
check "reset" OK "$(request WEIR.RESET api alice)"
check "after the reset, the key has its full quota" "1 3 3 0 0 0" "$(request WEIR.PEEK api alice)"
check "WEIR.TAKE over the Unix socket" "1 3 2 0" "$(redis-cli -s "$tmp/weir.sock" WEIR.TAKE api bob | tr '\n' ' ' | cut -d' ' -f1-4)"
check "RESP3 has the same reply" "1 3 2 0" "$(request -3 WEIR.TAKE api carol | cut -d' ' -f1-4)"
check "WITHNAMES adds names" "allowed limit remaining retry_after_ms reset_after_ms delay_ms next_ms policy layer" \
    "$(redis-cli -3 -p "$port" WEIR.TAKE api carol WITHNAMES | awk '{print $1}' | tr '\n' ' ' | sed 's/ $//')"
check "explain" "policy   api" "$(redis-cli -p "$port" WEIR.EXPLAIN api alice | head -1)"
check "INFO" 1 "$(redis-cli -p "$port" INFO | grep -c '^policy_api:')"

# ---- the top keys. Costs are not compared: they halve with each minute, which may end at any time,
# and a cost of 1 is gone then. Hence the costs of 100.
request WEIR.TAKE api greedy COST 100 >/dev/null
request WEIR.TAKE look k COST 100 >/dev/null
top_key() { request WEIR.TOP "$@" | sed 's/.* keys key //; s/ cost.*//'; }
check "the top key by denied cost" greedy "$(top_key api denied 1)"
check "the top key by allowed cost, which an allow list admits" 10.9.8.7 "$(top_key api allowed 1)"
check "the top key that a policy in shadow mode would deny" k "$(top_key look 1)"
check "the fields of WEIR.TOP" "policy of cost unlisted_max sampling half_life_ms complete keys" \
    "$(redis-cli -p "$port" WEIR.TOP api denied 1 | head -n 15 | awk 'NR % 2 == 1' | tr '\n' ' ' | sed 's/ $//')"
check "WEIR.TOP of an unknown policy" "ERR no policy 'none'; WEIR.POLICY LIST shows all policies" "$(request WEIR.TOP none)"
check "WEIR.TOP with too large a count" "ERR k: expected a whole number from 1 to 100, the value of top.keys" "$(request WEIR.TOP api denied 101)"
for _ in 1 2 3 4 5; do
    printf 'c\0\n\xff' | redis-cli -p "$port" -x WEIR.CHECK 'gcra 1/3650d' >/dev/null
done
check "a key of any bytes is listed" '"c\x00\n\xff"' "$(redis-cli --no-raw -p "$port" WEIR.TOP '(texts)' denied 1 | grep -oF '"c\x00\n\xff"')"
seq 2000 | sed 's/.*/WEIR.TAKE api many-& COST 9/' | redis-cli -p "$port" >/dev/null

# ---- redis-py
python=
for candidate in /usr/bin/python3 python3; do
    "$candidate" -c 'import redis' 2>/dev/null && python=$candidate && break
done
cat >"$tmp/client.py" <<'PYTHON'
import sys, threading
import redis

port = int(sys.argv[1])
r = redis.Redis(host="127.0.0.1", port=port)
print(r.ping(), r.execute_command("WEIR.TAKE", "api", "py")[:4])
pipe = r.pipeline()  # MULTI and EXEC around it
for _ in range(5):
    pipe.execute_command("WEIR.TAKE", "api", "piped")
print([reply[0] for reply in pipe.execute()])
try:
    r.execute_command("WEIR.TAKE", "none", "k")
except redis.ResponseError as e:
    print(e)
listener = r.pubsub()
listener.subscribe("news", "old")
listener.unsubscribe()
print([(m["type"], m["channel"], m["data"]) for m in listener.listen()])
allowed = []


def take():
    own, sum_ = redis.Redis(host="127.0.0.1", port=port), 0
    for _ in range(30):
        pipe = own.pipeline(transaction=False)
        for _ in range(20):
            pipe.execute_command("WEIR.TAKE", "hot", "k")
        sum_ += sum(reply[0] for reply in pipe.execute())
    allowed.append(sum_)


threads = [threading.Thread(target=take) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sum(allowed))
PYTHON
if [ -n "$python" ]; then
    check "redis-py: requests, pipelines, subscriptions and threads" "True [1, 3, 2, 0]
[1, 1, 1, 0, 0]
no policy 'none'; WEIR.POLICY LIST shows all policies
[('subscribe', b'news', 1), ('subscribe', b'old', 2), ('unsubscribe', b'news', 1), ('unsubscribe', b'old', 0)]
1000" "$("$python" "$tmp/client.py" "$port" 2>&1)"
else
    echo "skip - redis-py is not installed"
    skipped=$((skipped + 1))
fi

# ---- node-redis
cat >"$tmp/client.js" <<'NODE'
const { createClient } = require('redis');
(async () => {
    const c = createClient({ url: process.argv[2] });
    await c.connect();
    const say = (x) => console.log(JSON.stringify(x));
    say(await c.ping());
    say((await c.sendCommand(['WEIR.TAKE', 'api', 'node'])).slice(0, 4));
    const many = await Promise.all([...Array(5)].map(() => c.sendCommand(['WEIR.TAKE', 'api', 'nodes'])));
    say(many.map((reply) => reply[0]));
    say(await c.sendCommand(['CL.THROTTLE', 'node', '15', '30', '60']));
    const listener = c.duplicate();
    await listener.connect();
    await listener.subscribe('news', say);
    await listener.unsubscribe('news');
    await listener.quit();
    await c.quit();
})().catch((e) => { console.log(String(e)); process.exit(1); });
NODE
export NODE_PATH=${NODE_PATH-/usr/share/nodejs}
if node -e "require('redis')" 2>/dev/null; then
    check "node-redis: requests and concurrent requests" '"PONG"
[1,3,2,0]
[1,1,1,0,0]
[0,16,15,-1,2]' "$(node "$tmp/client.js" "redis://127.0.0.1:$port" 2>&1)"
else
    echo "skip - node-redis is not installed"
    skipped=$((skipped + 1))
fi

# ---- curl
status() { curl -s -o "$tmp/body" -D "$tmp/head" -w '%{http_code}' "$@"; }
header() { sed -n "s/^$1: \(.*\)\r$/\1/Ip" "$tmp/head"; }
check "curl is allowed" 200 "$(status "$web/v1/take?policy=api&key=curl")"
check "the body has the fields of the decision" 1 "$(grep -c '"allowed":true,"limit":3,"remaining":2' "$tmp/body")"
check "RateLimit has the remaining quota" '"api";r=2' "$(header RateLimit | cut -d';' -f1-2)"
check "curl with a JSON body" 200 "$(status -H 'Content-Type: application/json' -d '{"policy":"api","key":"curl","cost":2}' "$web/v1/take")"
check "curl is denied" 429 "$(status "$web/v1/take?policy=api&key=curl")"
check "the body of a denial is problem+json" application/problem+json "$(header Content-Type)"
check "Retry-After is in seconds" 1 "$(header Retry-After | grep -cE '^[1-9][0-9]*$')"
check "a key is the same over RESP and HTTP" "0 3 0" "$(request WEIR.TAKE api curl | cut -d' ' -f1-3)"
check "the key comes from the header of http.key" 200 "$(status -H 'X-Client: 2001:db8::1' "$web/v1/take?policy=api&cost=3")"
check "another address of the same /64 is the same key" 429 "$(status -H 'X-Client: 2001:db8::2' "$web/v1/take?policy=api")"
check "a policy text" 200 "$(status -G --data-urlencode 'limit=gcra 1/h burst 2' -d key=k "$web/v1/check")"
check "an unknown policy is 404" 404 "$(status "$web/v1/take?policy=none&key=k")"
check "healthz" 200 "$(status "$web/healthz")"
check "policies" 200 "$(status "$web/v1/policies")"
check "/v1/top" 200 "$(status "$web/v1/top?policy=api&of=denied&k=3")"
check "/v1/top returns k keys" 3 "$(grep -c '^{"key":"' "$tmp/body")"
check "/v1/top of an unknown policy is 404" 404 "$(status "$web/v1/top?policy=none")"
check "a connection serves several requests" 2 "$(curl -sv "$web/healthz" "$web/healthz" 2>&1 | grep -c '^< HTTP/1.1 200')"
check "metrics" 200 "$(status "$web/metrics")"
check "the decisions were timed, and took less than an hour" "1 1" \
    "$(awk '/^weir_decision_duration_seconds_(sum|count) / { v[$1] = $2 } END {
        print (v["weir_decision_duration_seconds_count"] > 0), (v["weir_decision_duration_seconds_sum"] < 3600) }' "$tmp/body")"
check "the metrics name no keys by default" 0 "$(grep -c weir_top_cost "$tmp/body")"
check "the metrics count the denials of a policy" 'weir_decisions_total{policy="login",verdict="denied"} 0' \
    "$(grep -F 'weir_decisions_total{policy="login",verdict="denied"}' "$tmp/body")"
if command -v promtool >/dev/null; then
    check "promtool accepts the metrics" "" "$(promtool check metrics <"$tmp/body" 2>&1)"
fi

# A leaky queue delays the response, so after it at most one second is left. With delay=report, the
# response comes at once and reports the delay.
check "two requests are queued" "1 1" \
    "$(printf 'WEIR.TAKE queue q\nWEIR.TAKE queue q\n' | redis-cli -p "$port" | sed -n '1p;7p' | tr '\n' ' ' | sed 's/ $//')"
check "the third is allowed" 200 "$(status "$web/v1/take?policy=queue&key=q")"
check "its response was delayed" 1 "$(request WEIR.PEEK queue q | awk '{print ($5 <= 1000)}')"
status "$web/v1/take?policy=slow&key=q" >/dev/null
check "delay=report is allowed at once" 200 "$(status "$web/v1/take?policy=slow&key=q&delay=report")"
check "delay=report reports the delay" 1 "$(sed -n 's/.*"delay_ms":\([0-9]*\).*/\1/p' "$tmp/body" | awk '{print ($1 > 3000000 && $1 <= 3600000)}')"

# ---- wrk
if command -v wrk >/dev/null; then
    wrk -t1 -c20 -d1s "$web/v1/take?policy=few&key=wrk" >"$tmp/wrk" 2>&1
    all=$(sed -n 's/^ *\([0-9]*\) requests in.*/\1/p' "$tmp/wrk")
    denied=$(sed -n 's/.*Non-2xx or 3xx responses: \([0-9]*\)/\1/p' "$tmp/wrk")
    # wrk does not count the requests that were in flight when it stopped.
    check "wrk: the requests allowed equal the burst" 1 "$((all - denied <= 200 && all - denied >= 200 - 20))"
else
    echo "skip - wrk is not installed"
    skipped=$((skipped + 1))
fi

daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs the tour examples/envoy/run.sh with a real Envoy, and its errors.
#
#   tests/envoy/tour_test.sh ENVOY WEIR
set -uo pipefail
export ENVOY WEIR
ENVOY=$(realpath -- "$1")
WEIR=$(realpath -- "$2")
cd "$(dirname "$0")/../.."
. tests/e2e/check.sh
. tests/e2e/daemon.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for name in ENVOY_PORT BACKEND_PORT GRPC_PORT HTTP_PORT RESP_PORT; do
    export "$name=$(free_port)"
done

# A day that ends during the tour would begin a new count.
for _ in 1 2; do
    day=$(date -u +%F)
    examples/envoy/run.sh >"$work/out" 2>"$work/errors"
    status=$?
    [ "$day" != "$(date -u +%F)" ] || break
done

check 'the tour succeeds' 0 "$status"
check 'it prints no errors' '' "$(cat "$work/errors")"
check 'requests are allowed and denied as it says' '200 200 200 429 200 200 429 200 200 ' \
    "$(grep -E '^[0-9]{3}$' "$work/out" | tr '\n' ' ')"
check 'a denial has the headers of Envoy' 4 \
    "$(grep -cE '^(HTTP/1.1 429|x-envoy-ratelimited: true|x-ratelimit-remaining: 0|x-ratelimit-limit: 3, )' "$work/out")"
check 'the backend answers bob' 1 "$(grep -c '^Hello from the backend' "$work/out")"
check 'weir top lists the user' 1 "$(grep -cE ' user=alice$' "$work/out")"
check 'the statistics count the denials' 2 \
    "$(sed -n 's/^ratelimit.service.rate_limit.shop.user.over_limit: //p' "$work/out")"

for name in ENVOY_PORT BACKEND_PORT GRPC_PORT HTTP_PORT RESP_PORT; do
    check "nothing listens on $name afterwards" '' \
        "$( (exec 3<>"/dev/tcp/127.0.0.1/${!name}") 2>/dev/null && echo listens)"
done

python3 -u -m http.server "$HTTP_PORT" --bind 127.0.0.1 >"$work/listener" 2>&1 &
listener=$!
await 1 '^Serving' "$work/listener" >/dev/null
check 'a port in use is an error that says what to do' \
    "examples/envoy/run.sh: port $HTTP_PORT is in use; choose another: HTTP_PORT=$((HTTP_PORT + 1000)) examples/envoy/run.sh" \
    "$(examples/envoy/run.sh 2>&1)"
kill "$listener"
check 'a missing weir is an error that says what to do' \
    "examples/envoy/run.sh: there is no $work/none; build it with 'make', or set WEIR to the program" \
    "$(WEIR=$work/none examples/envoy/run.sh 2>&1)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Two daemons share a limit through a Redis Cluster of three nodes. Starts all of them on this machine,
# sends requests to both daemons in turn, and stops everything.
#
#   examples/redis/run.sh [--stay]     --stay: runs until Ctrl-C, for experiments with redis-cli and curl
#
# PORT (7000) is the first of ten ports. WEIR is the program (build/weir). MODULE is the module that the
# nodes load; without it, the daemons load the Functions library into them.
set -euo pipefail
cd "$(dirname "$0")/../.."
weir=${WEIR:-build/weir}
port=${PORT:-7000}
module=()
[ -z "${MODULE:-}" ] || module=(--loadmodule "$(realpath "$MODULE")") # nodes run in another directory
directory=$(mktemp -d)
pids=()

finish() {
    trap - EXIT
    ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
    wait || true
    rm -rf "$directory"
}
trap finish EXIT
trap 'exit 130' INT TERM

all_run() { # returns whether all processes that this script started are running
    local pid
    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || return 1
    done
}

# COMMAND...: repeats it until it succeeds, for at most ten seconds
until_true() {
    local end=$((SECONDS + 10))
    until "$@" >/dev/null 2>&1 && all_run; do
        if ((SECONDS > end)) || ! all_run; then
            echo "no success within 10 s: $*; the logs:" >&2
            tail -n 5 "$directory"/*/log >&2
            exit 1
        fi
        sleep 0.05
    done
}

# ---- three nodes ---------------------------------------------------------------------------------

nodes=()
for i in 0 1 2; do
    mkdir "$directory/node$i"
    redis-server --port $((port + i)) --bind 127.0.0.1 --dir "$directory/node$i" --save '' \
        --cluster-enabled yes --cluster-port $((port + 3 + i)) "${module[@]}" \
        >"$directory/node$i/log" &
    pids+=($!)
    nodes+=("127.0.0.1:$((port + i))")
done
for i in 0 1 2; do
    until_true grep 'Ready to accept connections' "$directory/node$i/log"
done
redis-cli --cluster create "${nodes[@]}" --cluster-yes >"$directory/create"
is_whole() { redis-cli -p "$1" CLUSTER INFO | grep -q cluster_state:ok; }
for i in 0 1 2; do
    until_true is_whole $((port + i))
done
echo "a Cluster of three nodes on ${nodes[*]}"

# ---- two daemons ---------------------------------------------------------------------------------

daemons=($((port + 6)) $((port + 7)))
for i in 0 1; do
    mkdir "$directory/weir$i"
    cat >"$directory/weir$i/weir.yaml" <<YAML
listen: {resp: "127.0.0.1:${daemons[i]}", http: "127.0.0.1:$((port + 8 + i))"}
engine: redis
redis:
  urls: ["redis://${nodes[0]}", "redis://${nodes[1]}"]
  deadline: 1s
  on_error: closed
policies:
  login: fixed-window 5/h from-first
YAML
    "$weir" serve "$directory/weir$i/weir.yaml" 2>"$directory/weir$i/log" &
    pids+=($!)
done
for i in 0 1; do
    until_true grep ' info started ' "$directory/weir$i/log"
done
echo "two daemons on 127.0.0.1:${daemons[0]} and 127.0.0.1:${daemons[1]}"

# ---- one limit -----------------------------------------------------------------------------------

echo "login: fixed-window 5/h from-first"
for i in 1 2 3 4 5 6 7; do
    which=$((i % 2))
    read -r -d '' allowed limit remaining _ < <(redis-cli -p "${daemons[which]}" WEIR.TAKE login alice) || true
    if [ "$allowed" = 1 ]; then verdict=allowed; else verdict=denied; fi
    echo "request $i, to daemon $which: $verdict, $remaining of $limit remaining"
done

if [ "${1:-}" = --stay ]; then
    echo "Ctrl-C ends all of it. Try:"
    echo "  redis-cli -p ${daemons[0]} WEIR.TAKE login bob"
    echo "  curl -i 'http://127.0.0.1:$((port + 8))/v1/take?policy=login&key=bob'"
    wait
fi

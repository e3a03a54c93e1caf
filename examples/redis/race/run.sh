#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Shows the race of a limiter that reads and then writes, with a real redis-server, and the same load with
# weir: with the module in the server, and with two daemons that share it.
#
#   examples/redis/race/run.sh
#
# WEIR is the program (build/weir) and MODULE the module (build/weir.so). The ports are free ones.
set -euo pipefail
cd "$(dirname "$0")/../../.."
weir=$(realpath "${WEIR:-build/weir}") module=$(realpath "${MODULE:-build/weir.so}")
read -r redis_with_module redis_alone daemon1 daemon2 < <(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(s.getsockname()[1] for s in sockets))')
race=$PWD/examples/redis/race/race.py
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

# FILE TEXT: waits until the log has the text, for at most twenty seconds
until_logged() {
    local end=$((SECONDS + 20))
    until grep -qs "$2" "$1"; do
        if ((SECONDS > end)); then
            echo "not within 20 s: $2; the log:" >&2
            tail -n 5 "$1" >&2
            exit 1
        fi
        sleep 0.02
    done
}

start_redis() { # PORT OPTION...
    redis-server --port "$1" --bind 127.0.0.1 --dir "$directory" --save '' "${@:2}" >"$directory/redis$1" &
    pids+=($!)
    until_logged "$directory/redis$1" 'Ready to accept connections'
}

start_redis "$redis_with_module" --loadmodule "$module"
echo "one unit is left, and eight processes read the count before one of them writes it:"
python3 "$race" --requests 1 racy 1 "$redis_with_module"
echo "100 requests of each process, and then the same with weir's module:"
python3 "$race" racy 100 "$redis_with_module"
python3 "$race" weir 100 "$redis_with_module"

start_redis "$redis_alone"
for daemon in "$daemon1" "$daemon2"; do
    cat >"$directory/weir$daemon.yaml" <<YAML
listen: {resp: "127.0.0.1:$daemon"}
threads: 1
engine: redis
redis: {url: "redis://127.0.0.1:$redis_alone", deadline: 10s, on_error: closed}
YAML
    "$weir" serve "$directory/weir$daemon.yaml" 2>"$directory/log$daemon" &
    pids+=($!)
    until_logged "$directory/log$daemon" ' info started '
done
echo "two daemons that share a redis-server without the module:"
python3 "$race" weir 100 "$daemon1" "$daemon2"

# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests in bash: starts a daemon in the background, sends it requests, and stops it.
# shellcheck shell=bash
daemon_pid=
daemon_ready=' info started |"event":"started"'

# daemon_start DIR COMMAND...: starts it with its log in DIR/log, and waits until it listens.
daemon_start() {
    daemon_log=$1/log
    shift
    : >"$daemon_log" # `tail` may start before the daemon
    "$@" >>"$daemon_log" 2>&1 &
    daemon_pid=$!
    # The log reports the start. `tail` ends when the daemon does.
    timeout 20 tail -n +1 -f --pid="$daemon_pid" "$daemon_log" | grep -q -m1 -E "$daemon_ready"
    if ! grep -q -E "$daemon_ready" "$daemon_log"; then
        echo "the daemon did not start:"
        cat "$daemon_log"
        exit 1
    fi
}

# daemon_port PROTOCOL: the port on which it listens
daemon_port() {
    sed -n "s/.* info started .*\b$1=[^ ]*:\([0-9]*\).*/\1/p" "$daemon_log" | tail -n 1
}

# Stops it with SIGTERM, and returns its exit status.
daemon_stop() {
    local pid=$daemon_pid
    daemon_pid=
    kill -TERM "$pid"
    wait "$pid"
}

daemon_kill() {
    [ -z "$daemon_pid" ] || kill -KILL "$daemon_pid" 2>/dev/null
}

# await COUNT PATTERN [FILE]: waits until the daemon's log, or FILE, has COUNT matching lines. Prints
# how many it found within 20 s.
await() {
    timeout 20 tail -n +1 -f ${daemon_pid:+--pid="$daemon_pid"} "${3:-$daemon_log}" | grep -m"$1" -- "$2" | wc -l
}

# request_to PORT ARGUMENT...: sends a request with redis-cli, and prints the reply on one line.
request_to() {
    redis-cli -p "$@" 2>&1 | tr '\n' ' ' | sed 's/ *$//'
}

# request ARGUMENT...: the same, to the daemon on $port
request() {
    request_to "$port" "$@"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

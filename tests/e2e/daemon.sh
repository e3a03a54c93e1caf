# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests in bash: a daemon in the background, where it listens, and its end.
# shellcheck shell=bash
daemon_pid=
daemon_ready=' info started |"event":"started"'

# DIR COMMAND...: starts it with its log in DIR/log, and waits until it listens.
daemon_start() {
    daemon_log=$1/log
    shift
    : >"$daemon_log" # tail may come before the daemon
    "$@" >>"$daemon_log" 2>&1 &
    daemon_pid=$!
    # The daemon says so in its log; tail ends with it.
    timeout 20 tail -n +1 -f --pid="$daemon_pid" "$daemon_log" | grep -q -m1 -E "$daemon_ready"
    if ! grep -q -E "$daemon_ready" "$daemon_log"; then
        echo "the daemon did not start:"
        cat "$daemon_log"
        exit 1
    fi
}

# PROTOCOL: the port it listens on
daemon_port() {
    sed -n "s/.* info started .*\b$1=[^ ]*:\([0-9]*\).*/\1/p" "$daemon_log" | tail -n 1
}

# Ends it; the status is its own.
daemon_stop() {
    local pid=$daemon_pid
    daemon_pid=
    kill -TERM "$pid"
    wait "$pid"
}

daemon_kill() {
    [ -z "$daemon_pid" ] || kill -KILL "$daemon_pid" 2>/dev/null
}

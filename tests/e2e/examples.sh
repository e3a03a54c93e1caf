# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests that build examples/: the expected output of each; and all with the amalgamation.
# shellcheck shell=bash
want() {
    case $1 in
    embed) printf '%s\n' '  0 ms: allowed, 2 remaining, retry after 0 ns' \
        '100 ms: allowed, 1 remaining, retry after 0 ns' \
        '200 ms: allowed, 0 remaining, retry after 0 ns' \
        '300 ms: denied, 0 remaining, retry after 33333334 ns' \
        '400 ms: allowed, 0 remaining, retry after 0 ns' ;;
    batch) printf '%s\n' 'alice: allowed, 1 remaining' 'bob: allowed, 1 remaining' \
        'alice: allowed, 0 remaining' 'alice: denied, 0 remaining' 'carol: allowed, 1 remaining' ;;
    prepared) printf '%s\n' '192.0.2.1: allowed, 1 remaining' '192.0.2.7: allowed, 1 remaining' \
        '192.0.2.1: allowed, 0 remaining' '192.0.2.7: allowed, 0 remaining' \
        '192.0.2.1: denied, 0 remaining' '192.0.2.7: denied, 0 remaining' ;;
    threads) printf '%s: 100 allowed\n' alice bob carol ;;
    layers) printf '%s\n' '0 s: ten allowed by layer 0, retry after 0 s' \
        '1 s: ten allowed by layer 1, retry after 0 s' \
        '2 s: ten denied by layer 1, retry after 58 s' 'four refunded: 4 remaining' ;;
    queue) printf '%s\n' 'job 5: the queue is full' '  0 ms: job 1' '100 ms: job 2' \
        '200 ms: job 3' '300 ms: job 4' ;;
    file) printf '%s\n' 'a new file' 'alice: allowed, 2 remaining' 'alice: allowed, 1 remaining' \
        'the existing file' 'alice: allowed, 0 remaining' 'alice: denied, 0 remaining' ;;
    redis) printf '%s\n' 'blocking: allowed, 1 remaining' 'async: 1 of 3 allowed' ;;
    reserve) printf '%s\n' '800 reserved: allowed, 200 remaining' \
        '800 reserved: denied, 200 remaining' 'it was 300: 700 remaining' \
        '500 reserved: allowed, 200 remaining' 'it was 900: 0 remaining, in debt' \
        '600 reserved: allowed, 400 remaining' '1000 reserved: allowed, 0 remaining' \
        'it was 600: 0 remaining, in debt' ;;
    together) printf '%s\n' 'alice of acme: allowed, 1 and 2 remaining' \
        'alice of acme: allowed, 0 and 1 remaining' \
        'alice of acme: denied by the policy of the user' \
        'bob of acme: allowed, 1 and 0 remaining' \
        'bob of acme: denied by the policy of the organisation' \
        'bob of corp: allowed, 0 and 2 remaining' ;;
    esac
}

# examples NAME OBJECT CC FLAG...: builds every example in this directory, which has weir.h and OBJECT, and
# runs it; `run` may be the command of an emulator
examples() {
    local name=$1 object=$2 source example got
    shift 2
    for source in "$tools"/../examples/*.c; do # $tools: of check.sh
        example=$(basename "$source" .c)
        [ "$example" = redis ] && continue # has a library of its own
        sed 's|#include <weir/.*>|#include "weir.h"|' "$source" >"$example.c"
        got=$("$@" -std=c11 -Wall -Wextra -Werror "$example.c" "$object" -o "$example" -pthread 2>&1 &&
            ${run-} ./"$example" 2>&1)
        check "$example, $name" "$(want "$example")" "$got"
    done
}

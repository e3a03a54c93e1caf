# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests in bash: compares, and counts in `passed` and `failed`.
# shellcheck shell=bash
passed=0 failed=0

check() { # NAME EXPECTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok - $1"
        passed=$((passed + 1))
    else
        printf 'not ok - %s\n  expected: %s\n  got:      %s\n' "$1" "$2" "$3"
        failed=$((failed + 1))
    fi
}

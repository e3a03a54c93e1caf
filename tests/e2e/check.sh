# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests in bash: assertions, which are counted in `passed` and `failed`.
# shellcheck shell=bash
passed=0 failed=0

tools=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../tools")
command_not_found_handle() {
    "$tools/deps" --missing "$1" >&2
    return 127
}

check() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        echo "ok - $1"
        passed=$((passed + 1))
    else
        printf 'not ok - %s\n  expected: %s\n  got:      %s\n' "$1" "$2" "$3"
        failed=$((failed + 1))
    fi
}

# check_python SCRIPT ARGUMENT...: counts the results that the script prints with say() of
# connections.py.
check_python() {
    while read -r result; do
        echo "$result"
        [[ $result == ok* ]] && passed=$((passed + 1)) || failed=$((failed + 1))
    done < <(PYTHONPATH=$(dirname "${BASH_SOURCE[0]}"):$(dirname "${BASH_SOURCE[0]}")/../kit/python python3 "$@" 2>&1 || echo "not ok - $1 failed")
}

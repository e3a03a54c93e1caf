#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir help`, `weir version`, `weir policy`, and unknown commands.
#
#   commands_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
. "$(dirname "$0")/check.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# weir help, and its other spellings.
check "weir help lists the commands" 23 "$("$weir" help | grep -c '^  weir [a-z]')"
"$weir" help >"$tmp/help"
for words in --help -h; do
    check "weir $words" "0 same" "$("$weir" "$words" >"$tmp/out" 2>"$tmp/err"; echo $?) $(cmp -s "$tmp/out" "$tmp/help" && echo same)"
done
check "weir without a command" "2 same" "$("$weir" 2>"$tmp/err"; echo $?) $(cmp -s "$tmp/err" "$tmp/help" && echo same)"
check "weir help COMMAND is weir COMMAND --help" "$("$weir" top --help)" "$("$weir" help top)"
for words in "help --help" "help -h" "help help"; do
    # shellcheck disable=SC2086 # it is a list of words
    check "weir $words" "0 Usage: weir help [COMMAND]" "$("$weir" $words >"$tmp/out"; echo $?) $(head -n 1 "$tmp/out")"
done
check "weir version" "0 weir $("$weir" help | sed -n '1s/weir \([^,]*\),.*/\1/p')" "$("$weir" version >"$tmp/out"; echo $?) $(cat "$tmp/out")"
check "weir --version" "$("$weir" version)" "$("$weir" --version)"
for words in "version --help" "version -h" "help version"; do
    # shellcheck disable=SC2086 # it is a list of words
    check "weir $words" "Usage: weir version" "$("$weir" $words | head -n 1)"
done
check "weir --help COMMAND" "$("$weir" help top)" "$("$weir" --help top)"
for words in "version x" "--version x" "help serve x" "help help x" "--help serve x"; do
    command=${words%% *} command=${command#--}
    # shellcheck disable=SC2086 # it is a list of words
    check "weir $words" "2 weir $command: unexpected 'x'; see weir $command --help" "$("$weir" $words >"$tmp/out" 2>&1; echo $?) $(cat "$tmp/out")"
done
unknown="weir: unknown command 'sevre', expected serve, check, replay, suggest, accuracy, policy, demo, state, take, peek, refund, charge, reserve, renew, commit, cancel, reset, explain, top, policies, ping, help or version"
check "weir sevre" "2 $unknown" "$("$weir" sevre 2>"$tmp/err"; echo $?) $(cat "$tmp/err")"
check "weir help sevre" "2 $unknown" "$("$weir" help sevre 2>"$tmp/err"; echo $?) $(cat "$tmp/err")"
check "the error is one line" 1 "$(wc -l <"$tmp/err")"
check "weir policy --help" "0 Usage: weir policy TEXT..." "$("$weir" policy --help >"$tmp/out"; echo $?) $(head -n 1 "$tmp/out")"
check "weir policy without a text" "2 weir policy: TEXT is missing, like 'gcra 5/m burst 3'; see weir policy --help" \
    "$("$weir" policy 2>"$tmp/err"; echo $?) $(cat "$tmp/err")"
check "weir policy with an unknown option" 2 "$("$weir" policy --x 'gcra 1/s' 2>"$tmp/err"; echo $?)"
check "weir policy with a wrong text and a right one" "2 gcra 1/s burst 1" \
    "$("$weir" policy 'gcra 1/q' 'gcra 1/s' >"$tmp/out" 2>"$tmp/err"; echo $?) $(head -n 1 "$tmp/out")"
check "weir policy with a right text and a wrong one" 2 "$("$weir" policy 'gcra 1/s' 'gcra 1/q' >"$tmp/out" 2>"$tmp/err"; echo $?)"
check "weir policy with two right texts" "0 2" \
    "$("$weir" policy 'gcra 1/s' 'fixed-window 5/h from-first' >"$tmp/out"; echo $?) $(grep -c 'worst case' "$tmp/out")"
check "a failed command keeps its status" 2 "$("$weir" policy 'gcra 1/s' 'gcra 1/q' 2>"$tmp/err" >/dev/full; echo $?)"

echo "$passed passed, $failed failed"
exit $((failed > 0))

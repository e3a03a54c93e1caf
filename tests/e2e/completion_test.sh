#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What bash completes: asked as bash asks it, and held against what --help says there is.
#
#   completion_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
. packaging/completion/weir
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

ask() { # WORD...: what may stand for the last word, sorted
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _weir
    printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"} | sort | tr '\n' ' ' | sed 's/ $//'
}

commands=$("$weir" help | sed -n 's/^  weir \([a-z]*\) .*/\1/p' | sort | tr '\n' ' ' | sed 's/ $//')
check "the commands are those of weir help" "$commands" "$(ask weir '')"
check "a command begun" "peek policies policy" "$(ask weir p)"
check "no command of that beginning" "" "$(ask weir x)"
check "help's words are the commands" "$commands" "$(ask weir help '')"
check "options before any command" "--help --version" "$(ask weir -)"
for command in $commands; do
    options=$("$weir" help "$command" | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort | tr '\n' ' ' | sed 's/ $//')
    check "$command: all its options" "$options" "$(ask weir "$command" -)"
done
check "an option begun" "--decisions" "$(ask weir replay --d)"
check "options behind words" "--json" "$(ask weir take api alice --j)"
check "values of an option" "combined common jsonl tsv vhost_combined vhost_common" "$(ask weir replay --format '')"
check "a value begun" "combined common" "$(ask weir replay --format co)"
check "a value behind =" "combined common jsonl tsv vhost_combined vhost_common" "$(ask weir replay --format =)"
check "a value begun behind =" "json" "$(ask weir serve --log-format = j)"
check "an option's value that nobody knows" "" "$(ask weir replay --policy '')"
check "an option's value is no file" "" "$(ask weir serve --port '')"
check "fields for --key" "path protocol" "$(ask weir replay --policy x --key p)"
check "policies and keys are not guessed" "" "$(ask weir take '')"
cd "$tmp" || exit 1
touch access.log 'a b.log' other.txt
check "files for replay" "a b.log access.log" "$(ask weir replay a)"
check "files for check" "other.txt" "$(ask weir check o)"
check "files for serve" "other.txt" "$(ask weir serve --port 7000 o)"
check "a configuration for replay" "other.txt" "$(ask weir replay --config o)"
check "a socket for --server" "$tmp/access.log" "$(ask weir take --server "$tmp/ac")"
check "bash knows whom to ask" "complete -F _weir weir" "$(complete -p weir)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

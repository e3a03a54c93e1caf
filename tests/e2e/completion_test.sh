#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The bash completion: called as bash calls it, and compared with the output of --help.
#
#   completion_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
. packaging/completion/weir
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

complete_words() { # WORD...: prints the completions of the last word, sorted
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _weir
    printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"} | sort | tr '\n' ' ' | sed 's/ $//'
}

commands=$("$weir" help | sed -n 's/^  weir \([a-z]*\) .*/\1/p' | sort | tr '\n' ' ' | sed 's/ $//')
check "the commands are those of weir help" "$commands" "$(complete_words "$weir" '')"
check "the beginning of a command" "peek policies policy" "$(complete_words "$weir" p)"
check "the beginning of no command" "" "$(complete_words "$weir" x)"
check "the arguments of help are the commands" "$commands" "$(complete_words "$weir" help '')"
check "options before any command" "--help --version" "$(complete_words "$weir" -)"
for command in $commands; do
    options=$("$weir" help "$command" | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | sort | tr '\n' ' ' | sed 's/ $//')
    check "$command: all its options" "$options" "$(complete_words "$weir" "$command" -)"
done
check "options without a value" "--decisions" "$(complete_words "$weir" replay --de)"
check "a value of another command's option" "" "$(complete_words "$weir" take --format '')"
check "the options of demo" "--burst --help --policy" "$(complete_words "$weir" demo -)"
check "the beginning of an option" "--decisions" "$(complete_words "$weir" replay --d)"
check "options after arguments" "--json" "$(complete_words "$weir" take api alice --j)"
check "values of an option" "alb caddy combined common csv envoy haproxy jsonl nginx-json traefik tsv vhost_combined vhost_common" "$(complete_words "$weir" replay --format '')"
check "the beginning of a value" "combined common" "$(complete_words "$weir" replay --format co)"
check "a value after =" "alb caddy combined common csv envoy haproxy jsonl nginx-json traefik tsv vhost_combined vhost_common" "$(complete_words "$weir" replay --format =)"
check "the beginning of a value after =" "json" "$(complete_words "$weir" serve --log-format = j)"
check "an option whose values are unknown has no completion" "" "$(complete_words "$weir" replay --policy '')"
check "an option whose value is a number does not complete files" "" "$(complete_words "$weir" serve --port '')"
check "fields for --key" "path protocol" "$(complete_words "$weir" replay --policy x --key p)"
check "policies and keys have no completion" "" "$(complete_words "$weir" take '')"
cd "$tmp" || exit 1
touch access.log 'a b.log' other.txt
check "files for replay" "a b.log access.log" "$(complete_words "$weir" replay a)"
check "files for check" "other.txt" "$(complete_words "$weir" check o)"
check "files for serve" "other.txt" "$(complete_words "$weir" serve --port 7000 o)"
check "a configuration for replay" "other.txt" "$(complete_words "$weir" replay --config o)"
check "a socket for --server" "$tmp/access.log" "$(complete_words "$weir" take --server "$tmp/ac")"
check "bash has the completion function of weir" "complete -F _weir weir" "$(complete -p weir)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

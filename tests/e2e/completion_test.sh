#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The completions of bash, zsh and fish: called as the shell calls them, and compared with the output of --help.
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
check "the beginning of a command" "peek ping policies policy" "$(complete_words "$weir" p)"
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
for option in --ca --cert --key --password-file; do
    check "a file for $option of take" "other.txt" "$(complete_words "$weir" take "$option" o)"
done
check "nothing for --server-name and --user" "" "$(complete_words "$weir" take --server-name o)$(complete_words "$weir" take --user o)"
check "bash has the completion function of weir" "complete -F _weir weir" "$(complete -p weir)"

# ---- zsh and fish --------------------------------------------------------------------------------

cd "$OLDPWD" || exit 1
mkdir "$tmp/bin" && ln -s "$weir" "$tmp/bin/weir"
export PATH=$tmp/bin:$PATH
names() { sort | tr '\n' ' ' | sed 's/ $//'; }

# zsh_words WORD...: prints what the function passes to _describe and _arguments
zsh_words() {
    zsh -fc '
        _describe() { eval "print -rl -- \"\${(@)$2}\"" }
        _arguments() { print -rl -- "$@" }
        complete_it() { local -a words=("$@"); local CURRENT=$#; source packaging/completion/_weir }
        complete_it "$@"' zsh "$@"
}
check "zsh: the commands" "$commands" "$(zsh_words weir '' | cut -d: -f1 | names)"
check "zsh: a description" "demo:draw what fixed-window, sliding-log and gcra do at a boundary" "$(zsh_words weir d | grep ^demo)"
check "zsh: the arguments of help" "$commands" "$(zsh_words weir help '' | cut -d: -f1 | names)"
for command in $commands; do
    options=$("$weir" help "$command" | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | names)
    check "zsh, $command: all its options" "$options" "$(zsh_words weir "$command" - | sed -n 's/^\(--[a-z-]*\).*/\1/p' | names)"
done
check "zsh: an option with a value" '--http=[serve HTTP on 127.0.0.1\:N instead of the addresses in FILE]:N:_files' "$(zsh_words weir serve - | grep ^--http)"
check "zsh: a long option with a value" "--server-name=[the name in the server's certificate (default\: the host)]:NAME:_files" \
    "$(zsh_words weir take - | grep ^--server-name)"
check "zsh: an option without a value" '--json[print the reply as one JSON object]' "$(zsh_words weir take - | grep ^--json)"
check "zsh: files for serve, none for take" '*:file:_files ' "$(zsh_words weir serve x | grep '^\*') $(zsh_words weir take x | grep '^\*')"

fish_words() { # LINE: prints the completions of its last word
    fish --no-config -c 'source packaging/completion/weir.fish; complete -C $argv[1]' "$1"
}
check "fish: the commands" "$commands" "$(fish_words 'weir ' | cut -f1 | names)"
check "fish: a description" $'demo\tdraw what fixed-window, sliding-log and gcra do at a boundary' "$(fish_words 'weir de')"
check "fish: the arguments of help" "$commands" "$(fish_words 'weir help ' | cut -f1 | names)"
for command in $commands; do
    options=$("$weir" help "$command" | sed -n 's/^  \(--[a-z-]*\).*/\1/p' | names)
    check "fish, $command: all its options" "$options" "$(fish_words "weir $command --" | cut -f1 | names)"
done
check "fish: files for serve, none for take" 'LICENSE ' "$(fish_words 'weir serve LICE') $(fish_words 'weir take LICE')"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

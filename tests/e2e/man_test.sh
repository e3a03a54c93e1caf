#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The man pages: groff has no warnings, and they have all commands and options of --help.
#
#   man_test.sh WEIR PAGE...
set -uo pipefail
pages=()
weir=$(realpath "$1")
shift
for page in "$@"; do
    pages+=("$(realpath "$page")")
done
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
skipped=0

plain() { # PAGE: prints its text without markup, on one line
    sed -e 's/\\f[BIRP]//g' -e 's/\\&//g' -e 's/\\-/-/g' -e 's/\\\././g' "$1" | tr '\n' ' '
}

for page in "${pages[@]}"; do
    name=$(basename "$page")
    if command -v groff >/dev/null; then
        check "$name: groff has no warnings" "" "$(groff -ww -man -Tutf8 -z "$page" 2>&1)"
    else
        echo "ok - $name: no warning # SKIP no groff"
        skipped=$((skipped + 1))
    fi
    check "$name: examples have at most 80 columns" "" \
        "$(awk '/^\.nf/ { shown = 1 } /^\.fi/ { shown = 0 } { gsub(/\\&/, "") } shown && length($0) > 80' "$page")"
    cp "$page" "$tmp/$name"
done

for command in $("$weir" help | sed -n 's/^  weir \([a-z]*\) .*/\1/p'); do
    page=$tmp/weir-$command.1
    link=docs/man/weir-$command.1
    [ ! -f "$link" ] || page=$tmp/$(sed -n 's/^\.so man1\///p' "$link")
    [[ $command == help || $command == version ]] && page=$tmp/weir.1
    check "$command has a page" 1 "$(grep -c "^\.TH" "$page" 2>/dev/null)"
    check "weir(1) has $command" 1 "$(plain "$tmp/weir.1" | grep -c "\b$command\b")"
    options=$("$weir" help "$command" | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
    for option in $options; do
        check "the page of $command has $option" 1 "$(sed -e 's/\\-/-/g' "$page" | grep -c "^\\\\fB$option\\\\fR")"
    done
done
for page in replay suggest accuracy serve check policy demo state; do # the page has only these options
    for option in $(sed -e 's/\\-/-/g' "$tmp/weir-$page.1" | sed -n 's/^\\fB\(--[a-z-]*\)\\fR.*/\1/p'); do
        check "weir-$page.1: $option exists" 1 "$("$weir" help "$page" | grep -c -- "^  $option\b")"
    done
done
for link in docs/man/*.1; do
    target=$(sed -n 's/^\.so man1\///p' "$link")
    check "$(basename "$link") links to a page" 1 "$(grep -c "^\.TH" "$tmp/$target")"
done

# The example of weir.yaml(5) is a valid configuration. (config-keys checks that the page has every key.)
awk '/^EXAMPLE|^\.SH EXAMPLE/ { wanted = 1 } /^\.fi/ { shown = 0 } wanted && shown; /^\.nf/ { shown = 1 }' \
    "$tmp/weir.yaml.5" | sed -e '/^\.RS/d' -e 's/\\-/-/g' -e 's/\\&//g' >"$tmp/example.yaml"
check "weir.yaml: its example is valid" "0 " "$("$weir" check --quiet "$tmp/example.yaml" 2>&1 | sed 's/^/1 /' | grep . || echo "0 ")"
check "weir.yaml: its example has policies" 1 "$("$weir" check "$tmp/example.yaml" | grep -c 'sliding-log 5/m')"

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
# `weir replay`: the report as JSON, as a page and in columns. tests/conformance/replay_report_test.py checks the figures.
#
#   replay_report_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
export LC_ALL=C COLUMNS=80

# replay ARGUMENT...: runs it with the output in the files out and err. Prints the exit status.
replay() {
    "$weir" replay "$@" >out 2>err
    echo $?
}

# json FILE EXPRESSION: prints the value of a Python expression about the report `r`.
json() {
    python3 -c 'import json, sys
r = json.load(open(sys.argv[1], encoding="utf-8"))
print(json.dumps(eval(sys.argv[2])))' "$@"
}

# The first policy allows 3 at once and 1 more each second. Key a has 5 requests at 1 s and 1 at 2 s; b has 1.
for t in 1 1 1 1 1 2; do printf '%s000000000\ta\n' $t; done >a.tsv
printf '2000000000\tb\n' >>a.tsv
two=(--policy 'gcra 1/s burst 3' --policy 'gcra 1/h burst 1')

check "--json: status" 0 "$(replay "${two[@]}" --json a.tsv)"
check "--json: the log" '[{"name": "a.tsv", "lines": 7, "requests": 7, "bad": 0, "left_out": 0}]' "$(json out 'r["logs"]')"
check "--json: what the second policy changes" '[3, 0, 0, 0]' "$(json out 'list(r["policies"][1]["change"].values())')"
cp out report.json
check "--json with decisions: status" 0 "$(replay "${two[@]}" --json --decisions jsonl a.tsv)"
check "--json with decisions: the report is on standard error" "$(cat report.json)" "$(cat err)"
check "--json with decisions: the decisions" 14 "$(wc -l <out)"
check "--json: a log that cannot be read" 1 "$(replay "${two[@]}" --json none.tsv)"
check "--json: no report of a log that cannot be read" "" "$(cat out)"
printf '1\tk\t3000000000\n' >huge.tsv
check "--json: a huge cost" 0 "$(replay "${two[@]}" --json huge.tsv)"
check "--json: what a reader must know" \
    '["1 request cost more than 2147483647 and was denied; the daemon rejects such requests with an error"]' \
    "$(json out 'r["notes"]')"

replay "${two[@]}" a.tsv >status
cp out table
lines=$(wc -l <a.tsv)
if [ "$(replay "${two[@]}" --html page.html a.tsv)" = 0 ]; then
    check "--html: also prints the table" "$(cat table)" "$(cat out)"
    check "--html: the page has the report" 1 "$(grep -c '"policy":"gcra 1/s burst 3"' page.html)"
    check "--html: a directory" 1 "$(replay "${two[@]}" --html . a.tsv)"
    check "--html: a directory is found before the log is read" "" "$(cat out)"
    check "--html: a log" 1 "$(replay "${two[@]}" --html a.tsv a.tsv)"
    check "--html: a log is not read first" "" "$(cat out)"
    check "--html: a log stays" "$lines" "$(wc -l <a.tsv)"
    awk 'BEGIN { for (i = 0; i < 2200; i++) printf "%d\tk%d\n", i, i / 2 }' >keys.tsv
    check "--html: --json lists all denied keys" "0 1100" \
        "$(replay --policy 'gcra 1/s burst 1' --top 5000 --json --html keys.html keys.tsv) $(grep -c '"lockout_ns":' out)"
    check "--html: the page lists 1000" 1000 "$(grep -c '"lockout_ns":' keys.html)"
    check "--html: a page is replaced" 0 "$(replay "${two[@]}" --html page.html a.tsv)"
else
    check "--html: weir was built without web pages" 2 "$(replay "${two[@]}" --html page.html a.tsv)"
fi

# Rows of lists, and the words of shadow mode. Key b is on the deny list, and key c on the allow list.
printf 'policies:\n  api:\n    limit: gcra 1/h burst 1\n    shadow: true\n    allow: [c]\n    deny: [b]\n' >lists.yaml
printf '1\ta\n2\ta\n3\tb\n4\tb\n5\tc\n' >lists.tsv
replay --config lists.yaml --policy api lists.tsv >status
check "shadow mode: the keys" "would deny keys 2 66.7%" "$(grep 'would deny keys' out | xargs)"
check "shadow mode: the list of keys" "would be denied denied requests lock-out would be denied over time" \
    "$(grep 'requests  lock-out' out | xargs)"
check "a deny list is no lock-out" "b 2 2 -" "$(grep '^  b ' out | xargs | cut -d' ' -f1-4)"
replay --config lists.yaml --policy api --policy 'gcra 2/h burst 2' lists.tsv >status
check "two policies: the allow list" "on allow list 1 20.0% -" "$(grep 'on allow list' out | xargs)"
check "two policies: the deny list" "on deny list 2 40.0% -" "$(grep 'on deny list' out | xargs)"
replay "${two[@]}" a.tsv >status
check "two policies without lists" 0 "$(grep -c 'list' out)"

six=()
for n in 1 2 3 4 5 6; do six+=(--policy "gcra $n/h"); done
replay "${six[@]}" a.tsv >status
check "six policies: the baseline with three others, then with two" 2 "$(grep -c '^  *1 (baseline)' out)"
check "six policies: 80 columns" 0 "$(awk 'length($0) > 80' out | wc -l)"
COLUMNS=120 replay "${six[@]}" a.tsv >status
check "six policies: a wide terminal" 1 "$(grep -c '^  *1 (baseline)' out)"
COLUMNS=20 replay "${six[@]}" a.tsv >status
check "six policies: a narrow terminal" 2 "$(grep -c '^  *1 (baseline)' out)"
LC_ALL=C.UTF-8 replay "${two[@]}" a.tsv >status
check "sparklines in UTF-8" 1 "$(grep -c "^  denied 2 .*$(printf '\342\226\210').*max 4$" out)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

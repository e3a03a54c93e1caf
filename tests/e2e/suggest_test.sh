#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir suggest`: output, errors, edge cases and exit status. suggest_model_test.py compares its answers with
# the reference model.
#
#   suggest_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
. "$(dirname "$0")/check.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
tab=$(printf '\t')

suggest() { # ARGUMENT...: runs weir suggest, with its output in the files out and err. Prints the status.
    "$weir" suggest "$@" >out 2>err
    echo $?
}

json() { # EXPRESSION: prints a value of the JSON object `a` in the file out
    python3 -c 'import json, sys
a = json.load(open("out"))
print(eval(sys.argv[1]))' "$1"
}

fails() { # NAME STATUS MESSAGE ARGUMENT...
    check "$1" "$2 $3" "$(suggest "${@:4}") $(head -n 1 err)"
}

# ---- the report ----------------------------------------------------------------------------------

# Key a has 10 requests in one second, and b one request each second for 40 seconds; c has one at the end.
awk 'BEGIN {
    for (i = 0; i < 40; i++) {
        if (i == 5) for (j = 0; j < 10; j++) printf "%d000000000\ta\n", 1000 + i
        printf "%d000000000\tb\n", 1000 + i
    }
    print "1100000000000\tc"
}' >a.tsv
check "a suggestion: status" 0 "$(suggest --target 'no key denied' --hold-out 0 --algorithm sliding-log --per 10s a.tsv)"
check "a suggestion: the policy on a line of its own" 1 "$(grep -cx 'sliding-log 10/10s' out)"
check "a suggestion: the command" 1 "$(grep -cxF "weir replay --policy 'sliding-log 10/10s' a.tsv" out)"
check "a suggestion: standard error is empty" "" "$(cat err)"
check "the table marks the suggestion" 1 "$(grep -c '^> sliding-log 10/10s  *10  *0  *0%' out)"
check "the report has 80 columns" 0 "$(LC_ALL=C "$weir" suggest --target 'no key denied' a.tsv 2>err | awk 'length($0) > 80' | wc -l)"
check "nothing held out" 1 "$(grep -c '^Nothing was held out' out)"

check "a burst: status" 0 "$(suggest --json --target 'no key denied' --hold-out 0% a.tsv)"
check "a burst: the smallest worst case" "gcra 1/m burst 40" "$(json 'a["suggestion"]["policy"]')"
check "a burst: the worst case is that of weir policy" "$("$weir" policy 'gcra 1/m burst 40' | sed -n 's/.*worst case  \([0-9]*\) .*/\1/p')" \
    "$(json 'a["suggestion"]["worst_case"]')"
check "a burst: no split" "None None" "$(json 'a["split_ns"], a["suggestion"]["held_out"]' | tr -d '(),')"
check "a target of requests" "0 4" "$(suggest --json --target '4 requests denied' --hold-out 0 --algorithm fixed-window --per 1h a.tsv) $(json 'a["target"]["allowed"]')"
check "a target of 100 %" "0 1" "$(suggest --json --target '100% of keys denied' a.tsv) $(json 'a["suggestion"]["limit"]')"
check "--round" "0 gcra 20/m burst 30" "$(suggest --json --round --target 'no key denied' --hold-out 0 a.tsv) $(json 'a["suggestion"]["policy"]')"
check "token-bucket" "0 token-bucket 40 refill 1/m" "$(suggest --json --algorithm token-bucket --target '0 keys denied' --hold-out 0 a.tsv) $(json 'a["suggestion"]["policy"]')"
check "a calendar window" "0 fixed-window 40/day" "$(suggest --json --algorithm fixed-window --per day --target 'no key denied' --hold-out 0 a.tsv) $(json 'a["suggestion"]["policy"]')"
check "a calendar window: its worst case" 80 "$(json 'a["suggestion"]["worst_case"]')"
check "standard input" "0 same" "$(suggest a.tsv) $("$weir" suggest - <a.tsv 2>err | sed 's/ -$/ a.tsv/' | cmp -s - out && echo same)"
cp a.tsv -- '-a b.tsv'
"$weir" suggest --target '1% of requests' --no-progress -- '-a b.tsv' >out 2>err
check "the command of a file whose name begins like an option" 1 "$(grep -cE "^weir replay --policy '.*' \./'-a b.tsv'$" out)"
check "this command runs" 0 "$(sh -c "\"\$1\" $(grep '^weir replay' out | cut -d' ' -f2-) >/dev/null 2>&1" sh "$weir"; echo $?)"
suggest --format tsv --strict a.tsv >status
check "the command has the options of the log" 1 "$(grep -cE "^weir replay --policy '.*' --format tsv --strict a.tsv$" out)"
cp out first
awk 'NR % 2' a.tsv >odd.tsv
awk 'NR % 2 == 0' a.tsv >even.tsv
check "two files are merged by time" "0 same" "$(suggest --format tsv --strict odd.tsv even.tsv) $(sed 's/ odd.tsv even.tsv$/ a.tsv/' out | cmp -s - first && echo same)"
for i in 0 1 2 3 4 5; do
    printf '192.0.2.1 - - [21/Nov/2026:18:00:0%d +0000] "GET /%s HTTP/1.1" 200 512\n' "$i" "$([ "$i" -lt 4 ] && echo a || echo b)"
done >access.log
check "--where" "0 gcra 1/m burst 4" "$(suggest --json --hold-out 0 --where 'path=/a*' access.log) $(json 'a["suggestion"]["policy"]')"
suggest --where 'path=/a*' access.log >status
check "--where is in the command" 1 "$(grep -cF -- "--where 'path=/a*' access.log" out)"
cp a.tsv "it's.tsv"
suggest "it's.tsv" >status
check "the command is quoted for a shell" 1 "$(grep -cF "' 'it'\\''s.tsv'" out)"
cp a.tsv ./-a.tsv
suggest -- -a.tsv >status
check "the command has a file that looks like an option" 0 "$(eval "\"\$weir\" $(grep '^weir replay' out | cut -d ' ' -f 2-)" >/dev/null 2>&1; echo $?)"
LC_ALL=C "$weir" suggest --target 'no key denied' a.tsv >out 2>err
check "ASCII without UTF-8" 0 "$(LC_ALL=C grep -c '[^ -~]' out)"
LC_ALL=C.UTF-8 "$weir" suggest --target 'no key denied' a.tsv >out 2>err
check "a curve in Braille characters" 1 "$(grep -q '⠉\|⠒\|⠤' out && echo 1)"

# ---- the part that is held out -------------------------------------------------------------------

# One request a second for 75 seconds, then twelve at once.
awk 'BEGIN {
    for (i = 0; i <= 75; i++) printf "%d000000000\tk\n", 1000 + i
    for (i = 0; i < 12; i++) print "1100000000000\tk"
}' >burst.tsv
check "held out: status" 0 "$(suggest --target 'no key denied' --algorithm sliding-log --per 10s burst.tsv)"
check "held out: the target is missed, and that is said" 1 "$(grep -c '^On the held-out part, the target is MISSED: 1 key denied, and it allows 0.$' out)"
check "held out: the policy" 1 "$(grep -cx 'sliding-log 10/10s' out)"
suggest --json --target 'no key denied' --algorithm sliding-log --per 5s burst.tsv >status
check "held out: as JSON" "False 1075000000000 75 13 5" \
    "$(json 'a["held_out_meets_target"], a["split_ns"], a["searched"]["requests"], a["held_out"]["requests"], a["suggestion"]["limit"]' | tr -d '(),')"

# Keys a and b send three requests at once: a at first, b near the end.
awk 'BEGIN {
    for (i = 0; i < 3; i++) print "1000000000000\ta"
    for (i = 0; i <= 100; i++) printf "%d000000000\tc\n", 1000 + i
    for (i = 0; i < 3; i++) print "1100000000000\tb"
}' >two.tsv
check "a fixed number: met in each part, missed on the whole log" "0 On the held-out part, the target is met: 1 key denied, and it allows 1.
On the whole log, the target is MISSED: 2 keys denied, and it allows 1.
The search applies the target to the searched part; --hold-out 0% applies it to
the whole log." "$(suggest --target '1 key denied' --algorithm sliding-log --per 1s two.tsv) $(grep -A 3 '^On the held-out' out)"
check "a fixed number: as JSON" "0 True False" "$(suggest --json --target '1 key denied' --algorithm sliding-log --per 1s two.tsv) $(json 'a["held_out_meets_target"], a["whole_log_meets_target"]' | tr -d '(),')"
check "a fixed number: the whole log" "0 On the whole log, the target is met: 2 keys denied, and it allows 2." \
    "$(suggest --target '2 keys denied' --algorithm sliding-log --per 1s two.tsv) $(grep '^On the whole' out)"

# ---- a search that is not complete ---------------------------------------------------------------

printf '1\ta\t3\n2\tb\t5\n3\ta\t2\n' >costs.tsv
incomplete='^The search did not try every'
check "a complete search" "0 0" "$(suggest --hold-out 0 costs.tsv) $(grep -c "$incomplete" out)"
check "requests of different costs" "0 1" "$(suggest --hold-out 0 --target '1 request denied' costs.tsv) $(grep -c "$incomplete pair" out)"
check "requests of different costs, without a burst" "0 1" \
    "$(suggest --hold-out 0 --target '1 request denied' --algorithm sliding-log costs.tsv) $(grep -c "$incomplete limit" out)"
check "requests of different costs: --round" "0 0" "$(suggest --round --hold-out 0 --target '1 request denied' costs.tsv) $(grep -c "$incomplete" out)"
check "requests of different costs: JSON" "0 False" "$(suggest --json --hold-out 0 --target '1 request denied' costs.tsv) $(json 'a["search_complete"]')"

# ---- edge cases ----------------------------------------------------------------------------------

printf '5\tk\n' >one.tsv
check "one request" "0 gcra 1/m burst 1" "$(suggest --json one.tsv) $(json 'a["suggestion"]["policy"]')"
check "one request: nothing can be held out" "weir suggest: nothing was held out: all requests have the same time
weir suggest: the searched part of the log covers only 0s, less than 10 periods of 1m: a longer log may lead to another limit" "$(cat err)"
for _ in 1 2 3 4; do printf '5\tk\n'; done >same.tsv
check "all requests at one time" "0 gcra 1/m burst 4" "$(suggest --json same.tsv) $(json 'a["suggestion"]["policy"]')"
printf '5\tk\t2147483647\n' >large.tsv
# An empty bucket must refill within 36.5 years, so 111/m is too little.
check "the largest cost" "0 gcra 112/m burst 2147483647" "$(suggest --json large.tsv) $(json 'a["suggestion"]["policy"]')"
printf '5\tk\t2147483648\n6\ta\n' >above.tsv
check "no limit meets the target" "1 " "$(suggest --hold-out 0 above.tsv) $(cat out)"
check "no limit meets the target: messages" "weir suggest: 1 request cost more than 2147483647: every policy denies such requests
weir suggest: no limit meets the target '0.1% of keys denied', which allows 0 keys to be denied" "$(cat err)"
check "no limit meets the target: JSON" "1 None []" "$(suggest --json --hold-out 0 above.tsv) $(json 'a["suggestion"], a["choices"]' | tr -d '(),')"
check "a cost above the limit is denied, and the target allows it" 0 "$(suggest --hold-out 0 --target '1 key denied' above.tsv)"
printf '5\tk\t0\n6\tk\t0\n' >zero.tsv
check "costs of 0" "0 gcra 1/m burst 1" "$(suggest --json --hold-out 0 zero.tsv) $(json 'a["suggestion"]["policy"]')"
printf '5\t2001:db8::1\n6\t2001:db8::2\n' >v6.tsv
check "IPv6 addresses of a /64 are one key" "0 1" "$(suggest --json --hold-out 0 v6.tsv) $(json 'a["all"]["keys"]')"
check "36.5 years" 0 "$(suggest --per 52w --target 'no key denied' a.tsv)"

# ---- errors --------------------------------------------------------------------------------------

targets="expected 'P% of keys denied', 'P% of requests denied', 'N keys denied', 'N requests denied' or 'no key denied'"
for target in '' '5%' '101% of keys denied' '1.2345678% of keys' 'x keys denied' '1% of users denied' 'no key denied now' '-1 keys'; do
    fails "--target '$target'" 2 "weir suggest: --target: $targets, found '$target'" --target "$target" a.tsv
done
fails "--algorithm" 2 "weir suggest: --algorithm: expected gcra, token-bucket, leaky-bucket, fixed-window, sliding-log, sliding-counter or sliding-slices, found 'x'" --algorithm x a.tsv
fails "--hold-out 91%" 2 "weir suggest: --hold-out: expected 0% to 90% of the log's time, found '91%'" --hold-out 91% a.tsv
fails "--per: a calendar period" 2 "weir suggest: --per: column 8: 'day' is a calendar period, supported only by fixed-window, expected a length: d is 24 hours" --per day a.tsv
fails "--per: a second policy" 2 "weir suggest: --per: expected one period, found '1m & sliding-log 1/m'" --algorithm sliding-log --per '1m & sliding-log 1/m' a.tsv
fails "--per: too long" 2 "weir suggest: --per: the text is too long" --per "$(printf '%600d' 1)" a.tsv
fails "--memory" 2 "weir suggest: --memory: expected a size from 1m to 1024g, such as 256m (units k, m, g), found '1x'" --memory 1x a.tsv
fails "no file" 2 "weir suggest: FILE is missing; '-' is standard input"
fails "an absent file" 1 "weir suggest: absent.log: No such file or directory" absent.log
awk 'BEGIN { for (i = 0; i < 65537; i++) print "5\tk" }' >many.tsv
fails "a log that does not fit" 1 "weir suggest: the log has more than 65536 requests, which need more than 1m; raise --memory, or pass a part of the log" --memory 1m many.tsv
check "a log that just fits" 0 "$(head -n 65536 many.tsv | suggest --memory 1m -)"
check "a bad line is reported" "0 <stdin>:2:" "$({ cat a.tsv; } | sed '2s/.*/x/' | suggest - ) $(sed -n '1s/ .*//p' err)"
check "a write error" 1 "$("$weir" suggest a.tsv >/dev/full 2>err; echo $?)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

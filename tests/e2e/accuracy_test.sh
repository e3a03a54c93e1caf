#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir accuracy`: its output, errors and exit status. The counts are compared with a model in
# tests/conformance/accuracy_test.py.
#
#   accuracy_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
. "$here/check.sh"
. "$here/endless_log.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

status_of() { # prints the status after the first line of the errors, as `fails` expects it
    "$weir" accuracy "$@" >out 2>err
    echo "$? $(head -n 1 err)"
}
fails() { # EXPECTED ARGUMENT...
    local expected=$1
    shift
    check "accuracy $*" "2 weir accuracy: $expected" "$(status_of "$@")"
}

fails "FILE is missing; '-' is standard input"
fails "--against: expected own, log or rate, found 'x'" --against x log
fails "--limit: expected a number and a period such as 5/m, found '5/q'" --limit 5/q log
fails "--limit: expected a number and a period such as 5/m, found '5/day'" --limit 5/day log
fails "--limit: expected a number and a period such as 5/m, found '5/m count-denied'" \
    --limit '5/m count-denied' log
fails "--policy: expected a policy of one layer other than leaky-queue and concurrent, found 'leaky-queue 1/s depth 2'" \
    --policy 'leaky-queue 1/s depth 2' log
fails "--policy: expected a policy of one layer other than leaky-queue and concurrent, found 'gcra 1/s & gcra 2/s'" \
    --policy 'gcra 1/s & gcra 2/s' log
fails "--policy: --against rate compares counts of one window: 'gcra 5/m' has none with the limit 5" \
    --limit 5/m --against rate --policy 'gcra 5/m' log
fails "column 8: unknown unit 'q', expected one of ns us ms s m h d w" --policy "gcra 5/q" log
check "a log that does not exist" "1 weir accuracy: nothing: No such file or directory" "$(status_of nothing)"
check "help" "0 Usage: weir accuracy [--limit N/P] [OPTION]... FILE..." \
    "$("$weir" accuracy --help >out; echo $?) $(head -n 1 out)"

# A table has at most 80 columns. The same seed generates the same log.
traffic() { "$here/../../bench/traffic.py" "$@"; }
traffic bursty --sources 50 --requests 20000 >bursty
traffic bursty --sources 50 --requests 20000 --seed 2 >other
small=(--limit 100/m bursty)
"$weir" accuracy "${small[@]}" >first
traffic bursty --sources 50 --requests 20000 --seed 1 | cmp -s - bursty
check "the same seed, the same log" 0 $?
check "another seed, another log" differs "$(cmp -s bursty other || echo differs)"
check "a table of 8 policies" "13 lines, at most 80 columns" \
    "$(wc -l <first) lines, at most $(awk 'length($0) > 80 { wide = 1 } END { print wide ? "more" : 80 }' first) columns"
check "the first lines" "20,000 requests of 50 keys (bursty)
Limit 100/m, measured against what the algorithm itself allowed in the window." "$(head -n 2 first)"

traffic steady --sources 2 --requests 10 | "$weir" accuracy --limit 1/d - >out
check "a limit of 1: no policy twice" "" "$(sort out | uniq -d)"

# sliding-log is exact, whatever it is compared with; at half the limit a steady source is never denied.
for against in own log rate; do
    "$weir" accuracy "${small[@]}" --against $against --policy 'sliding-log 100/m' --json >out
    check "sliding-log is exact against $against" 'wrongly_allowed":0,"wrongly_denied":0,"keys_missed":0,"keys_wrongly_denied":0' \
        "$(grep -o 'wrongly_allowed.*keys_wrongly_denied":[0-9]*' out)"
    check "sliding-log has no error against $against" '"error":{"mean":0,"max":0}' "$(grep -o '"error".*max":[0-9.]*}' out)"
done
check "a steady source below the limit" '"denied":0' \
    "$(traffic steady --rate 50/m --requests 20000 | "$weir" accuracy --policy 'sliding-counter 100/m' --json - | grep -o '"denied":0')"

# A log: two keys, of which one exceeds the limit of a fixed window around a boundary. Addresses of a /64 are one key.
{
    for t in 118 118 119 119 120 120 121 121; do printf '%s000000000\t192.0.2.1\n' $t; done
    printf '121000000000\t2001:db8::1\n121000000000\t2001:db8::2\n'
} >log
"$weir" accuracy --limit 4/m --policy 'fixed-window 4/m' log >out 2>err
check "a fixed window around a boundary" "fixed-window 4/m 0 40.0 0 25.4 8" \
    "$(sed -n 's/%//g; $p' out | tr -s ' ')"
check "the log in the table" "10 requests of 2 keys (log)" "$(head -n 1 out)"
check "no notes" "" "$(cat err)"
"$weir" accuracy --limit 4/m --policy 'fixed-window 4/m' --json - <log >out
check "a log as JSON" '{"weir":"accuracy","version":1,"limit":4,"period_ns":60000000000,"against":"own","logs":[{"name":"<stdin>","lines":10,"requests":10,"bad":0,"left_out":0}],"late":0,"requests":10,"keys":2,"policies":[{"policy":"fixed-window 4/m","allowed":10,"denied":0,"wrongly_allowed":4,"wrongly_denied":0,"keys_missed":1,"keys_wrongly_denied":0,"peak":8,"error":{"mean":0.25381,"max":0.8}}]}' "$(cat out)"
cp log 'a "log"'
"$weir" accuracy --limit 4/m 'a "log"' log >out
check "two files" "20 requests of 2 keys (2 files)" "$(head -n 1 out)"
"$weir" accuracy --limit 4/m --json 'a "log"' >out
check "a name in JSON" '{"name":"a \"log\"",' "$(grep -o '{"name":"a[^,]*,' out)"
for path in /a /b /login; do
    printf '192.0.2.1 - - [21/Nov/2026:18:00:00 +0000] "GET %s HTTP/1.1" 200 512\n' $path
done >access.log
"$weir" accuracy --limit 4/m --where 'path=/login' --key '$client $uri[1]' access.log >out 2>err
check "with a filter, and a template as the key" "1 request of 1 key (access.log)" "$(head -n 1 out)"
printf '1\tk\t1\n1\tk\t99999999999999999999\n' >costs
"$weir" accuracy --limit 4/m --policy 'sliding-counter 4/m' --json costs >out
check "a cost above all limits" '"allowed":1,"denied":1,"wrongly_allowed":0,"wrongly_denied":0' \
    "$(grep -o '"allowed".*wrongly_denied":[0-9]*' out | cut -d, -f1-4)"
printf 'x\n' >>log
"$weir" accuracy --limit 4/m log >out 2>err
check "a line that cannot be read" "0 1" "$? $(grep -c '1 line could not be read and was left out' err)"
check "a line that cannot be read, with --strict" 1 "$("$weir" accuracy --strict log >out 2>err; echo $?)"

# Many keys are a warning, once, while there is still memory.
awk 'BEGIN { for (i = 0; i <= 500000; i++) print 1 "\t" i; print 1 "\tx" }' >keys
for lines in 500000 500002; do
    head -n $lines keys >some
    "$weir" accuracy --policy 'gcra 5/m' some >out 2>err
    check "$lines keys" "0 $((lines / 500001))" "$? $(grep -c 'WARNING: the log has more than 500000 keys' err)"
done

# On a terminal, a bar shows the progress. It is erased at the end.
if python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    head -n 20000 keys >some
    endless_log some
    on_terminal "$weir" accuracy endless.gz >bar
    check "the progress bar, and its end" "1 1" \
        "$(grep -c 'lines/s  ETA' bar) $(tail -c 4 bar | grep -c $'^\r\e\[K$')"
fi

# A failed write is reported once, with its reason, for long and short output.
if [ -c /dev/full ]; then
    for words in 'access.log' '--json access.log' '--help'; do
        # shellcheck disable=SC2086 # it is a list of words
        "$weir" accuracy $words >/dev/full 2>err
        check "a full disk: $words" "1 weir accuracy: standard output: No space left on device" "$? $(cat err)"
    done
fi

echo "$passed passed, $failed failed"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir demo`: its counts, its marks, its widths, and wrong usage.
#
#   demo_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
. "$(dirname "$0")/check.sh"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C.UTF-8 COLUMNS=80

"$weir" demo >"$tmp/out"
check "a fixed window allows both bursts" "fixed-window 10/s   ●●●●●●●●●●│●●●●●●●●●●  20 allowed, 0 denied" \
    "$(grep '^fixed' "$tmp/out")"
check "a sliding log allows the first" "sliding-log 10/s    ●●●●●●●●●●│✕✕✕✕✕✕✕✕✕✕  10 allowed, 10 denied" \
    "$(grep '^sliding' "$tmp/out")"
check "GCRA also allows what it refilled" "gcra 10/s burst 10  ●●●●●●●●●●│●✕✕✕✕✕✕✕✕✕  11 allowed, 9 denied" \
    "$(grep '^gcra' "$tmp/out")"
check "the axis names the window's end" "                    900ms     1s" "$(sed -n 4p "$tmp/out")"
check "a pipe gets no control characters" 0 "$(grep -c $'\033' "$tmp/out")"
check "a locale without UTF-8 gets ASCII" "gcra 10/s burst 10  oooooooooo|oxxxxxxxxx  11 allowed, 9 denied" \
    "$(LC_ALL=C "$weir" demo | grep '^gcra')"
check "in a locale without UTF-8 every byte is ASCII" 0 "$(LC_ALL=C "$weir" demo | LC_ALL=C grep -c '[^ -~]')"

# No line is wider than the terminal, unless a policy's text is.
for cols in 40 60 63 64 65 80 200; do
    for burst in 1 7 10 19 20 21 10000; do
        COLUMNS=$cols "$weir" demo --burst "$burst" >"$tmp/$cols.$burst"
        check "$cols columns, bursts of $burst" 0 "$(grep -cE ".{$((cols + 1)),}" "$tmp/$cols.$burst")"
    done
done
check "a terminal of one column" 0 "$(COLUMNS=1 "$weir" demo >"$tmp/out"; echo $?)"
check "with 64 columns, a policy takes one line" 1 "$(grep -c '^gcra.*11 allowed' "$tmp/64.10")"
check "with 40 columns, a policy takes three lines" $'gcra 10/s burst 10\n  ●●●●●●●●●●│●✕✕✕✕✕✕✕✕✕\n  11 allowed, 9 denied' \
    "$(grep -A 2 '^gcra' "$tmp/40.10")"

# Own policies.
"$weir" demo --policy 'leaky-queue 10/s depth 20' --policy 'gcra 1/s' --burst 15 >"$tmp/out"
check "delayed requests have a mark" "leaky-queue 10/s depth 20  ●◆◆◆◆◆◆◆◆◆◆◆◆◆◆│◆◆◆◆◆◆◆✕✕✕✕✕✕✕✕  22 allowed, 8 denied, 21 delayed" \
    "$(COLUMNS=120 "$weir" demo --policy 'leaky-queue 10/s depth 20' --burst 15 | grep '^leaky')"
check "the legend explains the marks that are drawn" "● allowed  ✕ denied  ◆ delayed" \
    "$(grep '  ✕ denied' "$tmp/out" | sed 's/^ *//')"
check "the last sentence has the counts" "Of 30 requests within 200ms, the policies allow 1 to 22." "$(tail -n 1 "$tmp/out")"
check "a mark can stand for requests of both verdicts" "  ●◐✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕│✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕✕" \
    "$(COLUMNS=43 "$weir" demo --policy 'sliding-log 15/s' --burst 200 | sed -n 7p)"
check "the burst is the limit by default" "The policy allows 200 of 200 requests within 12s." \
    "$("$weir" demo --policy 'fixed-window 100/m' | tail -n 1)"
check "one request" "A client sends 1 request in" "$("$weir" demo --policy 'gcra 1/s' | head -n 1 | cut -c -27)"
check "a window of the calendar" "0 20 allowed, 0 denied" \
    "$("$weir" demo --policy 'fixed-window 10/day tz Europe/Berlin' >"$tmp/out"; echo $?) $(grep -o '20 allowed.*' "$tmp/out")"
check "the bursts of a window of a nanosecond are in two windows" "2 allowed, 0 denied
The policy allows 2 of 2 requests within 2ns." \
    "$("$weir" demo --policy 'fixed-window 1/ns' | grep -o '[0-9]* allowed,.*\|^The policy.*')"
check "durations are like those of weir policy" "last 700us of a window of 7ms" \
    "$("$weir" demo --policy 'gcra 3/7ms' | grep -o 'last .* of 7ms')"
check "a tiny window has no duration of 0" "last 1ns of a window of 1ns" \
    "$("$weir" demo --policy 'gcra 1/ns burst 5' | grep -o 'last .* of 1ns')"
for text in 'fixed-window 1/ns' 'gcra 1000000000/s burst 2147483647' 'sliding-log 20000/w' 'fixed-window 9/year'; do
    check "$text" 0 "$("$weir" demo --policy "$text" >"$tmp/out"; echo $?)"
done

# Wrong usage.
check "a wrong policy" "2 weir demo: column 8: " \
    "$("$weir" demo --policy 'gcra 1/q' 2>"$tmp/err"; echo $?) $(head -n 1 "$tmp/err" | cut -c -21)"
for n in 0 10001 x -1 ''; do
    check "--burst '$n'" "2 weir demo: --burst: expected a number from 1 to 10000, found '$n'" \
        "$("$weir" demo --burst="$n" 2>"$tmp/err"; echo $?) $(cat "$tmp/err")"
done
check "an argument" "2 weir demo: expected no arguments, found 'x'; see weir demo --help" \
    "$("$weir" demo x 2>"$tmp/err"; echo $?) $(cat "$tmp/err")"
nine=(); for _ in 1 2 3 4 5 6 7 8 9; do nine+=(--policy 'gcra 1/s'); done
check "nine policies" "2 weir demo: --policy: expected at most 8 policies" \
    "$("$weir" demo "${nine[@]}" 2>"$tmp/err"; echo $?) $(cat "$tmp/err")"
check "weir demo --help" "0 Usage: weir demo [OPTION]..." "$("$weir" demo --help >"$tmp/out"; echo $?) $(head -n 1 "$tmp/out")"
check "a full disk" 1 "$("$weir" demo >/dev/full 2>"$tmp/err"; echo $?)"

echo "$passed passed, $failed failed"
exit $((failed > 0))

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
# `weir replay`: output, errors and exit status.
#     replay_test.sh path/to/weir

set -u
export LC_ALL=C COLUMNS=80
weir=${1:?usage: replay_test.sh path/to/weir}
case $weir in */*) weir=$(cd "$(dirname "$weir")" && pwd)/$(basename "$weir") ;; esac
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
passed=0 failed=0 skipped=0
tab=$(printf '\t')

# ok NAME COMMAND...: the command must succeed.
ok() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok - $name"
    else
        failed=$((failed + 1))
        echo "not ok - $name"
        echo "#   failed: $*"
        echo "#   status $status; stdout and stderr begin:"
        head -n 12 out err 2>/dev/null | sed 's/^/#   /'
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "ok - $1 # SKIP $2"
}

# replay ARGUMENT...: runs weir replay, with its output in the files out and err. Sets $status.
replay() {
    "$weir" replay "$@" >out 2>err
    status=$?
}

# ends STATUS [STDERR]: whether it ended with this status, and printed exactly this on stderr.
ends() { [ "$status" -eq "$1" ] && { [ $# -eq 1 ] || [ "$(cat err)" = "$2" ]; }; }

# has FILE TEXT: whether a line of the file contains the text.
has() { grep -qF -- "$2" "$1"; }

# lines FILE N: whether the file has N lines.
lines() { [ "$(wc -l <"$1")" -eq "$2" ]; }

# row LABEL WORDS: whether a row of a table in out begins with these words behind its label.
row() { sed -n "s/^  $1  *//p" out | tr -s ' ' | sed 's/$/ /' | awk -v words="$2 " 'index($0, words) == 1 { found = 1 } END { exit !found }'; }

# valid_json FILE MEMBER...: whether each line of the file is JSON with exactly these members, in order.
valid_json() {
    python3 - "$@" <<'PY'
import json, sys
names = "t_ns key cost allowed limit remaining retry_after_ns reset_after_ns delay_ns layer".split()
with open(sys.argv[1], "rb") as f:
    for line in f:
        pairs = json.loads(line.decode("utf-8", "strict"), object_pairs_hook=list)
        assert [name for name, _ in pairs] == names + sys.argv[2:], line
PY
}

# keys FILE LIST: whether the keys of the decisions equal the JSON list.
keys() {
    python3 -c 'import json, sys
found = [json.loads(line)["key"] for line in open(sys.argv[1], encoding="utf-8")]
assert found == json.loads(sys.argv[2]), found' "$1" "$2"
}

# ---- the table -----------------------------------------------------------------------------------

# The policy allows 3 at once and 1 more each second. Key a has 5 requests at 1 s and 1 at 2 s; b has 1.
for t in 1 1 1 1 1 2; do printf '%s000000000\ta\n' $t; done >a.tsv
printf '2000000000\tb\n' >>a.tsv
replay --policy 'gcra 1/s burst 3' a.tsv
ok 'a table: status' ends 0 ''
ok 'a table: heading is the policy' [ "$(head -n 1 out)" = 'gcra 1/s burst 3' ]
ok 'a table: requests' row requests 7
ok 'a table: keys' row keys 2
ok 'a table: allowed' row allowed '5 71.4%'
ok 'a table: denied' row denied '2 28.6%'
ok 'a table: keys ever denied' row 'keys ever denied' '1 50.0%'
ok 'a table: top' row a '2 6 1s @'
cp out first
replay --policy '  gcra   1/s  burst 3 ' a.tsv
ok 'a heading is canonical' cmp -s first out
replay --policy='gcra 1/s burst 3' -- a.tsv
ok '--policy=TEXT and --' cmp -s first out
replay a.tsv --policy 'gcra 1/s burst 3' --format tsv
ok 'options after the file' cmp -s first out
"$weir" replay --policy 'gcra 1/s burst 3' - <a.tsv >out 2>err
status=$?
ok 'standard input from a file' cmp -s first out
cat a.tsv | "$weir" replay --policy 'gcra 1/s burst 3' - >out 2>err
ok 'standard input from a pipe' cmp -s first out
printf '%s' "$(cat a.tsv)" >b.tsv
replay --policy 'gcra 1/s burst 3' b.tsv
ok 'no newline at the end' cmp -s first out
sed 's/$/\r/' a.tsv | awk '{ print; print "\r"; print "" }' >b.tsv
replay --policy 'gcra 1/s burst 3' b.tsv
ok 'CR LF and empty lines' cmp -s first out
cp a.tsv ./-odd
replay --policy 'gcra 1/s burst 3' -- -odd
ok 'a file name after --' cmp -s first out

awk 'BEGIN { for (k = 1; k <= 12; k++) for (i = 0; i <= k; i++) print "5\tk" k }' >top.tsv
replay --policy 'gcra 1/h burst 1' top.tsv
ok 'the top keys are ten by default' [ "$(grep -c '^  k[0-9]' out)" -eq 10 ]
ok 'the most denied key comes first' [ "$(sed -n 's/^  \(k[0-9]*\) .*/\1/p' out | head -n 3 | tr '\n' ' ')" = 'k12 k11 k10 ' ]
replay --policy 'gcra 1/h burst 1' --top 2 top.tsv
ok '--top 2' [ "$(grep -c '^  k[0-9]' out)" -eq 2 ]
replay --policy 'gcra 1/h burst 1' --top=0 top.tsv
ok '--top=0' row 'keys ever denied' '12 100.0%'
ok '--top=0: no list' [ "$(grep -c 'most denied' out)" -eq 0 ]

long=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "%d-", i }')
printf '5\t%s\n5\t%s\n5\ta\033\\\377b\n5\ta\033\\\377b\n' "$long" "$long" >odd.tsv
replay --policy 'gcra 1/h burst 1' odd.tsv
ok 'keys: bytes are escaped' has out '  a\x1b\\\xffb '
ok 'keys: a long key is abbreviated in the middle' grep -q '^  0-1-2-3-.*\.\.\..*298-299-  *1  *2  *1h  @$' out
ok 'a table has 80 columns' [ "$(awk 'length($0) > 80' out | wc -l)" -eq 0 ]

awk 'BEGIN { for (i = 1; i <= 3000; i++) print i "000000000\tk"; print "3000000000000\tk" }' >rare.tsv
replay --policy 'gcra 1/s burst 1' rare.tsv
ok 'percents: 100 % only if all were allowed' row allowed '3000 >99.9%'
ok 'percents: 0 % only if none was allowed' row denied '1 <0.1%'

# ---- several policies, layers, calendar, unusual periods -----------------------------------------

replay --policy 'gcra 1/s burst 3' --policy 'gcra 1/h burst 1' a.tsv
ok 'two policies: the policies' [ "$(head -n 2 out)" = ' 1  gcra 1/s burst 3 (baseline)
 2  gcra 1/h burst 1' ]
ok 'two policies: each decides independently' row denied '2 28.6% 5 71.4%'
ok 'two policies: denied requests' row 'requests newly denied' '- 3'
ok 'two policies: allowed requests' row 'requests newly allowed' '- 0'
ok 'two policies: denials over time' row 'denied 2' '@ : max 4'
ok 'two policies: the worst keys of the first' [ "$(grep -A 2 '^ 1  gcra' out | tail -n 1 | tr -s ' ')" = ' a 2 6 1s @' ]
ok 'two policies: the worst keys of the second' [ "$(grep -A 2 '^ 2  gcra' out | tail -n 1 | tr -s ' ')" = ' a 5 6 1h @ :' ]
replay --policy 'gcra 1/s burst 3' --policy 'gcra  1/s burst 3' a.tsv
ok 'the same policy twice' ends 2 "weir replay: --policy: 'gcra 1/s burst 3' is given twice"
replay --policy 'gcra 1/155382367ns burst 1' - <<END
155382367${tab}k
310764733${tab}k
310764734${tab}k
END
ok 'a period of 155382367ns is exact' row denied '1 33.3%'

# Berlin's Sunday of 23 hours: 2026-03-29 begins at 1774738800, and ends 82800 s later.
cat >berlin.tsv <<END
1774738799999999999${tab}k
1774738800000000000${tab}k
1774821599999999999${tab}k
1774821600000000000${tab}k
END
replay --policy 'fixed-window 1/day tz Europe/Berlin' berlin.tsv --decisions jsonl
if [ ! -e /usr/share/zoneinfo/Europe/Berlin ]; then
    skip 'tz Europe/Berlin' 'no zone data here'
else
    ok 'tz Europe/Berlin: verdicts' [ "$(grep -o '"allowed":[a-z]*' out | cut -d: -f2 | tr '\n' ' ')" = 'true true false true ' ]
    ok 'tz Europe/Berlin: the day has 23 hours' has out '"reset_after_ns":82800000000000,'
fi
replay --policy 'fixed-window 1/day tz Europe/Nowhere' berlin.tsv
ok 'an unknown time zone' ends 2
ok 'an unknown time zone: column' has err 'weir replay: --policy: column 23:'

# ---- decisions -----------------------------------------------------------------------------------

replay --policy 'gcra 1/s burst 3' --decisions jsonl a.tsv
ok 'decisions: valid' valid_json out
ok 'decisions: one for each request' lines out 7
ok 'decisions: the first' [ "$(head -n 1 out)" = '{"t_ns":1000000000,"key":"a","cost":1,"allowed":true,"limit":3,"remaining":2,"retry_after_ns":0,"reset_after_ns":1000000000,"delay_ns":0,"layer":0}' ]
ok 'decisions: a denial' [ "$(sed -n 4p out)" = '{"t_ns":1000000000,"key":"a","cost":1,"allowed":false,"limit":3,"remaining":0,"retry_after_ns":1000000000,"reset_after_ns":3000000000,"delay_ns":0,"layer":0}' ]
ok 'decisions: the table goes to stderr' cmp -s first err
replay --policy 'gcra 1/s burst 3' --policy 'leaky-queue 1/s depth 2 & gcra 9/d burst 9' --decisions=jsonl a.tsv
ok 'decisions of two policies: valid' valid_json out policy
ok 'decisions of two policies' lines out 14
ok 'decisions of two policies: each names its policy' has out ',"policy":"leaky-queue 1/s depth 2 & gcra 9/d burst 9"}'
ok 'decisions: delay_ns' has out '"delay_ns":2000000000,'
printf '1\tk\t4\n1\tk\t0\n' | "$weir" replay --policy 'gcra 1/s burst 3' --decisions jsonl - >out 2>err
status=$?
ok 'decisions: never is null' has out '"cost":4,"allowed":false,"limit":3,"remaining":3,"retry_after_ns":null,'
ok 'decisions: a peek' has out '"cost":0,"allowed":true,'

{
    printf '1\tq"b\\n\001\177\n'
    printf '1\tgr\303\274n \360\237\230\200\n'
    printf '1\t\377x\303\n'
    printf '1\t\340\200a\355\240\200\n'
    printf '1\t\360\237\230z\364\220\200\200\300\257\n'
} >bytes.tsv
replay --policy 'gcra 1/s burst 3' --decisions jsonl bytes.tsv
ok 'JSON strings: valid' valid_json out
ok 'JSON strings: escapes, UTF-8, maximal subparts' keys out '["q\"b\\n\u0001\u007f", "gr\u00fcn \ud83d\ude00", "\ufffdx\ufffd", "\ufffd\ufffda\ufffd\ufffd\ufffd", "\ufffdz\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"]'
awk 'BEGIN { printf "1\t"; for (i = 0; i < 65536; i++) printf "\001"; print ""; print "1\tz" }' >wide.tsv
replay --policy 'gcra 1/s burst 3' --decisions jsonl wide.tsv
ok 'JSON strings: six times 64 KiB' valid_json out
ok 'JSON strings: the next decision' lines out 2

# ---- costs that exceed the largest cost ----------------------------------------------------------

printf '%s\tk\t2147483648\n' 1 >huge.tsv
printf '%s\tk\t99999999999999999999\n' 2 >>huge.tsv
printf '%s\tk\t2147483647\n' 3 >>huge.tsv
replay --policy 'gcra 1/s burst 3' huge.tsv
ok 'a huge cost is denied' row denied '3 100.0%'
ok 'a huge cost: no line is skipped, and the summary reports it' ends 0 'weir replay: 2 requests cost more than 2147483647 and were denied; the daemon rejects such requests with an error'
for policy in 'gcra 2147483647/s burst 2147483647' 'leaky-queue 2147483647/s depth 2147483646' \
    'fixed-window 2147483647/h count-denied' 'sliding-log 2147483647/h count-denied' \
    'sliding-slices 2147483647/h slices 4 & sliding-counter 2147483647/h'; do
    replay --policy "$policy" --decisions jsonl huge.tsv
    ok "$policy: valid" valid_json out
    ok "$policy: two never" [ "$(grep -c '"cost":\(2147483648\|9223372036854775807\),"allowed":false,.*"retry_after_ns":null,.*"delay_ns":0,' out)" -eq 2 ]
    ok "$policy: denials charge nothing" [ "$(grep -c '"cost":2147483647,"allowed":true,' out)" -eq 1 ]
done
for policy in 'fixed-window 10/h count-denied' 'sliding-log 10/h count-denied'; do
    printf '1\tk\t5000000000\n2\tk\t1\n' | "$weir" replay --policy "$policy" --decisions jsonl - >out 2>err
    ok "$policy: counts a huge cost" [ "$(grep -c '"allowed":false,' out)" -eq 2 ]
done
for cost in -1 '' 1e9 +5 0x10 ' 5' 1.5 -99999999999999999999; do
    printf '1\tk\t1\n2\tk\t%s\n3\tk\t1\n' "$cost" >odd.tsv
    replay --policy 'gcra 1/s burst 3' --format tsv odd.tsv
    ok "a cost of '$cost' is invalid: position" has err 'odd.tsv:2: column 5: expected a cost: a whole number from 0'
    ok "a cost of '$cost' is invalid: the other lines are decided" row requests 2
    replay --policy 'gcra 1/s burst 3' --strict --format tsv odd.tsv
    ok "a cost of '$cost' is invalid: --strict" ends 1
done
for cost in -1 '""' 1e9 null -99999999999999999999; do
    printf '{"t_ns": 1, "key": "k"}\n{"t_ns": 2, "key": "k", "cost": %s}\n' "$cost" >odd.jsonl
    replay --policy 'gcra 1/s burst 3' odd.jsonl
    ok "a JSON cost of $cost is invalid" has err 'odd.jsonl:2: column 1: expected a cost: a whole number from 0; member "cost"'
done
printf '1\tk\t-1\n1\tk\n' | "$weir" replay --policy 'gcra 1/s burst 3' --format tsv - >out 2>err
ok 'a negative cost is invalid' has err 'column 5: expected a cost: a whole number from 0'
cat >huge.jsonl <<'END'
{"t_ns": 8070450532247928831, "key": 18446744073709551616, "cost": 18446744073709551616}
{"t_ns": 8070450532247928832, "key": "k", "cost": 5000000000}
END
replay --policy 'gcra 1/s burst 3' --decisions jsonl huge.jsonl
ok 'a huge cost in jsonl' [ "$(grep -c '"allowed":false,' out)" -eq 2 ]
ok 'a huge cost in jsonl: time and key are exact' has out '"t_ns":8070450532247928831,"key":"18446744073709551616","cost":9223372036854775807,'

# ---- keys that are IP addresses, and policies of a configuration ---------------------------------

# decided: prints the verdicts in out on one line.
decided() { grep -o '"allowed":[a-z]*' out | cut -d: -f2 | tr '\n' ' '; }

cat >addresses.tsv <<END
1${tab}2001:db8::1
1${tab}2001:DB8:0:0:ffff::2
1${tab}2001:db8:0:1::1
1${tab}::ffff:192.0.2.1
1${tab}192.0.2.1
1${tab}192.0.2.2
1${tab}192.0.2.01
END
replay --policy 'gcra 1/h burst 1' --decisions jsonl addresses.tsv
ok 'addresses: IPv6 counts by its /64, IPv4-mapped as IPv4' [ "$(decided)" = 'true false true true false true true ' ]
ok 'addresses: a decision has the key as in the line' has out '"key":"2001:DB8:0:0:ffff::2"'
mv err out
ok 'addresses: the table has the key as it is counted' row '2001:db8::\/64' '1 2'
ok 'addresses: the number of keys' row keys 5

cat >weir.yaml <<'END'
engine: redis
redis: {url: "redis://127.0.0.1:1", password_file: not-there}
policies:
  api:
    limit: gcra  60/m burst 1
    overrides: {big: gcra 1/h burst 3}
    allow: [10.0.0.0/8]
    deny: [evil, 10.6.6.6]
    ip: {v4: 24}
  look: {limit: gcra 1/h burst 1, shadow: true, deny: [evil], ip: false}
END
printf '1\t%s\n' big big 10.1.1.1 10.1.1.1 10.6.6.6 evil 192.0.2.1 192.0.2.9 2001:db8::1 2001:db8::2 >named.tsv
replay --config weir.yaml --policy api --decisions jsonl named.tsv
ok 'a named policy: overrides, lists, ip' [ "$(decided)" = 'true true true true false false true false true false ' ]
ok 'a named policy: valid' valid_json out reason
ok 'a named policy: the override' has out '"key":"big","cost":1,"allowed":true,"limit":3,"remaining":1,'
ok 'a named policy: the allow list' has out '"layer":0,"reason":"allow-list"}'
ok 'a named policy: the deny list' has out '"key":"evil","cost":1,"allowed":false,"limit":1,"remaining":0,"retry_after_ns":null,"reset_after_ns":0,"delay_ns":0,"layer":0,"reason":"deny-list"}'
mv err out
ok 'a named policy: heading' [ "$(head -n 1 out)" = 'api: gcra 60/m burst 1' ]
ok 'a named policy: keys' row keys 6
ok 'a named policy: on the allow list' row 'on allow list' '2 20.0%'
ok 'a named policy: on the deny list' row 'on deny list' '2 20.0%'
ok 'a named policy: a network is denied' row '192.0.2.0\/24' '1 2'
replay --config weir.yaml --policy look --policy api --policy 'gcra 1/h' --decisions jsonl named.tsv
ok 'named policies and a policy text: valid' valid_json out policy reason
ok 'named policies and a policy text: all decide' lines out 30
grep '"policy":"look"' out >look
mv err out
ok 'shadow: denies only by the deny list' [ "$(grep -c '"allowed":false' look)" -eq 1 ]
ok 'shadow: reports the keys that it would deny' [ "$(grep -c '"reason":"shadow"' look)" -eq 2 ]
ok 'shadow: heading' has out 'look: gcra 1/h burst 1 (shadow mode: the limit denies no requests)'
ok 'shadow: the number of denials' row 'would be denied' '2 20.0% - -'
ok 'ip: false counts other keys' row keys '8 6 7'
printf '1\tk\t3000000000\n1\t10.1.1.1\t3000000000\n' | "$weir" replay --config weir.yaml --policy api --policy look --decisions jsonl - >out 2>err
ok 'a huge cost: denied, allowed by the allow list, allowed in shadow mode' [ "$(decided)" = 'false true true true ' ]
ok 'a huge cost under shadow' has out '"policy":"look","reason":"shadow"}'
replay --config weir.yaml --policy 'gcra 1/h' --policy api named.tsv
ok 'a named policy after a policy text' row keys '7 6'
replay --config weir.yaml --policy login named.tsv
ok 'an unknown policy name' ends 2 "weir replay: --policy: weir.yaml has no policy 'login', expected one of api look"
{ echo policies:; for i in 0 1 2 3 4 5 6 7 8 9; do echo "  p$i: gcra 1/s"; done; } >names.yaml
replay --config names.yaml --policy login named.tsv
ok 'an unknown policy name: all of ten names' has err 'no policy '\''login'\'', expected one of p0 p1 p2 p3 p4 p5 p6 p7 p8 p9'
ok 'an unknown policy name: no more than ten' [ "$(grep -c '\.\.\.$' err)" -eq 0 ]
echo '  q: gcra 1/s' >>names.yaml
replay --config names.yaml --policy login named.tsv
ok 'an unknown policy name: ten of eleven names' ends 2 "weir replay: --policy: names.yaml has no policy 'login', expected one of p0 p1 p2 p3 p4 p5 p6 p7 p8 p9 ..."
replay --config weir.yaml named.tsv
ok '--config without a policy' ends 2 'weir replay: --policy is missing: expected the name of a policy of weir.yaml'
replay --config weir.yaml --policy api --policy api named.tsv
ok 'a policy name twice' ends 2 "weir replay: --policy: 'api' is given twice"
replay --config weir.yaml --policy 'gcra 1/x' named.tsv
ok 'an invalid policy text with a configuration' has err 'weir replay: --policy: column 8: unknown unit'
replay --policy api named.tsv
ok 'a policy name without a configuration' ends 2
ok 'a name without a configuration: hint' has err 'weir replay: hint: to use a named policy, pass its configuration with --config FILE'
replay --config not-there.yaml --policy api named.tsv
ok 'no such configuration' ends 1 'not-there.yaml: error: cannot be read: No such file or directory'
printf 'policies:\n  api: gcra 1/q\n' >wrong.yaml
replay --config wrong.yaml --policy api named.tsv
ok 'an invalid configuration' ends 1 "wrong.yaml:2:15: error: policies.api: unknown unit 'q', expected one of ns us ms s m h d w
    api: gcra 1/q
                ^"
printf '{}' | "$weir" replay --config - --policy api named.tsv >out 2>err
status=$?
ok 'a configuration without policies' ends 2 "weir replay: --policy: - defines no policies"
replay --config - --policy api -
ok 'standard input for both files' ends 2 "weir replay: --config and FILE are both '-': expected standard input only once"

# ---- formats -------------------------------------------------------------------------------------

cat >common.log <<'END'
h1 - - [01/Aug/1995:02:00:00 -0400] "GET /a HTTP/1.0" 200 10
h1 - - [01/Aug/1995:02:00:00 -0400] "GET /a?q HTTP/1.0" 200 10
h2 - - [01/Aug/1995:02:00:01 -0400] "GET /b HTTP/1.0" 304 -
END
sed 's/$/ "-" "agent one"/' common.log >combined.log
replay --policy 'gcra 1/h burst 1' common.log
ok 'the format common is detected' row denied '1 33.3%'
cp out host
replay --policy 'gcra 1/h burst 1' combined.log
ok 'the format combined is detected' cmp -s host out
replay --policy 'gcra 1/h burst 1' --format common common.log
ok '--format common' cmp -s host out
replay --policy 'gcra 1/h burst 1' --key path --cost bytes --decisions jsonl common.log
ok '--key path --cost bytes' keys out '["/a", "/a", "/b"]'
ok '--cost bytes: "-" is 0' has out '"t_ns":807256801000000000,"key":"/b","cost":0,'
replay --policy 'gcra 1/h burst 1' --key agent combined.log
ok '--key agent' row 'agent one' '2 3 1h @ @'
replay --policy 'gcra 1/h burst 1' --key agent --format combined common.log
ok 'a common line read as combined' ends 1
ok 'a common line read as combined: position' has err 'common.log:1: column 61: expected an agent in quotes'
ok 'a common line read as combined: hint' has err 'weir replay: hint: try --format common'
replay --policy 'gcra 1/h burst 1' --key agent common.log
ok 'a common log has no agent' has err 'hint: a common log has no referer and no agent'
replay --policy 'gcra 1/h burst 1' --format tsv combined.log
ok 'combined read as tsv: hint' has err 'weir replay: hint: try --format combined'
# Logs with a virtual host: the client is the second field.
sed 's/^/example.org:443 /' combined.log >vhost.log
sed 's/^/example.org /' common.log >noport.log
for f in vhost noport; do
    replay --policy 'gcra 1/h burst 1' $f.log
    ok "$f: the format is detected" cmp -s host out
    ok "$f: no line is skipped" ends 0 ''
    replay --policy 'gcra 1/h burst 1' --format combined $f.log
    ok "$f as combined: no line is accepted" ends 1
    ok "$f as combined: error" has err "weir replay: $f.log: no line could be read (3 tried)"
    ok "$f as combined: position" grep -q "^$f.log:1: column 1[37]: expected an ident or '-'; " err
    ok "$f as combined: hint" grep -q 'hint: try --format vhost_com[a-z]*$' err
done
replay --policy 'gcra 1/h burst 1' --format vhost_combined vhost.log
ok '--format vhost_combined' cmp -s host out
replay --policy 'gcra 1/h burst 1' --format vhost_common noport.log
ok '--format vhost_common' cmp -s host out
replay --policy 'gcra 1/h burst 1' --key vhost vhost.log
ok '--key vhost' row 'example.org:443' '2 3'
replay --policy 'gcra 1/h burst 1' --key agent vhost.log
ok '--key agent with a virtual host' row 'agent one' '2 3 1h @ @'
replay --policy 'gcra 1/h burst 1' --format vhost_combined combined.log
ok 'combined as vhost_combined' ends 1
ok 'combined as vhost_combined: position' has err "combined.log:1: column 4: expected the client's host behind the virtual host, found '-'"
replay --policy 'gcra 1/h burst 1' --key vhost combined.log
ok '--key vhost without a virtual host' ends 2
ok '--key vhost without a virtual host: the error lists the fields' has err "--key: a combined line has no field 'vhost', expected one of client ident"
cat combined.log vhost.log >mixed.log
replay --policy 'gcra 1/h burst 1' mixed.log
ok 'a mixed log: status' ends 0
ok 'a mixed log: the readable lines are decided' cmp -s host out
ok 'a mixed log: position' has err "mixed.log:4: column 17: expected an ident or '-'"
ok 'a mixed log: the number of skipped lines' has err '3 lines could not be read and were left out'
ok 'a mixed log: the hint names the format' has err 'weir replay: WARNING: the lines were read as combined, but line 4 is vhost_combined; see --format'
# A line of each format in a log of each format. The formats of access logs differ from their shorter
# variants only at the end of a line.
sed -n 1p common.log >common.line
sed -n 1p combined.log >combined.line
sed 's/^/example.org /' common.line >vhost_common.line
sed 's/^/example.org /' combined.line >vhost_combined.line
printf '807249601000000000\ta\n' >tsv.line
echo '{"t_ns":807249601000000000,"key":"a"}' >jsonl.line
for a in combined vhost_combined tsv jsonl; do
    for b in common combined vhost_common vhost_combined tsv jsonl; do
        cat $a.line $a.line $b.line >pair.log
        replay --policy 'gcra 1/h burst 1' pair.log
        warning="weir replay: WARNING: the lines were read as $a, but line 3 is $b; see --format"
        [ "${a%com*}" = "${b%com*}" ] && warning=
        ok "a $b line in a $a log" [ "$(grep WARNING: err)" = "$warning" ]
    done
done
sed 's/^/192.0.2.1, /' common.log >list.log
replay --policy 'gcra 1/h burst 1' list.log
ok 'a list of addresses is not a host' ends 1
replay --policy 'gcra 1/h burst 1' --format common list.log
ok 'a list of addresses: position' has err 'list.log:1: column 1: expected one host, found a list'

cat >j.jsonl <<'END'
{"t_ns": 5, "key": "a", "ip": "x", "weight": 2}
{"time": "1970-01-01T00:00:01Z", "key": "b", "ip": "x", "weight": 2}
END
replay --policy 'gcra 1/h burst 4' --decisions jsonl j.jsonl
ok 'the format jsonl is detected' keys out '["a", "b"]'
replay --policy 'gcra 1/h burst 3' --key ip --cost weight j.jsonl
ok 'jsonl: --key and --cost are members' row x '1 2'
replay --policy 'gcra 1/h burst 3' --key who j.jsonl
ok 'jsonl: a missing member' has err 'j.jsonl:1: column 1: expected a key: a string, number or boolean; member "who"'
ok 'jsonl: hint' has err 'hint: set --key to the name'
printf '{"t_ns": 5, "key": "a"\n' >broken.jsonl
replay --policy 'gcra 1/h burst 3' broken.jsonl
ok 'jsonl: invalid JSON: status' ends 1
ok 'jsonl: invalid JSON: no hint about the key' [ "$(grep -c -- '--key' err)" -eq 0 ]
printf '{"time": "noon"}\n' >noon.jsonl
replay --policy 'gcra 1/h burst 3' noon.jsonl
ok 'jsonl: no time: no hint about the key' [ "$(grep -c -- '--key' err)" -eq 0 ]

# ---- time ----------------------------------------------------------------------------------------

cat >back.tsv <<END
10000000000${tab}a
3000000000${tab}b
4000000000${tab}b
11000000000${tab}b
END
replay --policy 'gcra 1/s burst 1' --reorder 0 --decisions jsonl back.tsv
ok 'back in time: decided at the latest time so far' [ "$(grep -o '"allowed":[a-z]*' out | cut -d: -f2 | tr '\n' ' ')" = 'true true false true ' ]
ok 'back in time: t_ns is the time of the line' has out '"t_ns":4000000000,"key":"b"'
ok 'back in time: reported' has err 'weir replay: 2 lines went back in time, by up to 7s; each was decided at the latest time seen'
ok 'back in time: no warning' [ "$(grep -c WARNING err)" -eq 0 ]

# back_note NS: prints the report about a line that is NS earlier than line 2.
back_note() {
    printf '4000000000000000000\tk\n5000000000000000000\tk\n%s\tk\n' "$(printf '%d' $((5000000000000000000 - $1)))" >far.tsv
    replay --policy 'gcra 1/s burst 1' --reorder 0 far.tsv
    cat err
}
note='1 line went back in time, by up to'
seen='; it was decided at the latest time seen'
ok 'back by 1 ns' [ "$(back_note 1)" = "weir replay: $note 1ns$seen" ]
ok 'back by 1.5 us' [ "$(back_note 1500)" = "weir replay: $note 1us 500ns$seen" ]
ok 'back: is rounded up' [ "$(back_note 61000000001)" = "weir replay: $note 1m 2s$seen" ]
ok 'back: 59m 59.5s is 1h' [ "$(back_note 3599500000000)" = "weir replay: $note 1h$seen" ]
ok 'back by an hour' [ "$(back_note 3600000000000)" = "weir replay: $note 1h$seen" ]
ok 'back by more than an hour is a warning' [ "$(back_note 3600000000001)" = "weir replay: WARNING: $note 1h 1m$seen; are the times of lines 2 and 3 right?" ]
ok 'back by years' [ "$(back_note 5000000000000000000)" = "weir replay: WARNING: $note 57870d 9h$seen; are the times of lines 2 and 3 right?" ]

# The lines in the question are the first one that set the latest time before the longest step back, and
# the one that went back.
back_line() { # TIME...: in 10000 s
    printf '%s0000000000000\tk\n' "$@" >far.tsv
    replay --policy 'gcra 1/s burst 1' --reorder 0 far.tsv
    sed -n 's/.*are the times of lines \([0-9]* and [0-9]*\) right?.*/\1/p' err
}
ok 'back: the same time again sets nothing' [ "$(back_line 1 4 4 4 1)" = '2 and 5' ]
ok 'back: the first of two steps of the same length' [ "$(back_line 1 3 1 2 4 2)" = '2 and 3' ]
ok 'back: the longest of several steps' [ "$(back_line 1 3 2 4 2 9 8 1 9 2)" = '6 and 8' ]

# ---- several files, and the order of lines --------------------------------------------------------

# decided FILE...: the times of the decisions, in their order.
decided() {
    replay --policy 'gcra 1/h burst 9' --decisions jsonl "$@"
    grep -o '"t_ns":[0-9]*,"key":"[a-z]*' out | sed 's/"t_ns":\([0-9]*\)0\{9\},"key":"/\1/' | tr '\n' ' '
}
log() { # TIME KEY...: in seconds
    printf '%s000000000\t%s\n' "$@"
}
log 20 a 11 a 30 a 20 b 31 a >one.tsv
log 11 c 20 c 12 d 40 c >two.tsv
ok 'lines up to 10s apart are put in order' [ "$(decided one.tsv)" = '11a 20a 20b 30a 31a ' ]
ok 'in order: nothing is reported' [ "$(grep -c 'weir replay' err)" -eq 0 ]
log 20 a 30 a 40 a 29 b 41 a >late.tsv
ok '--reorder 11s' [ "$(decided --reorder 11s late.tsv)" = '20a 29b 30a 40a 41a ' ]
ok 'a line that is 11s late' [ "$(decided late.tsv)" = '20a 30a 29b 40a 41a ' ]
ok 'a line that is 11s late: reported' has err 'weir replay: 1 line came too late to be put in order (--reorder 10s), and was decided up to 1s after its time'
ok '--reorder 0: the order of the lines' [ "$(decided --reorder 0 one.tsv)" = '20a 11a 30a 20b 31a ' ]
ok 'two files are merged' [ "$(decided one.tsv two.tsv)" = '11a 11c 12d 20a 20b 20c 30a 31a 40c ' ]
ok 'two files: the first one is first at equal times' [ "$(decided two.tsv one.tsv)" = '11c 11a 12d 20c 20a 20b 30a 31a 40c ' ]
gzip -k two.tsv
ok 'two files: one compressed, one from standard input' [ "$(decided - two.tsv.gz <one.tsv)" = '11a 11c 12d 20a 20b 20c 30a 31a 40c ' ]
ok 'two files without a buffer' [ "$(decided --reorder 0 one.tsv two.tsv)" = '11c 20a 11a 20c 12d 30a 20b 31a 40c ' ]
printf '192.0.2.1 - - [01/Jan/1970:00:00:20 +0000] "GET / HTTP/1.1" 200 1\nx\n' >common.log
ok 'each file has its own format' [ "$(decided common.log two.tsv | tr -d .)" = '11c 12d 20 20c 40c ' ]
ok 'each file has its own format: decisions' lines out 5
ok 'each file has its own format: bad lines have the file' has err 'common.log:2: column 2'
ok 'each file has its own format: counted' has err 'weir replay: common.log: 1 line could not be read and was left out'
: >none.tsv
ok 'an empty file beside others' [ "$(decided none.tsv one.tsv)" = '11a 20a 20b 30a 31a ' ]
printf 'x\n' >none.log
replay --policy 'gcra 1/h burst 9' one.tsv none.log
ok 'a file without a readable line beside others' ends 0
ok 'a file without a readable line beside others: warning' has err 'weir replay: WARNING: none.log: no line could be read (1 tried)'
replay --policy 'gcra 1/h burst 9' none.tsv none.log
ok 'no readable line at all' ends 1
replay --policy 'gcra 1/h burst 9' one.tsv not-there two.tsv
ok 'one of several files does not exist' ends 1 'weir replay: not-there: No such file or directory'
head -c 30 two.tsv.gz >cut.gz
replay --policy 'gcra 1/h burst 9' --decisions jsonl cut.gz one.tsv
ok 'a damaged file among several' ends 1
ok 'a damaged file among several: which' has err 'weir replay: cut.gz: gzip failed after line '
log 10 a 200000 a 11 b 12 c >far.tsv
ok 'a line dated far ahead does not stop time' [ "$(decided far.tsv)" = '10a 11b 12c 200000a ' ]
ok 'a line dated far ahead: warning' has err 'weir replay: WARNING: line 2 is dated 2d 8h after line 3, which follows it; are both times right?'
decided far.tsv one.tsv >/dev/null
ok 'a line dated far ahead in one of two files' has err 'WARNING: line 2 of far.tsv is dated 2d 8h after'

sh -c 'ulimit -n 5; exec "$0" replay --policy "gcra 1/h burst 9" two.tsv.gz' "$weir" >out 2>err
status=$?
ok 'no file descriptors left' ends 1 'weir replay: two.tsv.gz: cannot run gzip: Too many open files'

# ---- unreadable lines ----------------------------------------------------------------------------

awk 'BEGIN { print "1\ta"; for (i = 0; i < 7; i++) print "x\ta"; print "1\ta" }' >bad.tsv
replay --policy 'gcra 1/h burst 1' bad.tsv
ok 'bad lines: the rest is decided' row denied '1 50.0%'
ok 'bad lines: status' ends 0
ok 'bad lines: the first five are shown' [ "$(grep -c '^bad.tsv:[2-6]: column 1: expected t_ns' err)" -eq 5 ]
ok 'bad lines: the rest is counted' lines err 6
ok 'bad lines: the number of skipped lines' has err 'weir replay: 7 lines could not be read and were left out'
replay --policy 'gcra 1/h burst 1' --strict --decisions jsonl bad.tsv
ok '--strict: status' ends 1
ok '--strict: the error has the position' has err 'bad.tsv:2: column 1: expected t_ns'
ok '--strict: earlier decisions are printed' lines out 1
sed '1d;$d' bad.tsv >all.tsv
replay --policy 'gcra 1/h burst 1' --format tsv all.tsv
ok 'no line can be read: status' ends 1
ok 'no line can be read: error' has err 'weir replay: all.tsv: no line could be read (7 tried)'
ok 'no line can be read: no table' lines out 0
printf 'time\tkey\n1\ta\n' >head.tsv
replay --policy 'gcra 1/h burst 1' head.tsv
ok 'the format is detected after a header line' row requests 1
: >empty
replay --policy 'gcra 1/h burst 1' empty
ok 'an empty file' ends 1 'weir replay: empty: the log is empty'
printf '\n\r\n\n' >blank
replay --policy 'gcra 1/h burst 1' blank
ok 'only empty lines' ends 1 'weir replay: blank: the log has only empty lines'
printf '# made by hand, time\ntime,key\n' >names.csv
replay --policy 'gcra 1/h burst 1' names.csv
ok 'only the names of columns' ends 1 'weir replay: names.csv: the log has only comments or the names of columns'
printf 'time,\033[31mx\177\302\233y\n1,2\n' >names.csv
replay --policy 'gcra 1/h burst 1' names.csv
ok 'names of columns are escaped' ends 2 "weir replay: --key: it is needed: a csv line has no column 'key' and no column 'client', expected one of time \x1b[31mx\x7f\xc2\x9by"
printf '1700000000\ta\n' >seconds.tsv
replay --policy 'gcra 1/h burst 1' seconds.tsv
ok 'tsv: seconds are doubted' has err 'weir replay: WARNING: the first column is read as nanoseconds since 1970, but the first line suggests seconds; if so, '
replay --policy 'gcra 1/h burst 1' a.tsv
ok 'tsv: nanoseconds are not' [ ! -s err ]

# Lines of 1 MiB, of 1 MiB and 1 byte, and of 3 MiB, and a long last line.
long_line() { awk -v n="$1" 'BEGIN { h = "h - - [01/Aug/1995:02:00:00 -0400] \""; printf "%s", h; s = "xxxxxxxxxxxxxxxx"; while (length(s) < n) s = s s; printf "%s", substr(s, 1, n - length(h)) }'; }
{
    long_line 1048576 && echo
    long_line 1048577 && echo
    long_line 3145728 && echo
    echo 'h - - [01/Aug/1995:02:00:00 -0400] "GET / HTTP/1.0" 200 1'
    long_line 1400000
} >long.log
replay --policy 'gcra 1/h burst 1' long.log
ok 'long lines: up to 1 MiB is read' row requests 2
ok 'long lines: one byte more is an error' has err 'long.log:2: column 1048577: expected the end of the line'
ok 'long lines: 3 MiB is an error' has err 'long.log:3: column 1048577:'
ok 'long lines: at the end of the file' has err 'long.log:5: column 1048577:'
ok 'long lines: three lines are skipped' has err '3 lines could not be read'

# Keys that cross every block boundary of the reader.
awk 'BEGIN { for (i = 0; i < 60000; i++) print i "\tkey-" i % 977 }' >blocks.tsv
replay --policy 'gcra 1/ns burst 1' blocks.tsv
ok 'blocks: requests' row requests 60000
ok 'blocks: keys' row keys 977
(
    while IFS= read -r line; do printf '%s\n' "$line"; done <a.tsv
) | "$weir" replay --policy 'gcra 1/s burst 3' - >out 2>err
ok 'a pipe that delivers one line at a time' cmp -s first out

# ---- the store is full ---------------------------------------------------------------------------

awk 'BEGIN { for (i = 0; i < 4400; i++) print "1\tk" i }' >many.tsv
replay --policy 'sliding-slices 1/h slices 65536' many.tsv
ok 'a full store is a warning' has err 'weir replay: WARNING: the report shows too few denials:'
ok 'a full store: status' ends 0

# ---- usage ---------------------------------------------------------------------------------------

replay --help
ok '--help: status' ends 0 ''
ok '--help: usage' has out 'Usage: weir replay --policy TEXT'
ok '--help: four examples' [ "$(sed -n '/^Examples:/,$p' out | grep -c 'weir replay')" -eq 4 ]
ok '--help: 80 columns' [ "$(awk 'length($0) > 80' out | wc -l)" -eq 0 ]
replay --policy 'gcra 100/x burst 2' a.tsv
ok 'an invalid policy' ends 2 "weir replay: --policy: column 10: unknown unit 'x', expected one of ns us ms s m h d w
  gcra 100/x burst 2
           ^"

# Invalid policies, with the same error in replay and policy: control bytes are replaced, and the caret
esc=$(printf '\033') cr=$(printf '\r') nl='
'
# is in the right column.
# wrong TEXT MORE: prints the error of `weir policy`, which must equal that of `weir replay`.
wrong() {
    replay --policy "$1" a.tsv
    sed 's/^weir replay: --policy:/weir policy:/' err >replay.err
    "$weir" policy "$1" >out 2>err
    status=$?
    [ "$status" -eq 2 ] && cmp -s err replay.err && lines err 3 && [ "$(sed 1d err)" = "$2" ]
}
ok 'an invalid policy: control bytes' wrong "gcra $esc[31mx" "  gcra  [31mx
       ^"
ok 'an invalid policy: C1 and DEL' wrong "gcra$(printf '\302\233\177') 1/x" '  gcra   1/x
      ^'
ok 'an invalid policy: LF and tab' wrong "gcra 1/s$nl${tab}foo bar" '  gcra 1/s  foo bar
            ^'
umlaut=$(printf '\303\274')
ok 'an invalid policy: after UTF-8' wrong "fixed-window 1/day tz $umlaut/$umlaut$umlaut x" "  fixed-window 1/day tz $umlaut/$umlaut$umlaut x
                        ^"
ok 'an invalid policy: not UTF-8' wrong "gcra 1/$(printf '\377')s" '  gcra 1/?s
         ^'
layer='gcra 100/s burst 100 & '
ok 'an invalid policy: a long text, error at the beginning' wrong "grca 1/s burst 1 & $layer$layer$layer$layer" \
    '  grca 1/s burst 1 & gcra 100/s burst 100 & gcra 100/s burst 100 & gcra 100...
  ^'
ok 'an invalid policy: a long text, error in the middle' wrong "$layer$layer$layer${layer}gcra 1/x & $layer$layer$layer$layer" \
    '  ...00 & gcra 100/s burst 100 & gcra 1/x & gcra 100/s burst 100 & gcra 100...
                                        ^'
ok 'an invalid policy: a long text, error at the end' wrong "$layer$layer$layer$layer" \
    "  ...0 & gcra 100/s burst 100 & gcra 100/s burst 100 & gcra 100/s burst 100 & $nl$(printf '%79s' '^')"
"$weir" policy "$(awk 'BEGIN { for (i = 0; i < 100000; i++) printf "a" }')" >out 2>err
status=$?
ok 'an invalid policy: 100 kB' ends 2 "weir policy: column 1: the policy text is too long, expected at most 1023 bytes
  $(awk 'BEGIN { for (i = 0; i < 73; i++) printf "a" }')...
  ^"
replay a.tsv
ok 'no policy' ends 2 "weir replay: --policy is missing, like --policy 'gcra 100/m burst 20'"
replay --policy 'gcra 1/s burst 3'
ok 'no file' ends 2 "weir replay: FILE is missing; '-' is standard input"
replay --policy 'gcra 1/s burst 3' - a.tsv -
ok 'standard input twice' ends 2 "weir replay: FILE is '-' twice: expected standard input only once"
replay --policy 'gcra 1/s burst 3' --reorder 5 a.tsv
ok '--reorder without a unit' ends 2 "weir replay: --reorder: expected a duration such as 10s or 1m, or 0 for the order of the lines, found '5'"
replay --polcy x a.tsv
ok 'an unknown option' ends 2 "weir replay: unknown option '--polcy', expected --policy, --config, --json, --html, --decisions, --top, --memory, --format, --key, --time, --cost, --where, --reorder, --strict, --no-progress or --help; see weir replay --help"
replay -z a.tsv
ok 'an unknown short option' ends 2 "weir replay: unknown option '-z', expected --policy, --config, --json, --html, --decisions, --top, --memory, --format, --key, --time, --cost, --where, --reorder, --strict, --no-progress or --help; see weir replay --help"
replay a.tsv --policy
ok 'an option lacks its value' ends 2 'weir replay: --policy needs a value'
replay --strict=yes a.tsv
ok 'an option that takes no value has one' ends 2 'weir replay: --strict=yes: the option takes no value'
for top in '' x -1 1000001 99999999999999999999 '1 '; do
    replay --policy 'gcra 1/s burst 3' --top "$top" a.tsv
    ok "--top '$top'" ends 2 "weir replay: --top: expected a number from 0 to 1000000, found '$top'"
done
replay --policy 'gcra 1/s burst 3' --decisions json a.tsv
ok '--decisions json' ends 2 "weir replay: --decisions: expected jsonl, found 'json'"
# ---- columns, templates and filters --------------------------------------------------------------

cat >shop.csv <<'END'
time,client,path,n
2026-01-02T03:04:05Z,2001:db8:0:1::1,/login/now,1
2026-01-02T03:04:05Z,2001:db8:0:2::1,/login,2
2026-01-02T03:04:06Z,192.0.2.7,"/a,b",4
END
replay --policy 'gcra 1/s burst 9' --key '$client/48 $path[1]' --cost n --where 'path=/login*' --where 'n>=1' --decisions jsonl shop.csv
ok 'csv: a template, a cost and filters' keys out '["2001:db8::/48 login", "2001:db8::/48 login"]'
ok 'csv: the cost' [ "$(grep -o '"cost":[0-9]*' out | cut -d: -f2 | tr '\n' ' ')" = '1 2 ' ]
replay --policy 'gcra 1/s burst 9' --key '$clint' shop.csv
ok 'csv: no such column' ends 2 "weir replay: --key: a csv line has no column 'clint', expected one of time client path n"
replay --policy 'gcra 1/s burst 9' --format combined --key '$host' shop.csv
ok '$host is ambiguous' ends 2 'weir replay: --key: $host is ambiguous: $client is the client, $vhost the virtual host'
replay --policy 'gcra 1/s burst 9' --key '$client[' shop.csv
ok 'a template that cannot be parsed' ends 2 'weir replay: --key: column 8: expected the part of a path: [1] to [1000]'
replay --policy 'gcra 1/s burst 9' --where 'status' shop.csv
ok 'a filter that cannot be parsed' ends 2 'weir replay: --where: column 7: expected a field, one of = != < <= > >=, and a pattern or a number, like status=401'
printf '{"t_ns": 1, "key": "a", "status": 401}\n' >one.jsonl
replay --policy 'gcra 1/s burst 9' --where 'stauts!=200' one.jsonl
ok 'a filter with a member that no line has' ends 0 "weir replay: WARNING: no line has the member 'stauts' of --where"

replay --policy 'gcra 1/s burst 3' --format clf a.tsv
ok '--format clf' ends 2 "weir replay: --format: expected combined, common, vhost_combined, vhost_common, nginx-json, caddy, traefik, envoy, haproxy, alb, csv, tsv or jsonl, found 'clf'"
replay --policy 'gcra 1/s burst 3' --format common --key agent common.log
ok '--format common --key agent' ends 2
ok '--format common --key agent: the error lists the fields' has err "a common line has no field 'agent', expected one of client ident user"
replay --policy 'gcra 1/s burst 3' --cost size common.log
ok '--cost with an unknown field' has err "weir replay: --cost: a combined line has no field 'size', expected one of client"
replay --policy 'gcra 1/s burst 3' --key a a.tsv
ok '--key with tsv' ends 2 'weir replay: --key: a tsv file without a line of names has no named fields: the time is the first column, the key the second, the cost the third'

# ---- compressed logs -----------------------------------------------------------------------------

# pack gzip|zstd FILE: compresses to standard output
pack() { "$1" -c "$2"; }

python3 -c 'import random
random.seed(1)
for i in range(60000):
    print(i * 1000000, "key%d" % random.randrange(5000), sep="\t")' >long.tsv
replay --policy 'gcra 10/m burst 5' --decisions jsonl long.tsv
ok 'a longer log' ends 0
cp out long.out
cp err long.table
pack gzip long.tsv >long.gz
pack zstd long.tsv >long.zst
for f in long.gz long.zst; do
    replay --policy 'gcra 10/m burst 5' --decisions jsonl $f
    ok "$f: the same decisions" cmp -s out long.out
    ok "$f: the same table" cmp -s err long.table
    cat $f | "$weir" replay --policy 'gcra 10/m burst 5' --decisions jsonl - >out 2>err
    ok "$f from a pipe" cmp -s out long.out
    python3 -c 'import sys
data = sys.stdin.buffer.read()
for i in range(0, len(data), 997):
    sys.stdout.buffer.write(data[i : i + 997])
    sys.stdout.flush()' <$f | "$weir" replay --policy 'gcra 10/m burst 5' --decisions jsonl - >out 2>err
    ok "$f from a pipe in pieces" cmp -s out long.out
done
head -n 30000 long.tsv >one.tsv
tail -n +30001 long.tsv >two.tsv
{ printf '\132\052\115\030\002\0\0\0ab' && pack zstd one.tsv && pack zstd two.tsv; } >both
replay --policy 'gcra 10/m burst 5' --decisions jsonl both
ok 'frames of zstd, one of which is skipped' cmp -s out long.out
head -c 100001 long.tsv >one.tsv
tail -c +100002 long.tsv >two.tsv
{ pack gzip one.tsv && pack gzip two.tsv && printf '\0\0\0'; } >both
replay --policy 'gcra 10/m burst 5' --decisions jsonl both
ok 'a line that spans two gzip members' cmp -s out long.out
for f in long.gz long.zst; do
    half=$(($(wc -c <$f) / 2))
    head -c $half $f >cut.$f
    replay --policy 'gcra 10/m burst 5' --decisions jsonl cut.$f
    kind=gzip
    [ $f = long.zst ] && kind=zstd
    ok "$f truncated" ends 1
    ok "$f truncated: where" has err "weir replay: cut.$f: $kind failed after line $(wc -l <out): the file is damaged or truncated, or other bytes follow the compressed ones"
    ok "$f cut off: earlier decisions are printed" [ "$(wc -l <out)" -gt 1000 ]
    head -n "$(wc -l <out)" long.out >first
    ok "$f cut off: earlier decisions are correct" cmp -s out first
done
# The checksum at the end detects damage that was not detected before.
for f in long.gz long.zst; do
    kind=gzip at=$(($(wc -c <$f) - 8))
    [ $f = long.zst ] && kind=zstd at=$((at * 3 / 4))
    { head -c $at $f && printf '\377\377\377\377' && tail -c +$((at + 5)) $f; } >damaged.$f
    replay --policy 'gcra 10/m burst 5' --decisions jsonl damaged.$f
    ok "$f damaged" ends 1
    ok "$f damaged: where" has err "weir replay: damaged.$f: $kind failed after line $(wc -l <out): the file is damaged"
    ok "$f damaged: decisions before it" [ "$(wc -l <out)" -gt 1000 ]
done
PATH=$PWD/none "$weir" replay --policy 'gcra 10/m burst 5' long.zst >out 2>err
ok 'without the program zstd' has err 'weir replay: long.zst: cannot run zstd: No such file or directory; install the package zstd'
python3 -c 'import socket, subprocess, sys
ours, theirs = socket.socketpair()
run = subprocess.Popen([sys.argv[1], "replay", "--policy", "gcra 10/m burst 5", "--decisions", "jsonl", "-"], stdin=theirs)
theirs.close()
ours.sendall(open("long.gz", "rb").read())
ours.close()
sys.exit(run.wait())' "$weir" >out 2>err
ok 'compressed, from a socket' cmp -s out long.out
cat long.gz a.tsv >both
replay --policy 'gcra 10/m burst 5' both
ok 'other bytes after gzip data' ends 1
ok 'other bytes after gzip data: where' has err 'weir replay: both: gzip failed after line 60000: the file is damaged or truncated, or other bytes follow the compressed ones'
: >none.tsv
pack gzip none.tsv >none.gz
replay --policy 'gcra 10/m burst 5' none.gz
ok 'a compressed empty file' ends 1 'weir replay: none.gz: the log is empty'
printf '\037' >odd.tsv
replay --policy 'gcra 10/m burst 5' odd.tsv
ok 'an incomplete magic number is a line' ends 1
ok 'an incomplete magic number is a line: position' has err 'odd.tsv:1: column 1'
{
    printf 'bad\n'
    cat a.tsv
} >bad.tsv
pack gzip bad.tsv >bad.gz
replay --policy 'gcra 1/s burst 3' --strict --format tsv bad.gz
ok '--strict: a compressed log stops at the first bad line' ends 1
ok 'a packed log ends early at --strict: where' has err 'bad.gz:1: column 1'
# The writer keeps its end of the pipe open until weir has ended.
mkfifo held gone
{
    cat bad.tsv
    read -r line <gone
} >held &
writer=$!
"$weir" replay --policy 'gcra 1/s burst 3' --strict --format tsv held >out 2>err
status=$?
echo >gone
wait $writer
ok '--strict: does not wait for more input' ends 1

# ---- the progress bar ----------------------------------------------------------------------------

. "$here/endless_log.sh"
if python3 -c 'import pty; pty.openpty()' 2>/dev/null; then
    awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "%.0f\tkey%d\n", i * 1000000, i * 7919 % 5003 }' >bar.tsv
    awk 'BEGIN { for (i = 0; i < 20000; i++) printf "1\tkey%d\n", i * 7919 % 5003 }' >some.tsv
    endless_log some.tsv
    on_terminal "$weir" replay --policy 'gcra 10/m burst 5' --decisions jsonl endless.gz >bar
    ok 'the progress bar' grep -q '\[[#.]*\] *[0-9]*%  [0-9.]* [kMG]*lines/s  ETA [0-9]' bar
    tr '\r' '\n' <bar | sed 's/.\[K.*//' >frames
    ok 'the progress bar is not wider than the terminal' [ "$(awk 'length($0) > 79' frames | wc -l)" -eq 0 ]
    ok 'the progress bar is erased at the end' [ "$(grep -c "$cr$esc\[Kgcra" bar)" -eq 1 ]
    COLS=30 on_terminal "$weir" replay --policy 'gcra 10/m burst 5' --decisions jsonl endless.gz >bar
    ok 'a narrow terminal: only the numbers' [ "$(grep -c '\[[#.]' bar) $(grep -c 'lines/s  ETA' bar)" = '0 1' ]
    # Its output is not read any more once the bar is there, so that it cannot end before the signal.
    PYTHONPATH=$here python3 - "$weir" >bar <<'PY'
import os, pty, select, signal, subprocess, sys
import on_terminal
master, slave = pty.openpty()
run = subprocess.Popen([sys.argv[1], "replay", "--policy", "gcra 10/m burst 5", "--decisions", "jsonl", "bar.tsv"],
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave,
                       # A job in the background, such as this test's, may ignore it.
                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
os.close(slave)
got = b""
while b"ETA" not in got:
    for fd in select.select([master, run.stdout.fileno()], [], [])[0]:
        data = os.read(fd, 65536)
        got += data if fd == master else b""
run.send_signal(signal.SIGINT)
got += on_terminal.read_to_end(master)
print(run.wait(), got.endswith(b"\r\x1b[K"))
PY
    ok 'SIGINT: the progress bar is erased, and the signal ends the command' [ "$(cat bar)" = '-2 True' ]
    on_terminal "$weir" replay --policy 'gcra 10/m burst 5' --no-progress --decisions jsonl bar.tsv >bar
    ok '--no-progress' [ "$(grep -c 'ETA' bar)" -eq 0 ]
else
    skip 'the progress bar' 'no terminals here'
fi
rm -f bar.tsv

# ---- input and output errors ---------------------------------------------------------------------

replay --policy 'gcra 1/s burst 3' not-there
ok 'a file that does not exist' ends 1 'weir replay: not-there: No such file or directory'
replay --policy 'gcra 1/s burst 3' .
ok 'a directory' ends 1 'weir replay: .: Is a directory'
chmod 000 b.tsv
if [ -r b.tsv ]; then
    skip 'a file without read permission' 'this user may read all'
else
    replay --policy 'gcra 1/s burst 3' b.tsv
    ok 'a file without read permission' ends 1 'weir replay: b.tsv: Permission denied'
fi
if [ -w /dev/full ]; then
    for words in blocks.tsv far.tsv '--decisions=jsonl blocks.tsv' '--decisions=jsonl far.tsv'; do
        # shellcheck disable=SC2086 # it is a list of words
        "$weir" replay --policy 'gcra 1/s burst 3' $words >/dev/full 2>err
        status=$?
        ok "a full disk: $words" ends 1 'weir replay: standard output: No space left on device'
    done
    "$weir" replay --help >/dev/full 2>err
    status=$?
    ok 'a full disk: --help' ends 1 'weir replay: standard output: No space left on device'
    for args in version --version --help help 'policy --help' 'serve --help'; do
        # shellcheck disable=SC2086 # it is a list of words
        "$weir" $args >/dev/full 2>err
        status=$?
        ok "a full disk: $args" ends 1 'weir: cannot write to standard output: No space left on device'
    done
    "$weir" policy 'gcra 5/m burst 3' >/dev/full 2>err
    status=$?
    ok 'a full disk: policy' ends 1 'weir: cannot write to standard output: No space left on device'
else
    skip 'a full disk' 'no /dev/full'
fi
{
    "$weir" replay --policy 'gcra 1/s burst 3' --decisions jsonl blocks.tsv 2>err
    echo $? >ended
} | head -n 1 >out
status=$(cat ended)
ok 'a closed pipe' ends 1 'weir replay: standard output: Broken pipe'
for args in version --help 'policy --help'; do
    # shellcheck disable=SC2086 # it is a list of words
    "$weir" $args >&- 2>err
    status=$?
    ok "a closed output: $args" ends 1 'weir: cannot write to standard output: Bad file descriptor'
done
"$weir" policy 'gcra 5/m burst 3' >&- 2>err
status=$?
ok 'a closed output: policy' ends 1 'weir: cannot write to standard output: Bad file descriptor'
"$weir" replay --policy 'gcra 1/s burst 3' a.tsv >&- 2>err
status=$?
ok 'a closed output: replay' ends 1 'weir replay: standard output: Bad file descriptor'

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir state`: the summary of a state file, export and import, the clock; and the daemon when its state
#
# file is moved, replaced or truncated.
#
#   state_test.sh WEIR STATE_KEEPER
set -uo pipefail
weir=$(realpath "$1")
keeper=$(realpath "$2")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
dir=$(mktemp -d) || exit 1
trap 'daemon_kill; umount "$dir/mounted" 2>/dev/null; rm -rf "$dir"' EXIT
file=$dir/state

status() { "$@" >"$dir/out" 2>"$dir/err"; echo $?; }
value_of() { sed -n "s/^$1  *//p" "$dir/out"; }

# ---- the summary ---------------------------------------------------------------------------------
check "a key is charged" "allowed 3" "$("$keeper" "$file" 'gcra 5/h burst 5' alice 2)"
check "another key is charged" "allowed 9" "$("$keeper" "$file" 'sliding-log 10/h' bob 1)"
check "the summary: status" 0 "$(status "$weir" state "$file")"
check "the summary has the name of the file" "$file" "$(head -n 1 "$dir/out")"
check "the summary has no errors" "" "$(cat "$dir/err")"
check "the summary has the format" "1, state version 3" "$(value_of format)"
check "the summary has the number of keys" "2 stored, 2 of them without full quota" "$(value_of keys | cut -d, -f1,2)"
check "the summary has the memory" 1 "$(value_of memory | grep -cE '^[0-9]+ bytes of 8192 KiB \(0\.0 %\)$')"
check "the summary has the damage" 0 "$(value_of damaged)"
check "the summary says how the file was closed" "closed cleanly" "$(value_of 'last used' | cut -d' ' -f2-)"
check "the summary has the text of a policy" 1 "$(value_of policies | grep -cE '^(gcra 5/h burst 5|sliding-log 10/h)$')"
check "the summary has both policies" 2 "$(grep -cE '(gcra 5/h burst 5|sliding-log 10/h)$' "$dir/out")"
check "the summary has the fingerprint of the secret" 1 "$(value_of secret | grep -cE '^fingerprint [0-9a-f]{16}$')"
"$keeper" "$dir/sum" 'sliding-slices 9/h slices 65536' alice 2 >"$dir/out"
"$keeper" "$dir/sum" 'gcra 5/h burst 5' bob 2 >"$dir/out"
"$keeper" "$dir/sum" 'gcra 1/us burst 1' carol 1 >"$dir/out" # has its full quota again
summary() { "$weir" state "$1" | sed -E '1d; /^policies|^ /d; s/fingerprint .*/SECRET/; s/[0-9-]{10}T[0-9:.]{12}Z/TIME/'; }
expected='format      1, state version 3
size        9856 KiB (table 5760 KiB, large states 2048 KiB)
created     TIME
secret      SECRET
opened      3 times
last used   TIME, closed cleanly
time        TIME
keys        3 stored, 2 of them without full quota, 1 large
memory      256 KiB of 8192 KiB (3.1 %)
evicted     0
reserved    0 open
damaged     0'
check "the whole summary" "$expected" "$(summary "$dir/sum")"
"$weir" state "$dir/sum" | sed -n '/^policies/,$p' >"$dir/policies" # in any order
check "only the first policy has the label" "policies    |            |            |" "$(cut -c 1-12 "$dir/policies" | tr '\n' '|')"
check "each policy is listed once" "gcra 1/us burst 1|gcra 5/h burst 5|sliding-slices 9/h slices 65536|" "$(cut -c 13- "$dir/policies" | sort | tr '\n' '|')"
"$weir" state "$dir/sum" --export --with-secret | sed -E '1s/"(memory_bytes)":[0-9]+/"\1":33554432/' >"$dir/sum.jsonl"
"$weir" state "$dir/sum2" --import "$dir/sum.jsonl" >"$dir/out"
check "the summary of a larger file" "34 MiB (table 28 MiB, large states 2048 KiB) 256 KiB of 32 MiB (0.7 %)" \
    "$(summary "$dir/sum2" | sed -n 's/^\(size\|memory\)  *//p' | tr '\n' ' ' | sed 's/ $//')"

# ---- export and import ---------------------------------------------------------------------------
check "export" 0 "$(status "$weir" state "$file" --export)"
cp "$dir/out" "$dir/plain.jsonl"
check "the export has a header, two policies and two keys" 5 "$(wc -l <"$dir/plain.jsonl")"
check "the export has no secret" 0 "$(grep -c secret "$dir/plain.jsonl")"
check "export with the secret" 0 "$(status "$weir" state "$file" --export --with-secret)"
cp "$dir/out" "$dir/full.jsonl"
check "the header has the secret" 1 "$(head -n 1 "$dir/full.jsonl" | grep -cE '"secret":"[0-9a-f]{32}"')"
check "no other line has the secret" 1 "$(grep -c '"secret"' "$dir/full.jsonl")"
if command -v python3 >/dev/null; then
    check "every line is JSON" 5 "$(python3 -c 'import json, sys
print(sum(isinstance(json.loads(line), dict) for line in sys.stdin))' <"$dir/full.jsonl")"
fi
# An export that cannot be written as a whole leaves no file that looks whole.
full="weir state: cannot write to standard output:"
check "an export to a full disk" "1 1 1" "$("$weir" state "$file" --export 2>"$dir/err" >/dev/full; echo $?) $(wc -l <"$dir/err") $(grep -c "^$full" "$dir/err")"
for i in $(seq 40); do "$keeper" "$dir/long" 'gcra 5/h burst 5' "key$i" 1 >"$dir/out"; done
echo before >"$dir/cut.jsonl"
for how in '>' '>>'; do
    bash -c "trap '' XFSZ; ulimit -f 2; exec \"\$0\" state \"\$1\" --export $how\"\$2\"" "$weir" "$dir/long" "$dir/cut.jsonl" 2>"$dir/err"
    check "an export $how FILE that becomes too large" "1 1 1" "$? $(wc -l <"$dir/err") $(grep -c "^$full" "$dir/err")"
    check "an export $how FILE that becomes too large leaves nothing" 0 "$(grep -c weir_state "$dir/cut.jsonl")"
    echo before >"$dir/cut.jsonl"
done
check "import into a new file" 0 "$(status "$weir" state "$dir/copy" --import "$dir/full.jsonl")"
check "the import prints its counts" "$dir/copy: 2 keys and 2 policies imported" "$(cat "$dir/out")"
check "the copy has the key" "allowed 2" "$("$keeper" "$dir/copy" 'gcra 5/h burst 5' alice 1)"
check "the copy has the other key" "allowed 8" "$("$keeper" "$dir/copy" 'sliding-log 10/h' bob 1)"
if command -v python3 >/dev/null; then
    cp "$dir/copy" "$dir/locked"
    # Locks every bucket with the id of the next opening, as damage may do.
    python3 -c 'import mmap, struct, sys
with open(sys.argv[1], "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
    at, size = struct.unpack_from("QQ", m, 80)
    lock = (struct.unpack_from("Q", m, 512)[0] + 1) << 23 | 1
    for bucket in range(at + 36864, at + size - 63, 64):
        struct.pack_into("Q", m, bucket, struct.unpack_from("Q", m, bucket)[0] & 0x7ffffe | lock)' "$dir/locked"
    check "locks that damage left do not stop weir state" 0 "$(status timeout 20 "$weir" state "$dir/locked")"
    check "the keys in locked buckets are there" 2 "$(value_of keys | cut -d' ' -f1)"
fi
check "an import from standard input" 0 "$(status "$weir" state "$dir/copy2" --import - <"$dir/full.jsonl")"
"$weir" state "$dir/copy2" --export --with-secret | tail -n +2 | sort >"$dir/a"
check "an export of the imported file is the same" "$(tail -n +2 "$dir/full.jsonl" | sort)" "$(cat "$dir/a")"

check "an export without the secret can be imported into its own file" 0 "$(status "$weir" state "$file" --import "$dir/plain.jsonl")"
check "that import changes nothing" "allowed 1" "$("$keeper" "$file" 'gcra 5/h burst 5' alice 2)"
check "an export without the secret cannot be imported into a new file" 1 "$(status "$weir" state "$dir/none" --import "$dir/plain.jsonl")"
check "the error asks for the secret" "weir state: $dir/plain.jsonl:1: expected an export with its secret" "$(cut -d, -f1 <"$dir/err")"
check "no file is created" 0 "$(find "$dir" -name none | wc -l)"
"$keeper" "$dir/other" 'gcra 5/h burst 5' alice 1 >"$dir/out"
check "an export cannot be imported into a file with another secret" 1 "$(status "$weir" state "$dir/other" --import "$dir/full.jsonl")"
check "the error says that the secrets differ" 1 "$(grep -c "full.jsonl:1: expected an export of a file with the secret" "$dir/err")"

wrong() { # NAME LINE ERROR: an export with this line after the header is refused
    { head -n 1 "$dir/full.jsonl"; echo "$2"; } >"$dir/bad.jsonl"
    rm -f "$dir/bad"
    check "$1 is refused" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
    check "$1: the error has the line and the reason" "weir state: $dir/bad.jsonl:2: $3" "$(head -n 1 "$dir/err" | cut -c 1-$((${#dir} + 26 + ${#3})))"
}
key='{"hash":"0123456789abcdef","fresh_at_ns":1,"form":1,"level":0,"words":"0000000000000001"}'
wrong "no JSON" 'hello' "expected a JSON object:"
wrong "half a line" "${key:0:40}" "expected a JSON object:"
wrong "a list" '[1]' "expected a key or a policy:"
wrong "a key without words" '{"hash":"0123456789abcdef"}' "expected a key or a policy:"
wrong "a bad hash" "${key/0123/xyz3}" "hash: expected 16 hexadecimal digits"
wrong "half a word" "${key/0001\"/001\"}" "words: expected groups of 16 hexadecimal digits"
wrong "a form that is none" "${key/form\":1/form\":77777}" "expected a valid state:"
wrong "a negative form" "${key/form\":1/form\":-1}" "form, level: expected 0 to 2^32 - 1"
wrong "a form above 2^32" "${key/form\":1/form\":4294967296}" "form, level: expected 0 to 2^32 - 1"
wrong "a negative level" "${key/level\":0/level\":-1}" "form, level: expected 0 to 2^32 - 1"
wrong "a level above 2^32" "${key/level\":0/level\":4294967296}" "form, level: expected 0 to 2^32 - 1"
wrong "capital letters" "${key/abcdef/ABCDEF}" "hash: expected 16 hexadecimal digits"
wrong "an additional member" "${key/%\}/,\"x\":1\}}" "expected a key or a policy:"
wrong "a member twice" "${key/%\}/,\"level\":0\}}" "expected a JSON object:"
wrong "a text of 1024 bytes" "{\"policy\":\"$(printf 'x%.0s' {1..1024})\",\"id\":\"0000000000000001\"}" "policy: expected fewer than 1024 bytes"
wrong "a bad policy" '{"policy":"x"}' "expected a policy:"
wrong "an id of 0" '{"policy":"x","id":"0000000000000000"}' "id: expected"
echo '{"weir_state":99}' >"$dir/bad.jsonl"
check "a line that is no header is refused" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "the error expects a header" 1 "$(grep -c "bad.jsonl:1: expected the first line of an export" "$dir/err")"
sed '1s/"weir_state":3,/"weir_state":4294967297,/' "$dir/full.jsonl" >"$dir/bad.jsonl"
check "an unknown version is refused" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "the error has the version" 1 "$(grep -c "weir_state: expected version 2 to 4, found 4294967297" "$dir/err")"
rm -f "$dir/bad"
wrong_head() { # SED ERROR: an export whose first line was changed by SED is refused
    sed -E "1$1" "$dir/full.jsonl" >"$dir/bad.jsonl"
    check "a header with $1 is refused" "1 weir state: $dir/bad.jsonl:1: $2 0" \
        "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl") $(cat "$dir/err") $(find "$dir" -name bad | wc -l)"
}
times="time_ns, wall_ns: expected 0 to 8070450532247928832" sizes="memory_bytes, large_bytes: expected 0 to 1 PiB, with large_bytes at most memory_bytes"
wrong_head 's/"(time_ns)":[0-9]+/"\1":-1/' "$times"
wrong_head 's/"(time_ns)":[0-9]+/"\1":8070450532247928833/' "$times"
wrong_head 's/"(wall_ns)":[0-9]+/"\1":-1/' "$times"
wrong_head 's/"(wall_ns)":[0-9]+/"\1":8070450532247928833/' "$times"
wrong_head 's/"(memory_bytes)":[0-9]+/"\1":-1/' "$sizes"
wrong_head 's/"(memory_bytes)":[0-9]+/"\1":1125899906842625/' "$sizes"
wrong_head 's/"(large_bytes)":[0-9]+/"\1":-1/' "$sizes"
wrong_head 's/"(memory_bytes)":[0-9]+/"\1":1/' "$sizes"
wrong_head 's/"secret":"../"secret":"/' "secret: expected 32 hexadecimal digits"
wrong_head 's/"secret":".{16}/"secret":"0123456789ABCDEF/' "secret: expected 32 hexadecimal digits"
wrong_head 's/"fingerprint":"./"fingerprint":"/' "fingerprint: expected 16 hexadecimal digits"
wrong_head 's/"fingerprint":"/"fingerprint":"0/' "fingerprint: expected 16 hexadecimal digits"
{ head -n 1 "$dir/full.jsonl"; for i in {1..4100}; do
    printf '{"policy":"gcra %d/s burst 1","id":"%016x"}\n' "$i" "$i"; done; } >"$dir/bad.jsonl"
rm -f "$dir/bad"
check "too many policies: status" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "too many policies: the counts" "$dir/bad: 0 keys and 4096 policies imported" "$(cat "$dir/out")"
check "too many policies: the error" "weir state: $dir/bad: the file is full: 4 policies were not imported" "$(cat "$dir/err")"
rm -f "$dir/bad"
# More large states than fit
"$weir" state "$dir/sum" --export --with-secret >"$dir/bad.jsonl"
large=$(grep '"words":"0.\{1000\}' "$dir/bad.jsonl")
for i in {10..29}; do echo "${large/\"hash\":\"??/\"hash\":\"$i}"; done >>"$dir/bad.jsonl"
check "too many large states: status" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "too many large states: the counts and the error" "23 23" \
    "$({ sed -n "s/.*: \([0-9]*\) keys and 3 policies imported/\1 +/p" "$dir/out"; sed -n 's/.*: the file is full: \([0-9]*\) keys were not imported and have their full quota/\1/p' "$dir/err"; } |
        xargs expr) $("$weir" state "$dir/sum" --export | grep -c hash | xargs expr 20 +)"
rm -f "$dir/bad"
# A text with two ids belongs to two policy names. It is one policy for the import and for the summary.
{ head -n 1 "$dir/full.jsonl"; for i in 1 2 3 4 5 6; do
    printf '{"policy":"gcra %d/s burst 1","id":"%016x"}\n' $((i / 2)) "$i"; done; } >"$dir/names.jsonl"
check "texts with two ids are imported" 0 "$(status "$weir" state "$dir/names" --import "$dir/names.jsonl")"
check "each is counted once" "$dir/names: 0 keys and 4 policies imported" "$(cat "$dir/out")"
check "each is listed once" "gcra 0/s burst 1|gcra 1/s burst 1|gcra 2/s burst 1|gcra 3/s burst 1|" \
    "$("$weir" state "$dir/names" | sed -n '/^policies/,$p' | cut -c 13- | sort | tr '\n' '|')"
check "all ids are exported" 6 "$("$weir" state "$dir/names" --export | grep -c '"policy"')"
: >"$dir/empty"
check "an empty import is refused" 1 "$(status "$weir" state "$dir/bad" --import "$dir/empty")"

# ---- in use --------------------------------------------------------------------------------------
mkfifo "$dir/hold"
"$keeper" "$file" 'gcra 5/h burst 5' carol 1 hold <"$dir/hold" >"$dir/held" &
keeper_pid=$! # bash reports that it was killed
exec 9>"$dir/hold"
timeout 20 tail -n +1 -f --pid=$keeper_pid "$dir/held" | grep -q -m1 allowed
check "a file in use: status" 1 "$(status "$weir" state "$file")"
check "a file in use: the summary has the constant values" "1, state version 3" "$(value_of format)"
check "a file in use: the error has the pid" "weir state: $file: the state file is in use by another weir process (pid $keeper_pid)" "$(cat "$dir/err")"
check "a file in use cannot be exported" "1 0" "$(status "$weir" state "$file" --export) $(wc -l <"$dir/out")"
kill -KILL $keeper_pid
wait $keeper_pid
exec 9>&-
check "a file whose process was killed: status" 0 "$(status "$weir" state "$file")"
check "the summary says that the process was killed" 1 "$(value_of 'last used' | grep -c 'left by a process that was killed; no state is lost')"
check "the summary does not change the file" 1 "$("$weir" state "$file" | grep -c 'left by a process that was killed; no state is lost')"

# ---- a read-only file ----------------------------------------------------------------------------
sum() { sha256sum <"$1"; }
before=$(sum "$file") beside=$(ls "$dir")
check "the summary and the export succeed" "0 0" "$(status "$weir" state "$file") $(status "$weir" state "$file" --export)"
check "they do not change the file" "$before" "$(sum "$file")"
check "they create no file" "$beside" "$(ls "$dir")"
skipped=0
if mkdir "$dir/mounted" && mount -t tmpfs none "$dir/mounted" 2>"$dir/err"; then
    cp -p "$file" "$dir/mounted/state"
    mount -o remount,ro "$dir/mounted"
    check "the summary on a read-only file system" 0 "$(status "$weir" state "$dir/mounted/state")"
    check "its number of keys" "$("$weir" state "$file" | sed -n 's/^keys  *//p')" "$(value_of keys)"
    check "an export from a read-only file system" 0 "$(status "$weir" state "$dir/mounted/state" --export)"
    check "--set-clock fails on a read-only file system" 1 "$(status "$weir" state "$dir/mounted/state" --set-clock)"
    check "the error says that writing is not allowed" "weir state: $dir/mounted/state: writing there is not allowed" "$(cat "$dir/err")"
    umount "$dir/mounted"
else
    echo "skipped: this user cannot mount a read-only file system"
    skipped=1
fi
chmod 0400 "$file"
unprivileged() { # COMMAND...: runs it as the file's owner, without the capabilities of root
    if [ "$(id -u)" = 0 ]; then
        chmod 0755 "$dir"
        chown 65534 "$file"
        setpriv --reuid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
check "the summary of a file without write permission" 0 "$(status unprivileged "$weir" state "$file")"
check "the number of its keys" 1 "$(value_of keys | grep -c stored)"
chmod 0000 "$file"
check "a file without read permission: status" 1 "$(status unprivileged "$weir" state "$file")"
check "a file without read permission: the error" "weir state: $file: permission denied: the file is not readable" "$(cat "$dir/err")"
chmod 0600 "$file"
[ "$(id -u)" != 0 ] || chown 0 "$file"

# ---- the clock -----------------------------------------------------------------------------------
check "--set-clock moves the clock forward" 0 "$(status "$weir" state "$file" --set-clock)"
"$weir" state "$file" --export --with-secret |
    sed -E '1s/"(time_ns)":([0-9]+)/"\1":4000000000000000000/' >"$dir/ahead.jsonl"
check "a file whose clock is decades ahead is imported" 0 "$(status "$weir" state "$dir/ahead" --import "$dir/ahead.jsonl")"
check "the summary says that the wall clock is behind" "1 1" "$("$weir" state "$dir/ahead" >"$dir/out"; value_of time | grep -cE '^2096-.*Z, the wall clock is [0-9]{9,10}\.[0-9]{3} s behind$') $(grep -c 'gcra 5/h' "$dir/out")"
printf 'listen: {resp: 127.0.0.1:0, http: off}\nmemory: {size: 8m, file: %s}\npolicies: {five: gcra 5/h burst 5}\n' \
    "$dir/ahead" >"$dir/weir.yaml"
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
check "a daemon continues from the file's clock, and logs it once" 1 "$(grep -c ' clock-offset .*seconds=-' "$dir/log")"
ask_five() { "$weir" take five dora --json --server "127.0.0.1:$(daemon_port resp)" "$@"; }
check "a burst is allowed" 0 "$(status ask_five --cost 5)"
check "the next request waits as long as the policy says" 1 "$(ask_five | grep -cE '"retry_after_ms": ?7(19|20)[0-9]{3}\b')"
daemon_stop
check "--set-clock moves the clock back" 0 "$(status "$weir" state "$dir/ahead" --set-clock)"
check "moving it back resets all keys" 1 "$(grep -c 'clock stepped back by .* s; all keys have their full quota$' "$dir/out")"
check "the file's clock is the wall clock" 0 "$("$weir" state "$dir/ahead" >"$dir/out"; value_of time | grep -c behind)"
check "the policies stay" 1 "$(grep -c 'sliding-log 10/h$' "$dir/out")"
check "a policy text is listed once" 1 "$(grep -c 'gcra 5/h burst 5$' "$dir/out")"
check "a key has its full quota" "allowed 4" "$("$keeper" "$dir/ahead" 'gcra 5/h burst 5' alice 1)"

# ---- the state file of a running daemon is moved, replaced or removed ----------------------------
printf 'listen: {resp: 127.0.0.1:0, http: 127.0.0.1:0}\nmemory: {size: 8m, file: %s}\npolicies: {five: gcra 1/d burst 5}\n' \
    "$dir/live" >"$dir/weir.yaml"
log_has() { # PATTERN: waits until a line of the daemon's log matches
    timeout 20 tail -n +1 -f --pid="$daemon_pid" "$daemon_log" | grep -m1 -E "$1" | wc -l
}
lost() { curl -s "http://127.0.0.1:$(daemon_port http)/metrics" | sed -n 's/^weir_store_file_lost //p'; }
second() { status timeout 20 "$weir" serve "$dir/weir.yaml"; }
refused() { sed -n 's/.* not-started error="\(.*\)"$/\1/p' "$dir/err"; }
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
check "the burst" 0 "$(status ask_five --cost 5)"
check "the next request is denied" 3 "$(status ask_five)"
check "weir_store_file_lost is 0" 0 "$(lost)"
check "a second daemon is refused" 1 "$(second)"
check "the error has the pid of the first" "$dir/live: the state file is in use by another weir process (pid $daemon_pid); use another file, or set 'shared' in both" "$(refused)"
moved="$dir/live: a state file that was moved or deleted from this path is still in use by another weir process (pid $daemon_pid); stop it first"
mv "$dir/live" "$dir/live2"
check "a moved file is logged" 1 "$(log_has ' error state-file-lost .*why=moved ')"
check "weir_store_file_lost is 1" 1 "$(lost)"
check "a second daemon is refused while the file is moved" "1 $moved" "$(second) $(refused)"
check "it creates no file" 0 "$(find "$dir" -name live | wc -l)"
mv "$dir/live2" "$dir/live"
check "the return of the file is logged" 1 "$(log_has ' info state-file-back ')"
check "weir_store_file_lost is 0 again" 0 "$(lost)"
cp "$dir/live" "$dir/live2"
mv "$dir/live2" "$dir/live"
check "a replaced file is logged" 1 "$(log_has ' error state-file-lost .*why=replaced ')"
check "a second daemon is refused while the file is replaced" "1 $moved" "$(second) $(refused)"
rm "$dir/live" "$dir/live.lock"
check "a removed file is logged" 1 "$(log_has ' error state-file-lost .*why=removed ')"
check "a second daemon is refused although the lock file was removed" "1 $moved" "$(second) $(refused)"
check "the limit is kept meanwhile" 3 "$(status ask_five)"
check "each event was logged once" "3 1" "$(grep -c state-file-lost "$daemon_log") $(grep -c state-file-back "$daemon_log")"
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?
check "the lock file is removed" "" "$(ls "$dir" | grep -F .lock)"

# ---- the state file of a running daemon is truncated ---------------------------------------------
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
: >"$dir/live"
status ask_five >"$dir/out"
wait $daemon_pid 2>"$dir/err"
check "the daemon ends by SIGBUS" 135 $?
daemon_pid=
check "the log has the reason once" 1 "$(grep -c ' error state-file-fault .*the state file was truncated' "$daemon_log")"
check "the log line has the right time" 0 "$({ cut -c 1-24 "$daemon_log"; date -u +%FT%T.999Z; } | sort -c 2>&1 | wc -l)"
rm "$dir/live"
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
kill -BUS $daemon_pid
wait $daemon_pid 2>"$dir/err"
check "a SIGBUS that was sent by kill ends the daemon without that log line" "135 0" "$? $(grep -c state-file-fault "$daemon_log")"
daemon_pid=

# ---- a file that other users may write, and a file of another program ----------------------------
chmod 0666 "$dir/live"
check "a file that other users may write is refused" 1 "$(second)"
check "the error has its mode" "$dir/live: writable by other users (mode 0666), expected mode 0600; run chmod 600, or set memory.trust_others" "$(refused)"
sed -i 's/size: 8m/size: 8m, trust_others: true/' "$dir/weir.yaml"
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
daemon_stop
check "memory.trust_others accepts it" 0 $?
echo notes >"$dir/live.new"
check "a file of another program at FILE.new is refused" 1 "$(second)"
check "the error names it" "$dir/live.new: it is not a state file of weir, but weir uses this name for creating a state file; move that file away" "$(refused)"
check "it is not changed" notes "$(cat "$dir/live.new")"

# ---- other kinds of files, and usage errors ------------------------------------------------------
mkfifo "$dir/pipe"
check "a named pipe is refused" 1 "$(status timeout 20 "$weir" state "$dir/pipe")"
check "the error says that it is not a regular file" "weir state: $dir/pipe: it is not a regular file" "$(cat "$dir/err")"
check "an import from a named pipe is refused" 1 "$(status timeout 20 "$weir" state "$dir/bad" --import "$dir/pipe")"
check "the error says that it is a named pipe" "weir state: cannot read $dir/pipe: found a named pipe, expected a regular file" "$(cat "$dir/err")"
refuses() { # NAME STATUS ERROR ARGUMENT...: weir state ends with this status and exactly this error
    local name=$1 expected="$2 weir state: $3"
    shift 3
    check "$name" "$expected" "$(status "$weir" state "$@") $(cat "$dir/err")"
}
refuses "no such file" 1 "$dir/nothing: there is no such file" "$dir/nothing"
check "no file is created for a missing one" 0 "$(find "$dir" -name nothing | wc -l)"
refuses "a directory" 1 "$dir: it is not a regular file" "$dir"
refuses "another file" 1 "$weir: it is not a state file of weir" "$weir"
refuses "an empty file" 1 "$dir/empty: it is empty" "$dir/empty"
one="expected only one of --export, --import, --backup and --set-clock; see weir state --help"
refuses "no file" 2 "FILE is missing, like /var/lib/weir/state; see weir state --help"
refuses "two files" 2 "expected one FILE, also found b; see weir state --help" a b
refuses "--export and --set-clock" 2 "$one" "$file" --export --set-clock
refuses "--export and --import" 2 "$one" "$file" --import "$dir/full.jsonl" --export
refuses "--import and --set-clock" 2 "$one" "$file" --set-clock --import "$dir/full.jsonl"
refuses "--with-secret without --export" 2 "--with-secret needs --export; see weir state --help" "$file" --with-secret
refuses "an unknown option" 2 "unknown option '--exports', expected --export, --with-secret, --import, --backup, --set-clock or --help; see weir state --help" --exports

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

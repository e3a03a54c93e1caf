#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir state`: what it says of a file, out and in again, and the clock.
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
says() { sed -n "s/^$1  *//p" "$dir/out"; }

# ---- what is inside ----
check "a key is charged" "allowed 3" "$("$keeper" "$file" 'gcra 5/h burst 5' alice 2)"
check "and another" "allowed 9" "$("$keeper" "$file" 'sliding-log 10/h' bob 1)"
check "it says what is inside" 0 "$(status "$weir" state "$file")"
check "the name" "$file" "$(head -n 1 "$dir/out")"
check "nothing is wrong" "" "$(cat "$dir/err")"
check "the format" "1, states 1" "$(says format)"
check "the keys" "2 live, 2 stored" "$(says keys | cut -d, -f1,2)"
check "damage" 0 "$(says damaged)"
check "how it was closed" "closed cleanly" "$(says 'last used' | cut -d' ' -f2-)"
check "the first policy's text, or the second's" 1 "$(says policies | grep -cE '^(gcra 5/h burst 5|sliding-log 10/h)$')"
check "both of them" 2 "$(grep -cE '(gcra 5/h burst 5|sliding-log 10/h)$' "$dir/out")"
check "a fingerprint" 1 "$(says secret | grep -cE '^fingerprint [0-9a-f]{16}$')"

# ---- out and in again ----
check "export" 0 "$(status "$weir" state "$file" --export)"
cp "$dir/out" "$dir/plain.jsonl"
check "a head, two policies and two keys" 5 "$(wc -l <"$dir/plain.jsonl")"
check "no secret" 0 "$(grep -c secret "$dir/plain.jsonl")"
check "export with the secret" 0 "$(status "$weir" state "$file" --export --with-secret)"
cp "$dir/out" "$dir/full.jsonl"
check "the head has the secret" 1 "$(head -n 1 "$dir/full.jsonl" | grep -cE '"secret":"[0-9a-f]{32}"')"
check "no other line has it" 1 "$(grep -c '"secret"' "$dir/full.jsonl")"
if command -v python3 >/dev/null; then
    check "every line is JSON" 5 "$(python3 -c 'import json, sys
print(sum(isinstance(json.loads(line), dict) for line in sys.stdin))' <"$dir/full.jsonl")"
fi
check "import into a new file" 0 "$(status "$weir" state "$dir/copy" --import "$dir/full.jsonl")"
check "what came in" "$dir/copy: 2 keys and 2 policies imported" "$(cat "$dir/out")"
check "the copy has the key" "allowed 2" "$("$keeper" "$dir/copy" 'gcra 5/h burst 5' alice 1)"
check "and the other" "allowed 8" "$("$keeper" "$dir/copy" 'sliding-log 10/h' bob 1)"
check "the copy's copy is the same" 0 "$(status "$weir" state "$dir/copy2" --import - <"$dir/full.jsonl")"
"$weir" state "$dir/copy2" --export --with-secret | tail -n +2 | sort >"$dir/a"
check "line by line" "$(tail -n +2 "$dir/full.jsonl" | sort)" "$(cat "$dir/a")"

check "back into its own file, without the secret" 0 "$(status "$weir" state "$file" --import "$dir/plain.jsonl")"
check "nothing has changed by that" "allowed 1" "$("$keeper" "$file" 'gcra 5/h burst 5' alice 2)"
check "without a secret into a new one" 1 "$(status "$weir" state "$dir/none" --import "$dir/plain.jsonl")"
check "why not" "weir state: $dir/plain.jsonl:1: expected an export with its secret" "$(cut -d, -f1 <"$dir/err")"
check "and there is none" 0 "$(find "$dir" -name none | wc -l)"
"$keeper" "$dir/other" 'gcra 5/h burst 5' alice 1 >"$dir/out"
check "into one with another secret" 1 "$(status "$weir" state "$dir/other" --import "$dir/full.jsonl")"
check "why not there" 1 "$(grep -c "full.jsonl:1: expected an export with the secret" "$dir/err")"

wrong() { # NAME LINE EXPECTED: the line behind the head
    { head -n 1 "$dir/full.jsonl"; echo "$2"; } >"$dir/bad.jsonl"
    rm -f "$dir/bad"
    check "$1 is refused" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
    check "$1: place and reason" "weir state: $dir/bad.jsonl:2: $3" "$(head -n 1 "$dir/err" | cut -c 1-$((${#dir} + 26 + ${#3})))"
}
key='{"hash":"0123456789abcdef","fresh_at_ns":1,"form":1,"level":0,"words":"0000000000000001"}'
wrong "no JSON" 'hello' "expected a JSON object:"
wrong "half a line" "${key:0:40}" "expected a JSON object:"
wrong "a list" '[1]' "expected a key or a policy:"
wrong "a key without words" '{"hash":"0123456789abcdef"}' "expected a key or a policy:"
wrong "a bad hash" "${key/0123/xyz3}" "hash: expected 16 hexadecimal digits"
wrong "half a word" "${key/0001\"/001\"}" "words: expected groups of 16 hexadecimal digits"
wrong "a form that is none" "${key/form\":1/form\":77777}" "expected a valid state:"
wrong "a bad policy" '{"policy":"x"}' "expected a policy:"
wrong "an id of 0" '{"policy":"x","id":"0000000000000000"}' "id: expected"
echo '{"weir_state":99}' >"$dir/bad.jsonl"
check "another head" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "what is told of it" 1 "$(grep -c "bad.jsonl:1: expected the first line of an export" "$dir/err")"
sed '1s/"weir_state":1,/"weir_state":4294967297,/' "$dir/full.jsonl" >"$dir/bad.jsonl"
check "a version far away" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "which it was" 1 "$(grep -c "weir_state: expected version 1, found 4294967297" "$dir/err")"
{ head -n 1 "$dir/full.jsonl"; for i in {1..4100}; do
    printf '{"policy":"gcra %d/s burst 1","id":"%016x"}\n' "$i" "$i"; done; } >"$dir/bad.jsonl"
rm -f "$dir/bad"
check "more policies than there is room for" 1 "$(status "$weir" state "$dir/bad" --import "$dir/bad.jsonl")"
check "those that came in" "$dir/bad: 0 keys and 4096 policies imported" "$(cat "$dir/out")"
check "and those that did not" "weir state: $dir/bad: the file is full: the texts of 4 policies were not imported" "$(cat "$dir/err")"
rm -f "$dir/bad"
: >"$dir/empty"
check "nothing" 1 "$(status "$weir" state "$dir/bad" --import "$dir/empty")"

# ---- in use ----
mkfifo "$dir/hold"
"$keeper" "$file" 'gcra 5/h burst 5' carol 1 hold <"$dir/hold" >"$dir/held" &
keeper_pid=$! # bash will say that it was killed
exec 9>"$dir/hold"
timeout 20 tail -n +1 -f --pid=$keeper_pid "$dir/held" | grep -q -m1 allowed
check "a file that is in use" 1 "$(status "$weir" state "$file")"
check "what does not change is told" "1, states 1" "$(says format)"
check "and why no more" "weir state: $file: the state file is in use by another weir process (pid $keeper_pid)" "$(cat "$dir/err")"
check "no export of it" "1 0" "$(status "$weir" state "$file" --export) $(wc -l <"$dir/out")"
kill -KILL $keeper_pid
wait $keeper_pid
exec 9>&-
check "one whose process was killed" 0 "$(status "$weir" state "$file")"
check "that is told" 1 "$(says 'last used' | grep -c 'left by a process that was killed; no state is lost')"
check "and again, for looking changes nothing" 1 "$("$weir" state "$file" | grep -c 'left by a process that was killed; no state is lost')"

# ---- a file that cannot be written ----
sum() { sha256sum <"$1"; }
before=$(sum "$file") beside=$(ls "$dir")
check "looking and exporting leave the file as it is" "0 0" "$(status "$weir" state "$file") $(status "$weir" state "$file" --export)"
check "every byte of it" "$before" "$(sum "$file")"
check "and there is nothing new beside it" "$beside" "$(ls "$dir")"
skipped=0
if mkdir "$dir/mounted" && mount -t tmpfs none "$dir/mounted" 2>"$dir/err"; then
    cp -p "$file" "$dir/mounted/state"
    mount -o remount,ro "$dir/mounted"
    check "on a read-only file system" 0 "$(status "$weir" state "$dir/mounted/state")"
    check "the keys there" "$("$weir" state "$file" | sed -n 's/^keys  *//p')" "$(says keys)"
    check "export from there" 0 "$(status "$weir" state "$dir/mounted/state" --export)"
    check "the clock of it cannot be set" 1 "$(status "$weir" state "$dir/mounted/state" --set-clock)"
    check "why not" "weir state: $dir/mounted/state: writing there is not allowed" "$(cat "$dir/err")"
    umount "$dir/mounted"
else
    echo "skipped: this user cannot mount a read-only file system"
    skipped=1
fi
chmod 0400 "$file"
unprivileged() { # as the file's owner, and without the rights of root
    if [ "$(id -u)" = 0 ]; then
        chmod 0755 "$dir"
        chown 65534 "$file"
        setpriv --reuid=65534 --clear-groups "$@"
    else
        "$@"
    fi
}
check "a file without permission to write it" 0 "$(status unprivileged "$weir" state "$file")"
check "its keys" 1 "$(says keys | grep -c live)"
chmod 0000 "$file"
check "without permission to read it" 1 "$(status unprivileged "$weir" state "$file")"
check "what is said then" "weir state: $file: permission denied: the file is not readable" "$(cat "$dir/err")"
chmod 0600 "$file"
[ "$(id -u)" != 0 ] || chown 0 "$file"

# ---- the clock ----
check "the clock forward" 0 "$(status "$weir" state "$file" --set-clock)"
"$weir" state "$file" --export --with-secret |
    sed -E '1s/"(time_ns)":([0-9]+)/"\1":4000000000000000000/' >"$dir/ahead.jsonl"
check "a file that is decades ahead" 0 "$(status "$weir" state "$dir/ahead" --import "$dir/ahead.jsonl")"
check "says so" "1 1" "$("$weir" state "$dir/ahead" >"$dir/out"; says time | grep -c '^2096-.* s behind') $(grep -c 'gcra 5/h' "$dir/out")"
printf 'listen: {resp: 127.0.0.1:0, http: off}\nmemory: {size: 8m, file: %s}\npolicies: {five: gcra 5/h burst 5}\n' \
    "$dir/ahead" >"$dir/weir.yaml"
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
check "a daemon goes on from there, and says so once" 1 "$(grep -c ' clock-offset .*seconds=-' "$dir/log")"
ask_five() { "$weir" take five dora --json --server "127.0.0.1:$(daemon_port resp)" "$@"; }
check "a burst is allowed" 0 "$(status ask_five --cost 5)"
check "and then the wait is as long as the policy says" 1 "$(ask_five | grep -cE '"retry_after_ms": ?7(19|20)[0-9]{3}\b')"
daemon_stop
check "the clock back" 0 "$(status "$weir" state "$dir/ahead" --set-clock)"
check "that makes keys fresh" 1 "$(grep -c 'clock stepped back by .* s; all keys have their full quota$' "$dir/out")"
check "and it goes by the wall clock" 0 "$("$weir" state "$dir/ahead" >"$dir/out"; says time | grep -c behind)"
check "policies stay" 1 "$(grep -c 'sliding-log 10/h$' "$dir/out")"
check "a text stands once, by whichever names" 1 "$(grep -c 'gcra 5/h burst 5$' "$dir/out")"
check "keys are fresh" "allowed 4" "$("$keeper" "$dir/ahead" 'gcra 5/h burst 5' alice 1)"

# ---- a file that is lost under a daemon ----
printf 'listen: {resp: 127.0.0.1:0, http: 127.0.0.1:0}\nmemory: {size: 8m, file: %s}\npolicies: {five: gcra 1/d burst 5}\n' \
    "$dir/live" >"$dir/weir.yaml"
log_has() { # PATTERN: waits until a line of the daemon's log has it
    timeout 20 tail -n +1 -f --pid="$daemon_pid" "$daemon_log" | grep -m1 -E "$1" | wc -l
}
lost() { curl -s "http://127.0.0.1:$(daemon_port http)/metrics" | sed -n 's/^weir_store_file_lost //p'; }
second() { status timeout 20 "$weir" serve "$dir/weir.yaml"; }
refused() { sed -n 's/.* not-started error="\(.*\)"$/\1/p' "$dir/err"; }
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
check "the burst" 0 "$(status ask_five --cost 5)"
check "and no more" 3 "$(status ask_five)"
check "the metrics say that the file is there" 0 "$(lost)"
check "a second daemon is refused" 1 "$(second)"
check "by the pid of the first" "$dir/live: the state file is in use by another weir process (pid $daemon_pid); use another file, or set 'shared' in both" "$(refused)"
moved="$dir/live: a state file that was moved or deleted from this path is still in use by another weir process (pid $daemon_pid); stop it first"
mv "$dir/live" "$dir/live2"
check "a file that was moved is noticed" 1 "$(log_has ' error state-file-lost .*why=moved ')"
check "and is in the metrics" 1 "$(lost)"
check "a second daemon makes no new file" "1 $moved" "$(second) $(refused)"
check "none at all" 0 "$(find "$dir" -name live | wc -l)"
mv "$dir/live2" "$dir/live"
check "it is said once that it is back" 1 "$(log_has ' info state-file-back ')"
check "in the metrics too" 0 "$(lost)"
cp "$dir/live" "$dir/live2"
mv "$dir/live2" "$dir/live"
check "a file that was replaced is noticed" 1 "$(log_has ' error state-file-lost .*why=replaced ')"
check "a second daemon does not open the new one" "1 $moved" "$(second) $(refused)"
rm "$dir/live" "$dir/live.lock"
check "a file that was removed is noticed" 1 "$(log_has ' error state-file-lost .*why=removed ')"
check "with its lock file it is claimed again" "1 $moved" "$(second) $(refused)"
check "the limit holds all the time" 3 "$(status ask_five)"
check "each was said once" "3 1" "$(grep -c state-file-lost "$daemon_log") $(grep -c state-file-back "$daemon_log")"
daemon_stop
check "the daemon ends well" 0 $?
check "no lock file is left" "" "$(ls "$dir" | grep -F .lock)"

# ---- a file that is truncated under a daemon ----
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
: >"$dir/live"
status ask_five >"$dir/out"
wait $daemon_pid 2>"$dir/err"
check "it ends the daemon by SIGBUS" 135 $?
daemon_pid=
check "which says why, once" 1 "$(grep -c ' error state-file-fault .*the state file was truncated' "$daemon_log")"
check "at the right time" 0 "$({ cut -c 1-24 "$daemon_log"; date -u +%FT%T.999Z; } | sort -c 2>&1 | wc -l)"
rm "$dir/live"
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
kill -BUS $daemon_pid
wait $daemon_pid 2>"$dir/err"
check "a signal that was sent ends it as ever" "135 0" "$? $(grep -c state-file-fault "$daemon_log")"
daemon_pid=

# ---- a file that others may write, and one beside it that is not weir's ----
chmod 0666 "$dir/live"
check "a file that others may write" 1 "$(second)"
check "why not that one" "$dir/live: writable by other users (mode 0666), expected mode 0600; run chmod 600, or set memory.trust_others" "$(refused)"
sed -i 's/size: 8m/size: 8m, trust_others: true/' "$dir/weir.yaml"
daemon_start "$dir" "$weir" serve "$dir/weir.yaml"
daemon_stop
check "unless the configuration trusts them" 0 $?
echo notes >"$dir/live.new"
check "a file of another program at FILE.new" 1 "$(second)"
check "is named" "$dir/live.new: it is not a state file of weir, and weir makes new state files under this name; move that file away" "$(refused)"
check "and kept" notes "$(cat "$dir/live.new")"

# ---- what is no file, and wrong usage ----
mkfifo "$dir/pipe"
check "a named pipe" 1 "$(status timeout 20 "$weir" state "$dir/pipe")"
check "what is said of it" "weir state: $dir/pipe: it is not a regular file" "$(cat "$dir/err")"
check "lines from a named pipe" 1 "$(status timeout 20 "$weir" state "$dir/bad" --import "$dir/pipe")"
check "what is said of those" "weir state: cannot read $dir/pipe: found a named pipe, expected a regular file" "$(cat "$dir/err")"
check "no such file" 1 "$(status "$weir" state "$dir/nothing")"
check "it is not made" 0 "$(find "$dir" -name nothing | wc -l)"
check "what is told of it" 1 "$(grep -c "^weir state: $dir/nothing: " "$dir/err")"
check "a directory" 1 "$(status "$weir" state "$dir")"
check "another file" 1 "$(status "$weir" state "$weir")"
check "an empty file" 1 "$(status "$weir" state "$dir/empty")"
check "no file" 2 "$(status "$weir" state)"
check "two files" 2 "$(status "$weir" state a b)"
check "two things at once" 2 "$(status "$weir" state "$file" --export --set-clock)"
check "a secret for nobody" 2 "$(status "$weir" state "$file" --with-secret)"

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

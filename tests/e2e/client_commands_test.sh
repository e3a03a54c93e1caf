#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `weir take` and the other client commands: the requests they send, their output and exit status,
# against a scripted server and against the daemon.
#
#   client_commands_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/daemon.sh"
tmp=$(mktemp -d)
fake_pid=''
trap 'daemon_kill; kill $fake_pid 2>/dev/null; rm -rf "$tmp"' EXIT
unset WEIR_SERVER WEIR_PASSWORD

# ---- a scripted server ---------------------------------------------------------------------------

# Serves one connection: each request gets the next REPLY, in which \r and \x1b are escapes. "hang"
# does not reply, "bytes:..." replies byte by byte, "close" closes. The requests are saved in a file.
cat >"$tmp/fake.py" <<'PYTHON'
import socket, sys

where, log, replies = sys.argv[1], sys.argv[2], sys.argv[3:]
if where == "unix":
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(log + ".sock")
else:
    listener = socket.socket(socket.AF_INET6 if where == "::1" else socket.AF_INET)
    listener.bind((where, 0))
listener.listen()
print(log + ".sock" if where == "unix" else listener.getsockname()[1], flush=True)
listener.settimeout(60)
peer = listener.accept()[0]
peer.settimeout(60)
if where != "unix":
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
stream = peer.makefile("rb")


def request():
    head = stream.readline()
    if not head:
        return None
    words = []
    for _ in range(int(head[1:])):
        words.append(stream.read(int(stream.readline()[1:])))
        stream.read(2)
    return b" ".join(words)


with open(log, "wb") as out:
    for reply in replies:
        got = request()
        if got is None:
            break
        out.write(got + b"\n")
        out.flush()
        data = reply.removeprefix("bytes:").encode("latin-1").decode("unicode_escape").encode("latin-1")
        if reply == "close":
            break
        if reply == "hang":
            continue
        for i in range(0, len(data), 1 if reply.startswith("bytes:") else len(data)):
            peer.sendall(data[i : i + (1 if reply.startswith("bytes:") else len(data))])
    else:
        got = request()
        if got is not None:
            out.write(got + b"\n")
PYTHON

hello='%7\r\n$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n'

decision() { # ALLOWED LIMIT REMAINING RETRY RESET DELAY [POLICY]: the reply of a decision
    local policy=${7-api}
    printf '%s' "%8\\r\\n\$7\\r\\nallowed\\r\\n:$1\\r\\n\$5\\r\\nlimit\\r\\n:$2\\r\\n\$9\\r\\nremaining\\r\\n:$3\\r\\n" \
        "\$14\\r\\nretry_after_ms\\r\\n:$4\\r\\n\$14\\r\\nreset_after_ms\\r\\n:$5\\r\\n\$8\\r\\ndelay_ms\\r\\n:$6\\r\\n" \
        "\$6\\r\\npolicy\\r\\n\$${#policy}\\r\\n$policy\\r\\n\$5\\r\\nlayer\\r\\n:0\\r\\n"
}

mkfifo "$tmp/where"
fake() { # WHERE REPLY...: starts a server; $at is its port or path
    rm -f "$tmp/sent.sock"
    python3 "$tmp/fake.py" "$1" "$tmp/sent" "${@:2}" >"$tmp/where" 2>"$tmp/fake.err" &
    fake_pid=$!
    read -r at <"$tmp/where"
}

# run_against REPLY... -- ARGUMENT...: runs weir ARGUMENT... against a server with these replies. Sets
# $got to the status and the output, with SERVER for the address, and $sent to the requests.
run_against() {
    local replies=()
    while [ "$1" != -- ]; do
        replies+=("$1")
        shift
    done
    shift
    fake 127.0.0.1 "${replies[@]}"
    got=$(WEIR_SERVER=127.0.0.1:$at "$weir" "$@" </dev/null 2>&1)
    got="$? ${got//127.0.0.1:$at/SERVER}"
    kill "$fake_pid" 2>/dev/null
    wait "$fake_pid" 2>/dev/null
    sent=$(tr '\n' '|' <"$tmp/sent")
}

run_against "$hello" "$(decision 1 500 499 0 10 0)" -- take api alice
check "take: allowed" "0 allowed  499 of 500 remaining, full again in 10 ms" "$got"
check "take: the request" "HELLO 3|WEIR.TAKE api alice WITHNAMES|" "$sent"
run_against "$hello" "$(decision 0 500 0 1250 600000 0)" -- take api alice --cost 7
check "take: denied" "3 denied   retry in 1.25 s" "$got"
check "take: the request with --cost" "HELLO 3|WEIR.TAKE api alice COST 7 WITHNAMES|" "$sent"
run_against "$hello" "$(decision 0 5 5 -1 0 0)" -- take --cost=6 api alice
check "take: a cost above the limit is always denied" "3 denied   always: the cost of 6 exceeds the limit of 5" "$got"
run_against "$hello" "$(decision 0 5 0 -1 0 0)" -- take api alice
check "take: on a deny list" "3 denied   always: the key is on the policy's deny list" "$got"
run_against "$hello" "$(decision 1 21 3 0 90061001 200)" -- take api alice
check "take: a delay, and a reset in more than a day" "0 allowed  3 of 21 remaining, serve after 200 ms, full again in 1 d 2 h" "$got"
run_against "$hello" "$(decision 1 5 5 0 0 0)" -- peek api alice
check "peek: full" "0 allowed  5 of 5 remaining, full" "$got"
check "peek: the request" "HELLO 3|WEIR.PEEK api alice WITHNAMES|" "$sent"
run_against "$hello" "$(decision 0 5 2 59999 60000 0)" -- peek --cost 3 -- api -alice
check "peek: denied" "3 denied   retry in 59.999 s" "$got"
check "peek: a key that begins with a dash" "HELLO 3|WEIR.PEEK api -alice COST 3 WITHNAMES|" "$sent"
run_against "$hello" "$(decision 1 5 4 0 60000 0)" -- take --text ' gcra  5/60s burst 5' alice
check "take --text" "0 allowed  4 of 5 remaining, full again in 1 m" "$got"
check "take --text: the request has the canonical text" "HELLO 3|WEIR.TAKE gcra 5/m burst 5 alice WITHNAMES|" "$sent"
run_against "$hello" '+OK\r\n' -- reset api alice
check "reset" "0 reset" "$got"
check "reset: the request" "HELLO 3|WEIR.RESET api alice|" "$sent"

run_against "$hello" "$(decision 1 5 3 0 24000 0)" -- refund api alice
check "refund" "0 refunded 3 of 5 remaining, full again in 24 s" "$got"
check "refund: the request" "HELLO 3|WEIR.REFUND api alice 1 WITHNAMES|" "$sent"
run_against "$hello" "$(decision 0 5 0 12000 60000 0)" -- refund --cost 7 --text 'gcra 5/m burst 5' alice
check "refund: the status is 0 although the key is still denied" "0 refunded 0 of 5 remaining, full again in 1 m" "$got"
check "refund: the request with --cost" "HELLO 3|WEIR.REFUND gcra 5/m burst 5 alice 7 WITHNAMES|" "$sent"
run_against "$hello" '*2\r\n$10\r\npolicy api\r\n$8\r\nnext\x1bnow\r\n' -- explain api alice
check "explain" "0 policy api
next?now" "$got"
check "explain: the request" "HELLO 3|WEIR.EXPLAIN api alice|" "$sent"
for answer in '+OK\r\n' '*1\r\n:1\r\n' '*1\r\n*1\r\n$1\r\na\r\n'; do
    run_against "$hello" "$answer" -- explain api alice
    check "explain: an unexpected reply: $answer" "1 weir explain: SERVER: unexpected reply to WEIR.EXPLAIN; is this server a weir daemon?" "$got"
done

bulk() { # TEXT: as a bulk string
    printf '%s' "\$${#1}\\r\\n$1\\r\\n"
}
top_key() { # KEY COST ERROR REQUESTS BYTES: a key of WEIR.TOP
    printf '%s' "%5\\r\\n$(bulk key)$(bulk "$1")$(bulk cost):$2\\r\\n$(bulk error):$3\\r\\n$(bulk requests):$4\\r\\n$(bulk key_bytes):$5\\r\\n"
}
top_keys() { # UNLISTED SAMPLING COMPLETE KEYS KEY...: a reply of WEIR.TOP
    printf '%s' "%8\\r\\n$(bulk policy)$(bulk api)$(bulk of)$(bulk denied)$(bulk cost):5120\\r\\n$(bulk unlisted_max):$1\\r\\n" \
        "$(bulk sampling):$2\\r\\n$(bulk half_life_ms):60000\\r\\n$(bulk complete)#$3\\r\\n$(bulk keys)*$4\\r\\n" "${@:5}"
}
run_against "$hello" "$(top_keys 0 1 t 0)" -- top api
check "top: no keys" "0 denied by api recently: 5120 units (half-life 1 m)" "$got"
check "top: the request" "HELLO 3|WEIR.TOP api denied|" "$sent"
two=$(top_keys 7 16 f 2 "$(top_key alice 4100 0 820 5)" "$(top_key bob 1020 20 204 300)")
run_against "$hello" "$two" -- top --allowed --keys 2 api
check "top" "0 denied by api recently: 5120 units (half-life 1 m)
       units    at least    requests  key
        4100        4100         820  alice
        1020        1000         204  bob...
a key that is not listed has at most 7 units
estimated from a sample: one of every 16 units was counted
incomplete: some threads did not count this policy, because top.memory is full" "$got"
check "top: the request with options" "HELLO 3|WEIR.TOP api allowed 2|" "$sent"
run_against "$hello" "$two" -- top --json api
check "top --json" '0 {"policy":"api","of":"denied","cost":5120,"unlisted_max":7,"sampling":16,"half_life_ms":60000,"complete":false,"keys":[{"key":"alice","cost":4100,"error":0,"requests":820,"key_bytes":5},{"key":"bob","cost":1020,"error":20,"requests":204,"key_bytes":300}]}' "$got"
for answer in '*0\r\n' "$(top_keys 0 0 t 0)" "$(top_keys 0 1 t 1 '*0\r\n')"; do
    run_against "$hello" "$answer" -- top api
    check "top: an unexpected reply: ${answer:0:9}" "1 weir top: SERVER: unexpected reply to WEIR.TOP; is this server a weir daemon?" "$got"
done
run_against "$hello" '*0\r\n' -- policies
check "policies: none" "0 no named policies" "$got"
check "policies: the request" "HELLO 3|WEIR.POLICY LIST|" "$sent"
run_against "$hello" '*1\r\n%1\r\n$4\r\nname\r\n$1\r\na\r\n' -- policies
check "policies: an unexpected reply" "1 weir policies: SERVER: unexpected reply to WEIR.POLICY; is this server a weir daemon?" "$got"

json=',"remaining":0,"retry_after_ms":1250,"reset_after_ms":7,"delay_ms":0,"policy":"a\"\ufffd\u001b","layer":0}'
odd=$(decision 0 5 0 1250 7 0 abcd)
run_against "$hello" "${odd/abcd/a\\x22\\xff\\x1b}" -- take --json api alice
check "--json: a denial; the policy's name is escaped" "3 {\"allowed\":false,\"limit\":5${json//\\ufffd/$'\xef\xbf\xbd'}" "$got"
run_against "$hello" "$(decision 0 5 0 -1 7 0)" -- take --json api alice
check "--json: never is -1, as over HTTP" 1 "$(grep -c '"retry_after_ms":-1,' <<<"$got")"
run_against "$hello" '+OK\r\n' -- reset --json 'a"b' alice
check "--json: reset" '0 {"reset":true,"policy":"a\"b"}' "$got"

run_against "bytes:$hello" "bytes:$(decision 1 500 499 0 10 0)" -- take api alice
check "a reply that arrives byte by byte is read" "0 allowed  499 of 500 remaining, full again in 10 ms" "$got"

export WEIR_PASSWORD='open sesame'
run_against "$hello" '+OK\r\n' -- reset api alice
check "the password is sent with HELLO" "HELLO 3 AUTH default open sesame|WEIR.RESET api alice|" "$sent"
run_against '-WRONGPASS invalid username-password pair or user is disabled.\r\n' -- take api alice
check "a wrong password" "1 weir take: SERVER: the password in WEIR_PASSWORD is wrong" "$got"
check "after a wrong password, nothing more is sent" "HELLO 3 AUTH default open sesame|" "$sent"
unset WEIR_PASSWORD
run_against '-NOAUTH HELLO must be called with the client already authenticated\r\n' -- take api alice
check "no password" "1 weir take: SERVER: the daemon requires a password: set WEIR_PASSWORD" "$got"

run_against "$hello" "-ERR no policy 'apj'; WEIR.POLICY LIST shows all policies\\r\\n" -- take apj alice
check "an unknown policy" "1 weir take: SERVER: no policy 'apj'; WEIR.POLICY LIST shows all policies" "$got"
run_against "$hello" '-ERR \x1b[31mred\xc2\x9b \xff\r\n' -- take api alice
check "control characters in an error are replaced" "1 weir take: SERVER: ?[31mred? ?" "$got"
run_against '-\x1b[31mred\r\n' -- take api alice
check "control characters in an error reply to HELLO are replaced" "1 weir take: SERVER: ?[31mred" "$got"
run_against '+OK\r\n' -- take api alice
check "an unexpected reply to HELLO" "1 weir take: SERVER: expected a reply in RESP3, found another protocol; is this a weir daemon?" "$got"
http='expected a RESP server, found an HTTP server; use the address of listen.resp, port 6380 by default'
run_against 'HTTP/1.1 400 Bad Request\r\n\r\n' -- take api alice
check "an HTTP server" "1 weir take: SERVER: $http" "$got"
run_against 'bytes:HTTP/1.1 400 Bad Request\r\n\r\n' -- take api alice
check "an HTTP server, byte by byte" "1 weir take: SERVER: $http" "$got"
run_against 'HTTPS' -- take api alice
check "a reply that begins like an HTTP response" "1 weir take: SERVER: expected a reply in RESP3, found another protocol; is this a weir daemon?" "$got"
run_against close -- take api alice
check "the server closes before the reply to HELLO" "1 weir take: SERVER: the server closed the connection without a reply" "$got"
run_against "$hello" close -- take api alice
check "the server closes before the reply" "1 weir take: SERVER: the server closed the connection without a reply" "$got"
run_against "$hello" '%8\r\n$7\r\nallo' -- take --timeout 300ms api alice
check "half a reply is a timeout" "1 weir take: SERVER: timeout: no reply; --timeout sets how long to wait" "$got"
for answer in '+OK\r\n' '*6\r\n:1\r\n:5\r\n:4\r\n:0\r\n:10\r\n:0\r\n' '%1\r\n$7\r\nallowed\r\n:1\r\n' \
    "$(decision 2 5 4 0 10 0)" "$(decision 1 5 -1 0 10 0)" "$(decision 1 5 4 -2 10 0)"; do
    run_against "$hello" "$answer" -- take api alice
    check "an unexpected reply: ${answer:0:24}" "1 weir take: SERVER: unexpected reply to WEIR.TAKE; is this server a weir daemon?" "$got"
done
run_against "$hello" ':1\r\n' -- reset api alice
check "reset: an unexpected reply" "1 weir reset: SERVER: unexpected reply to WEIR.RESET; is this server a weir daemon?" "$got"
for answer in '%8\n' '$5\r\nabcdeXX' ':1x\r\n' '?\r\n' '*16384\r\n' '$99999999\r\n' '#x\r\n'; do
    run_against "$hello" "$answer" -- take api alice
    check "a malformed reply: $answer" "1 weir take: SERVER: expected a reply in RESP3, found another protocol; is this a weir daemon?" "$got"
done
run_against hang -- take --timeout 50ms api alice
check "no reply to HELLO is a timeout" "1 weir take: SERVER: timeout: no reply; --timeout sets how long to wait" "$got"
run_against "$hello" hang -- take --timeout 300ms api alice
check "no reply is a timeout" "1 weir take: SERVER: timeout: no reply; --timeout sets how long to wait" "$got"

# ---- the server's address ------------------------------------------------------------------------

fake unix "$hello" '+OK\r\n'
check "--server with the path of a Unix socket" reset "$("$weir" reset --server "$at" api alice 2>&1)"
wait "$fake_pid"
fake 127.0.0.1 "$hello" '+OK\r\n'
check "--server takes precedence over WEIR_SERVER" reset "$(WEIR_SERVER=127.0.0.1:1 "$weir" reset --server "127.0.0.1:$at" api alice 2>&1)"
wait "$fake_pid"
for form in '' :; do
    fake 127.0.0.1 "$hello" '+OK\r\n'
    check "--server ${form}PORT" reset "$("$weir" reset --server "$form$at" api alice 2>&1)"
    wait "$fake_pid"
done
if getent hosts localhost >/dev/null; then
    fake 127.0.0.1 "$hello" '+OK\r\n'
    check "--server with the name of a host" reset "$("$weir" reset --server "localhost:$at" api alice 2>&1)"
    wait "$fake_pid"
fi
if python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; then
    fake ::1 "$hello" '+OK\r\n'
    check "[::1]:PORT" reset "$("$weir" reset --server "[::1]:$at" api alice 2>&1)"
    wait "$fake_pid"
fi
free=$(free_port)
out=$("$weir" take --server "127.0.0.1:$free" api alice 2>&1)
check "no daemon listens on the address" "1 weir take: cannot connect to 127.0.0.1:$free: Connection refused; start a daemon with \`weir serve\`, or set its address with --server or WEIR_SERVER" "$? $out"
for form in '' :; do
    out=$("$weir" take --server "$form$free" api alice 2>&1)
    check "no daemon listens on ${form}PORT" "1 weir take: cannot connect to 127.0.0.1:$free: Connection refused; start a daemon with \`weir serve\`, or set its address with --server or WEIR_SERVER" "$? $out"
done
out=$("$weir" take --server "$tmp/none.sock" api alice 2>&1)
check "the socket does not exist" "1 weir take: cannot connect to $tmp/none.sock: No such file or directory; start a daemon with \`weir serve\`, or set its address with --server or WEIR_SERVER" "$? $out"
expected="expected HOST:PORT, PORT, HOST or [IPV6]:PORT, with a PORT of 1 to 65535, or the path of a socket, with a '/'"
for bad in : 0 :0 65536 :65536 123456 a: a:x a:0 a:65536 a:99999999999 '[::1' '[::1]x' '[]:1' 'a:1 '; do
    out=$("$weir" take --server "$bad" api alice 2>&1)
    check "--server '$bad'" "2 weir take: '$bad': $expected" "$? $out"
done
out=$("$weir" take --server '' api alice 2>&1)
check "an empty --server" "2 weir take: --server: $expected, found ''" "$? $out"
for url in http:// https:// redis://; do
    out=$("$weir" take --server "${url}127.0.0.1:6380" api alice 2>&1)
    check "--server $url" "2 weir take: '${url}127.0.0.1:6380': expected HOST:PORT, without $url" "$? $out"
done
out=$("$weir" take --server unix:///run/weir.sock api alice 2>&1)
check "--server unix://" "2 weir take: 'unix:///run/weir.sock': expected the path of the socket, without unix://" "$? $out"
long=/$(printf 'x%.0s' {1..120})
out=$("$weir" take --server "$long" api alice 2>&1)
check "the socket's path is too long" "2 weir take: $long: expected a socket path of at most 107 bytes, found ${#long}" "$? $out"

# ---- usage errors --------------------------------------------------------------------------------

wrong() { # NAME TEXT ARG...
    local out
    out=$("$weir" "${@:3}" 2>&1)
    check "$1" "2 $2" "$? $out"
}
wrong "no arguments" "weir take: POLICY and KEY are missing; see weir take --help" take
wrong "no key" "weir peek: KEY is missing; see weir peek --help" peek api
wrong "too many arguments" "weir reset: expected only POLICY and KEY, also found 'x'; see weir reset --help" reset api alice x
wrong "an empty key" "weir take: KEY is empty" take api ''
wrong "an empty policy" "weir take: POLICY is empty" take '' alice
wrong "an unknown option" "weir take: unknown option '--coast', expected --text, --cost, --server, --timeout, --json or --help; see weir take --help" take --coast 1 api alice
wrong "an option of another command" "weir peek: unknown option '--keys', expected --text, --cost, --server, --timeout, --json or --help; see weir peek --help" peek --keys 5 api alice
wrong "an option of another command: reset" "weir reset: unknown option '--cost', expected --text, --server, --timeout, --json or --help; see weir reset --help" reset --cost 1 api alice
wrong "an unknown short option" "weir take: unknown option '-q', expected --text, --cost, --server, --timeout, --json or --help; see weir take --help" take -q api alice
wrong "an option lacks its value" "weir take: --cost needs a value" take api alice --cost
wrong "an option that takes no value has one" "weir take: --json=1: the option takes no value" take --json=1 api alice
wrong "--help takes no value" "weir take: --help=1: the option takes no value" take --help=1
wrong "top: no policy" "weir top: POLICY is missing; see weir top --help" top
wrong "top: too many arguments" "weir top: expected only POLICY, also found 'alice'; see weir top --help" top api alice
wrong "policies: an argument" "weir policies: expected no arguments, also found 'api'; see weir policies --help" policies api
wrong "explain: an option of another command" "weir explain: unknown option '--json', expected --text, --server, --timeout or --help; see weir explain --help" explain --json api alice
for bad in '' x 0 1001 -1; do
    wrong "--keys '$bad'" "weir top: --keys: expected a number from 1 to 1000, found '$bad'" top --keys "$bad" api
done
for verb in take peek refund reset explain; do
    wrong "$verb: a wrong policy text" "weir $verb: column 10: unknown unit 'x', expected one of ns us ms s m h d w
  gcra 100/x
           ^" "$verb" --text 'gcra 100/x' alice
    wrong "$verb: an incomplete policy text" "weir $verb: column 5: found the end, expected a rate such as 100/s, from 1 to 1099511627776
  gcra
      ^" "$verb" --text gcra alice
done
for bad in '' x -1 +1 1.5 2147483648 99999999999999999999; do
    wrong "--cost '$bad'" "weir take: --cost: expected a number from 0 to 2147483647, found '$bad'" take --cost "$bad" api alice
done
for bad in '' s 5 5m 0s 0ms -1s 1.5s 86401s 86400001ms 99999999999999999999s; do
    wrong "--timeout '$bad'" "weir take: --timeout: expected a time from 1ms to 86400s, like 5s, found '$bad'" take --timeout "$bad" api alice
done

# ---- the daemon ----------------------------------------------------------------------------------

cat >"$tmp/weir.yaml" <<YAML
listen: {resp: "127.0.0.1:0", unix: $tmp/weir.sock}
password: "secret"
policies:
  api:
    limit: "gcra 1/3650d burst 2"
    deny: [evil]
    overrides: {vip: gcra 1/s burst 9}
  queue: "leaky-queue 1/365d depth 3"
  seen: {limit: gcra 1/s, shadow: true}
YAML
export WEIR_PASSWORD=secret
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
export WEIR_SERVER=127.0.0.1:$(daemon_port resp)

run() { # ARGUMENT...: prints the status and the output
    local out
    out=$("$weir" "$@" 2>&1)
    echo "$? $out"
}
check "daemon: take" "0 allowed  1 of 2 remaining, full again in 3650 d" "$(run take api alice)"
check "daemon: take over its Unix socket" "0 allowed  0 of 2 remaining, full again in 7300 d" "$(run take --server "$tmp/weir.sock" api alice)"
check "daemon: peek" "3 denied   retry in 3650 d" "$(run peek api alice)"
check "daemon: denied" "3 denied   retry in 3650 d" "$(run take api alice)"
check "daemon: denied, as JSON" '3 {"allowed":false,"limit":2,"remaining":0,"retry_after_ms":N,"reset_after_ms":N,"delay_ms":0,"policy":"api","layer":0}' \
    "$(run take api alice --json | sed -E 's/_ms":[1-9][0-9]*/_ms":N/g')"
check "daemon: reset" "0 reset" "$(run reset api alice)"
check "daemon: full" "0 allowed  2 of 2 remaining, full" "$(run peek api alice)"
check "daemon: a cost above the limit" "3 denied   always: the cost of 3 exceeds the limit of 2" "$(run take --cost 3 api alice)"
check "daemon: a cost of 0" "0 allowed  2 of 2 remaining, full" "$(run take --cost 0 api alice)"
check "daemon: the deny list" "3 denied   always: the key is on the policy's deny list" "$(run take api evil)"
check "daemon: a policy text" "0 allowed  4 of 5 remaining, full again in 365 d" "$(run take --text ' gcra  1/365d burst 5' bob)"
check "daemon: an invalid policy text without --text" "1 weir take: $WEIR_SERVER: policy: column 10: unknown unit 'x', expected one of ns us ms s m h d w" "$(run take 'gcra 100/x' bob)"
check "daemon: an unknown policy" "1 weir take: $WEIR_SERVER: no policy 'apj'; WEIR.POLICY LIST shows all policies" "$(run take apj bob)"
check "daemon: an unknown policy cannot be reset" "1 weir reset: $WEIR_SERVER: no policy 'apj'; WEIR.POLICY LIST shows all policies" "$(run reset apj bob)"
check "daemon: a key that is too long" "1 weir take: $WEIR_SERVER: the key has 65537 bytes, expected 1 to 65536" "$(run take api "$(printf 'x%.0s' {1..65537})")"
check "daemon: a key that exceeds the protocol's limit" 1 "$(run take api "$(printf 'x%.0s' {1..90000})" | grep -c '^1 weir take: ')"
check "daemon: a wrong password" "1 weir take: $WEIR_SERVER: the password in WEIR_PASSWORD is wrong" "$(WEIR_PASSWORD=x run take api bob)"
check "daemon: no password" "1 weir take: $WEIR_SERVER: the daemon requires a password: set WEIR_PASSWORD" "$(WEIR_PASSWORD='' run take api bob)"
run take queue q >/dev/null
check "daemon: a queue" "0 allowed  2 of 4 remaining, serve after 365 d, full again in 730 d" "$(run take queue q)"
check "daemon: a key on the deny list, explained" "0 policy   api
key      evil
limit    gcra 1/3650d burst 2
list     on the deny list: always denied" "$(run explain api evil)"
check "daemon: policies" "0 api    gcra 1/3650d burst 2; overrides: 1; always denied: 1
queue  leaky-queue 1/365d depth 3
seen   gcra 1/s; shadow" "$(run policies)"
check "daemon: policies as JSON" '0 {"policies":[{"name":"api","limit":"gcra 1/3650d burst 2","overrides":1,"allow":0,"deny":1,"shadow":false},{"name":"queue"' \
    "$(run policies --json | cut -c 1-124)"
check "daemon: top" "0 denied by api recently: N units (half-life 1 m)
       units    at least    requests  key" "$(run top api | sed '1s/[0-9]* units/N units/' | head -2)"
check "daemon: top has the key" 1 "$(run top api | grep -c '^ .*[0-9]  evil$')"
check "daemon: top of one key" 1 "$(run top api --keys 1 | grep -c '^ .*[0-9]  ')"
check "daemon: top of an unknown policy" "1 weir top: $WEIR_SERVER: no policy 'apj'; WEIR.POLICY LIST shows all policies" "$(run top apj)"
text='gcra 1/365d burst 5'
run take --text "$text" carol --cost 3 >/dev/null
check "daemon: peek at a policy text" "0 allowed  2 of 5 remaining, full again in 1095 d" "$(run peek --text "$text" carol)"
check "daemon: refund by a policy text" "0 refunded 4 of 5 remaining, full again in 365 d" "$(run refund --text "$text" --cost 2 carol)"
check "daemon: explain by a policy text" "0 key      carol
limit    gcra 1/365d burst 5
state    4 of 5 free; full again in 365 d
next     now" "$(run explain --text "$text" carol | sed -E 's/36[45] d[^,]*/365 d/')"
check "daemon: reset by a policy text" "0 reset" "$(run reset --text "$text" carol)"
check "daemon: after the reset, the key has its full quota" "0 allowed  5 of 5 remaining, full" "$(run peek --text "$text" carol)"
check "daemon: a time zone, which only the daemon reads" "0 allowed  99 of 100 remaining" \
    "$(run take --text 'fixed-window 100/day tz Europe/Berlin' carol | cut -d, -f1)"
check "daemon: refund by name" "0 refunded 2 of 2 remaining, full" "$(run take api dave >/dev/null; run refund api dave)"
check "daemon: a leaky queue does not support refunds" 1 "$(run refund queue q | grep -c '^1 weir refund: ')"
if [ -w /dev/full ]; then
    for args in "" --json; do
        # shellcheck disable=SC2086 # it is a word or none
        out=$("$weir" peek $args api bob 2>&1 >/dev/full)
        check "daemon: a full disk $args" "1 1" "$? $(grep -c "cannot write to standard output: No space left on device" <<<"$out")"
    done
fi
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

# The largest number of policies.
{
    echo 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}'
    echo 'policies:'
    for i in {1..1024}; do echo "  policy-$i: gcra $i/s"; done
} >"$tmp/many.yaml"
unset WEIR_PASSWORD
daemon_start "$tmp" "$weir" serve "$tmp/many.yaml"
check "daemon: --server with its HTTP port" "weir policies: 127.0.0.1:$(daemon_port http): $http" \
    "$("$weir" policies --server "127.0.0.1:$(daemon_port http)" 2>&1)"
export WEIR_SERVER=127.0.0.1:$(daemon_port resp)
check "daemon: 1024 policies" "1024 policy-1024  gcra 1024/s" "$("$weir" policies | wc -l) $("$weir" policies | grep -- '-1024 ')"
check "daemon: 1024 policies as JSON" 1024 "$("$weir" policies --json | grep -o '"name":' | wc -l)"
daemon_stop

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

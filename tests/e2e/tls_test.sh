#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# TLS listeners of the daemon, with real clients: what weir check reports, who is accepted, and
# certificates that are replaced while clients send requests.
#
#   tls_test.sh WEIR
set -uo pipefail
weir=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
. "$here/check.sh"
. "$here/daemon.sh"
. "$here/certificates.sh"
tmp=$(mktemp -d)
trap 'daemon_kill; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

names=DNS:weir.test,IP:127.0.0.1
authority ca && authority stranger && pair outsider stranger 2 $names &&
    pair first ca 2 $names && pair second ca 2 $names && pair client ca 2 $names && pair expired ca 0 $names
check "the certificates are valid for a strict verifier" 0 $?
cat first.pem ca.pem >server.pem
cp first.key server.key
echo "no certificate" >text.pem

# ---- weir check
# problems YAML: the problems, without the lines that show their places. A daemon may run on the default ports.
problems() {
    printf '%s\n' "$1" >c.yaml
    "$weir" check c.yaml 2>&1 >out | grep '^c.yaml' | sed "s/^c.yaml://; / is already in use;/d"
}
check "a valid configuration" "" "$(problems 'tls: {cert: server.pem, key: server.key, client_ca: ca.pem}
listen: {resp: 127.0.0.1:0, http: {address: 127.0.0.1:0, tls: off}, unix: '"$tmp"'/s}')"
check "the summary says which listeners use TLS" \
    "resp on 127.0.0.1:0, TLS with client certificates|http on 127.0.0.1:0|resp on $tmp/s|" \
    "$(sed -n 's/^listen *//p; s/^  *\(http\|resp\) on/\1 on/p' out | tr '\n' '|')"
check "a file that does not exist" \
    "1:13: error: tls.cert: cannot read none.pem: No such file or directory" \
    "$(problems 'tls: {cert: none.pem, key: server.key}')"
check "a file that is no certificate" \
    "1:13: error: tls.cert: cannot load the certificate text.pem: it is not in PEM format" \
    "$(problems 'tls: {cert: text.pem, key: server.key}')"
check "a key of another certificate" \
    "2:51: error: listen.http.tls.key: cannot load the private key second.key: it does not belong to the certificate" \
    "$(problems 'listen:
  http: {address: 0, tls: {cert: server.pem, key: second.key}}')"
check "a file without trusted certificates" \
    "1:53: error: tls.client_ca: cannot load the trusted certificates text.pem: no certificate or crl found" \
    "$(problems 'tls: {cert: server.pem, key: server.key, client_ca: text.pem}')"
check "an expired certificate is a warning" \
    "1:13: warning: tls.cert: the certificate expired.pem has expired; clients will refuse it" \
    "$(problems 'tls: {cert: expired.pem, key: expired.key}
listen: {resp: 127.0.0.1:0}')"
check "a public address may have client certificates instead of a password" "" \
    "$(problems 'listen: {resp: {address: 0.0.0.0:0, tls: {cert: server.pem, key: server.key, client_ca: ca.pem}}}')"

# ---- clients
cat >weir.yaml <<YAML
tls: {cert: server.pem, key: server.key}
listen:
  resp:
    - 127.0.0.1:0
    - {address: 127.0.0.1:0, tls: off}
    - {address: 127.0.0.1:0, tls: {cert: server.pem, key: server.key, client_ca: ca.pem}}
  http:
    - 127.0.0.1:0
    - {address: 127.0.0.1:0, tls: off}
policies: {a: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve weir.yaml
addresses=$(sed -n 's/.* resp=\([^ ]*\) http=\([^ ]*\) .*/\1,\2/p' "$daemon_log")
IFS=, read -r resp resp_plain mutual http http_plain <<<"${addresses//127.0.0.1:/}"
tls_cli() { redis-cli --tls --cacert ca.pem "$@" 2>&1 | tr '\n' ' ' | sed 's/ *$//'; }
s_client() { timeout 20 openssl s_client -CAfile ca.pem "$@" 2>&1; }
# refused OPTION...: the status of a client that weir sends no certificate; net/tls/protocol_test.c knows the alerts
refused() {
    local said
    said=$(s_client -connect "127.0.0.1:$http" "$@" </dev/null)
    echo "$? $(grep -q 'BEGIN CERTIFICATE' <<<"$said" || echo no certificate)"
}

check "redis-cli takes" "1 3 2" "$(tls_cli -p "$resp" WEIR.TAKE a k | cut -d' ' -f1-3)"
check "the plain listener has the same state" "1 3 1" "$(request_to "$resp_plain" WEIR.TAKE a k | cut -d' ' -f1-3)"
check "curl takes" "200 1.1" \
    "$(curl -s -o body -w '%{http_code} %{http_version}' --cacert ca.pem "https://127.0.0.1:$http/v1/take?policy=a&key=k")"
check "curl reads the metrics" 2 \
    "$(curl -s --http1.1 --cacert ca.pem "https://127.0.0.1:$http/metrics" | grep -c '^weir_tls_handshakes_total.* [1-9]')"
not_after=$(date -d "$(openssl x509 -in server.pem -noout -enddate | cut -d= -f2)" +%s)
check "the metrics have the end of each certificate" 3 \
    "$(curl -s "http://127.0.0.1:$http_plain/metrics" |
        grep -c "^weir_tls_certificate_expiry_time_seconds{listener=\".*\"} $not_after$")"
check "ALPN chooses http/1.1" 1 \
    "$(s_client -connect "127.0.0.1:$http" -alpn h2,http/1.1 </dev/null | grep -c 'ALPN protocol: http/1.1')"
check "ALPN without http/1.1 is refused" "1 no certificate" "$(refused -alpn h2)"
check "TLS 1.1 is refused" "1 no certificate" "$(refused -tls1_1 -cipher DEFAULT@SECLEVEL=0)"
check "TLS 1.2 has forward secrecy" 1 \
    "$(s_client -connect "127.0.0.1:$http" -tls1_2 </dev/null | grep -c '^New, TLSv1.2, Cipher is ECDHE-')"
check "a cipher without forward secrecy is refused" "1 no certificate" "$(refused -tls1_2 -cipher AES256-GCM-SHA384)"
check "the chain is sent" 2 "$(s_client -connect "127.0.0.1:$http" -showcerts </dev/null | grep -c 'BEGIN CERTIFICATE')"
check "plain text on the TLS port gets no reply" "52" \
    "$(curl -s "http://127.0.0.1:$http/healthz" >body; echo $?)"
check "TLS on a plain RESP port fails" 1 "$(tls_cli -p "$resp_plain" PING | grep -c -i 'could not connect')"
check "TLS on a plain HTTP port fails" 35 "$(curl -s "https://127.0.0.1:$http_plain/healthz"; echo $?)"
check_python "$here/tls_clients.py" clients "$resp" "$http" "$mutual"

# ---- weir take and the other client commands
unset WEIR_SERVER WEIR_PASSWORD
# peek PORT OPTION...: prints the status and the output of weir peek, with the authority of the daemon
peek() {
    local out
    out=$("$weir" peek --server "rediss://127.0.0.1:$1" --ca ca.pem "${@:2}" a z 2>&1)
    echo "$? ${out/127.0.0.1:$1/SERVER}"
}
full="0 allowed  3 of 3 remaining, full"
check "weir peek: --server rediss://" "$full" "$(peek "$resp")"
check "weir peek: --server-name" "$full" "$(peek "$resp" --server-name weir.test)"
check "weir peek: --tls" "$full" "$(peek "$resp" --server "127.0.0.1:$resp" --tls)"
check "weir peek: WEIR_SERVER" "$full" \
    "$(out=$(WEIR_SERVER=rediss://default:x@127.0.0.1:$resp "$weir" peek --ca ca.pem a z 2>&1); echo "$? $out")"
check "weir peek: an unknown user" \
    "1 weir peek: SERVER: user 'ops' is unknown, or the password in WEIR_PASSWORD is wrong" \
    "$(WEIR_PASSWORD=x peek "$resp" --user ops)"
check "weir peek: a client certificate" "$full" "$(peek "$mutual" --cert client.pem --key client.key)"
check "weir peek: no client certificate" "1 weir peek: SERVER: TLS: the server requires a client certificate" \
    "$(peek "$mutual")"
check "weir peek: a client certificate of another authority" \
    "1 weir peek: SERVER: TLS: the server refuses the client's certificate" \
    "$(peek "$mutual" --cert outsider.pem --key outsider.key | sed 's/certificate: .*/certificate/')"
check "weir peek: another name" "1 weir peek: SERVER: TLS: the server's certificate is not valid for \"other.test\"" \
    "$(peek "$resp" --server-name other.test)"
check "weir peek: an unknown authority" \
    "1 weir peek: SERVER: TLS: the server's certificate is not trusted: no trusted authority has signed it; --ca names \
the file of the authority to trust" "$(peek "$resp" --ca stranger.pem)"
check "weir peek: the server has no TLS" "1 weir peek: SERVER: TLS: the server does not speak TLS" \
    "$(peek "$resp_plain")"
check "weir peek: the server has TLS" \
    "weir peek: 127.0.0.1:$resp: the server closed the connection without a reply; if it expects TLS, use --tls" \
    "$("$weir" peek --server "$resp" a z 2>&1)"
check "weir top: tables over TLS" 2 \
    "$(timeout 20 "$weir" top --server "rediss://127.0.0.1:$resp" --ca ca.pem --interval 100ms --count 2 |
        grep -c "^weir .* 127.0.0.1:$resp ")"

# ---- certificates that change
serial_of() { s_client -connect "127.0.0.1:$http" </dev/null | openssl x509 -noout -serial; }
serial() { openssl x509 -in "$1" -noout -serial; }
: >load
PYTHONPATH=$here python3 "$here/tls_clients.py" load "$resp" "$http" "$mutual" >>load &
load=$!
check "the load begins" 1 "$(await 1 '^began' load)"
cp text.pem new && mv new server.key
check "an unusable key is logged for each listener" 3 "$(await 3 ' error tls-reload-refused ')"
check "the old certificate stays in use" "$(serial first.pem)" "$(serial_of)"
cat second.pem ca.pem >new && mv new server.pem
cp second.key new && mv new server.key
check "the new certificate is loaded by each listener" 3 "$(await 3 ' info tls-reloaded ')"
check "clients get the new certificate" "$(serial second.pem)" "$(serial_of)"
ln -s first.pem live.pem
ln -s first.key live.key
sed -i 's/^tls:.*/tls: {cert: live.pem, key: live.key}/' weir.yaml
check "other paths are loaded when weir.yaml is reloaded" 5 "$(await 5 ' info tls-reloaded ')"
check "they need no restart" 0 "$(grep -c restart-needed "$daemon_log")"
check "clients get the certificate of the other path" "$(serial first.pem)" "$(serial_of)"
ln -sfn second.key live.key
ln -sfn second.pem live.pem
check "links that were changed are noticed" 7 "$(await 7 ' info tls-reloaded ')"
check "clients get the certificate of the changed link" "$(serial second.pem)" "$(serial_of)"
touch stop
wait "$load"
while read -r line; do [[ $line = began ]] || { echo "$line"; [[ $line = ok* ]] && passed=$((passed + 1)) || failed=$((failed + 1)); }; done <load
sed -i 's/^tls:.*/tls: off/' weir.yaml
check "removing TLS needs a restart" 1 "$(await 1 ' warning restart-needed key=tls ')"
check "until then, the listener uses TLS" PONG "$(tls_cli -p "$resp" PING)"
sed -i 's/, client_ca: ca.pem//' weir.yaml
check "removing client_ca needs a restart" 1 "$(await 1 ' warning restart-needed key=listen ')"
check "until then, clients need a certificate" 0 "$(tls_cli -p "$mutual" PING | grep -c PONG)"
check "with it, they are accepted" PONG "$(tls_cli -p "$mutual" --cert client.pem --key client.key PING)"
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

echo "listen: {resp: '127.0.0.1:0'}
tls: {cert: expired.pem, key: expired.key}" >weir.yaml
daemon_start "$tmp" "$weir" serve weir.yaml
check "an expired certificate is logged at the start" 1 "$(grep -c ' warning tls-certificate-expired .*file=.*expired.pem' "$daemon_log")"
check "weir peek: an expired certificate" \
    "1 weir peek: SERVER: TLS: the server's certificate is not trusted: it has expired" \
    "$(peek "$(daemon_port resp)")"
daemon_stop
check "a daemon without its key does not start" "1 cannot load the private key" \
    "$(cp text.pem expired.key; "$weir" serve weir.yaml 2>err; echo "$? $(grep -o 'cannot load the private key' err)")"
check "--port uses TLS, too" 1 "$(cp second.pem expired.pem; cp second.key expired.key
    daemon_start "$tmp" "$weir" serve weir.yaml --port 0
    tls_cli -p "$(daemon_port resp)" PING | grep -c PONG
    daemon_stop)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

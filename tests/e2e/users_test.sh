#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Users of the daemon, with real clients: redis-cli, redis-py and curl; the table of docs/users.md against every
# command and endpoint; client certificates; and changes while connections are open.
#
#   users_test.sh WEIR USERS_MD
set -uo pipefail
weir=$(realpath "$1")
page=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
. "$here/check.sh"
. "$here/daemon.sh"
. "$here/certificates.sh"
tmp=$(mktemp -d)
trap 'daemon_kill; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

authority ca && pair server ca 2 DNS:weir.test,IP:127.0.0.1 && pair web ca 2 DNS:else &&
    pair other ca 2 DNS:ops.test,URI:spiffe://x/ops && pair unknown ca 2 DNS:unknown && pair slow ca 2 DNS:slow.test
check "the certificates are valid" 0 $?
# The command of the page that makes a hash.
recipe=$(sed -n '/^    python3 -c/,/^$/s/^    //p' "$page")
hash=$(echo slow-secret | bash -c "$recipe")
echo secret-of-ops >ops.pw
# configure PASSWORDS RIGHTS: the daemon's configuration
configure() {
    cat >weir.yaml.new <<YAML
listen:
  resp: [127.0.0.1:0, {address: "unix:$tmp/web.sock", user: web}]
  http: [127.0.0.1:0, {address: 127.0.0.1:0, tls: {cert: server.pem, key: server.key, client_ca: ca.pem}}]
  grpc: 127.0.0.1:0
envoy: {config: limits}
memory: {size: 8m}
policies: {api: gcra 1/s burst 50, other: gcra 1/s burst 50}
users:
  web: {password: [$1], policies: [api], keys: ["user:*"], may: [$2], certificate: web}
  ops: {password_file: ops.pw, may: [admin], certificate: [none, "spiffe://x/ops"]}
  slow: {password_hash: "$hash", may: peek, certificate: slow.test}
  caller: {password: secret, may: take}
YAML
    mv weir.yaml.new weir.yaml
}
mkdir limits
echo '{domain: edge, descriptors: [{key: who, rate_limit: {unit: day, requests_per_unit: 9}}]}' >limits/edge.yaml
configure "old, new" "take, peek"
daemon_start "$tmp" "$weir" serve weir.yaml
port=$(daemon_port resp)
[ -n "$port" ] || port=$(sed -n 's/.* resp=127.0.0.1:\([0-9]*\),.*/\1/p' log)
http=$(sed -n 's/.* http=127.0.0.1:\([0-9]*\),.*/\1/p' log)
grpc=$(sed -n 's/.* grpc=127.0.0.1:\([0-9]*\) .*/\1/p' log)
tls=$(sed -n 's/.* http=[^ ]*,127.0.0.1:\([0-9]*\) .*/\1/p' log)

# ---- redis-cli and curl
as() { # USER PASSWORD ARGUMENT...
    local user=$1 password=$2
    shift 2
    redis-cli -p "$port" --no-auth-warning --user "$user" --pass "$password" "$@" 2>&1 | tr '\n' ' ' | sed 's/ *$//'
}
check "nobody may do nothing" "NOAUTH Authentication required." "$(request PING)"
check "a user" web "$(as web old ACL WHOAMI)"
check "the new password of a rotation" web "$(as web new ACL WHOAMI)"
check "a right" "1 50 49 0 1000 0" "$(as web old WEIR.TAKE api user:1)"
check "another policy" "NOPERM User web has no permissions to use the policy 'other'" "$(as web old WEIR.TAKE other user:1)"
check "another key" "NOPERM No permissions to access a key" "$(as web old WEIR.TAKE api bob)"
check "another right" "NOPERM User web has no permissions to run the 'weir.reset' command" \
    "$(as web old WEIR.RESET api user:1)"
check "a password from a file" OK "$(as ops secret-of-ops WEIR.RESET api user:1)"
check "a hash" slow "$(as slow slow-secret ACL WHOAMI)"
check "a socket of a user" web "$(redis-cli -s web.sock ACL WHOAMI)"
check "its rights" "NOPERM User web has no permissions to run the 'weir.top' command" "$(redis-cli -s web.sock WEIR.TOP api)"
status() { curl -s -o body -w '%{http_code}' "$@"; }
take="http://127.0.0.1:$http/v1/take?policy=api&key=user:2"
check "HTTP without a password" 401 "$(status "$take")"
check "Basic" 200 "$(status -u web:old "$take")"
check "Bearer" 200 "$(status -H 'Authorization: Bearer web:new' "$take")"
check "another policy over HTTP" 403 "$(status -u web:old "http://127.0.0.1:$http/v1/take?policy=other&key=user:2")"
check "the problem" \
    '{"type":"about:blank","title":"Forbidden","status":403,"detail":"the user \"web\" may not use the policy \"other\""}' \
    "$(cat body)"
check "metrics need a right" "403 200" \
    "$(status -u web:old "http://127.0.0.1:$http/metrics") $(status -u ops:secret-of-ops "http://127.0.0.1:$http/metrics")"
check "denials are counted" 3 "$(sed -n 's/^weir_denied_rights_total{protocol="resp"} //p' body | awk '{print ($1 >= 3) ? 3 : $1}')"
check "a health check needs no login" 200 "$(status "http://127.0.0.1:$http/healthz")"
check "denials are logged" 1 "$(await 1 ' warning right-denied protocol=resp .* user=web ')"

# ---- client certificates
by() { # CERTIFICATE PATH
    status --cacert ca.pem --cert "$1.pem" --key "$1.key" "https://127.0.0.1:$tls$2"
}
check "a certificate by its common name" "200 403" "$(by web '/v1/take?policy=api&key=user:3') $(by web /metrics)"
check "a certificate by its URI" 200 "$(by other /metrics)"
check "a certificate by its DNS name" "200 403" "$(by slow /v1/policies) $(by slow /metrics)"
check "a certificate that is no user's" 401 "$(by unknown /metrics)"

# ---- changes
check_python "$here/users.py" changes "$port" "$http" "$grpc" "$tmp"
check "no secret is in the log" 0 "$(grep -c 'secret-of-ops\|slow-secret\|scrypt' log)"
"$weir" check --print weir.yaml >printed 2>/dev/null
check "no secret is printed" 0 "$(grep -c 'old\|new\|scrypt' printed)"
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

# ---- every command and endpoint with every right
{
    echo "listen: {resp: 127.0.0.1:0, http: 127.0.0.1:0}
memory: {size: 8m}
users:
  none: {password: none}"
    for right in take peek refund reserve reset override policy top metrics admin; do
        echo "  $right: {password: $right, may: $right}"
    done
} >weir.yaml
daemon_start "$tmp" "$weir" serve weir.yaml
check_python "$here/users.py" matrix "$(daemon_port resp)" "$(daemon_port http)" "$page"
daemon_stop

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

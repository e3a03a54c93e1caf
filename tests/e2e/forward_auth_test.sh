#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Requests of proxies: curl, as a trusted proxy, asks /v1/forward-auth, and weir.yaml changes between
# requests.
#
#   forward_auth_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

configuration() { # ROUTES
    cat <<YAML
listen: {http: "127.0.0.1:0"}
threads: 2
trusted_proxies: [127.0.0.1]
policies:
  login: fixed-window 2/365d
  api: {limit: fixed-window 2/365d, key: "\$client/\$header.x-api-key"}
  whole: {limit: fixed-window 3/365d, key: "\$host"}
routes:
$1
YAML
}
configuration '  - {name: login, host: "*.example.com", method: POST, path: /login, policy: login}
  - {path: /v1, policies: [api, whole]}' >"$tmp/weir.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
web=http://127.0.0.1:$(daemon_port http)

ask() { # ARGUMENT...: the status of a request
    curl -s --path-as-is -o "$tmp/body" -w '%{http_code}' "$@"
}
login() { # PATH ARGUMENT...: the status of a POST, as Caddy and Traefik describe it
    ask "$web/v1/forward-auth" -H "X-Forwarded-Method: POST" -H "X-Forwarded-Uri: $1" \
        -H "X-Forwarded-Host: api.example.com" -H "X-Forwarded-For: ${2:-192.0.2.1}"
}

# ---- routes
check "a route allows up to its limit" "200 200" "$(login /login) $(login '/login?next=/')"
check "a denial" 429 "$(login /login)"
for path in /%6cogin //login /login/ '/login;x=1' /%2e/login; do
    check "$path is /login" 429 "$(login "$path")"
done
for path in /x/../login /x/%2e%2e/login /x//../login '/x/..;/login' /x/..%2flogin; do
    check "$path is refused" 400 "$(login "$path")"
done
for path in /login%2F /%2flogin /login%5C '/login\'; do
    check "$path is refused" 400 "$(login "$path")"
done
check "/LOGIN has no route" 200 "$(login /LOGIN)"
check "its body" '{"allowed":true,"route":null}' "$(cat "$tmp/body")"
check "another client" 200 "$(login /login 192.0.2.2)"
check "a forged address does not choose the key" 429 "$(login /login '203.0.113.9, 192.0.2.1')"
check "nginx describes the request in other headers" 403 "$(ask "$web/v1/forward-auth?denied=403" \
    -H 'X-Original-Method: POST' -H 'X-Original-URI: /login' -H 'X-Forwarded-For: 192.0.2.1' \
    -H 'Host: api.example.com')"
check "Envoy sends the request itself" 429 "$(ask -X POST "$web/v1/forward-auth/login?route=none" \
    -H 'Host: api.example.com' -H 'X-Forwarded-For: 192.0.2.1' -H 'X-Forwarded-Uri: /free')"

# ---- keys and several policies
api() { # KEY HOST
    ask "$web/v1/forward-auth/v1/x" -H "X-Api-Key: $1" -H "Host: $2" -H 'Sec-Fetch-Site: cross-site'
}
check "a key for each X-Api-Key" "200 200 200" "$(api a one) $(api a one) $(api b one)"
check "both policies must allow the request" 429 "$(api b one)"
check "the other policy was not charged" 200 "$(api b two)"
check "the key of a client with two parts" 429 "$(api a two)"

# ---- a reload
configuration '  - {name: login, path: /, policy: login}' >"$tmp/weir.new"
mv "$tmp/weir.new" "$tmp/weir.yaml"
kill -HUP "$daemon_pid"
check "the routes are read again" 1 "$(await 1 ' info reloaded ')"
check "all paths have the new route" 429 "$(login /LOGIN)"
check "also on a path of an old route" 429 "$(ask "$web/v1/forward-auth/v1" -H 'X-Forwarded-For: 192.0.2.1')"

configuration '  - {name: api, path: "/v2/*/login", policy: login}' | sed '/^listen/i http: {encoded_slash: separate}' >"$tmp/weir.new"
mv "$tmp/weir.new" "$tmp/weir.yaml"
kill -HUP "$daemon_pid"
check "encoded_slash is read again" 2 "$(await 2 ' info reloaded ')"
check "an encoded slash separates segments" '200 429' "$(login /v2/a%2Flogin%5C 192.0.2.7 >/dev/null
    login /v2/b/login 192.0.2.7) $(login '/v2%2fc\login' 192.0.2.7)"
check "no restart is needed" 0 "$(grep -c restart-needed "$daemon_log")"

# ---- proxies that are not trusted
sed -i 's/^trusted_proxies.*//' "$tmp/weir.yaml"
daemon_stop
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
web=http://127.0.0.1:$(daemon_port http)
check "another peer is refused" 403 "$(login /login)"
check "the error names the key" 1 "$(grep -c '127.0.0.1 is not in trusted_proxies; if it is your proxy, add it' "$tmp/body")"

# ---- the example for proxies
daemon_stop
sed 's/127.0.0.1:8080/127.0.0.1:0/' "$(dirname "$0")/../../examples/proxies/weir.yaml" >"$tmp/weir.yaml"
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
web=http://127.0.0.1:$(daemon_port http)
page() { # METHOD: the status of a request of a page of another origin
    ask "$web/v1/forward-auth" -H "X-Forwarded-Method: $1" -H 'X-Forwarded-Uri: /v1/x' -D "$tmp/head" \
        -H 'X-Forwarded-For: 192.0.2.1' -H 'Origin: https://app.example.com'
}
check "a preflight is not denied" "$(yes 200 | head -9)" "$(for _ in 1 2 3 4 5 6 7 8 9; do page OPTIONS; echo; done)"
check "nor counted" "200 200 200 200 200 429" "$(for _ in 1 2 3 4 5; do page GET; echo -n ' '; done; page GET)"
check "the page can read the denial" 1 "$(grep -c '^Access-Control-Allow-Origin: https://app.example.com' "$tmp/head")"
check "and when to come back" 1 "$(grep -c '^Access-Control-Expose-Headers: .*Retry-After' "$tmp/head")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The limits for Envoy of a running daemon: a directory that is mounted as a ConfigMap, reloads of
# it, and the variables of envoyproxy/ratelimit.
#
#   limits_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

limit() { # FILE DOMAIN NUMBER: key `user` of the domain has NUMBER requests a year
    printf 'domain: %s\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: %s}}\n' \
        "$2" "$3" >"$1"
}
ask() { # DOMAIN USER: "CODE LIMIT REMAINING" of a request; LIMIT is - if no limit matches
    curl -s "http://127.0.0.1:$http/json" -H 'Content-Type: application/json' \
        -d "{\"domain\":\"$1\",\"descriptors\":[{\"entries\":[{\"key\":\"user\",\"value\":\"$2\"}]}]}" |
        python3 -c 'import json, sys
s = json.load(sys.stdin)["statuses"][0]
print(s["code"], s.get("currentLimit", {}).get("requestsPerUnit", "-"), s.get("limitRemaining", 0))'
}

# ---- a ConfigMap: links to files behind the link ..data, which is swapped
mkdir -p "$tmp/config/..1" "$tmp/config/..2"
limit "$tmp/config/..1/a.yaml" one 5
limit "$tmp/config/..2/a.yaml" two 7
ln -s ..1 "$tmp/config/..data"
ln -s ..data/a.yaml "$tmp/config/a.yaml"
cat >"$tmp/weir.yaml" <<YAML
listen: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
envoy: {config: config}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
http=$(daemon_port http)
check "the daemon serves gRPC" 1 "$(grep -c ' info started .*grpc=127.0.0.1:[0-9]* policies=0 limits=1 ' "$daemon_log")"
check "a limit of the directory" "OK 5 4" "$(ask one a)"
check "another value of the key has its own count" "OK 5 4" "$(ask one b)"
check "an unknown domain is allowed" "OK - 0" "$(ask two a | sed 's/4294967295/0/')"
ln -s ..2 "$tmp/config/..next"
mv -T "$tmp/config/..next" "$tmp/config/..data"
check "a swapped ConfigMap is loaded" 1 "$(await 1 ' info reloaded why="file changed" policies=0 limits=1')"
check "its limits are active" "OK 7 6" "$(ask two a)"
check "the old ones are not" "OK - 0" "$(ask one a | sed 's/4294967295/0/')"

# ---- files that are added, changed and removed
limit "$tmp/config/b.yaml" three 3
check "a new file is loaded" 1 "$(await 1 ' info reloaded .* limits=2')"
check "the new limit" "OK 3 2" "$(ask three a)"
check "the other file keeps its counts" "OK 7 5" "$(ask two a)"
printf 'domain: three\ndescriptors: [{key: user, rate_limit: {unit: yaer, requests_per_unit: 9}}]\n' >"$tmp/config/b.yaml"
check "an invalid file is refused" 1 "$(await 1 ' error reload-refused why="file changed"')"
check "the log has its place" 1 "$(grep -c ' error config-error file=.*/config/b.yaml line=2 column=46 path=descriptors.0..rate_limit.unit error="invalid rate limit unit .yaer' "$daemon_log")"
check "the old limits stay active" "OK 3 1" "$(ask three a)"
check "the refusal is counted" 1 "$(curl -s "http://127.0.0.1:$http/stats" | grep -c '^ratelimit.service.config_load_error: [1-9]')"
limit "$tmp/config/new" three 4
mv "$tmp/config/new" "$tmp/config/b.yaml"
check "a valid file is loaded again" 2 "$(await 2 ' info reloaded .* limits=2')"
check "a changed limit keeps what was used" "OK 4 1" "$(ask three a)"
rm "$tmp/config/b.yaml"
check "a removed file is noticed" 2 "$(await 2 ' info reloaded .* limits=1')"
check "its limits are gone" "OK - 0" "$(ask three a | sed 's/4294967295/0/')"
check "the others keep their counts" "OK 7 4" "$(ask two a)"
mkdir "$tmp/other"
limit "$tmp/other/c.yaml" four 4
sed -i 's/config: config/config: other/' "$tmp/weir.yaml"
check "another directory takes effect at once" 3 "$(await 3 ' info reloaded .* limits=1')"
check "its limits are active" "OK 4 3" "$(ask four a)"
limit "$tmp/other/c.yaml" four 6
check "it is watched" 4 "$(await 4 ' info reloaded .* limits=1')"
mv "$tmp/other" "$tmp/away"
check "a directory that is gone is logged" 1 "$(await 1 ' error limits-lost directory=.*other text=.*stay active')"
errors() { curl -s "http://127.0.0.1:$http/stats" | sed -n 's/^ratelimit.service.config_load_error: //p'; }
check "it is counted once, beside the invalid file" 2 "$(errors)"
check "its limits stay" "OK 6 5" "$(ask four b)"
mv "$tmp/away" "$tmp/other"
check "it is back" 1 "$(await 1 ' info limits-back directory=.*other ')"
printf 'domain: llm\ndescriptors: [{key: user, weir: token-bucket 5 refill 1/h}]\n' >"$tmp/other/llm.yaml"
check "a limit of tokens is loaded" 3 "$(await 3 ' info reloaded .* limits=2')"
report() {
    curl -s "http://127.0.0.1:$http/json" -o "$tmp/denied.json" \
        -d '{"domain": "llm", "hitsAddend": 7, "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}'
}
report
check "a denied report is logged" 1 "$(await 1 ' info not-charged policy=llm.user times=1 hits=7 left=5 text=.*late: true')"
report
mv "$tmp/other" "$tmp/away"
check "a second passes" 2 "$(await 2 ' error limits-lost ')"
check "denied reports are logged once a minute" 1 "$(grep -c ' info not-charged ' "$daemon_log")"
mv "$tmp/away" "$tmp/other"
check "the directory is back again" 2 "$(await 2 ' info limits-back ')"
rm "$tmp/other/llm.yaml"
check "no change needs a restart" 0 "$(grep -c restart-needed "$daemon_log")"
daemon_stop
check "SIGTERM stops the daemon with status 0" 0 $?

# ---- the variables of envoyproxy/ratelimit
mkdir -p "$tmp/v1/ratelimit/config" "$tmp/v2/ratelimit/config"
limit "$tmp/v1/ratelimit/config/a.yaml" env 2
limit "$tmp/v2/ratelimit/config/a.yaml" env 8
ln -s v1 "$tmp/current"
variables=(RUNTIME_ROOT="$tmp/current" RUNTIME_SUBDIRECTORY=ratelimit GRPC_HOST=127.0.0.1 GRPC_PORT=0
    HOST=127.0.0.1 PORT=0 DEBUG_HOST=127.0.0.1 DEBUG_PORT="$(free_port)")
daemon_start "$tmp" env "${variables[@]}" REDIS_URL=redis:6379 REDIS_SOCKET_TYPE=tcp USE_STATSD=false \
    LIMIT_RESPONSE_HEADERS_ENABLED=true TRACING_ENABLED=true "$weir" serve --envoy
http=${variables[7]#*=}
check "--envoy listens on three addresses" 1 "$(grep -c ' info started .*http=127.0.0.1:[0-9]*,127.0.0.1:[0-9]* grpc=127' "$daemon_log")"
check "--envoy reads RUNTIME_ROOT" "OK 2 1" "$(ask env a)"
check "variables that are not needed are explained" 1 "$(grep -c ' info variables-not-needed variables=REDIS_URL,REDIS_SOCKET_TYPE why=.*engine: redis' "$daemon_log")"
check "variables that are not supported are warnings" 1 "$(grep -c ' warning variables-not-supported variables=TRACING_ENABLED ' "$daemon_log")"
check "no warning for addresses of this machine" 0 "$(grep -c public-address "$daemon_log")"
ln -s v2 "$tmp/next"
mv -T "$tmp/next" "$tmp/current"
check "a swapped RUNTIME_ROOT is loaded" 1 "$(await 1 ' info reloaded ')"
check "its limits are active" "OK 8 6" "$(ask env a)"
kill -HUP "$daemon_pid"
check "SIGHUP reads the directory again" 2 "$(await 2 ' info reloaded ')"
daemon_stop
printf 'envoy: {config: other}\nlisten: {http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n' >"$tmp/weir.yaml"
daemon_start "$tmp" env "${variables[@]}" "$weir" serve --envoy "$tmp/weir.yaml"
http=$(daemon_port http)
check "keys of the file win over variables" "OK 6 5" "$(ask four a)"
daemon_stop
printf 'envoy: {config: other}\nlisten: {http: "127.0.0.1:0"}\n' >"$tmp/weir.yaml"
daemon_start "$tmp" env "${variables[@]}" "$weir" serve --envoy "$tmp/weir.yaml"
check "a file without a gRPC address is a warning" 1 "$(grep -c ' warning no-grpc-address ' "$daemon_log")"
daemon_stop
check "CONFIG_TYPE=GRPC_XDS_SOTW is refused" "environment: error: CONFIG_TYPE: expected FILE, found 'GRPC_XDS_SOTW'; weir reads its limits from files" \
    "$(env "${variables[@]}" CONFIG_TYPE=GRPC_XDS_SOTW "$weir" serve --envoy 2>&1)"
check "a root that does not exist" "environment: error: cannot read /nowhere/config: No such file or directory" \
    "$(RUNTIME_ROOT=/nowhere "$weir" serve --envoy 2>&1)"

# ---- weir check
mkdir "$tmp/none"
printf 'domain: n\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 0}}\n  - {key: b, rate_limit: {unlimited: true}}\n' >"$tmp/none/a.yaml"
check "weir check --envoy counts limits of 0 requests and unlimited ones" 1 \
    "$("$weir" check --envoy "$tmp/none" | grep -c '^limits  *2$')"
check "weir check --envoy prints the limits" "$tmp/other: valid  limits      1   four.user: unit=YEAR requests_per_unit=6, shadow_mode: false, quota_mode: false" \
    "$("$weir" check --envoy "$tmp/other" | tr '\n' ' ' | sed 's/ $//')"
printf 'domain: x\ndescriptors: [{kei: user}]\n' >"$tmp/other/d.yaml"
check "weir check --envoy has the place of an error" 1 "$("$weir" check --envoy "$tmp/other" 2>&1 | grep -c "/other/d.yaml:2:16: error: descriptors\[0\]: unknown key 'kei', did you mean 'key'?")"
check "weir check reads the directory of a configuration" 1 "$("$weir" check --syntax "$tmp/weir.yaml" 2>&1 | grep -c '/other/d.yaml:2:16: error: ')"
"$weir" check --quiet --envoy "$tmp/other" 2>/dev/null
check "its status" 1 $?

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

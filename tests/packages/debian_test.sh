#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The Debian packages: installed, upgraded, removed and purged with apt, as root of a bare Debian.
# tools/distros runs it in a chroot, since it changes the system that it runs on.
#
#   debian_test.sh DIR      DIR has the packages
set -uo pipefail
debs=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
. tests/e2e/daemon.sh
export DEBIAN_FRONTEND=noninteractive
resp=$((20000 + RANDOM % 10000))

apt() { apt-get -y -q --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { tail -n 15 /tmp/apt.log; return 1; }; }

# serve: runs the daemon as the service does
serve() { daemon_start /tmp setpriv --reuid weir --regid weir --clear-groups weir serve /etc/weir/weir.yaml; }
# ours: prints the files of the packages that are left, but for the packages themselves and this test
ours() {
    find / -xdev \( -path /proc -o -path "$debs" -o -path "$PWD" -o -path /tmp \) -prune -o -name '*weir*' -print |
        grep -vE '^/var/(cache|log)/|^/var/lib/apt/' | LC_ALL=C sort | xargs
}

printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d # packages start no servers
chmod 755 /usr/sbin/policy-rc.d
apt-get update >/dev/null 2>&1
apt install "$debs"/*.deb redis-server
check "apt installs all packages" 0 $?
version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" meson.build)
check "the program" "weir $version" "$(weir --version 2>&1)"
check "the user of the service, without a login" "weir /var/lib/weir /usr/sbin/nologin" \
    "$(getent passwd weir | awk -F: '{print $1, $6, $7}')"
units=$(dirname "$(dpkg -L weir | grep '/weir.service$')")
check "the unit names the program and its configuration" "/usr/bin/weir serve /etc/weir/weir.yaml" \
    "$(sed -n 's/^ExecStart=//p' "$units/weir.service")"
check "the service is enabled, the socket is not" yes \
    "$([ -L /etc/systemd/system/multi-user.target.wants/weir.service ] &&
        [ ! -e /etc/systemd/system/sockets.target.wants/weir.socket ] && echo yes)"
check "the configuration is a conffile" /etc/weir/weir.yaml "$(dpkg-query -W -f '${Conffiles}' weir | awk '{print $1}' | xargs)"
check "the default configuration is valid" 0 "$(weir check /etc/weir/weir.yaml >/dev/null 2>&1; echo $?)"
for page in weir.1 weir-serve.1 weir.yaml.5; do
    check "the man page $page" yes "$(dpkg -L weir | grep -q "/$page.gz$" && echo yes)"
done
check "the completions" "3" "$(dpkg -L weir | grep -cE '/(completions/weir|_weir|weir\.fish)$')"
check "nginx loads the module" 0 "$(nginx -t >/tmp/nginx.log 2>&1; echo $?)"
check "it is enabled" yes "$(grep -q ngx_http_weir_module /etc/nginx/modules-enabled/*weir.conf && echo yes)"
daemon_ready='Ready to accept connections' daemon_start /tmp redis-server --port "$resp" --bind 127.0.0.1 --save '' \
    --loadmodule /usr/lib/redis/modules/weir.so
check "Redis loads the module" "1 3 2 0 334 0" "$(request_to "$resp" WEIR.CHECK 'gcra 3/s burst 3' alice)"
daemon_stop
check "the libraries are found" "libweir-redis.so.0 libweir.so.0" "$(ldconfig -p | grep -o '^\s*libweir[^ ]*\.so\.0' | LC_ALL=C sort | xargs)"
check "weir-haproxy" /usr/share/weir/haproxy/weir.lua "$(dpkg -L weir-haproxy | grep 'lua$')"

# ---- an upgrade ----------------------------------------------------------------------------------

printf 'listen: {resp: 127.0.0.1:%s, http: off}\nmemory: {size: 16m, file: /var/lib/weir/state}\npolicies: {login: fixed-window 5/10000d}\n' \
    "$resp" >/etc/weir/weir.yaml
install -d -o weir -g weir -m 750 /var/lib/weir
serve
check "the first of five" "1 5 4" "$(request_to "$resp" WEIR.TAKE login alice | cut -d' ' -f1-3)"
daemon_stop
state=$(sha256sum /var/lib/weir/state)
dpkg-deb -R "$debs"/weir_*.deb /tmp/next && sed -i 's/^Version: .*/&+next/' /tmp/next/DEBIAN/control &&
    dpkg-deb -b /tmp/next /tmp/weir-next.deb >/dev/null
apt install /tmp/weir-next.deb
check "apt upgrades" "0 $version+next" "$? $(dpkg-query -W -f '${Version}' weir)"
check "the upgrade keeps the state file" "$state" "$(sha256sum /var/lib/weir/state)"
check "and a weir.yaml that was edited" "listen: {resp: 127.0.0.1:$resp, http: off}" "$(head -n 1 /etc/weir/weir.yaml)"
serve
check "the second of five" "1 5 3" "$(request_to "$resp" WEIR.TAKE login alice | cut -d' ' -f1-3)"
daemon_stop

# ---- removing ------------------------------------------------------------------------------------

packages=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' | awk '/weir/ && $2 == "installed" {print $1}' | xargs)
check "all packages" "libnginx-mod-http-weir libweir-dev libweir-redis0 libweir0 weir weir-haproxy weir-redis-module" "$(xargs -n 1 <<<"$packages" | grep -v dbgsym | xargs)"
apt remove weir
check "removing keeps the state, the configuration and the user" "yes" \
    "$([ -f /var/lib/weir/state ] && [ -f /etc/weir/weir.yaml ] && getent passwd weir >/dev/null && echo yes)"
apt purge $packages
check "apt purges" 0 $?
check "nothing is left" "" "$(ours)"
check "nor the user" "" "$(getent passwd weir; getent group weir)"
nginx -t >/tmp/nginx.log 2>&1
check "nginx runs without the module" 0 $?
echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

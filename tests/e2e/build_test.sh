#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What the build says when something is missing: tools/configure shows meson's error, and tools/deps
# chooses among the packages of the system, or names those of another system.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# ---- tools/configure
said=$(LLHTTP=$tmp/nowhere tools/configure "$tmp/build" 2>&1)
check "a build that cannot be configured fails" 1 $?
check "and shows meson's error" 1 "$(grep -c "ERROR:.*expected the HTTP parser llhttp" <<<"$said")"
check "with the package to install" 1 "$(grep -c "ERROR:.*libllhttp-dev" <<<"$said")"
check "and says which directory was to be configured" 1 "$(grep -c "^configure: .*$tmp/build" <<<"$said")"

# A meson that notes how it was called, and packages older and newer than the build directory.
mkdir "$tmp/meson"
printf '#!/bin/sh\necho "$*" >>"%s/calls"\n' "$tmp" >"$tmp/meson/meson"
chmod +x "$tmp/meson/meson"
mkdir "$tmp/configured"
touch -d '2 hours ago' "$tmp/status"
touch -d '1 hour ago' "$tmp/configured/build.ninja"
configure() { DPKG_STATUS=$tmp/status PATH=$tmp/meson:$PATH tools/configure "$@"; }
configure "$tmp/configured" -Dx=y
check "a configured directory is left alone" "" "$(cat "$tmp/calls" 2>/dev/null)"
touch "$tmp/status"
configure "$tmp/configured" -Dx=y
check "it is configured again after packages were installed" "setup --reconfigure $tmp/configured" "$(cat "$tmp/calls")"

# ---- tools/deps, on a Debian where nothing is installed. `offered` has the packages that apt knows.
mkdir "$tmp/debian" "$tmp/other"
for program in bash sed grep uname; do
    ln -s "$(command -v "$program")" "$tmp/debian/$program"
    ln -s "$(command -v "$program")" "$tmp/other/$program"
done
printf '#!%s\nexit 1\n' "$(command -v bash)" >"$tmp/debian/dpkg-query"
cat >"$tmp/debian/apt-cache" <<SH
#!$(command -v bash)
case " \$(<"$tmp/offered") " in
*" \$2 "*) printf '%s:\n  Installed: (none)\n  Candidate: 1.0\n' "\$2" ;;
*" (\$2) "*) printf '%s:\n  Installed: (none)\n  Candidate: (none)\n' "\$2" ;;
esac
SH
chmod +x "$tmp/debian"/*
listed() { PATH=$tmp/debian bash tools/deps --list "$@" 2>&1 | tr '\n' ' '; }
common="gcc libc6-dev make meson ninja-build pkg-config libuv1-dev libjansson-dev libyaml-dev zlib1g-dev libzstd-dev libssl-dev scdoc tzdata"

echo "$common node-llhttp (libllhttp-dev)" >"$tmp/offered"
check "Debian 12 has llhttp as source" "${common/tzdata/node-llhttp tzdata} " "$(listed)"
echo "$common node-llhttp libllhttp-dev" >"$tmp/offered"
check "Debian 13 has llhttp as a library" "${common/tzdata/libllhttp-dev tzdata} " "$(listed)"
echo "$common" >"$tmp/offered"
check "a system without llhttp says so" "$common not offered: libllhttp-dev or node-llhttp " "$(listed)"
echo "$common libllhttp-dev why3 z3" >"$tmp/offered"
check "a package that tests can do without is left out" "${common/tzdata/libllhttp-dev tzdata} why3 z3 " \
    "$(listed proof)"
echo "$common libllhttp-dev redis-tools curl" >"$tmp/offered"
check "a package for its command" "${common/tzdata/libllhttp-dev tzdata} redis-tools curl " "$(listed run)"
ln -s "$(command -v bash)" "$tmp/debian/curl"
check "the command is enough, also if its package has the same name" \
    "${common/tzdata/libllhttp-dev tzdata} redis-tools " "$(listed run)"

# ---- tools/deps, on other systems
named() { # ID [GROUP]
    printf 'ID=%s\n' "$1" >"$tmp/os-release"
    OS_RELEASE=$tmp/os-release PATH=$tmp/other bash tools/deps "${@:2}" 2>&1
}
check "Fedora's names" 1 "$(named fedora | grep -c '^weir needs: dnf install .*\<llhttp-devel\>')"
check "Alpine's names" 1 "$(named alpine check | grep -c '^weir needs: apk add .*\<llhttp-dev\>.*\<cmocka-dev\>')"
check "Debian's names for an unknown system" 1 \
    "$(named arch | grep -c '^weir needs what these packages of Debian hold: gcc .* libllhttp-dev or node-llhttp')"
check "and that weir was not tried there" 1 "$(named alpine | grep -c 'is tested on Debian 12 and 13')"
named fedora >/dev/null
check "which is no failure" 0 $?

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

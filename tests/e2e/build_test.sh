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

# ---- make install, with programs that note how they were called. `user` has the id of the user, and
# `cache` the libraries that ldconfig knows.
mkdir "$tmp/install"
cat >"$tmp/install/meson" <<'SH'
#!/bin/sh
[ "$1" != introspect ] || exec echo '{"a/libweir.so.0": "/p r/lib/libweir.so.0", "a/weir": "/p r/bin/weir"}'
echo "meson DESTDIR=$DESTDIR $*" >>"$NOTES/calls"
SH
printf '#!/bin/sh\n' >"$tmp/install/ninja"
printf '#!/bin/sh\ncat "$NOTES/user"\n' >"$tmp/install/id"
cat >"$tmp/install/ldconfig" <<'SH'
#!/bin/sh
[ "$1" != -p ] || exec cat "$NOTES/cache"
echo ldconfig >>"$NOTES/calls"
SH
chmod +x "$tmp/install"/*
installed() { # USER CACHE ARG...: what `make install ARG...` prints; its calls are in $tmp/calls
    echo "$1" >"$tmp/user"
    echo "$2" >"$tmp/cache"
    : >"$tmp/calls"
    env -u MAKEFLAGS -u MAKELEVEL -u DESTDIR NOTES="$tmp" PATH="$tmp/install:$PATH" make -o shipped install "${@:3}" 2>&1
}
known='	libweir.so.0 (libc6,x86-64) => /p r/lib/libweir.so.0'
check "install: a prefix with a space" "installed: /p r/bin/weir, and /p r/etc/weir/weir.yaml if there was none" \
    "$(installed 0 "$known" PREFIX='/p r')"
check "install: meson gets it whole, and root runs ldconfig" "meson DESTDIR= configure build -Dprefix=/p r
meson DESTDIR= install -C build --no-rebuild --quiet
ldconfig" "$(cat "$tmp/calls")"
check "install: a directory that ldconfig does not search" \
    "for programs that link libweir: set LD_LIBRARY_PATH=/p r/lib, which ldconfig does not search" \
    "$(installed 0 none PREFIX='/p r' | sed -n 2p)"
hint="for programs that link libweir: run ldconfig as root, or set LD_LIBRARY_PATH=/p r/lib"
check "install: another user" "$hint" "$(installed 1000 "$known" PREFIX='/p r' | sed -n 2p)"
check "install: another user does not run ldconfig" 0 "$(grep -c ldconfig "$tmp/calls")"
check "install: a DESTDIR with a space and a quote" "installed: /d 'e/usr/bin/weir, and /d 'e/etc/weir/weir.yaml if there was none
$hint" "$(installed 0 "$known" PREFIX=/usr DESTDIR="/d 'e")"
check "install: meson gets that whole, and ldconfig is not run" "meson DESTDIR=/d 'e configure build -Dprefix=/usr
meson DESTDIR=/d 'e install -C build --no-rebuild --quiet" "$(cat "$tmp/calls")"
check "install: an empty prefix" "install: PREFIX is empty, expected a directory such as /usr/local" \
    "$(installed 0 "$known" PREFIX= | head -n 1)"
check "install: an empty prefix installs nothing" "" "$(cat "$tmp/calls")"

# ---- make run, with a weir that fails, and says of the ports that they are in use or free
mkdir -p "$tmp/run/build" "$tmp/run/tools"
cp Makefile "$tmp/run"
printf '#!/bin/sh\n' >"$tmp/run/tools/deps"
cat >"$tmp/run/build/weir" <<'SH'
#!/bin/sh
[ "$1" = serve ] && exit 1
cat >"$NOTES/listen"
cat "$NOTES/said" >&2
SH
chmod +x "$tmp/run/tools/deps" "$tmp/run/build/weir"
ran() { # SAID: what `make run` prints if weir check prints this about the ports
    echo "$1" >"$tmp/said"
    env -u MAKEFLAGS -u MAKELEVEL NOTES="$tmp" make -C "$tmp/run" -o shipped run PORT=7000 HTTP=7001 2>&1
}
check "run: a port in use gets a hint" "To choose other ports: make run PORT=7380 HTTP=9080" \
    "$(ran '<stdin>:1:16: warning: listen.resp: 127.0.0.1:7000 is in use; ...' | grep '^To ')"
check "run: the hint is about the ports that were given" "listen: {resp: 7000, http: 7001}" "$(cat "$tmp/listen")"
check "run: any other failure gets none" "" "$(ran '' | grep '^To ')"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

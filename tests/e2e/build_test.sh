#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The build on an incomplete system: tools/configure shows the error of meson, and tools/deps
# selects the packages that the system offers, or names those of another system.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# ---- tools/configure
said=$(LLHTTP=$tmp/nowhere tools/configure "$tmp/build" 2>&1)
check "a build that cannot be configured fails" 1 $?
check "tools/configure shows the error of meson" 1 "$(grep -c "ERROR:.*expected the HTTP parser llhttp" <<<"$said")"
check "the error names the package to install" 1 "$(grep -c "ERROR:.*libllhttp-dev" <<<"$said")"
check "tools/configure names the build directory" 1 "$(grep -c "^configure: .*$tmp/build" <<<"$said")"

# A fake meson that logs its calls, and packages that are older or newer than the build directory.
mkdir "$tmp/meson"
printf '#!/bin/sh\necho "$*" >>"%s/calls"\n' "$tmp" >"$tmp/meson/meson"
chmod +x "$tmp/meson/meson"
mkdir "$tmp/configured"
touch -d '2 hours ago' "$tmp/status"
touch -d '1 hour ago' "$tmp/configured/build.ninja"
configure() { DPKG_STATUS=$tmp/status PATH=$tmp/meson:$PATH tools/configure "$@"; }
configure "$tmp/configured" -Dx=y
check "a configured directory is not configured again" "" "$(cat "$tmp/calls" 2>/dev/null)"
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
common="gcc libc6-dev make meson ninja-build pkg-config libuv1-dev libjansson-dev libyaml-dev zlib1g-dev libssl-dev libnghttp2-dev libprotobuf-c-dev protobuf-c-compiler scdoc tzdata"

echo "$common node-llhttp (libllhttp-dev)" >"$tmp/offered"
check "Debian 12 offers the source of llhttp" "${common/tzdata/node-llhttp tzdata} " "$(listed)"
echo "$common node-llhttp libllhttp-dev" >"$tmp/offered"
check "Debian 13 offers llhttp as a library" "${common/tzdata/libllhttp-dev tzdata} " "$(listed)"
echo "$common" >"$tmp/offered"
check "a missing package is reported" "$common not offered: libllhttp-dev or node-llhttp " "$(listed)"
echo "$common libllhttp-dev why3 z3" >"$tmp/offered"
check "an optional package that is not offered is omitted" "${common/tzdata/libllhttp-dev tzdata} why3 z3 " \
    "$(listed proof)"
echo "$common libllhttp-dev redis-tools curl" >"$tmp/offered"
check "a package is installed for its command" "${common/tzdata/libllhttp-dev tzdata} redis-tools curl " "$(listed run)"
ln -s "$(command -v bash)" "$tmp/debian/curl"
check "an existing command replaces its package, even of the same name" \
    "${common/tzdata/libllhttp-dev tzdata} redis-tools " "$(listed run)"
check "a missing command: the message names its package and what installs it" \
    "redis-cli is missing: it is in the Debian package redis-tools, which tools/deps run installs" \
    "$(tools/deps --missing redis-cli)"
check "a command that no package is known for" "no-such: tools/deps knows no package" \
    "$(none=no-such-command; $none 2>&1 | sed 's/-command is missing//; s/ that .*//')"
check "an unknown group" "2 tools/deps: unknown group 'chekc', expected one of run check bench" \
    "$(tools/deps chekc 2>"$tmp/said"; echo "$? $(cut -d' ' -f1-10 "$tmp/said")")"

# ---- tools/deps, on other systems
named() { # ID [GROUP]
    printf 'ID=%s\n' "$1" >"$tmp/os-release"
    OS_RELEASE=$tmp/os-release PATH=$tmp/other bash tools/deps "${@:2}" 2>&1
}
check "Fedora: the names of its packages" 1 "$(named fedora | grep -c '^weir needs: dnf install .*\<llhttp-devel\>')"
check "Alpine: the names of its packages" 1 "$(named alpine check | grep -c '^weir needs: apk add .*\<llhttp-dev\>.*\<cmocka-dev\>')"
check "an unknown system: the names of Debian's packages" 1 \
    "$(named arch | grep -c '^weir needs the contents of these Debian packages: gcc .* libllhttp-dev or node-llhttp')"
check "another system: the message says that weir is not tested there" 1 "$(named alpine | grep -c 'is tested on Debian 12 and 13')"
named fedora >/dev/null
check "another system: the status is 0" 0 $?

# ---- make install, with fake programs that log their calls. `user` has the id of the user, and
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
installed() { # USER CACHE ARGUMENT...: runs make install; the calls of programs are in $tmp/calls
    echo "$1" >"$tmp/user"
    echo "$2" >"$tmp/cache"
    : >"$tmp/calls"
    env -u MAKEFLAGS -u MAKELEVEL -u DESTDIR NOTES="$tmp" PATH="$tmp/install:$PATH" make -o shipped install "${@:3}" 2>&1
}
known='	libweir.so.0 (libc6,x86-64) => /p r/lib/libweir.so.0'
check "install: a prefix with a space" "installed: /p r/bin/weir, and /p r/etc/weir/weir.yaml if there was none" \
    "$(installed 0 "$known" PREFIX='/p r')"
check "install: meson gets the prefix unchanged, and root runs ldconfig" "meson DESTDIR= configure build -Dprefix=/p r
meson DESTDIR= install -C build --no-rebuild --quiet
ldconfig" "$(cat "$tmp/calls")"
check "install: a directory that ldconfig does not search" \
    "for programs that link libweir: set LD_LIBRARY_PATH=/p r/lib, which ldconfig does not search" \
    "$(installed 0 none PREFIX='/p r' | sed -n 2p)"
hint="for programs that link libweir: run ldconfig as root, or set LD_LIBRARY_PATH=/p r/lib"
check "install: a user who is not root gets a hint" "$hint" "$(installed 1000 "$known" PREFIX='/p r' | sed -n 2p)"
check "install: a user who is not root does not run ldconfig" 0 "$(grep -c ldconfig "$tmp/calls")"
check "install: a DESTDIR with a space and a quote" "installed: /d 'e/usr/bin/weir, and /d 'e/etc/weir/weir.yaml if there was none
$hint" "$(installed 0 "$known" PREFIX=/usr DESTDIR="/d 'e")"
check "install: meson gets DESTDIR unchanged, and ldconfig does not run" "meson DESTDIR=/d 'e configure build -Dprefix=/usr
meson DESTDIR=/d 'e install -C build --no-rebuild --quiet" "$(cat "$tmp/calls")"
check "install: an empty prefix" "install: PREFIX is empty, expected a directory such as /usr/local" \
    "$(installed 0 "$known" PREFIX= | head -n 1)"
check "install: an empty prefix installs nothing" "" "$(cat "$tmp/calls")"

# ---- make run, with a fake weir that fails and reports that the ports are in use or free
mkdir -p "$tmp/run/build" "$tmp/run/tools"
printf 'shipped:\n' >"$tmp/run/Makefile"
cp tools/run "$tmp/run/tools"
printf '#!/bin/sh\n' >"$tmp/run/tools/deps"
cat >"$tmp/run/build/weir" <<'SH'
#!/bin/sh
[ "$1" = serve ] && exit 1
cat >"$NOTES/listen"
cat "$NOTES/said" >&2
SH
chmod +x "$tmp/run/tools/deps" "$tmp/run/build/weir"
ran() { # REPORT PORT: prints the output of `make run` if weir check reports this about the ports
    echo "$1" >"$tmp/said"
    env -u MAKEFLAGS -u MAKELEVEL NOTES="$tmp" "$tmp/run/tools/run" "$2" 7001 2>&1
}
check "run: a port in use gets a hint" "run: to choose other ports: make run PORT=7380 HTTP=9080" \
    "$(ran '<stdin>:1:16: warning: listen.resp: 127.0.0.1:7000 is in use; ...' 7000 | grep '^run: ')"
check "run: the hint is about the given ports" "listen: {resp: 7000, http: 7001}" "$(cat "$tmp/listen")"
check "run: any other failure gets no hint" "" "$(ran '' 7000 | grep '^run: ')"
if command -v python3 >/dev/null; then
    coproc listener { python3 -c 'import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
input()'; }
    read -r port <&"${listener[0]}"
    check "run: a port in use is reported before anything is built" \
        "run: 127.0.0.1:$port is in use; to choose other ports: make run PORT=7380 HTTP=9080" "$(ran '' "$port")"
    echo >&"${listener[1]}"
    wait
fi

# ---- tools/mutants: a wrong option, file or line is an error before anything is built
mutants_error() { tools/mutants "$@" 2>&1 | sed -n 's/^tools.mutants: error: //p' | cut -d, -f1; }
if command -v python3 >/dev/null; then
    check "mutants: no line" "--one: expected FILE:LINE" "$(mutants_error --one src/core/gcra.c)"
    check "mutants: no such line" "--one: src/core/wide.c has $(wc -l <src/core/wide.c) lines" "$(mutants_error --one src/core/wide.c:99999)"
    check "mutants: a comment" "--one: src/core/gcra.c:1 has no mutants" "$(mutants_error --one src/core/gcra.c:1)"
    check "mutants: no such file" "src/core/x.c: expected a C or Lua file below src/ or modules/ that is not a test" \
        "$(mutants_error --list --file src/core/x.c)"
    check "mutants: no such room" "--room: expected one of core policy port" "$(mutants_error --room polcy | cut -d' ' -f1-7)"
    [ ! -e .git ] ||
        check "mutants: no such commit" "--since: expected a commit" "$(mutants_error --since no-such-commit)"
fi

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

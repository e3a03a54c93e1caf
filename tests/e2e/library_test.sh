#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The installed library: found by pkg-config, and used by every example, with both libraries, shared and
# static. The headers also compile as C++17.
#
#   library_test.sh BUILDDIR
set -uo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
. tests/e2e/examples.sh
tmp=$(mktemp -d)
trap 'kill "${server-}" 2>/dev/null; rm -rf "$tmp"' EXIT

DESTDIR=$tmp/root meson install -C "$build" --no-rebuild --quiet >"$tmp/install.log" 2>&1
check "meson install succeeds" 0 $?
pc=$(find "$tmp/root" -name weir.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$tmp/root
check "the installed program runs" "weir 0.1.0" "$("$(find "$tmp/root" -name weir -type f -perm -u+x)" version)"
check "pkg-config has the version" 0.1.0 "$(pkg-config --modversion weir)"
# Newer versions of glibc have some functions of glibc 2.28 in another form, or under another name.
check "of the functions that libweir.so calls, glibc 2.28 lacks none, and glibc 2.24 one" getentropy \
    "$(objdump -T "$libdir/libweir.so" | tr -d '()' | awk '$5 ~ /^GLIBC_2/ {split($5, v, ".")
        if (v[2] > 24 && $6 !~ /^(pthread_|__isoc23_|fcntl64$|[fl]?stat64$)/) print $6}')"

# If the build under test is instrumented, programs that link it must be, too.
read -ra flags <<<"${EXAMPLE_CFLAGS--O1}"

# example NAME PACKAGE [ARGUMENT...]: builds and runs an example with PACKAGE, shared and static
example() {
    local name=$1 package=$2 source=examples/$1.c got archives
    shift 2
    # shellcheck disable=SC2046
    got=$(${CC:-cc} -std=c11 -Wall -Wextra -Werror "${flags[@]}" "$source" -o "$tmp/$name-shared" \
        $(pkg-config --cflags --libs "$package") -lpthread 2>&1 &&
        LD_LIBRARY_PATH=$libdir "$tmp/$name-shared" "$@")
    check "$name, shared" "$(want "$name")" "$got"
    archives=("$libdir/libweir.a")
    if [ "$package" = weir-redis ]; then
        archives=("$libdir/libweir-redis.a" "$libdir/libweir.a" -luv -lssl -lcrypto)
    fi
    # shellcheck disable=SC2046
    got=$(${CC:-cc} -std=c11 -Wall -Wextra -Werror "${flags[@]}" "$source" -o "$tmp/$name-static" \
        $(pkg-config --cflags "$package") "${archives[@]}" -lpthread 2>&1 && "$tmp/$name-static" "$@")
    check "$name, static" "$(want "$name")" "$got"
}

for source in examples/*.c; do
    name=$(basename "$source" .c)
    [ "$name" = redis ] || example "$name" weir
done

# The example that needs a server gets one on a Unix socket.
skipped=0
if command -v redis-server >/dev/null; then
    redis-server --port 0 --unixsocket "$tmp/redis.sock" --save '' --dir "$tmp" >"$tmp/redis.log" 2>&1 &
    server=$!
    mkfifo "$tmp/never"
    exec 9<>"$tmp/never"
    for ((i = 0; i < 200; i++)); do
        [ "$(redis-cli -s "$tmp/redis.sock" ping 2>/dev/null)" = PONG ] && break
        read -rt 0.05 -u 9
    done
    check "pkg-config has both libraries" "-lweir-redis -lweir" \
        "$(pkg-config --libs-only-l weir-redis | tr -s ' ' | sed 's/ $//')"
    example redis weir-redis "unix://$tmp/redis.sock"
else
    skipped=3
fi

echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed > 0))

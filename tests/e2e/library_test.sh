#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The library as its user meets it: installed, found by pkg-config, and every example built from what
# is installed, against both libraries, as C11 and (headers) as C++17, and run.
#
#   library_test.sh BUILDDIR
set -uo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
. tests/e2e/examples.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

DESTDIR=$tmp/root meson install -C "$build" --no-rebuild --quiet >"$tmp/install.log" 2>&1
check "installs" 0 $?
pc=$(find "$tmp/root" -name weir.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$tmp/root
check "the program runs" "weir 0.1.0" "$("$(find "$tmp/root" -name weir -type f -perm -u+x)" version)"
check "pkg-config knows the version" 0.1.0 "$(pkg-config --modversion weir)"

# The build under test may be instrumented: then so must be what links it.
read -ra flags <<<"${EXAMPLE_CFLAGS--O1}"
for source in examples/*.c; do
    name=$(basename "$source" .c)
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror "${flags[@]}" "$source" -o "$tmp/$name-shared" \
        $(pkg-config --cflags --libs weir) -lpthread 2>&1 && shared=$(LD_LIBRARY_PATH=$libdir "$tmp/$name-shared")
    check "$name, shared" "$(want "$name")" "$shared"
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror "${flags[@]}" "$source" -o "$tmp/$name-static" \
        $(pkg-config --cflags weir) "$libdir/libweir.a" -lpthread 2>&1 && static=$("$tmp/$name-static")
    check "$name, static" "$(want "$name")" "$static"
done

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

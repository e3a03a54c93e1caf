#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The amalgamation as an embedder uses it: weir.c and weir.h in a directory with the program, and no
# other include path. Checks its exports, every example, the vectors, and warnings under sanitizers.
#
#   dist_test.sh DISTDIR VECTORS... -- AMALGAMATE ARGUMENT...
set -uo pipefail
dist=$(realpath "$1")
shift
vectors=()
while [ "$1" != -- ]; do
    vectors+=("$(realpath "$1")")
    shift
done
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

PYTHONHASHSEED=7 "$@" --out "$tmp/again" # where the paths among the arguments begin
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
. tests/e2e/examples.sh
check "amalgamating again gives the same bytes" "" "$(diff -rq "$dist" "$tmp/again" 2>&1)"
# Only absolute paths count: if weir is built in /weir, the path "include/weir/" is not a match.
check "contains no path of this machine" "" "$(grep -nE "(^|[^[:alnum:]_.-])($PWD|$dist)" "$dist"/weir.[ch])"

strict=(-std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Werror)
bare=(-DWEIR_CORE_ONLY -ffreestanding)
compilers=()
for cc in gcc clang; do
    command -v $cc >/dev/null && compilers+=($cc)
done
mkdir "$tmp/embed"
cp "$dist"/weir.[ch] "$tmp/embed"
cd "$tmp/embed" || exit 1
api=$OLDPWD/tools/api.symbols

symbols() { nm "$@" | awk 'NF >= 2 {print $NF}' | grep -v -e _GLOBAL_OFFSET_TABLE_ -e __stack_pointer | sort; }

for cc in "${compilers[@]}"; do
    check "$cc compiles it" "" "$($cc "${strict[@]}" -O2 -c weir.c -o "$cc.o" 2>&1)"
    check "$cc exports the public API" "$(cat "$api")" "$(symbols -g --defined-only $cc.o)"
    flags=()
    [ $cc = gcc ] && flags=(-fno-tree-loop-distribute-patterns)
    check "$cc compiles the core alone" "" \
        "$($cc "${strict[@]}" "${bare[@]}" "${flags[@]}" -O2 -c weir.c -o "$cc-core.o" 2>&1)"
    check "$cc, core alone: exports the API without stores" "$(grep -v ^weir_store_ "$api")" \
        "$(symbols -g --defined-only $cc-core.o)"
    check "$cc, core alone: needs no other symbol" "" "$(symbols -u $cc-core.o)"
    # In one file the compiler sees all functions. It must not remove the function that prefetches.
    printf '%s\n' '#include "port/atomic.h"' \
        'static __attribute__((noinline)) void ahead(const void *p) { port_prefetch(p); }' \
        'void far(const void *p);' 'void far(const void *p) { ahead(p); }' >ahead.c
    check "$cc keeps the call that prefetches" 1 \
        "$($cc -O2 -I"$OLDPWD/src" -S ahead.c -o - | grep -cE '\b(prefetch|prfm)')"
done
echo '#include "weir.h"' >header.cc
for cc in g++ clang++; do # gcc is in every build, g++ is not
    command -v $cc >/dev/null || continue
    check "$cc compiles the header as C++17" "" \
        "$($cc -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only header.cc 2>&1)"
done
if command -v clang >/dev/null; then
    check "the core alone compiles for wasm32" "" \
        "$(clang --target=wasm32 "${strict[@]}" "${bare[@]}" -fno-builtin -Oz -c weir.c -o wasm.o 2>&1)"
    check "core alone, wasm32: needs no other symbol" "" \
        "$(llvm-nm -u wasm.o | grep -v -e __stack_pointer -e __linear_memory -e __indirect)"
fi

# examples NAME OBJECT CC FLAG...: builds and runs every example with OBJECT
examples() {
    local name=$1 object=$2 source example got
    shift 2
    for source in "$OLDPWD"/examples/*.c; do
        example=$(basename "$source" .c)
        [ "$example" = redis ] && continue # has a library of its own
        sed 's|#include <weir/.*>|#include "weir.h"|' "$source" >"$example.c"
        got=$("$@" -std=c11 -Wall -Wextra -Werror "$example.c" "$object" -o "$example" -pthread 2>&1 &&
            ./"$example" 2>&1)
        check "$example, $name" "$(want "$example")" "$got"
    done
}

# conformance NAME OBJECT CC FLAG...: runs the vectors with OBJECT. The program takes only the reader of
# zone files from the sources of the daemon.
conformance() {
    local name=$1 object=$PWD/$2
    shift 2
    # shellcheck disable=SC2046
    (cd "$OLDPWD" && "$@" -std=gnu11 -Iinclude -Isrc tests/conformance/core_vectors.c \
        tests/conformance/vectors.c src/service/zone_cache.c src/port/port.c src/port/text.c "$object" \
        -o "$tmp/vectors" \
        $(pkg-config --cflags --libs jansson) -pthread 2>&1) && "$tmp/vectors" "${vectors[@]}" >"$tmp/log" 2>&1
    check "vectors, $name" 0 $?
    tail -n 1 "$tmp/log"
}

for cc in "${compilers[@]}"; do
    examples "$cc" "$cc.o" "$cc"
    conformance "$cc" "$cc.o" "$cc"
done
checked=(-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all)
check "compiles with ${checked[2]}" "" "$(gcc -std=c11 "${checked[@]}" -c weir.c -o checked.o 2>&1)"
examples "${checked[2]}" checked.o gcc "${checked[@]}"
conformance "${checked[2]}" checked.o gcc "${checked[@]}"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

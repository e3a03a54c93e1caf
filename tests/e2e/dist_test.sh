#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The library in one file as its embedder meets it: weir.c and weir.h in a folder with the program,
# and no other include path. What it exports, every example, the vectors, and the sanitizers.
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
check "made again, the same bytes" "" "$(diff -rq "$dist" "$tmp/again" 2>&1)"
check "names no place of this machine" "" "$(grep -nF -e "$PWD" -e "$dist" "$dist"/weir.[ch])"

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
    for level in -O0 -O2; do
        check "$cc $level compiles it" "" "$($cc "${strict[@]}" $level -c weir.c -o "$cc.o" 2>&1)"
    done
    check "$cc exports the public API" "$(cat "$api")" "$(symbols -g --defined-only $cc.o)"
    flags=()
    [ $cc = gcc ] && flags=(-fno-tree-loop-distribute-patterns)
    check "$cc compiles the core alone" "" \
        "$($cc "${strict[@]}" "${bare[@]}" "${flags[@]}" -O2 -c weir.c -o "$cc-core.o" 2>&1)"
    check "$cc, core alone, exports its part" "$(grep -v ^weir_store_ "$api")" \
        "$(symbols -g --defined-only $cc-core.o)"
    check "$cc, core alone, needs nothing" "" "$(symbols -u $cc-core.o)"
    echo '#include "weir.h"' >header.c
    check "$cc, header as C++17" "" \
        "$($cc -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only header.c 2>&1)"
done
if command -v clang >/dev/null; then
    check "the core alone compiles for wasm32" "" \
        "$(clang --target=wasm32 "${strict[@]}" "${bare[@]}" -fno-builtin -Oz -c weir.c -o wasm.o 2>&1)"
    check "core alone, wasm32, needs nothing" "" \
        "$(llvm-nm -u wasm.o | grep -v -e __stack_pointer -e __linear_memory -e __indirect)"
fi

# run NAME CC FLAG...: builds and runs every example
run() {
    local name=$1 cc=$2 source example got
    shift 2
    for source in "$OLDPWD"/examples/*.c; do
        example=$(basename "$source" .c)
        sed 's|#include <weir/.*>|#include "weir.h"|' "$source" >"$example.c"
        got=$($cc -std=c11 -Wall -Wextra -Werror "$@" "$example.c" weir.c -o "$example" -pthread 2>&1 &&
            ./"$example" 2>&1)
        check "$example, $name" "$(want "$example")" "$got"
    done
}

read -ra flags <<<"${EXAMPLE_CFLAGS--O2}"
for cc in "${compilers[@]}"; do
    run "$cc ${flags[*]}" "$cc" "${flags[@]}"
done
run "gcc with sanitizers" gcc -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all

# The door of the core, whose zone files are read by the sources of the daemon; all else is weir.c.
door=(tests/conformance/core_door.c tests/conformance/vectors.c src/service/zones.c src/port/port.c)
for way in "-O2" "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"; do
    read -ra flags <<<"$way"
    # shellcheck disable=SC2046
    (cd "$OLDPWD" && gcc -std=gnu11 "${flags[@]}" -Iinclude -Isrc "${door[@]}" "$tmp/embed/weir.c" \
        -o "$tmp/door" $(pkg-config --cflags --libs jansson) -pthread 2>&1)
    "$tmp/door" "${vectors[@]}" >"$tmp/vectors.log" 2>&1
    check "vectors, $way" 0 $?
    tail -n 1 "$tmp/vectors.log"
done

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The amalgamation as an embedder uses it: weir.c and weir.h in a directory with the program, and no
# other include path. Checks its exports, every example, the vectors, and warnings: with gcc, clang, musl, the
# sanitizers, and with what a system other than Linux has. tools/aarch64 runs the examples on arm64.
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

# conformance NAME OBJECT CC FLAG...: runs the vectors with OBJECT. The program takes only the reader of
# zone files from the sources of the daemon.
jansson=$(pkg-config --cflags --libs jansson)
conformance() {
    local name=$1 object=$PWD/$2
    shift 2
    # shellcheck disable=SC2086
    (cd "$OLDPWD" && "$@" -std=gnu11 -Iinclude -Isrc tests/conformance/core_vectors.c \
        tests/conformance/vectors.c src/service/zone_cache.c src/port/port.c src/port/text.c "$object" \
        -o "$tmp/vectors" $jansson -pthread 2>&1) && "$tmp/vectors" "${vectors[@]}" >"$tmp/log" 2>&1
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

# The archive of jansson was built for glibc: it needs some of its functions, and headers after those of musl.
if command -v musl-gcc >/dev/null; then
    check "musl-gcc compiles it" "" "$(musl-gcc "${strict[@]}" -c weir.c -o musl.o 2>&1)"
    examples musl musl.o musl-gcc -static
    cat >glibc.c <<'END'
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int __vsnprintf_chk(char *s, size_t n, int flag, size_t size, const char *format, va_list args)
{
    return vsnprintf(s, n, format, args);
}
int __snprintf_chk(char *s, size_t n, int flag, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(s, n, format, args);
    va_end(args);
    return len;
}
long long __isoc23_strtoll(const char *s, char **end, int base)
{
    return strtoll(s, end, base);
}
char *__strncpy_chk(char *s, const char *from, size_t n, size_t size)
{
    return strncpy(s, from, n);
}
END
    jansson="-idirafter /usr/include $PWD/glibc.c $(pkg-config --variable=libdir jansson)/libjansson.a" \
        conformance musl musl.o musl-gcc -static
fi

# Other systems than Linux: a store in memory works; a file and shared memory are refused.
check "compiles without what only Linux has" "" "$(gcc "${strict[@]}" -DPORT_LINUX=0 -c weir.c -o other.o 2>&1)"
cat >refused.c <<'END'
#define _GNU_SOURCE
#include "weir.h"
#include <stdio.h>
#include <sys/mman.h>
int main(void)
{
    weir_store *s;
    weir_store_error error;
    void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const weir_store_options some[] = {
        {.memory_bytes = 1 << 20, .memory = memory, .ret_error = &error},
        {.memory_bytes = 8 << 20, .file = "x.state", .ret_error = &error},
        {.memory_bytes = 8 << 20, .file = "x.state", .read_only = true, .ret_error = &error}};
    for (int i = 0; i < 3; i++)
        printf("%s: %s\n", weir_status_str(weir_store_open(&s, &some[i])), error.text);
    return 0;
}
END
gcc -std=c11 refused.c other.o -o refused -pthread
check "another system: files and shared memory are refused" 'out of memory: memory: the system has no robust mutexes
a system call failed: x.state: files are supported on Linux only
a system call failed: x.state: files are supported on Linux only' "$(./refused)"
for example in batch reserve threads together; do
    gcc -std=c11 $example.c other.o -o $example -pthread
    check "$example, another system" "$(want $example)" "$(./$example)"
done

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

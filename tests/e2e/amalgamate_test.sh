#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/amalgamate: on a small library in which all kinds of names collide, and on input that it must
# refuse.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"/{tools,include/weir,src/core,src/port}
cp tools/amalgamate "$tmp/tools"
cp LICENSE "$tmp"
cd "$tmp" || exit 1

cat >include/weir/weir.h <<'END'
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H
#include <stddef.h>
typedef struct weir_finder {
    int (*find)(int view);
    int view;
} weir_finder;
int weir_one(const weir_finder *f);
int weir_two(const weir_finder *f);
#endif
END
cat >src/core/inner.h <<'END'
#ifndef INNER_H
#define INNER_H
extern const int inner_table[2]; /* a table */
int inner_sum(const int *at,
              int n);

/* Nobody calls this. */
int inner_unused(void);
#endif
END
cat >src/core/one.c <<'END'
#include "core/inner.h"

#include <weir/weir.h>

#define SIZE 2
#define VIEW(x) ((x)->view + SIZE)
enum { FIRST = 1, LAST = FIRST + 1 };

typedef struct entry {
    struct entry *next;
    int view, find; /* members: not the functions below */
    int (*write)(int), list[SIZE];
    union {
        int entry;
        unsigned bits : 3;
    };
} entry;

const int inner_table[2] = {FIRST, LAST};

static int view(const weir_finder *f)
{
    return VIEW(f); /* view */
}

static int write(int n)
{
    return n;
}

static int find(const entry *e,
                int n)
{
    return e->next->view + e->find + e->write(n) + e->entry + e->list[1] + (int)sizeof "view entry";
}

int inner_unused(void)
{
    return 1;
}

int weir_one(const weir_finder *f)
{
    entry last = {.view = 1}, e = {.next = &last, .find = 2, .write = write, .list = {0, 3}, .entry = 4};
    return view(f) + f->find(find(&e,
                                  5)) + ':' - '"' + inner_sum(inner_table, SIZE);
}
END
cat >src/core/two.c <<'END'
#include "core/inner.h"

#include <weir/weir.h>

#define SIZE 3
enum { FIRST = 10 };

static const int view[SIZE] = {FIRST, 20, 30};

static int helper(void)
{
    return inner_unused();
}

int inner_sum(const int *at, int n)
{
    return n > 0 ? *at + inner_sum(at + 1, n - 1) : 0;
}

int weir_two(const weir_finder *f)
{
    int entry = view[SIZE - 1];
    return entry + f->view;
}
END
cat >src/port/port.c <<'END'
#define _GNU_SOURCE
#include <weir/weir.h>

#include <unistd.h>

int weir_two(const weir_finder *f);
END
cat >main.c <<'END'
#include "weir.h"
#include <stdio.h>
static int twice(int n)
{
    return 2 * n;
}
int main(void)
{
    weir_finder f = {twice, 100};
    printf("%d %d\n", weir_one(&f), weir_two(&f));
    return 0;
}
END

join() { tools/amalgamate --version 9 --out out --headers include/weir/weir.h --core src/core/*.c --hosted src/port/*.c 2>&1; }
has() { grep -c -- "$1" out/weir.c; }

check "amalgamates the library" "" "$(join)"
check "the amalgamation compiles" "" \
    "$(cc -std=c11 -Wall -Wextra -Wconversion -Wshadow -Werror -Iout main.c out/weir.c -o main 2>&1)"
cc -std=c11 -Iinclude -Isrc -Iinclude/weir main.c src/*/*.c -o apart
check "the program prints the same as with the separate files" "$(./apart)" "$(./main)"
check "exports only the public functions" "weir_one weir_two" \
    "$(cc -std=c11 -O1 -c out/weir.c -o weir.o && nm -g --defined-only weir.o | awk '{print $3}' | xargs)"
check "prefixes functions, constants, types and macros" "1 1 1 1" \
    "$(has 'static int one_view(const weir_finder \*f)') $(has 'ONE_FIRST = 1, ') \
$(has '^typedef struct one_entry {') $(has '#define TWO_SIZE 3')"
check "leaves members, strings and comments alone" "1 1 1" \
    "$(has '    int view, find; /') $(has '"view entry"') $(has '; /\* view \*/')"
check "a declaration of several lines is renamed" 1 "$(has '^static int inner_sum(const int \*at,$')"
check "its continuation line is aligned again" 1 "$(grep -A1 'int inner_sum(const int \*at,$' out/weir.c | grep -c '^                     int n);')"
check "the compiler removes unused functions" 0 "$(nm weir.o | grep -c 'unused\|helper')"

# refuses NAME FILE TEXT ERROR: TEXT at the end of FILE must be refused with this error
refuses() {
    cp "$2" saved
    printf '%s\n' "$3" >>"$2"
    check "refuses $1" "amalgamate: $4" "$(join)"
    cp saved "$2"
}
refuses "a name formed by ##" src/core/two.c '#define GLUE(a, b) a##b' \
    "src/core/two.c:25: '##' is not supported, because it forms names that tools/amalgamate cannot rename"
refuses "a header that does not exist" src/core/two.c '#include "core/none.h"' \
    'src/core/two.c:25: "core/none.h": the file does not exist'
refuses "a conditional #include" src/core/two.c $'#if 1\n#include "core/inner.h"\n#endif' \
    'src/core/two.c:26: "core/inner.h" within #if, expected at the top'
refuses "a global that no header declares" src/core/two.c 'int loose(void) { return 0; }' \
    "src/core/two.c:25: 'loose' is neither static nor declared in a header"
refuses "half a function" src/core/two.c 'static int half(void) {' \
    "src/core/two.c:25: a declaration without an end"
check "amalgamates the library again" "" "$(join)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

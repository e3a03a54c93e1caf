#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""Compares the list of the fields of a decision, in src/core/decision.h, with the sources that cannot include it and
with the pages that describe it. docs/HACKING.md has the table of all places.

    fields_test.py REPOSITORY"""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
ROW = re.compile(r"X\([A-Z_]+, (FLAG|COUNT|WAIT|SPAN), (\w+)\)")


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def name_of(kind, name, unit):
    return name + (f"_{unit}" if kind in ("WAIT", "SPAN") else "")


def problems(fields):
    ms = [name_of(kind, name, "ms") for kind, name in fields]
    ns = [name_of(kind, name, "ns") for kind, name in fields]

    def missing(file, needed, found):
        return [f"{file}: '{name}' is missing" for name in needed if name not in found]

    listed = re.search(r"^local NAMES = {(.*?)}", text_of("modules/lua/weir.lua"), re.M | re.S)
    if re.findall(r"'(\w+)'", listed[1]) != ms:
        yield f"modules/lua/weir.lua: NAMES, expected {', '.join(ms)}"
    read = re.findall(r'number\("(\w+)"\)', text_of("modules/haproxy/weir.lua"))
    yield from missing("modules/haproxy/weir.lua", [name for name in ms if name != "allowed"], read)
    printed = re.search(r"^FIELDS = \((.*?)\)", text_of("reference/vector_format.py"), re.M | re.S)
    yield from missing("reference/vector_format.py", [name for name in ns if name != "allowed"],
                       re.findall(r'"(\w+)"', printed[1]))
    for page in ("docs/http.md", "docs/resp.md"):
        rows = re.findall(r"^\| `(\w+)` \|", text_of(page), re.M)
        yield from missing(page, ms, rows)


def main():
    listed = re.search(r"#define WEIR_DECISION_LIST\(X\)(.*?)\n\n", text_of("src/core/decision.h"), re.S)
    fields = ROW.findall(listed[1])
    found = list(problems(fields))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    good = len(fields) >= 6 and not found
    print(f"{int(good)} passed, {int(not good)} failed, 0 skipped")
    return not good


if __name__ == "__main__":
    sys.exit(main())

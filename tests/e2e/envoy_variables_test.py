#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the table of environment variables in docs/envoy.md with the one in the code: the same names,
and the same key of weir.yaml for each.

    envoy_variables_test.py PAGE SOURCE
"""
import re
import sys

ROW = re.compile(r'^\s+(SET|NOT_NEEDED|WARN|REFUSE)\("([A-Z_]+\*?)",\s*(?:"([a-z_.]+)"|NULL|)', re.M)
failed = 0


def check(name, good, detail=""):
    global failed
    print(f"{'ok' if good else 'not ok'} - {name}" + ("" if good else f"\n  {detail}"))
    failed += not good


def code_rows(text):
    """The key of each variable, or "-"."""
    return {name: (key if use == "SET" and key else "-") for use, name, key in ROW.findall(text)}


def page_rows(text):
    """The same of the page, and the names in their order."""
    section = text[text.index("\n## Environment variables\n"):]
    section = section[:section.index("\n## ", 1)]
    names, keys = [], {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found = re.findall(r"`([A-Z_]+\*?)`", cells[0])
            names += found
            keys |= dict.fromkeys(found, cells[1].strip("`"))
    return names, keys


def main():
    with open(sys.argv[1], encoding="utf-8") as page, open(sys.argv[2], encoding="utf-8") as source:
        (names, on_page), in_code = page_rows(page.read()), code_rows(source.read())
    check("the code has a table of variables", len(in_code) > 40, str(in_code))
    check("each variable is on the page once", len(names) == len(on_page), str(names))
    check("the page has every variable of the code, and no other", set(on_page) == set(in_code),
          f"only on the page: {sorted(set(on_page) - set(in_code))}; only in the code: "
          f"{sorted(set(in_code) - set(on_page))}")
    wrong = {name: (key, in_code[name]) for name, key in on_page.items() if in_code.get(name, key) != key}
    check("their keys of weir.yaml are the same", not wrong, f"page, code: {wrong}")
    print(f"{4 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares docs/envoy.md with the code and its tests. The table of environment variables must have the
names of the code, and the same key of weir.yaml for each; the table of differences must have the rules of
the test that compares weir with the reference.

    envoy_page_test.py docs/envoy.md src/rls/daemon/environment.c tests/envoy/side_by_side.py
"""
import re
import sys

ROW = re.compile(r'^\s+(SET|NOT_NEEDED|WARN|REFUSE)\("([A-Z_]+\*?)",\s*(?:"([a-z_.]+)"|NULL|)', re.M)
failed = 0


def check(name, good, detail=""):
    global failed
    print(f"{'ok' if good else 'not ok'} - {name}" + ("" if good else f"\n  {detail}"))
    failed += not good


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def section_of(page, heading):
    section = page[page.index(f"\n## {heading}\n"):]
    return section[:section.index("\n## ", 1)]


def code_rows(text):
    """The key of each variable, or "-"."""
    return {name: (key if use == "SET" and key else "-") for use, name, key in ROW.findall(text)}


def page_rows(text):
    """The same of the page, and the names in their order."""
    names, keys = [], {}
    for line in section_of(text, "Environment variables").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found = re.findall(r"`([A-Z_]+\*?)`", cells[0])
            names += found
            keys |= dict.fromkeys(found, cells[1].strip("`"))
    return names, keys


def check_rules(page, test):
    listed = re.findall(r"^RULES = \(([^)]*)\)", test, re.M)
    rules = sorted(re.findall(r"\w+", listed[0] if listed else ""))
    on_page = sorted(re.findall(r"^\|.* `([a-z_]+)` \| [0-9,]+ \|$", section_of(page, "Differences"), re.M))
    check("the test has rules", len(rules) > 1, str(rules))
    check("the page has every rule of the test, and no other", rules == on_page, f"page: {on_page}; test: {rules}")


def main():
    page, source, test = (read(path) for path in sys.argv[1:])
    (names, on_page), in_code = page_rows(page), code_rows(source)
    check("the code has a table of variables", len(in_code) > 40, str(in_code))
    check("each variable is on the page once", len(names) == len(on_page), str(names))
    check("the page has every variable of the code, and no other", set(on_page) == set(in_code),
          f"only on the page: {sorted(set(on_page) - set(in_code))}; only in the code: "
          f"{sorted(set(in_code) - set(on_page))}")
    wrong = {name: (key, in_code[name]) for name, key in on_page.items() if in_code.get(name, key) != key}
    check("their keys of weir.yaml are the same", not wrong, f"page, code: {wrong}")
    check_rules(page, test)
    print(f"{6 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the table of docs/claims.md: it lists every claim of the page with its verdict, and every claim
has a command with its output. tests/e2e/pages_test.py runs the commands.

    table_test.py [--write] PAGE       --write: writes the table
"""
import re
import sys

VERDICTS = ("holds", "with a condition", "loose", "wrong")
BEGIN, END = "<!-- claims -->\n", "<!-- end of claims -->\n"
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    print(f"{'ok' if good else 'not ok'} - {name}")
    if not good:
        print("  " + detail.replace("\n", "\n  "))
    passed, failed = passed + bool(good), failed + (not good)


def read_claims(text):
    """The sections of the page that are claims: (title, verdict, articles, text)."""
    claims = []
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        title, body = section.split("\n", 1)
        verdict = re.search(r"^\*\*([^*]+)\*\* \(([^)]+)\)", body, re.M)
        claims.append((title, *(verdict.groups() if verdict else ("", "")), body))
    return claims


def anchor_of(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def table_of(claims):
    counts = {verdict: sum(1 for claim in claims if claim[1] == verdict) for verdict in VERDICTS}
    lines = [f"Of {len(claims)} claims, {counts['holds']} hold, {counts['with a condition']} hold with a condition, "
             f"{counts['loose']} are loose, and {counts['wrong']} are wrong.", "",
             "| claim | article | verdict |", "| --- | --- | --- |"]
    lines += [f"| [{title}](#{anchor_of(title)}) | {articles} | {verdict} |" for title, verdict, articles, _ in claims]
    return "\n".join(lines) + "\n"


def has_output(body):
    """Whether a command of the section prints something that the page says."""
    blocks = re.findall(r"^```console[^\n]*\n(.*?)^```$", body, re.M | re.S)
    return any(not line.startswith("$ ") and line != "..." for block in blocks for line in block.splitlines())


def main():
    path = sys.argv[-1]
    with open(path, encoding="utf-8") as page:
        text = page.read()
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    claims = read_claims(after)
    if sys.argv[1] == "--write":
        with open(path, "w", encoding="utf-8") as page:
            page.write(before + BEGIN + table_of(claims) + END + after)
        return
    articles = re.findall(r"^\| (\w+) \| ", before, re.M)
    check("there are at least 40 claims", len(claims) >= 40, str(len(claims)))
    for title, verdict, names, body in claims:
        check(f"{title}: has a verdict", verdict in VERDICTS, verdict or "no verdict")
        check(f"{title}: names its articles", set(names.split(", ")) <= set(articles), f"{names} of {articles}")
        check(f"{title}: has a command with its output", has_output(body))
    check("no two claims have the same title", len({anchor_of(claim[0]) for claim in claims}) == len(claims))
    check("the table lists the claims with their verdicts", table == table_of(claims),
          f"run tests/claims/table_test.py --write {path}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()

# SPDX-License-Identifier: BSD-2-Clause
"""docs/proxies.md shows the very files of examples/proxies."""

import re

from kit.process import equal, expect
from kit.proxies import EXAMPLES, ROOT

PAGE = ROOT / "docs" / "proxies.md"
# A block follows the link to its file.
BLOCK = re.compile(r"\]\(\.\./examples/proxies/([\w./-]+)\)[^\n]*\n\n```\w*\n(.*?)^```$", re.M | re.S)


def the_page_shows_the_files(_box):
    """Each file of examples/proxies is on the page, byte by byte."""
    shown = dict(BLOCK.findall(PAGE.read_text()))
    files = {str(path.relative_to(EXAMPLES)): path.read_text() for path in EXAMPLES.rglob("*") if path.is_file()}
    equal(sorted(shown), sorted(files), "files on the page")
    for name, text in files.items():
        expect(shown[name] == text, f"{PAGE.name} shows another {name} than examples/proxies")


TESTS = (the_page_shows_the_files,)

# SPDX-License-Identifier: BSD-2-Clause
"""The mutants of tools/mutants: finds the lines of a source that hold code, and changes one of them.

The C code is laid out by clang-format, so that regular expressions are enough: a function's body lies
between braces at column 0, and binary operators have blanks around them."""

import functools
import pathlib
import re
import zlib

ROOMS = ("core", "policy", "port", "store", "service", "codec", "rls", "limitador", "engine", "net", "accesslog", "cmd",
         "libweir_redis", "modules")

OPERATORS = {  # " operator " -> what replaces it
    "comparison": {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="],
                   "!=": ["=="], "~=": ["=="]},
    "logic": {"&&": ["||"], "||": ["&&"], "and": ["or"], "or": ["and"]},
    "arithmetic": {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"], "&": ["|"],
                   "|": ["&"], "+=": ["-="], "-=": ["+="], "|=": ["="], "&=": ["="]},
}
LUA_ONLY = {"~=", "and", "or"}
WORDS = {"jump": {"continue;": ["break;"], "break;": ["continue;"]},
         "constant": {"true": ["false"], "false": ["true"]}}
ORDERS = re.compile(r"_(acquire|release|acq_rel)\b(?=\()")

# The smaller or larger of two, by how much one exceeds the other, an absolute value: the same if both are equal.
TERM = r"((?<![\w.>])\*?[A-Za-z_][\w.]*(?:->[\w.]+)*|(?<!\w)\d+)"
SAME_IF_EQUAL = re.compile(rf"(?<![-+*/%&|] ){TERM} [<>]=? (?:{TERM} \? (?:\1 : \2|\2 : \1|\1 - \2 : 0|\2 - \1 : 0)"
                           r"|0 \? (?:-\1 : \1|\1 : -\1))(?=[;),:])")

# Statements whose absence only ASan or a benchmark notices.
UNSEEN = re.compile(r"^\s*(?:\(void\))?\w*(?:free|_decref|_destroy|prefetch\w*|_pause|madvise)\(")
MORE_MEMORY = re.compile(r"\bport_zalloc\((?:[^;]* \+ )?$")  # a higher constant after this
COMPARE, EQUALITY = re.compile(r"(?:mem|str\w*)cmp$"), re.compile(r" [!=]= 0\b")  # the order does not matter
STATEMENT_END = re.compile(r"(?:[;{}:]|\)|\belse|\bdo)$")
CALL = re.compile(r"^\s*(?:\(void\))?(\w+)\(.*\);$")
ASSIGNMENT = re.compile(r"^\s*\*?(?:\(\*?\w+\)|\w+)(?:(?:->|\.)\w+|\[[^\]]*\])* (?:[-+*/|&^%]|<<|>>)?= [^;]*;$")
STEP = re.compile(r"^\s*\(?\*?\w+\)?(?:(?:->|\.)\w+|\[[^\]]*\])*(?:\+\+|--);$")
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "case", "defined"}
SIMPLE = re.compile(r"^[&*!]*[A-Za-z_][\w.\[\]]*(?:->[\w.\[\]]+)*$")


def production(name):
    return (re.match(r"(src/|modules/redis/).*\.[ch]$", name) and not re.search(r"_test\.[ch]$", name) and
            not name.startswith("src/port/assert")) or name == "modules/lua/weir.lua"


def files_of(root):
    """Returns the names of all production files."""
    names = [str(p.relative_to(root)) for top in ("src", "modules") for p in pathlib.Path(root, top).rglob("*.*")]
    return sorted(n for n in names if production(n))


files_of.production = production


def room_of(name):
    return name.split("/")[1] if name.startswith("src/") else "modules"


def masked(text, lua):
    """Replaces comments, strings, preprocessor lines and assertions, and keeps the length of each line."""
    def blank(match):
        found = match.group()
        keep = found[0] in "\"'"
        return re.sub(r"[^\n]", "_" if keep else " ", found)

    string = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    if lua:
        return re.sub(rf"--\[\[.*?\]\]|--[^\n]*|{string}", blank, text, flags=re.S)
    text = re.sub(rf"/\*.*?\*/|//[^\n]*|{string}", blank, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)
    return re.sub(r"\b(?:WEIR_ASSERT|WEIR_CHECK|_Static_assert|static_assert)\(.*?\);", blank, text, flags=re.S)


def closing(text, at):
    """Returns the index of the parenthesis that closes the one at `at`, or -1."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return -1


def arguments(text):
    """Yields the (start, end) of each argument of a list without its parentheses."""
    depth = start = 0
    for i, c in enumerate(text + ","):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            yield start + len(text[start:i]) - len(text[start:i].lstrip()), i
            start = i + 1


class Mutant:
    def __init__(self, source, line, kind, start, end, new):
        self.source, self.line, self.kind = source, line, kind
        self.before = source.plain[line - 1]
        self.after = self.before[:start] + new + self.before[end:]

    def key(self):
        return self.source.name, self.before.strip(), self.after.strip()

    def text(self):
        lines = list(self.source.plain)
        lines[self.line - 1] = self.after
        return "\n".join(lines)


class Source:
    def __init__(self, root, name):
        self.root, self.name, self.lua = pathlib.Path(root), name, name.endswith(".lua")
        self.text = (self.root / name).read_text(encoding="utf-8")
        self.plain = self.text.split("\n")
        self.code = masked(self.text, self.lua).split("\n")
        self.functions = {}  # line -> name of its function
        function = None
        for i, line in enumerate(self.code):
            if self.lua:
                self.functions[i + 1] = "lua"
            elif line == "{":
                function = self.name_before(i)
            elif line.startswith("}"):
                function = None
            elif function:
                self.functions[i + 1] = function

    def name_before(self, i):
        for line in reversed(self.code[max(0, i - 12):i]):
            found = re.match(r"\w.*?(\w+)\(", line)
            if found:
                return found.group(1)
        return None

    def place(self, line):
        """Returns (function, hash of the text) of a line, or None. Both stay the same when other lines are added."""
        if line not in self.functions:
            return None
        return self.functions[line], zlib.crc32(self.plain[line - 1].strip().encode())

    def known_line(self, line, known):
        """Returns the function of a line, and the hash of the nearest known line: this one or one before it."""
        function = self.functions[line]
        while self.functions.get(line) == function:
            text = self.place(line)[1]
            if str(text) in known.get(function, {}):
                return function, text
            line -= 1
        return function, None

    def includes(self):
        """Returns the project's headers that this file includes, directly or not."""
        found, todo = set(), [self.text]
        while todo:
            for name in re.findall(r'^#include "([^"]+)"', todo.pop(), re.M):
                for top in ("src", "modules/redis"):
                    path = f"{top}/{name}"
                    if path not in found and (self.root / path).exists():
                        found.add(path)
                        todo.append((self.root / path).read_text(encoding="utf-8"))
        return found

    def starts_statement(self, line):
        for i in range(line - 2, -1, -1):
            if self.code[i].strip():
                return bool(STATEMENT_END.search(self.code[i].rstrip()))
        return False

    def lines(self, orders=False):
        return [line for line in self.functions if self.mutants(line, orders)]

    def mutant(self, line, r, orders=False):
        """Returns one of the mutants of a line: each kind is equally likely."""
        found = self.mutants(line, orders)
        kind = r.choice(sorted({m.kind for m in found}))
        return r.choice([m for m in found if m.kind == kind])

    @functools.cache
    def mutants(self, line, orders=False):
        code = self.code[line - 1]
        edits = self.order_edits(code) if orders else [*self.edits(line, code)]
        made = [Mutant(self, line, *edit) for edit in edits if line in self.functions]
        return [m for m in made if m.before != m.after]

    @staticmethod
    def order_edits(code):
        return [("memory order", m.start(1), m.end(1), "relaxed") for m in ORDERS.finditer(code)]

    def edits(self, line, code):
        yield from self.operator_edits(code)
        yield from self.constant_edits(code)
        yield from self.swap_edits(code)
        if self.lua:
            return
        yield from self.check_edits(code)
        yield from self.statement_edits(line, code)

    def operator_edits(self, code):
        same = {m.end(1) + 1 for m in SAME_IF_EQUAL.finditer(code)}
        for kind, table in OPERATORS.items():
            for m in re.finditer(r"(?<=[\w)\]\"'.+-]) ([^\s\w()]{1,2}|and|or)(?= [^ ])", code):
                if (m.group(1) in LUA_ONLY) <= self.lua:
                    for new in table.get(m.group(1), ()):
                        if m.start(1) not in same or new[0] != m.group(1)[0]:
                            yield kind, m.start(1), m.end(1), new
        for m in re.finditer(r"(?<![-+])(\+\+|--)(?![-+])", "" if self.lua else code):
            yield "arithmetic", m.start(), m.end(), "--" if m.group() == "++" else "++"
        for m in re.finditer(r"!(?=[\w(*])|\bnot (?=[\w(])", code):
            yield "dropped not", m.start(), m.end(), ""

    def constant_edits(self, code):
        declared = re.match(r"\s*(?:static |const |unsigned )*\w+ \**\w+\[[^=]*$", code)
        for m in re.finditer(r"(?<![\w.{])(\d+)(?=[uUlL]*\b)(?![.xX\w]*[.xX])", code):
            if not declared:
                if not MORE_MEMORY.search(code[:m.start()]):
                    yield "constant", m.start(1), m.end(1), str(int(m.group(1)) + 1)
                if int(m.group(1)) > 0:
                    yield "constant", m.start(1), m.end(1), str(int(m.group(1)) - 1)
        for kind, table in WORDS.items():
            for word, news in table.items():
                for m in re.finditer(rf"\b{word}" + (r"\b" if word[-1] != ";" else ""), code):
                    for new in news:
                        if not (self.lua and kind == "jump"):
                            yield kind, m.start(), m.end(), new

    def swap_edits(self, code):
        for m in re.finditer(r"(?<=[\s(!*,-])(\w+)\(", code):
            end = closing(code, m.end() - 1)
            if m.group(1) in KEYWORDS or end < 0 or not re.search(r"[=(,:?]|return|^\s*$", code[:m.start()] or " "):
                continue
            inside = code[m.end():end]
            parts = list(arguments(inside))
            symmetric = COMPARE.match(m.group(1)) and EQUALITY.match(code[end + 1:])
            for (a, b), (c, d) in list(zip(parts, parts[1:]))[symmetric is not None:]:
                if SIMPLE.match(inside[a:b]) and SIMPLE.match(inside[c:d]) and inside[a:b] != inside[c:d]:
                    yield ("swapped arguments", m.end() + a, m.end() + d, inside[c:d] + inside[b:c] + inside[a:b])

    @staticmethod
    def check_edits(code):
        for m in re.finditer(r"\bif \(", code):
            at = m.end() - 1
            end = closing(code, at)
            if end > 0:
                yield "removed check", at, end + 1, f"({code[at:end + 1]} && 0)"
                yield "removed check", at, end + 1, f"({code[at:end + 1]} || 1)"
        for m in re.finditer(r"\breturn ([^;]+);", code):
            if m.group(1) not in ("0", "false", "true", "NULL", "WEIR_OK"):
                new = "WEIR_OK" if m.group(1).startswith("WEIR_E_") else "0"
                yield "return", m.start(1), m.end(1), new

    def statement_edits(self, line, code):
        if not self.starts_statement(line) or UNSEEN.match(code):
            return
        call = CALL.match(code)
        whole = call and call.group(1) not in KEYWORDS and closing(code, code.index("(", call.start(1))) == len(code) - 2
        if whole or ASSIGNMENT.match(code) or STEP.match(code) or code.strip() == "return;":
            start = len(code) - len(code.lstrip())
            yield "dropped statement", start, len(code), ";"

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The JSON Schema of weir.yaml (`weir check --schema`) beside `weir check`: what weir reads, the schema accepts;
what is wrong with a key or with the type of a value, the schema refuses. The configurations are those of the
documentation and the examples, the invalid ones of errors_test.txt, and changes of both.

    schema_test.py WEIR ROOT"""

import copy
import json
import pathlib
import random
import re
import subprocess
import sys

import jsonschema
import yaml

CHANGES = 400
VALUES = [-1, 0, 1, 70000, "off", "true", True, "10s", "64m", "api", [], {}, ["api"], {"x": 1}]
# Errors that a schema can know: of keys, types and ranges.
OF_SCHEMA = re.compile(r"unknown key|expected a number from|expected true or false|expected a map, found|found a map\b"
                       r"|found a list\b")
# Errors that end reading before keys are known.
UNREAD = re.compile(r"invalid YAML|tags \(!\)|anchors|aliases|merge keys|duplicate key|as a key|expected a key"
                    r"|second YAML document|UTF-8|nested more|environment variable|variables are replaced|password")


class Loader(yaml.SafeLoader):
    """YAML 1.2: `off` is a text."""


Loader.yaml_implicit_resolvers = {
    first: [row for row in rows if row[0].rsplit(":")[-1] not in ("bool", "timestamp", "int")]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf"))
Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(0|[1-9][0-9]*)$"), list("-0123456789"))


def check(weir, text):
    """Returns the errors that weir reports; "" if the text is valid."""
    run = subprocess.run([weir, "check", "--syntax", "--quiet", "-"], input=text, capture_output=True, text=True,
                         check=False)
    return run.stderr if run.returncode != 0 else ""


def load(text):
    try:
        return yaml.load(text, Loader)  # noqa: S506 -- a safe loader
    except (yaml.YAMLError, ValueError):
        return None


def documents(root):
    """Yields the name and the text of each configuration of the documentation and the examples."""
    for path in [root / "packaging/weir.yaml", *sorted(root.glob("examples/**/*.yaml"))]:
        yield path.name, path.read_text(encoding="utf-8")
    for path in sorted((root / "docs").glob("*.md")):
        for i, text in enumerate(re.findall(r"^```yaml\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)):
            yield f"{path.name} {i}", text


def invalid_cases(root):
    text = (root / "src/cmd/config/errors_test.txt").read_text(encoding="utf-8")
    for case in re.split(r"^----\n", text, flags=re.M)[:-1]:
        config, _, errors = case.partition("---- errors\n")
        yield re.sub(r"^####.*\n\n?|^# .*\n", "", config, flags=re.M).strip("\n") + "\n", errors


def places(node):
    """Yields (container, key) of each value."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from places(value)


def change(rng, document):
    """Returns a copy with one other value or one other key."""
    other = copy.deepcopy(document)
    container, key = rng.choice(list(places(other)))
    kind = rng.randrange(4)
    if kind == 0 and isinstance(container, dict):
        container[f"{key}x"] = container.pop(key)
    else:
        container[key] = rng.choice(VALUES)
    return other


def main():
    weir, root = sys.argv[1], pathlib.Path(sys.argv[2])
    schema = json.loads(subprocess.run([weir, "check", "--schema"], capture_output=True, check=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    failures, valid, refused, known = [], [], 0, 0

    def compare(name, document, errors):
        nonlocal refused, known
        accepts = validator.is_valid(document)
        if not errors and not accepts:
            why = next(validator.iter_errors(document)).message
            failures.append(f"{name}: weir accepts it, the schema says: {why[:300]}")
        if errors and not UNREAD.search(errors) and OF_SCHEMA.search(errors):
            known += 1
            refused += not accepts
            if accepts:
                failures.append(f"{name}: the schema accepts it, weir says: {errors[:300]}")

    for name, text in documents(root):
        errors, document = check(weir, text), load(text)
        if isinstance(document, dict):
            compare(name, document, errors)
            valid += [document] if not errors else []
    for text, errors in invalid_cases(root):
        document = load(text)
        if isinstance(document, dict):
            compare(text[:200], document, errors)
    rng = random.Random(20260101)
    for i in range(CHANGES):
        document = change(rng, rng.choice(valid))
        compare(f"change {i} {json.dumps(document)[:300]}", document, check(weir, json.dumps(document)))
    print("\n".join(failures))
    print(f"{len(valid)} valid configurations, {known} that a schema can refuse, {refused} refused")
    passed = len(valid) >= 10 and known >= 100
    print(f"{int(passed and not failures)} passed, {int(not passed or bool(failures))} failed")
    return not passed or bool(failures)


if __name__ == "__main__":
    sys.exit(main())

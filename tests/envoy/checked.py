# SPDX-License-Identifier: BSD-2-Clause
"""Configuration files that the reference refuses are refused by weir, and those that it accepts are
accepted: some by hand, and random changes of valid files."""

import collections
import random
import subprocess

import generated
from kit import envoy as kit
from kit.process import PATIENCE_S, expect, say

SEED = 18
MUTANTS = 400

LIMIT = "    rate_limit: {unit: day, requests_per_unit: 1}\n"
ONE = "domain: d\ndescriptors:\n  - key: k\n"
FILES = {
    "empty file": "",
    "only a domain": "domain: d\n",
    "empty domain": 'domain: ""\ndescriptors: []\n',
    "no domain": "descriptors: []\n",
    "a list": "- domain: d\n",
    "no key": "domain: d\ndescriptors:\n  - value: v\n",
    "empty key": "domain: d\ndescriptors:\n  - key: ''\n",
    "key is a number": "domain: d\ndescriptors:\n  - key: 5\n" + LIMIT,
    "value is a number": ONE + "    value: 5\n" + LIMIT,
    "value is a fraction": ONE + "    value: 1.5\n" + LIMIT,
    "value is true": ONE + "    value: true\n" + LIMIT,
    "value is null": ONE + "    value:\n" + LIMIT,
    "value is a quoted number": ONE + "    value: '1.5'\n" + LIMIT,
    "no limit": ONE,
    "null limit": ONE + "    rate_limit:\n",
    "empty limit": ONE + "    rate_limit: {}\n",
    "no unit": ONE + "    rate_limit: {requests_per_unit: 1}\n",
    "unknown unit": ONE + "    rate_limit: {unit: fortnight, requests_per_unit: 1}\n",
    "unit UNKNOWN": ONE + "    rate_limit: {unit: unknown, requests_per_unit: 1}\n",
    "unit in mixed case": ONE + "    rate_limit: {unit: MiNuTe, requests_per_unit: 1}\n",
    "unit week": ONE + "    rate_limit: {unit: week, requests_per_unit: 1}\n",
    "no requests": ONE + "    rate_limit: {unit: day}\n",
    "0 requests": ONE + "    rate_limit: {unit: day, requests_per_unit: 0}\n",
    "negative requests": ONE + "    rate_limit: {unit: day, requests_per_unit: -1}\n",
    "fractional requests": ONE + "    rate_limit: {unit: day, requests_per_unit: 1.5}\n",
    "requests in quotes": ONE + "    rate_limit: {unit: day, requests_per_unit: '5'}\n",
    "requests are a word": ONE + "    rate_limit: {unit: day, requests_per_unit: five}\n",
    "the most requests": ONE + "    rate_limit: {unit: day, requests_per_unit: 4294967295}\n",
    "too many requests": ONE + "    rate_limit: {unit: day, requests_per_unit: 4294967296}\n",
    "hexadecimal requests": ONE + "    rate_limit: {unit: day, requests_per_unit: 0x10}\n",
    "requests with _": ONE + "    rate_limit: {unit: day, requests_per_unit: 1_000}\n",
    "unlimited": ONE + "    rate_limit: {unlimited: true}\n",
    "unlimited with a unit": ONE + "    rate_limit: {unlimited: true, unit: day}\n",
    "unlimited with requests": ONE + "    rate_limit: {unlimited: true, requests_per_unit: 4}\n",
    "unlimited is yes": ONE + "    rate_limit: {unlimited: yes}\n",
    "unlimited is a word": ONE + "    rate_limit: {unlimited: maybe}\n",
    "a name": ONE + "    rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: m}]}\n",
    "replaces itself": ONE + "    rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}\n",
    "replaces nothing": ONE + "    rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: ''}]}\n",
    "replaces words": ONE + "    rate_limit: {unit: day, requests_per_unit: 1, replaces: [m]}\n",
    "unknown member": ONE + "    colour: red\n" + LIMIT,
    "unknown member of a limit": ONE + "    rate_limit: {unit: day, requests_per_unit: 1, burst: 2}\n",
    "unknown member of the file": "domain: d\nversion: 2\n",
    "member in a wrong place": "domain: d\nkey: x\n",
    "limit in a wrong place": "domain: d\nrate_limit: {unit: day, requests_per_unit: 1}\n",
    "twice the same descriptor": ONE + LIMIT + "  - key: k\n" + LIMIT,
    "twice the same composite key": ONE + "    value: v\n" + LIMIT + "  - key: k_v\n" + LIMIT,
    "share_threshold without a wildcard": ONE + "    share_threshold: true\n" + LIMIT,
    "share_threshold": ONE + "    value: a*\n    share_threshold: true\n" + LIMIT,
    "flags": ONE + "    shadow_mode: true\n    quota_mode: false\n    detailed_metric: true\n" + LIMIT,
    "a flag is a word": ONE + "    shadow_mode: sometimes\n" + LIMIT,
    "a flag is 1": ONE + "    shadow_mode: 1\n" + LIMIT,
    "descriptors are a map": "domain: d\ndescriptors: {key: k}\n",
    "descriptors are a word": "domain: d\ndescriptors: none\n",
    "a list of lists": "domain: d\ndescriptors: [[{key: k}]]\n",
    "no descriptors": "domain: d\ndescriptors:\n",
    "a tab": "domain: d\ndescriptors:\n\t- key: k\n",
    "an open quote": "domain: 'd\n",
    "an anchor": "domain: d\ndescriptors:\n  - key: a\n    rate_limit: &l {unit: day, requests_per_unit: 1}\n"
                 "  - key: b\n    rate_limit: *l\n",
    "a merge key": "domain: d\ndescriptors:\n  - key: a\n    rate_limit: &l {unit: day, requests_per_unit: 1}\n"
                   "  - key: b\n    rate_limit: {<<: *l, requests_per_unit: 2}\n",
    "an unknown alias": ONE + "    rate_limit: *l\n",
    "a tag": "domain: !!str d\n",
    "a comment": "# limits\ndomain: d # the domain\n",
    "a second document": "domain: d\n---\ndomain: e\n",
    "a long value": ONE + f"    value: {'v' * 5000}\n" + LIMIT,
    "a deep tree": "domain: d\n" + "".join(
        f"{'  ' * i}descriptors:\n{'  ' * i}- key: k{i}\n" for i in range(12)),
    "UTF-8": "domain: höhe\ndescriptors:\n  - key: ключ\n    value: 値\n" + LIMIT,
}


# What weir alone refuses, by its error: the reference ignores a part of such a file without a word.
STRICTER = {"a duplicate key": "duplicate key, first set on line", "a second document": "found a second YAML document",
            "a tag": "tags "}


def accepted(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE_S,
                          check=False, stdin=subprocess.DEVNULL)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


class Checkers:
    """Both programs, and what they think of a directory."""

    def __init__(self, box):
        self.weir, self.reference = box.weir, box.parts.reference_check()
        self.directory, self.stricter = box.path / "config", collections.Counter()

    def compare(self, files):
        """Fails unless both accept the directory or both refuse it. Returns whether they accept it."""
        for old in self.directory.glob("*"):
            old.unlink()
        kit.write_config(self.directory, files)
        wanted, said = accepted([self.reference, "-config_dir", self.directory])
        found, text = accepted([self.weir, "check", "--envoy", self.directory])
        if found == wanted:
            return found
        rule = next((name for name, error in STRICTER.items() if wanted and error in text), None)
        expect(rule, f"weir {'accepts' if found else 'refuses'} it: {text}\nThe reference: {said.splitlines()[-1]}")
        self.stricter.update([rule])
        return found


def the_same_files_are_refused(box):
    checkers, wrong = Checkers(box), []
    for name, text in FILES.items():
        try:
            checkers.compare({"a.yaml": text})
        except kit.Failed as failed:
            wrong.append(f"{name}: {failed}\n{text}")
    expect(not wrong, f"{len(wrong)} of {len(FILES)}\n" + "\n".join(wrong))
    say(f"refused by weir alone: {dict(checkers.stricter)}")
    domain = "domain: d\ndescriptors: []\n"
    checkers.compare({"a.yaml": domain, "b.yaml": domain})
    checkers.compare({"a.yaml": domain, "b.txt": domain.replace("d", "e", 1), "c": "domain: f\n"})


def mutant(dice, text):
    """The text with a random change of a line."""
    lines = text.splitlines()
    i = dice.randrange(len(lines))
    word = dice.choice(("day", "5", "-1", "true", "null", '""', "x", "[]", "{}", "1.5", "week", "key: k",
                        "- key: k", "a*b"))
    key, colon, _ = lines[i].partition(":")
    change = dice.randrange(6)
    if change == 0:
        del lines[i]
    elif change == 1:
        lines.insert(i, lines[i])
    elif change == 2:
        lines[i] = lines[i][2:] if dice.random() < .5 else "  " + lines[i]
    elif change == 3:
        lines[i] = f"{key}{colon} {word}"
    elif change == 4:
        lines[i] = lines[i].replace("key:", dice.choice(("value:", "name:", "unit:", "keys:")), 1)
    else:
        j = dice.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines) + "\n"


def the_same_changes_are_refused(box):
    """Random changes of random files."""
    checkers, dice, wrong, count = Checkers(box), random.Random(SEED), [], 0
    texts = [text for seed in range(5) for text in generated.Configuration(seed).files().values()]
    for number in range(MUTANTS):
        text = mutant(dice, dice.choice(texts))
        try:
            count += checkers.compare({"a.yaml": text})
        except kit.Failed as failed:
            wrong.append(f"{number}: {failed}")
    say(f"{count} of {MUTANTS} files are valid, seed {SEED}; refused by weir alone: {dict(checkers.stricter)}")
    expect(not wrong, f"{len(wrong)} of {MUTANTS}\n" + "\n".join(wrong[:10]))


TESTS = (the_same_files_are_refused, the_same_changes_are_refused)

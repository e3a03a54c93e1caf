#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The alerts for Prometheus and the dashboard for Grafana in packaging/ are valid, use only metrics and labels
that the daemon has, and have the expressions of docs/operations.md.

    monitoring_test.py WEIR MODULE [NAME...]"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
from kit.process import Skipped, expect, run
from reference_test import daemon_with_all

RULES = ROOT / "packaging/prometheus/weir.rules.yml"
DASHBOARD = ROOT / "packaging/grafana/weir.json"
DOCS = ROOT / "docs/operations.md"

VARIABLES = {"$__rate_interval": "5m", "$job": ".+", "$instance": ".+", "$policy": ".+"}
FROM_PROMETHEUS = {"job", "instance", "alertname"}  # labels and metrics that the daemon does not write
NOT_OF_WEIR = {"up"}


def promtool(*words):
    tool = shutil.which("promtool")
    if tool is None:
        raise Skipped("promtool is missing; the package is prometheus")
    done = subprocess.run([tool, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    expect(done.returncode == 0, f"promtool {' '.join(map(str, words))}:\n{done.stdout}")


def alerts():
    """The expressions of the rules, in their order."""
    return re.findall(r"^ +expr: (.*)$", RULES.read_text(), re.M)


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def queries():
    """The expressions of the dashboard, with the variables replaced."""
    board = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    found += [a["expr"] for a in board["annotations"]["list"] if "expr" in a]
    for variable in board["templating"]["list"]:
        inside = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]) \
            if variable["type"] == "query" else None
        if inside:
            found.append(f"count by ({inside[2]}) ({inside[1]})")
    return [replace_variables(expr) for expr in found]


def replace_variables(expr):
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    expect("$" not in expr, f"unknown variable in {expr}")
    return expr


def exported(box):
    """The metrics of a daemon that uses everything: name -> label -> values."""
    daemon = daemon_with_all(box)
    with contextlib.closing(daemon.client()) as client:
        for _ in range(2):
            client.call("WEIR.TAKE", "api", "alice")
    names = {}
    for series in daemon.metrics():
        name, _, labels = series.partition("{")
        known = names.setdefault(name, {})
        for label, value in re.findall(r'(\w+)="([^"]*)"', labels):
            known.setdefault(label, set()).add(value)
    return names


def check_query(expr, names):
    """Each metric exists, with each label that the expression selects, and with the values of verdicts."""
    plain = re.sub(r'"[^"]*"', '""', expr)
    used = set(re.findall(r"\b(?:weir_\w+|up)\b", plain)) - NOT_OF_WEIR
    unknown = used - set(names)
    expect(not unknown, f"the daemon has no metric {unknown}: {expr}")
    for metric, selector in re.findall(r"\b(weir_\w+)\{([^}]*)\}", expr):
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selector):
            expect(label in FROM_PROMETHEUS or label in names[metric], f"{metric} has no label {label}: {expr}")
            if label in ("verdict", "current", "candidate"):
                expect(set(value.split("|")) <= names[metric][label], f"{metric} has no {label} {value}: {expr}")


def rules_are_valid(_box):
    promtool("check", "rules", RULES)


def rules_fire(_box):
    promtool("test", "rules", RULES.with_name("weir.test.yml"))


def rules_are_tested(_box):
    """The unit tests name each alert."""
    names = re.findall(r"- alert: (\w+)", RULES.read_text())
    text = RULES.with_name("weir.test.yml").read_text()
    missing = [name for name in names if not re.search(rf'alertname(?:: |=")' + name + r"\b", text)]
    expect(names and not missing, f"without a test: {missing}")


def rules_are_those_of_the_docs(_box):
    section = DOCS.read_text().split("\n## Choose alerts\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ") and "---" not in line][1:]
    told = [" or ".join(re.findall(r"`([^`]*)`", row[1])) for row in rows if "`" in row[1]]
    expect(told == alerts(), f"docs/operations.md has\n  {told}\nthe rules have\n  {alerts()}")


def metrics_exist(box):
    names = exported(box)
    for expr in alerts() + queries():
        check_query(expr, names)


def queries_parse(box):
    """Prometheus parses each expression of the dashboard."""
    rules = [{"record": f"query:{i}", "expr": expr} for i, expr in enumerate(queries())]
    file = box.path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", file)


def dashboard_is_consistent(_box):
    rows = panels()
    ids = [panel["id"] for panel in rows]
    expect(len(ids) == len(set(ids)), f"ids are not unique: {ids}")
    cells = {}
    for panel in rows:
        at = panel["gridPos"]
        expect(at["x"] + at["w"] <= 24, f"{panel['title']} is too wide: {at}")
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            expect(cell not in cells, f"{panel['title']} covers {cells.get(cell)}")
            cells[cell] = panel["title"]
        if panel["type"] == "row":
            continue
        expect(panel["description"].endswith("."), f"{panel['title']} has no description")
        expect(panel["fieldConfig"]["defaults"]["unit"], f"{panel['title']} has no unit")
        for target in [panel, *panel["targets"]]:
            expect(target["datasource"] == {"type": "prometheus", "uid": "${datasource}"},
                   f"{panel['title']}: {target['datasource']}")
        refs = [target["refId"] for target in panel["targets"]]
        expect(len(refs) == len(set(refs)), f"{panel['title']}: {refs}")


if __name__ == "__main__":
    sys.exit(run([rules_are_valid, rules_fire, rules_are_tested, rules_are_those_of_the_docs, metrics_exist,
                  queries_parse, dashboard_is_consistent], sys.argv, needs_redis=False))

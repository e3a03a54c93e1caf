#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The pages of the reference have exactly what a daemon has: docs/resp.md its commands, docs/metrics.md its metrics.
The alerts and the dashboard in packaging/ use only metrics of the page.

    reference_test.py WEIR MODULE [NAME...]"""

import contextlib
import pathlib
import re
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
from kit.process import HOST, Skipped, expect, free_port, is_redis_here, run
from kit.redis import Redis
from kit.weir import Daemon

COMMANDS, METRICS = ROOT / "docs/resp.md", ROOT / "docs/metrics.md"
MONITORING = ("prometheus/weir.rules.yml", "prometheus/weir.test.yml", "grafana/weir.json")
LIMITADOR_METRICS = {"limitador_up", "authorized_calls", "authorized_hits", "limited_calls"}
SUFFIXES = re.compile(r"_(?:bucket|sum|count)$")  # of the samples of a histogram

LIMITS = """
domain: shop
descriptors:
  - {key: plan, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 3}}]}
"""


# ---- pages ---------------------------------------------------------------------------------------


def rows(page, title):
    """The cells of all tables whose first column has this title."""
    found, inside = [], False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("| ---"):
            continue
        if inside and cells:
            found.append(cells)
        else:
            inside = cells[:1] == [title]
    expect(found, f"{page.name} has no table with the column {title}")
    return found


def code(cell):
    """The texts between backquotes, as a reader sees them."""
    return [text.replace("\\|", "|") for text in re.findall(r"`([^`]*)`", cell)]


def metrics_of_page():
    """Name -> its type and its labels."""
    table = {}
    for name, kind, labels, *_ in rows(METRICS, "metric"):
        (name,) = code(name)
        expect(name not in table, f"{name} has two rows")
        table[name] = (kind, set(code(labels)))
    return table


def expect_same(found, wanted, what):
    expect(found == wanted, f"{what} alone has {sorted(found - wanted)}, the daemon alone {sorted(wanted - found)}")


# ---- daemons -------------------------------------------------------------------------------------


def scrape(daemon, more=()):
    """The metrics after some decisions: name -> its type and its labels. Fails if a metric has two types."""
    with contextlib.closing(daemon.client()) as client:
        for policy in ("api", *more):
            for _ in range(2):
                client.call("WEIR.TAKE", policy, "alice")
    with urllib.request.urlopen(f"http://{HOST}:{daemon.http}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    types = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)
    expect(len(types) == len(dict(types)), f"a metric has two types: {types}")
    found = {name: (kind, set()) for name, kind in types}
    for name, labels in re.findall(r"^([a-z]\w*)(\{.*\})? ", text, re.M):
        if name not in found:
            name = SUFFIXES.sub("", name)
        expect(name in found, f"{name} has no type")
        found[name][1].update(re.findall(r'(\w+)="', labels))
    return found


def daemon_with_all(box):
    """A daemon with everything but limitador."""
    limits = box.path / "limits"
    limits.mkdir()
    (limits / "shop.yaml").write_text(LIMITS)
    tls = box.tls()
    more = f"""
top: {{keys: 10, metrics: true}}
redis: {{url: 'redis://{HOST}:{free_port()}', deadline: 50ms}}
envoy: {{config: '{limits}', statsd: 'udp://{HOST}:{free_port()}'}}
spoe: {{messages: {{check: api}}}}
telemetry: {{endpoint: 'http://{HOST}:{free_port()}'}}"""
    policies = {"api": "{limit: gcra 1/h burst 1, candidate: gcra 1/s burst 1}",
                "own": "{limit: gcra 1/s burst 1, memory: 5m}",
                "shared": "{limit: gcra 1/s, engine: redis, on_error: open}",
                "often": "{limit: gcra 1/s, engine: hybrid, on_error: open}"}
    daemon = Daemon(box, policies, engine=None, memory=f"{{size: 32m, file: '{box.path}/state'}}", more=more)
    listen = f"listen: {{grpc: '{HOST}:0', spoe: '{HOST}:0', http: '{HOST}:0', " \
             f"resp: [{{address: '{HOST}:0', tls: {{cert: '{tls.cert}', key: '{tls.key}'}}}}, '{HOST}:0']}}"
    daemon.config.write_text(re.sub(r"^listen: .*", lambda _: listen, daemon.config.read_text()))
    return daemon.start()


def daemon_with_limitador(box):
    """A daemon with limitador's limits, which has decided a request."""
    limits = box.path / "limits.yaml"
    limits.write_text("[{namespace: shop, max_value: 1, seconds: 60, conditions: [], variables: []}]\n")
    daemon = Daemon(box, {"api": "gcra 1/h burst 1"}, engine=None, more=f"limitador: {{limits: '{limits}'}}").start()
    request = urllib.request.Request(f"http://{HOST}:{daemon.http}/check_and_report",
                                     b'{"namespace": "shop", "values": {}, "delta": 1}',
                                     {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=60).close()
    return daemon


# ---- tests ---------------------------------------------------------------------------------------


def commands(box):
    """The page has the commands of COMMAND, with the syntax of WEIR.HELP."""
    daemon = Daemon(box, {}, engine=None).start()
    known = {name.decode().upper() for name in daemon.call("COMMAND", "LIST")}
    syntax = {line.decode().split(" (")[0] for line in daemon.call("WEIR.HELP")}
    told = {text for cells in rows(COMMANDS, "command") for text in code(cells[0])}
    expect_same({text.split()[0] for text in told}, known, COMMANDS.name)
    expect_same(told, syntax, COMMANDS.name)
    strange = set(re.findall(r"\b(?:WEIR|CL)\.[A-Z]+\b", COMMANDS.read_text())) - known
    expect(not strange, f"{COMMANDS.name} names unknown commands: {strange}")


def commands_of_module(box):
    """The column "module" of the page says which of its commands the module has."""
    if not is_redis_here():
        raise Skipped("there is no redis-server")
    server = Redis(box, module=True).start()
    found = {name.decode().upper() for name in server.call("COMMAND", "LIST", "FILTERBY", "MODULE", "weir")}
    for name, has, *_ in (cells for cells in rows(COMMANDS, "command") if cells[1] in ("yes", "no")):
        name = code(name)[0].split()[0]
        expect((has == "yes") == (name in found), f"{COMMANDS.name} says {has} of the module and {name}")


def has_limitador(box):
    """Whether weir was built with limitador."""
    config = box.path / "limitador.yaml"
    config.write_text("limitador: {}\n")
    checked = subprocess.run([box.weir, "check", config], capture_output=True, text=True, check=False)
    return "built without" not in checked.stderr


def metrics(box):
    """Each metric of a daemon is on the page, and each metric of the page is one of a daemon."""
    daemon = daemon_with_all(box)
    found = scrape(daemon, ("own", "shared", "often"))
    page = metrics_of_page()
    if has_limitador(box):
        for name, (kind, labels) in scrape(daemon_with_limitador(box)).items():
            expect(found.get(name, (kind,))[0] == kind, f"{name} has two types")
            found.setdefault(name, (kind, set()))[1].update(labels)
    else:
        print("left out, because weir was built without limitador: its metrics")
        page = {name: row for name, row in page.items() if name not in LIMITADOR_METRICS}
    expect_same(set(page), set(found), METRICS.name)
    for name, (kind, labels) in found.items():
        expect(page[name] == (kind, labels), f"{name} is {page[name]} on the page and {(kind, labels)} in /metrics")


def monitoring(_box):
    """The alerts, their tests and the dashboard name only metrics of the page."""
    page = metrics_of_page()
    for file in MONITORING:
        names = set(re.findall(r"\bweir_\w+", (ROOT / "packaging" / file).read_text()))
        unknown = {name for name in names if name not in page and SUFFIXES.sub("", name) not in page}
        expect(names and not unknown, f"{file} names metrics that {METRICS.name} does not have: {unknown}")


if __name__ == "__main__":
    sys.exit(run([commands, commands_of_module, metrics, monitoring], sys.argv, needs_redis=False))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests current client libraries with the daemon, the module and the Functions library; the examples of
docs/clients.md; docs/openapi.yaml; and telemetry with the OpenTelemetry Collector. Libraries that cannot be installed are skipped and counted.

    clients_test.py WEIR MODULE [NAME...]"""

import concurrent.futures
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

import fields
from kit import install
from kit.process import Failed, expect, run
import libraries
import openapi
import page
import telemetry
import weir_node
import weir_python

PROGRAMS = {
    "redis_py": ("python", ["redis_py.py"]),
    "redis_py_asyncio": ("python", ["redis_py_asyncio.py"]),
    "ioredis": ("node", ["ioredis.mjs"]),
    "node_redis": ("node", ["node_redis.mjs"]),
    "go_redis": ("go", []),
    "jedis": ("java", ["JedisClient"]),
    "lettuce": ("java", ["LettuceClient"]),
}
SERVERS = {"daemon": libraries.with_daemon, "module": libraries.with_module,
           "functions": libraries.with_functions}


class Installed:
    """Installs each language, and the collector, once; all of them at the same time."""

    def __init__(self, build):
        languages = (install.java, install.go, install.node, install.python, install.php, install.ruby,
                     telemetry.collector, weir_node.installed, weir_python.prepare)
        pool = concurrent.futures.ThreadPoolExecutor(len(languages))
        self.results = {one.__name__: pool.submit(one, build) for one in languages}

    def get(self, language):
        return self.results[language].result()


def library_tests(installed):
    for server, judge in SERVERS.items():
        for name, (language, words) in PROGRAMS.items():
            def test(box, language=language, words=words, judge=judge):
                directory, command = installed.get(language)
                program = [directory / "go_redis"] if language == "go" else [*command, *words]
                judge(box, program, directory)

            test.__name__ = f"{name}_with_{server}"
            yield test


def field_tests(installed):
    def structured_fields(box):
        fields.structured_fields(box, *installed.get("python"))

    yield structured_fields


def telemetry_tests(installed):
    def telemetry_with_collector(box):
        telemetry.telemetry_with_collector(box, installed.get("collector"))

    yield telemetry_with_collector


def openapi_tests(installed):
    for judge in (openapi.openapi_is_valid, openapi.openapi_holds):
        def test(box, judge=judge):
            judge(box, installed.get("python")[0])

        test.__name__ = judge.__name__
        yield test


def page_yaml(box):
    """The configuration on the page is valid."""
    config = box.path / "weir.yaml"
    config.write_text(page.block("Start weir", "yaml"))
    expect("api" in install.run([box.weir, "check", config], None, Failed), "no api")


def page_releases(_box):
    """The page has the releases that the tests install."""
    pins = {"redis-py": ("python/requirements.txt", r"^redis==(\S+)"),
            "ioredis": ("node/package.json", r'"ioredis": "(.*?)"'),
            "node-redis": ("node/package.json", r'"redis": "(.*?)"'),
            "go-redis": ("go/go.mod", r"go-redis/v9 v(\S+)"),
            "Jedis": ("java/pom.xml", r"<artifactId>jedis</artifactId>\s*<version>(.*?)<"),
            "Lettuce": ("java/pom.xml", r"lettuce-core</artifactId>\s*<version>(.*?)\.RELEASE<")}
    text = page.PAGE.read_text()
    for name, (manifest, pattern) in pins.items():
        version = re.search(pattern, (HERE / manifest).read_text(), re.M)[1]
        expect(f"{name} {version}" in text, f"{manifest} has {name} {version}, the page has not")


def page_tests(installed):
    def stored(language, name, text):
        directory, command = installed.get(language)
        (directory / name).write_text(text)
        return directory, command

    def fastapi(text, port):
        directory, command = stored("python", "fastapi_example.py", text)
        return [*command, "-m", "uvicorn", "fastapi_example:app", "--port", port], directory

    def django(text, port):
        directory, command = stored("python", "limit.py", text)
        return [*command, "django_site.py", port], directory

    def express(text, _port):
        directory, command = stored("node", "express_example.mjs", text)
        return [*command, "express_example.mjs"], directory

    def go(text, _port):
        directory, command = stored("go", "page.go", text)
        install.run([*command, "build", "-o", "page", "page.go"], directory, Failed)
        return [directory / "page"], directory

    def spring(text, port):
        directory, command = stored("java", "Limit.java", text)
        install.run(["javac", "-proc:none", "-parameters", "-cp", "lib/*", "-d", "classes",
                     "Limit.java", "App.java"], directory, Failed)
        return [*command, f"-Dserver.port={port}", "App"], directory

    def php(text, port):
        directory, command = stored("php", "index.php", text)
        return [*command, "-S", f"127.0.0.1:{port}", "index.php"], directory

    def ruby(text, port):
        directory, _ = stored("ruby", "limit.rb", text)
        return ["rackup", "-s", "webrick", "-o", "127.0.0.1", "-p", port], directory

    for heading, language, prepare in (("FastAPI", "python", fastapi), ("Django", "python", django),
                                       ("Express", "js", express), ("Go", "go", go),
                                       ("Spring", "java", spring), ("PHP", "php", php),
                                       ("Ruby", "ruby", ruby)):
        def test(box, heading=heading, language=language, prepare=prepare):
            page.check_example(box, heading, language, prepare)

        test.__name__ = f"page_{heading.lower()}"
        yield test


def main():
    installed = Installed(pathlib.Path(sys.argv[1]).resolve().parent / "clients")
    tests = [page_yaml, page_releases, *library_tests(installed), *field_tests(installed),
             *openapi_tests(installed), *telemetry_tests(installed), *page_tests(installed),
             *weir_node.tests(lambda: installed.get(weir_node.installed.__name__)),
             *weir_python.tests(lambda: installed.get(weir_python.prepare.__name__))]
    return run(tests, sys.argv)


if __name__ == "__main__":
    sys.exit(main())

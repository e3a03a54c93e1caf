# SPDX-License-Identifier: BSD-2-Clause
"""The Node client (clients/node), installed from its npm package: the vectors of weir, the interface, a race, faults,
middleware and the stores of other libraries, in a file and with a daemon. The programs are in weir_node/."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from kit import install
from kit.process import ROOT, Failed, Process, expect, say, until
from kit.weir import Daemon
import page

HERE = ROOT / "tests" / "clients"
VECTORS = [path for path in sorted((ROOT / "tests" / "vectors").glob("*.json")) if path.name != "keys.json"]
PAGE = ROOT / "docs" / "clients" / "node.md"

# The tests of @fastify/rate-limit that cannot pass: its options continueExceeding and exponentialBackoff begin a new
# window at a denied request, or make it longer. No policy of weir does; fastifyStore() refuses both.
FASTIFY_REFUSED = {
    "With { increment: false } and continueExceeding the peek mirrors the active window",
    "With { increment: false } and exponentialBackoff the peek reports the base window without escalating it",
    "Exponential Backoff",
    "Global Exponential Backoff",
    "MAx safe Exponential Backoff",
    "issue \\#207 - when continueExceeding is true and the store is local then it should reset the rate-limit",
    "issue \\#284 - don't set the reply code automatically",
    "When continue exceeding is on (Local)",
}


def packed(build):
    """The npm package, made without the network."""
    install.need("npm", "ninja")
    install.run(["tools/clients-dist", build, "node"], ROOT, Failed)
    return next((build / "clients-dist").glob("weir-*.tgz"))


def installed(clients):
    """Installs the libraries that the tests use, and the package, whose addon npm builds."""
    install.need("node", "npm", "make", "cc", "python3")
    directory = install.copy("weir_node", clients)
    words = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    install.once(directory, "package-lock.json", lambda: install.run(words, directory, install.Skipped))
    package = packed(clients.parent)
    digest, stamp = hashlib.sha256(package.read_bytes()).hexdigest(), directory / "installed"
    if not stamp.exists() or stamp.read_text() != digest or not (directory / "node_modules" / "weir").exists():
        install.run(["npm", "install", "--no-save", "--offline", "--no-audit", "--no-fund", package], directory, Failed)
        stamp.write_text(digest)
    return directory, [install.recent_node(directory)]


def node(box, words, **more):
    """Runs a program with variables, and returns its output."""
    directory, command = box.node
    environment = {**os.environ, "WEIR": str(box.weir), "WEIR_DIR": str(box.path), **more}
    return install.run([*command, *words], directory, Failed, env=environment)


def node_tests(box, *words, **more):
    """Runs a file of tests, and says how many there are."""
    text = node(box, ["--test-reporter=tap", "--test", "--test-force-exit", *words], **more)
    say(" ".join(re.findall(r"^# ((?:tests|pass|fail|skipped) \d+)$", text, re.M)))


def file_url(box):
    return f"weir+file://{box.path}/state"


def daemon_url(box):
    return f"weir://127.0.0.1:{Daemon(box, {'api': 'gcra 1/h'}, None, engine=None).start().port}"


# ---- the package ---------------------------------------------------------------------------------


def node_package(box):
    """It has weir's version, loads by require() and by import, and works with a prebuilt addon."""
    version = re.search(r'WEIR_VERSION "(.*)"', (ROOT / "include/weir/weir.h").read_text())[1]
    directory = box.node[0] / "node_modules" / "weir"
    expect(f'"version": "{version}"' in (directory / "package.json").read_text(), "another version")
    names = "console.log(Object.keys(w).filter((n) => n !== 'default').sort().join())"
    required = node(box, ["-e", f"const w = require('weir'); {names}"])
    imported = node(box, ["--input-type=module", "-e", f"import * as w from 'weir'; {names}"])
    expect(required == imported and "Limiter" in required, f"found {required} and {imported}")
    copy = box.path / "node_modules" / "weir"
    shutil.copytree(directory, copy)
    platform = node(box, ["-p", "`${process.platform}-${process.arch}`"]).strip()
    (copy / "prebuilds" / platform).mkdir(parents=True)
    (copy / "build" / "Release" / "weir.node").rename(copy / "prebuilds" / platform / "weir.node")
    program = f"new (require({str(copy)!r}).Limiter)('gcra 1/h', {{ url: {file_url(box)!r} }}).checkSync('a').allowed"
    expect(node(box, ["-p", program]) == "true\n", "the prebuilt addon does not decide")
    node(box, [copy / "lib" / "install.js"])
    expect(not (copy / "build" / "Release" / "weir.node").exists(), "a prebuilt addon is built again")
    shutil.rmtree(copy / "prebuilds")
    with contextlib.suppress(Failed):
        node(box, ["-p", program])
        raise AssertionError("without an addon, a file can be opened")
    node(box, ["-e", f"require({str(copy)!r})"])


def node_types(box):
    """TypeScript accepts the types, and refuses a wrong option."""
    directory, _ = box.node
    command = ["node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
               "--module", "nodenext", "--types", "", "types.ts"]
    node(box, command)
    text = (directory / "types.ts").read_text()
    (directory / "wrong_types.ts").write_text(text.replace("cost: 2", "cots: 2"))
    with contextlib.suppress(Failed):
        node(box, [*command[:-1], "wrong_types.ts"])
        raise AssertionError("a wrong option is accepted")


# ---- in a file and with a daemon -----------------------------------------------------------------


def node_vectors_in_file(box):
    say(node(box, ["vectors.mjs", file_url(box), "", *VECTORS]).strip())


def node_vectors_with_daemon(box):
    """The daemon reads its time from a file that the program writes before each step."""
    library, clock = box.path / "fake_clock.so", box.path / "clock"
    install.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, HERE / "fake_clock.c"], None, Failed)
    clock.write_bytes(bytes(8))
    wrapper = box.path / "weir"
    wrapper.write_text(f'#!/bin/sh\nFAKE_CLOCK={clock} LD_PRELOAD={library} exec {box.weir} "$@"\n')
    wrapper.chmod(0o755)
    daemon = Daemon(box, {"api": "gcra 1/h"}, None, engine=None, memory="{size: 64m}", program=wrapper).start()
    say(node(box, ["vectors.mjs", f"weir://127.0.0.1:{daemon.port}", clock, *VECTORS]).strip())


def node_interface_in_file(box):
    node_tests(box, "interface.test.mjs", WEIR_URL=file_url(box))


def node_interface_with_ioredis(box):
    node_tests(box, "interface.test.mjs", WEIR_URL=daemon_url(box))


def node_interface_with_node_redis(box):
    node_tests(box, "--require", "./without_ioredis.cjs", "interface.test.mjs", WEIR_URL=daemon_url(box))


def node_race_in_file(box):
    say(node(box, ["race.mjs", file_url(box)]).strip())


def node_race_with_daemon(box):
    say(node(box, ["race.mjs", daemon_url(box)]).strip())


def node_files(box):
    node_tests(box, "file.test.mjs", WEIR_KEYS=str(ROOT / "tests" / "vectors" / "keys.json"))


def certificates(box):
    subprocess.run(["bash", "-c", f". {ROOT}/tests/e2e/certificates.sh && authority authority && "
                    "pair server authority 2 IP:127.0.0.1"], cwd=box.path, check=True)


def node_faults_with_ioredis(box):
    certificates(box)
    node_tests(box, "faults.test.mjs", CLIENT="ioredis")


def node_faults_with_node_redis(box):
    certificates(box)
    node_tests(box, "--require", "./without_ioredis.cjs", "faults.test.mjs", CLIENT="node-redis")


def node_middleware_in_file(box):
    node_tests(box, "middleware.test.mjs", WEIR_URL=file_url(box))


def node_middleware_with_daemon(box):
    node_tests(box, "middleware.test.mjs", WEIR_URL=daemon_url(box))


# ---- the tests of @fastify/rate-limit ------------------------------------------------------------


def node_fastify_suite(box):
    """Its tests, which are in its npm package, with weir in place of its store in memory."""
    directory, command = box.node
    suite = directory / "fastify-rate-limit"
    shutil.rmtree(suite, ignore_errors=True)
    shutil.copytree(directory / "node_modules" / "@fastify" / "rate-limit", suite)
    shutil.copy(directory / "fastify_store.cjs", suite / "store" / "LocalStore.js")
    files = [str(file) for file in sorted((suite / "test").rglob("*.test.js")) if "redis" not in file.name]
    words = [str(word) for word in [*command, "--test", "--test-reporter=tap", *files]]
    done = subprocess.run(words, cwd=suite, env={**os.environ, "WEIR_URL": file_url(box)}, text=True,
                          capture_output=True, check=False, timeout=install.INSTALL_S)
    failed = re.findall(r"^not ok \d+ - (.*)$", done.stdout, re.M)
    passed = len(re.findall(r"^ok \d+ - ", done.stdout, re.M))
    surprise = [name for name in failed if name not in FASTIFY_REFUSED]
    expect(not surprise and passed > 80, f"{passed} passed, failed: {surprise}\n{done.stdout[-3000:]}")
    say(f"{passed} pass, {len(failed)} use an option that weir refuses")


# ---- the recipes of the page ---------------------------------------------------------------------


def compiled(directory, program):
    """The JavaScript of a program in TypeScript with decorators."""
    install.run(["node_modules/typescript/bin/tsc", "--experimentalDecorators", "--emitDecoratorMetadata",
                 "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--types", "", program], directory,
                Failed)
    return program.replace(".ts", ".js")


def check_recipe(box, heading, language):
    """Two requests are allowed, and the third is denied. The ports and the file are those of this test."""
    port, (directory, command) = page.unused_port(), box.node
    text = page.block(heading, language, PAGE)
    for written, used in (("3000", str(port)), ("/var/lib/app/limits", f"{box.path}/limits")):
        expect(written in text, f"the example has no {written}")
        text = text.replace(written, used)
    program = f"recipe_{heading.lower()}.{'ts' if language == 'ts' else 'mjs'}"
    (directory / program).write_text(text)
    if language == "ts":
        program = compiled(directory, program)
    example = page.Example(box, [*command, program], directory, port)
    until(example.is_serving, "the example serves HTTP")
    status, _ = example.get()
    denied, headers = example.get()
    expect((status, denied) == (200, 429), f"found {status} and {denied}")
    expect(0 < int(headers["Retry-After"]) <= 60, f"found {headers['Retry-After']}")


def node_recipes():
    for heading, language in (("Express", "js"), ("Fastify", "js"), ("Nest", "ts")):
        def test(box, heading=heading, language=language):
            check_recipe(box, heading, language)

        test.__name__ = f"node_recipe_{heading.lower()}"
        yield test


def node_page_releases(_box):
    """The page names the releases that the tests install."""
    pins = json.loads((HERE / "weir_node" / "package.json").read_text())["dependencies"]
    named = re.findall(r"([@\w/-]+) (\d+\.\d+\.\d+)", PAGE.read_text().split("## Tested")[1])
    wrong = [f"{name} {version}" for name, version in named if pins.get(name) != version]
    expect(len(named) > 5 and not wrong, f"the tests do not install {wrong}")


TESTS = [node_package, node_types, node_vectors_in_file, node_vectors_with_daemon, node_interface_in_file,
         node_interface_with_ioredis, node_interface_with_node_redis, node_race_in_file, node_race_with_daemon,
         node_files, node_faults_with_ioredis, node_faults_with_node_redis, node_middleware_in_file, node_middleware_with_daemon,
         node_fastify_suite, *node_recipes(), node_page_releases]


def tests(get):
    """The tests; get() returns what installed() returned, or raises its error."""
    for one in TESTS:
        def test(box, one=one):
            box.node = get()
            one(box)

        test.__name__ = one.__name__
        yield test


if __name__ == "__main__":  # prints the directory of the libraries, for bench/run
    print(installed(pathlib.Path(sys.argv[1]).resolve())[0])

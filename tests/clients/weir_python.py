# SPDX-License-Identifier: BSD-2-Clause
"""The package clients/python: its own tests, the vectors, races and failures, with a file and with a daemon; the tests of
`limits` and Flask-Limiter, which judge its storages; and the programs of docs/clients/python.md."""

import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import re
import struct
import subprocess
import sys
import textwrap

from kit import install
from kit.process import HOST, PATIENCE_S, ROOT, Failed, Process, Skipped, equal, expect, free_port, say, until
from kit.weir import Daemon

HERE = pathlib.Path(__file__).resolve().parent
PAGE = ROOT / "docs" / "clients" / "python.md"
VECTORS = sorted(path for path in (ROOT / "tests" / "vectors").glob("*.json") if path.name != "keys.json")
FOREIGN = {"limits": "limits-5.8.0", "Flask-Limiter": "flask_limiter-4.1.1"}


def prepare(build):
    """Builds the wheel, and installs it into an environment of its own. Returns its directory."""
    directory = install.copy("weir_python", build)
    venv = directory / "venv"
    pip = [venv / "bin" / "pip", "--disable-pip-version-check", "--quiet"]

    def fetch_all():
        install.run([sys.executable, "-m", "venv", "--clear", venv], directory, Skipped)
        install.run([*pip, "install", "-r", "requirements.txt"], directory, Skipped)
        for name, source in FOREIGN.items():
            install.run([*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation",
                         f"{name}=={source.rsplit('-', 1)[1]}"], directory, Skipped)
            install.run(["tar", "xzf", f"{source}.tar.gz"], directory, Failed)
        add_storage(directory / FOREIGN["limits"] / "tests" / "utils.py")

    install.once(directory, "requirements.txt", fetch_all)
    install.run(["tools/clients-dist", build.parent, "python"], ROOT, Failed)
    [wheel] = (build.parent / "clients-dist").glob("weir-*.whl")
    install.run([*pip, "install", "--no-deps", "--no-index", "--force-reinstall", wheel], directory, Failed)
    return directory


def add_storage(file):
    """Adds the storages of weir to those that the tests of `limits` use."""
    text = file.read_text()
    for name, prefix in (("ALL_STORAGES", ""), ("ALL_STORAGES_ASYNC", '"async+" + ')):
        row = f'    "weir": pytest.param({prefix}os.environ["WEIR_URI"], {{}}, None, marks=pytest.mark.weir, id="weir"),\n'
        text = text.replace(f"{name} = {{\n", f"{name} = {{\n{row}", 1)
    file.write_text(text)


def python(directory, *words, **more):
    """Runs the Python of the environment, and returns its output."""
    done = subprocess.run([str(word) for word in (directory / "venv" / "bin" / "python", *words)], text=True,
                          cwd=more.pop("cwd", directory), capture_output=True, timeout=PATIENCE_S * 5, check=False,
                          env=os.environ | more)
    expect(done.returncode == 0, f"{words}: {done.stdout[-4000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def pytest(directory, words, **more):
    """Runs pytest. Returns how many tests passed, and how many were left out."""
    found = python(directory, "-m", "pytest", "-q", "--tb=short", "-o", "addopts=", "-o",
                   "asyncio_default_fixture_loop_scope=function", "-p", "no:cacheprovider", *words, **more)
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|deselected|skipped)", found.splitlines()[-1])}
    expect(counts.get("passed"), found)
    say(found.splitlines()[-1])
    return counts


# ---- the package alone -------------------------------------------------------------------------------------------


def own_tests(_box, directory):
    pytest(directory, ["package_test.py", "middleware_test.py"])


def types(_box, directory):
    """mypy accepts the package, strictly, and the types that a program sees."""
    python(directory, "-m", "mypy", "--cache-dir", directory / "mypy", "src/weir", cwd=ROOT / "clients" / "python")
    (directory / "typed.py").write_text(textwrap.dedent("""\
        import typing
        import weir

        d = weir.Limiter("gcra 1/s", "weir+file:///x").check("a")
        wait: typing.Optional[int] = d.retry_after
        d.allowed + ""  # an error
        """))
    done = subprocess.run([directory / "venv" / "bin" / "python", "-m", "mypy", "--strict", "typed.py"], cwd=directory,
                          capture_output=True, text=True, check=False)
    equal(re.findall(r"typed.py:(\d+): error", done.stdout), ["6"], done.stdout)


def with_a_daemon(box, directory):
    tls = box.tls()

    class Guarded(Daemon):
        def write(self):
            server = f"{{cert: {tls.cert}, key: {tls.key}}}"
            self.config.write_text(
                f"listen: {{resp: [{HOST}:0, {{address: {HOST}:0, tls: {server}}}]}}\npassword: open\nthreads: 1\n"
                "policies: {api: gcra 10/m burst 5, slots: concurrent 2 lease 30s, queue: leaky-queue 1/s depth 2}\n")

    ports = re.findall(r"resp=\S*?:(\d+)\S*?:(\d+)", Guarded(box, {}, None).serve())[0]
    pytest(directory, ["daemon_test.py"], WEIR_PORT=ports[0], WEIR_TLS_PORT=ports[1], WEIR_CA=str(tls.ca))


# ---- the vectors -------------------------------------------------------------------------------------------------


def vectors_in_a_file(box, directory):
    say(python(directory, "vectors.py", f"weir+file://{box.path}/vectors", "", *VECTORS).splitlines()[-1])


class TimedDaemon(Daemon):
    """A daemon that reads its time from a file."""

    def __init__(self, box):
        self.clock, library = box.path / "clock", box.path / "fake_clock.so"
        self.clock.write_bytes(struct.pack("=q", 0))
        install.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "fake_clock.c"], None, Failed)
        self.environment = os.environ | {"FAKE_CLOCK": str(self.clock), "LD_PRELOAD": str(library)}
        super().__init__(box, {}, None, engine=None, memory="{size: 128m}")

    def spawn(self, words, **more):
        super().spawn(words, env=self.environment, **more)


def vectors_with_a_daemon(box, directory):
    daemon = TimedDaemon(box).start()
    say(python(directory, "vectors.py", f"weir://{HOST}:{daemon.port}", daemon.clock, *VECTORS).splitlines()[-1])


# ---- a file with a daemon ----------------------------------------------------------------------------------------

SHARED = """
import os, sys, weir
url, policies = sys.argv[1], {"api": "gcra 1/365d burst 9"}
name, text = weir.Limiter("api", url, policies=policies), weir.Limiter(policies["api"], url)
taken = [limiter.check(key).remaining for limiter in (name, text) for key in ("a", "2001:db8::1")]
if os.fork() == 0:
    taken = [limiter.check("a").remaining for limiter in (name, text)]
    name.reset_all()
    print(*taken, name.peek("a").remaining, text.peek("a").remaining)
    sys.exit(0)
os.wait()
print(*taken)
"""


def file_of_a_daemon(box, directory):
    """A limiter in the daemon's file and the daemon count together, by name and by text, also after fork()."""
    file, policy = box.path / "shared", "gcra 1/365d burst 9"
    daemon = Daemon(box, {"api": policy}, None, engine=None, memory=f"{{size: 8m, file: {file}, shared: true}}").start()
    for key in ("a", "2001:db8::1"):
        for name in ("api", policy, policy):
            daemon.call("WEIR.TAKE", name, key)
    equal(python(directory, "-c", SHARED, f"weir+file://{file}"), "6 5 9 5\n7 7 6 6\n")
    equal([daemon.call("WEIR.PEEK", name, "2001:db8::2")[2] for name in ("api", policy)], [9, 6], "the keys of a /64")


# ---- races -------------------------------------------------------------------------------------------------------


def races_in_a_file(box, directory):
    for how in ("fork", "spawn"):
        equal(python(directory, "race.py", f"weir+file://{box.path}/{how}?size=8m", how, 400, 3000), "3000\n", how)


def killed_processes(box, directory):
    """Decisions of killed processes count: only one that had been made, but not counted by the test, is missing."""
    found = int(python(directory, "race.py", f"weir+file://{box.path}/limits?size=8m", "killed", 2000, 20000))
    expect(20000 - 3 * 16 <= found <= 20000, f"{found} requests were allowed")


def race_with_a_daemon(box, directory):
    daemon = Daemon(box, {}, None, engine=None).start()
    equal(python(directory, "race.py", f"weir://{HOST}:{daemon.port}", "fork", 60, 500), "500\n")


# ---- failures ----------------------------------------------------------------------------------------------------


def failures_of_a_daemon(box, directory):
    """A daemon that hangs, comes back, is killed and starts again: failures.py says what a limiter answers."""
    port = free_port()

    class Fixed(Daemon):
        def write(self):
            self.config.write_text(f"listen: {{resp: {HOST}:{port}}}\nthreads: 1\n"
                                   "policies: {api: gcra 1/1d burst 100}\n")

        def start(self):
            self.port = self.port_in(self.serve(), "resp")
            return self

    daemon = Fixed(box, {}, None).start()
    for mode in ("sync", "async"):
        with subprocess.Popen([directory / "venv" / "bin" / "python", "failures.py", mode, str(port)], cwd=directory,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            steps_of_failures(daemon, child)


def steps_of_failures(daemon, child):
    daemon.call("WEIR.RESET", "api", "a")

    def ask(state):
        child.stdin.write(state + "\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    equal(ask("up"), "allowed True limit, failures 0, remaining 99")
    daemon.pause()
    equal(ask("hung"), "allowed True on-error, failures 1, remaining 0", "a hung daemon")
    daemon.resume()
    # The request that timed out was sent once. The daemon may read it after the next one.
    found = ask("up")
    expect(re.fullmatch("allowed True limit, failures 1, remaining 9[78]", found), f"a daemon that continues: {found}")
    until(lambda: daemon.call("WEIR.PEEK", "api", "a")[2] == 97, "three requests were charged")
    daemon.kill()
    equal(ask("down"), "allowed True on-error, failures 2, remaining 0", "a killed daemon")
    equal(ask("closed"), "allowed False on-error, failures 1, remaining 0", "with on_error=closed")
    daemon.start()
    equal(ask("up"), "allowed True limit, failures 2, remaining 99", "a daemon that started again")
    child.stdin.close()
    equal(child.wait(PATIENCE_S), 0)


# ---- foreign tests -----------------------------------------------------------------------------------------------

# Tests that cannot pass, and why.
NOT_OF_LIMITS = {
    "benchmarks": "they measure",
    "tests/storage": "they look into the storages of `limits`",
    "tests/aio/storage": "they look into the storages of `limits`",
}
NOT_OF_FLASK_LIMITER = {
    "mongodb": "it needs a server of MongoDB",
    "memcached": "it needs a server of memcached",
    "test_reset_unsupported": "it is about memcached, which has no reset",
    "test_constructor_arguments_over_config": "it expects the class of memory://",
    "test_fallback_to_memory": "it breaks Redis by replacing a method of redis-py",
    "test_redis_request_slower": "it slows Redis down by replacing a method of redis-py",
}


def limits_suite(directory, uri, more=""):
    words = [word for path in NOT_OF_LIMITS for word in ("--ignore", path if "/" in path else f"tests/{path}")]
    return pytest(directory, ["-p", "weir_foreign", "-p", "no:randomly", "--no-flaky-report", "-m", "weir", "tests",
                              *words, *(["-k", more] if more else [])],
                  cwd=directory / FOREIGN["limits"], WEIR_URI=uri, PYTHONPATH=str(directory))


def limits_in_a_file(_box, directory):
    limits_suite(directory, "weir+file:///replaced")


def limits_with_a_daemon(box, directory):
    """Those without a simulated time."""
    daemon = Daemon(box, {}, None, engine=None).start()
    limits_suite(directory, f"weir://{HOST}:{daemon.port}")


def flask_limiter_suite(directory, uri, **more):
    words = " and ".join(f"not {name}" for name in NOT_OF_FLASK_LIMITER)
    pytest(directory, ["-p", "weir_foreign", "--no-flaky-report", "tests", "-k", words],
           cwd=directory / FOREIGN["Flask-Limiter"], WEIR_URI=uri, PYTHONPATH=str(directory), COLUMNS="300", **more)


def flask_limiter_in_a_file(_box, directory):
    flask_limiter_suite(directory, "weir+file:///replaced")


def flask_limiter_with_a_daemon(box, directory):
    daemon = TimedDaemon(box).start()
    flask_limiter_suite(directory, f"weir://{HOST}:{daemon.port}", WEIR_CLOCK=str(daemon.clock))


# ---- the page ----------------------------------------------------------------------------------------------------

DJANGO = """
SECRET_KEY, ALLOWED_HOSTS, ROOT_URLCONF = "x", ["*"], "settings"
from django.http import HttpResponse
from django.urls import path
urlpatterns = [path("", lambda request: HttpResponse("hello"))]
"""
SERVERS = {
    "app.py": ["-m", "flask", "--app", "app", "run", "--port"],
    "flask_limiter_app.py": ["-m", "flask", "--app", "flask_limiter_app", "run", "--port"],
    "main.py": ["-m", "uvicorn", "main:app", "--workers", "2", "--port"],
    "settings.py": ["-m", "django", "runserver", "--noreload", "--settings", "settings", "--pythonpath", "."],
}


def programs(box):
    """Writes the programs of the page, with a file of the test. Returns their names."""
    found = re.findall(r"^```python (\S+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    for name, text in found:
        text = text.replace("/var/lib/app/limits", f"{box.path}/{name}.limits")
        (box.path / name).write_text(text + (DJANGO if name == "settings.py" else ""))
    return [name for name, _ in found]


class Server(Process):
    def __init__(self, box, directory, name, words, address="{}"):
        super().__init__(box, name)
        self.port = free_port()
        self.spawn([directory / "venv" / "bin" / "python", *words, address.format(self.port)], cwd=box.path)

    def get(self):
        """The status and the headers of a response, or nothing."""
        with contextlib.suppress(OSError), \
                contextlib.closing(http.client.HTTPConnection(HOST, self.port, timeout=PATIENCE_S)) as web:
            web.request("GET", "/")
            response = web.getresponse()
            response.read()
            return response.status, response.headers
        expect(self.is_running(), f"{self.name} ended:\n{self.tail()}")
        return None


def page_programs(box, directory):
    names = programs(box)
    equal(sorted(names), sorted([*SERVERS, "example.py"]), "the programs of the page")
    python(directory, "example.py", cwd=box.path)
    for name in SERVERS:
        server = Server(box, directory, name, SERVERS[name])
        answers = [until(server.get, f"{name} answers")] + [server.get() for _ in range(5)]
        equal([status for status, _ in answers], [200] * 5 + [429], name)
        last = answers[-1][1]
        expect(int(last["Retry-After"]) > 0, f"{name}: {last}")
        expect(("X-RateLimit-Limit" in last) == (name in ("settings.py", "flask_limiter_app.py")), f"{name}: {last}")
        server.kill()


WORKERS = """
import os, flask, weir, weir.middleware
app = flask.Flask(__name__)
limiter = weir.Limiter("fixed-window 100/365d from-first", "weir+file://{}?size=8m", on_error="raise")
app.wsgi_app = weir.middleware.WSGILimit(app.wsgi_app, limiter, key=lambda _: "all")
app.get("/")(lambda: ("", {{"Worker": str(os.getpid())}}))
"""


def workers_of_gunicorn(box, directory):
    """100 of 200 requests to two servers with four workers each are allowed. One loads the application before fork()."""
    (box.path / "workers.py").write_text(WORKERS.format(box.path / "limits"))
    servers = [Server(box, directory, name, ["-m", "gunicorn", *more, "--workers", "4", "workers:app", "--bind"],
                      f"{HOST}:{{}}") for name, more in (("each", []), ("before", ["--preload"]))]
    answers = [until(server.get, f"{server.name} answers") for server in servers]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers += pool.map(lambda i: servers[i % 2].get(), range(198))
    statuses = [status for status, _ in answers]
    equal((statuses.count(200), statuses.count(429)), (100, 100))
    workers = {headers["Worker"] for status, headers in answers if status == 200}
    expect(len(workers) > 2, f"only {workers} served requests")


def page_tables(_box, directory):
    """The page names every option, and every method."""
    text = PAGE.read_text()
    code = ("import inspect, weir, weir._options as o, weir.middleware as m\n"
            "print(*[n for n in dir(weir.Limiter) if n[0] != '_' and callable(getattr(weir.Limiter, n))],\n"
            "      *o._EVERYWHERE, *o._OF_FILE, *o._OF_DAEMON, *o._TLS,\n"
            "      *[p.name for p in inspect.signature(m.Rules.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY],\n"
            "      *[n for n in weir.Decision._fields if n not in ('layer', 'next_ns')])")
    for name in python(directory, "-c", code).split():
        expect(re.search(rf"`{name}[`(]", text), f"the page does not describe {name}")
    pins = dict(re.findall(r"^([\w-]+)(?:\[cli\])?==(\S+)$", (HERE / "weir_python" / "requirements.txt").read_text(), re.M))
    for name in FOREIGN:
        expect(f"{name}` {pins[name]}" in text or f"{name} {pins[name]}" in text, f"the page has another {name}")
        expect(FOREIGN[name].endswith(pins[name]), f"another {name}")


TESTS = [own_tests, with_a_daemon, types, vectors_in_a_file, vectors_with_a_daemon, file_of_a_daemon, races_in_a_file, killed_processes,
         race_with_a_daemon, failures_of_a_daemon, limits_in_a_file, limits_with_a_daemon,
         flask_limiter_in_a_file, flask_limiter_with_a_daemon, workers_of_gunicorn, page_programs, page_tables]


def tests(prepared):
    """The tests; prepared() is what prepare() returned."""
    for judge in TESTS:
        def test(box, judge=judge):
            judge(box, prepared())

        test.__name__ = f"python_{judge.__name__}"
        yield test


if __name__ == "__main__":  # prints the directory of the environment, for bench/run
    print(prepare(pathlib.Path(sys.argv[1]).resolve()))

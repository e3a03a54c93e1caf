# SPDX-License-Identifier: BSD-2-Clause
"""Starts real servers for all tests: weir, and redis-server alone, with replicas, under Sentinels or
as a Cluster. All listen on free ports of the loopback, keep their files in one temporary directory,
and end with the test, even if the test is killed.

A test is a function that takes a Box. run() runs several tests, and counts them."""

import atexit
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import traceback

import resp
from resp import HOST, PATIENCE_S, Failed, Refused, free_port, mortal, until


class Skipped(Exception):
    pass


def expect(true, what):
    if not true:
        raise Failed(what)


def say(text):
    print("# " + text.replace("\n", "\n# "), flush=True)


def is_up(client, process):
    """Whether this process replies and has loaded its files. It replies to INFO before that. A Sentinel
    loads nothing."""
    lines = client.call("INFO").splitlines()
    return f"process_id:{process.pid}".encode() in lines and b"loading:1" not in lines


def is_port_taken(log):
    """Whether a server did not start because its port is in use."""
    return "Could not create server TCP" in log or "Failed listening" in log


# ---- a client ------------------------------------------------------------------------------------


class Client(resp.Client):
    """A blocking connection."""

    def __init__(self, address, password=None, user=None, tls=None, patience_s=PATIENCE_S):
        if isinstance(address, (str, pathlib.Path)):
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(patience_s)
            connected.connect(str(address))
        else:
            connected = socket.create_connection((HOST, address), patience_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.use(tls.wrap_socket(connected, server_hostname=HOST) if tls else connected)
        if password:
            self.call("AUTH", *([user] if user else []), password)


def info(client, section):
    text = client.call("INFO", section)
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


# ---- processes -----------------------------------------------------------------------------------


class Process:
    """A child that ends when its Box does, or when the test dies."""

    def __init__(self, box, name):
        self.box, self.name, self.process = box, name, None
        self.log = box.path / f"{name}.log"
        box.processes.append(self)

    def spawn(self, words, **more):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([str(word) for word in mortal(words)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, start_new_session=True, **more)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def pause(self):
        """Stops the process, and waits until all its threads have stopped: until then one may still reply."""
        self.signal(signal.SIGSTOP)
        until(lambda: set(self.thread_states()) == {"T"}, f"{self.name} stops")

    def thread_states(self):
        for thread in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            yield (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """Kills it with SIGKILL."""
        if self.is_running():
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    def end(self):
        """Stops it with SIGTERM, and returns the exit status."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not stop within the timeout:\n{self.tail()}") from None

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines=20):
        return "\n".join(self.log_text().splitlines()[-lines:])


class Redis(Process):
    """A redis-server, or another program. `options` are lines of its configuration, with _ for -."""

    def __init__(self, box, name=None, *, module=False, password=None, tls=False, unix=False,
                 cluster=False, fixed_file_size=False, program="redis-server", **options):
        super().__init__(box, name or box.name("redis"))
        self.program = program
        self.directory = box.path / self.name
        self.directory.mkdir()
        self.module, self.password, self.cluster = module, password, cluster
        self.tls = box.tls() if tls else None
        self.unix = self.directory / "socket" if unix else None
        self.ignore_file_size = fixed_file_size
        self.options = {"save": '""', "appendonly": "no", "repl-diskless-sync-delay": "0",
                        "enable-debug-command": "yes", "enable-module-command": "yes", "daemonize": "no"}
        self.options.update({key.replace("_", "-"): value for key, value in options.items()})
        self.port = None

    def configuration(self):
        lines = [f"dir {self.directory}", f"bind {HOST}"]
        if self.tls:
            lines += ["port 0", f"tls-port {self.port}", f"tls-ca-cert-file {self.tls.ca}",
                      f"tls-cert-file {self.tls.cert}", f"tls-key-file {self.tls.key}",
                      "tls-auth-clients optional"]
        else:
            lines.append(f"port {self.port}")
        if self.unix:
            lines.append(f"unixsocket {self.unix}")
        if self.password:
            lines += [f"requirepass {self.password}", f"masterauth {self.password}"]
        if self.cluster:
            lines += ["cluster-enabled yes", f"cluster-port {self.bus}",
                      "cluster-node-timeout 1000", "cluster-require-full-coverage no",
                      "cluster-replica-validity-factor 0"]
        if self.module:
            lines.append(f"loadmodule {self.box.module}")
        for key, value in self.options.items():
            for one in value if isinstance(value, list) else [value]:
                lines.append(f"{key} {one}")
        return "\n".join(lines) + "\n"

    def start(self):
        for _ in range(8):
            again = self.port is not None  # other servers know its port
            if not again:
                self.port = free_port()
                self.bus = free_port()
            config = self.directory / "redis.conf"
            if not again or not self.cluster:
                config.write_text(self.configuration())
            more = {"restore_signals": False} if self.ignore_file_size else {}
            self.spawn([self.program, config], **more)
            if self.wait_for_it(again):
                return self
            if not again:
                self.port = None
        raise Failed(f"{self.name} did not start:\n{self.tail()}")

    def wait_for_it(self, again):
        """Returns false if another process took the port."""
        until(lambda: not self.is_running() or self.is_up(), f"{self.name} replies")
        if self.is_running():
            return True
        expect(is_port_taken(self.tail()), f"{self.name} ended:\n{self.tail()}")
        return False

    def is_up(self):
        try:
            with contextlib.closing(self.client(patience_s=5)) as client:
                return is_up(client, self.process)
        except ssl.SSLCertVerificationError as error:
            raise Failed(f"the client refused the certificate of {self.name}: {error}") from error
        except (OSError, Refused):
            return False

    def restart(self):
        self.kill()
        return self.start()

    def client(self, **more):
        more.setdefault("password", self.password)
        return Client(self.port, tls=self.tls.context if self.tls else None, **more)

    def call(self, *words):
        with contextlib.closing(self.client()) as client:
            return client.call(*words)

    def info(self, section):
        with contextlib.closing(self.client()) as client:
            return info(client, section)

    def calls_of(self, name):
        """How often the server ran a command."""
        stats = self.info("commandstats").get(f"cmdstat_{name.lower()}", "calls=0")
        return int(re.match(r"calls=(\d+)", stats)[1])

    def limit_file_size(self, size):
        """Simulates a full disk, for a server with fixed_file_size; -1 ends that."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def url(self, user=None):
        who = f"{user or ''}:{self.password}@" if self.password else ""
        return f"{'rediss' if self.tls else 'redis'}://{who}{HOST}:{self.port}"

    def follow(self, master):
        self.call("REPLICAOF", HOST, master.port)
        until(self.is_linked, f"{self.name} follows {master.name}")

    def replication(self):
        """Returns None if the server closes the connection, as it does when its role changes."""
        with contextlib.suppress(OSError, Refused):
            return self.info("replication")
        return {}

    def is_master(self):
        return self.replication().get("role") == "master"

    def is_linked(self):
        """Whether it is a replica that is connected to its master."""
        return self.replication().get("master_link_status") == "up"


class Server(Redis):
    """A Redis that starts at once in a Box of its own, and stops at the end of `with`. `options` are those
    of its command line. client() returns objects of the class `connection`."""

    connection = resp.Client

    def __init__(self, *options, module=None):
        names = [name.removeprefix("--") for name in options[::2]]
        super().__init__(Box(None, module), module=module is not None, **dict(zip(names, options[1::2])))
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def client(self, proto=2, patience_s=PATIENCE_S):
        client = self.connection(self.port, patience_s)
        if proto == 3:
            client.call("HELLO", 3)
        return client

    def restart(self):
        """Stops it with SIGTERM, so that it writes its files, and starts it again."""
        self.end()
        return self.start()

    def close(self):
        self.box.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Sentinel(Process):
    def __init__(self, box, master, quorum=2):
        super().__init__(box, box.name("sentinel"))
        self.master, self.quorum, self.port = master, quorum, None

    def start(self):
        config = self.box.path / f"{self.name}.conf"
        for _ in range(8):
            self.port = free_port()
            # Each Sentinel has its own file, because it rewrites it.
            config.write_text(
                f"port {self.port}\nbind {HOST}\ndir {self.box.path}\n"
                f"sentinel monitor mymaster {HOST} {self.master.port} {self.quorum}\n"
                "sentinel down-after-milliseconds mymaster 500\n"
                "sentinel failover-timeout mymaster 3000\n")
            self.spawn(["redis-server", config, "--sentinel"])
            until(lambda: self.answers() or not self.is_running(), f"{self.name} answers or ends")
            if self.is_running():
                return self
            expect(is_port_taken(self.tail()), f"{self.name} ended:\n{self.tail()}")
        raise Failed(f"{self.name} did not start:\n{self.tail()}")

    def answers(self):
        with contextlib.suppress(OSError, Refused):
            with contextlib.closing(Client(self.port)) as client:
                return is_up(client, self.process)
        return False

    def call(self, *words):
        with contextlib.closing(Client(self.port)) as client:
            return client.call(*words)

    def master_port(self):
        return int(self.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")[1])


class Watched:
    """A master, a replica, and three Sentinels that have discovered each other."""

    def __init__(self, box, **options):
        self.master = Redis(box, **options).start()
        self.replica = Redis(box, **options).start()
        self.replica.follow(self.master)
        self.sentinels = [Sentinel(box, self.master).start() for _ in range(3)]
        until(lambda: all(self.is_complete(sentinel) for sentinel in self.sentinels),
              "the Sentinels know each other")

    @staticmethod
    def is_complete(sentinel):
        words = sentinel.call("SENTINEL", "MASTER", "mymaster")
        fields = dict(zip(words[::2], words[1::2]))
        return fields[b"num-other-sentinels"] == b"2" and fields[b"num-slaves"] == b"1"

    def urls(self):
        """The section redis of a daemon's configuration."""
        return {"urls": f"[{', '.join(f'redis://{HOST}:{one.port}' for one in self.sentinels)}]"}


class Cluster:
    """A Redis Cluster: masters with one replica each."""

    def __init__(self, box, masters=3, replicas=1, **options):
        self.box, self.was_disputed = box, False
        self.nodes = [Redis(box, cluster=True, **options).start()
                      for _ in range(masters * (1 + replicas))]
        self.cli("--cluster", "create", *[f"{HOST}:{node.port}" for node in self.nodes],
                 "--cluster-replicas", replicas, "--cluster-yes")
        until(lambda: self.is_whole(masters * (1 + replicas)), "the Cluster is whole")

    def cli(self, *words):
        password = self.nodes[0].password
        more = ["-a", password, "--no-auth-warning"] if password else []
        done = subprocess.run(["redis-cli", *more, *[str(word) for word in words]],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        expect(done.returncode == 0, f"redis-cli {words}:\n{done.stdout[-2000:]}{done.stderr}")
        return done.stdout

    def is_whole(self, size):
        for node in self.nodes:
            if not node.is_master() and not node.is_linked():
                return False
            state = node.call("CLUSTER", "INFO").decode()
            if "cluster_state:ok" not in state or f"cluster_known_nodes:{size}" not in state:
                return False
        return True

    def known(self):
        """The nodes that are up: id -> (port, flags, slots as (first, last))."""
        for node in self.nodes:
            if node.is_running():
                return self.told_by(node)
        raise Failed("no node of the Cluster is up")

    @staticmethod
    def told_by(node):
        nodes = {}
        for line in node.call("CLUSTER", "NODES").decode().splitlines():
            words = line.split()
            slots = [tuple(int(n) for n in (word.split("-") * 2)[:2]) for word in words[8:]
                     if not word.startswith("[")]
            nodes[words[0]] = (int(words[1].split(":")[1].split("@")[0]), words[2].split(","), slots)
        return nodes

    def by_port(self, port):
        return next(node for node in self.nodes if node.port == port)

    def masters(self):
        """The nodes that have slots: id -> node."""
        return {name: self.by_port(port) for name, (port, flags, slots) in self.known().items()
                if "master" in flags and "fail" not in flags and slots}

    def master_of(self, key):
        """The node that has a key, according to the first node that is up."""
        slot = next(node for node in self.nodes if node.is_running()).call("CLUSTER", "KEYSLOT", key)
        for port, flags, slots in self.known().values():
            if "master" in flags and any(first <= slot <= last for first, last in slots):
                return self.by_port(port)
        return None

    def replica_of(self, master):
        for node in self.nodes:
            if node.is_running() and node is not master:
                fields = node.info("replication")
                if fields["role"] == "slave" and int(fields["master_port"]) == master.port:
                    return node
        raise Failed(f"{master.name} has no replica")

    def reshard(self, source, target, slots):
        """Moves slots with their keys from one master to another, both by id."""
        up = next(node for node in self.nodes if node.is_running())
        self.cli("--cluster", "reshard", f"{HOST}:{up.port}", "--cluster-from", source,
                 "--cluster-to", target, "--cluster-slots", slots, "--cluster-yes")
        self.assign_disputed(target)

    def disputed(self):
        """The slots about whose owner the nodes disagree."""
        owners = [{slot: name for name, (_, _, ranges) in self.told_by(node).items()
                   for first, last in ranges for slot in range(first, last + 1)}
                  for node in self.nodes if node.is_running()]
        return {slot for one in owners[1:] for slot, _ in one.items() ^ owners[0].items()}

    def assign_disputed(self, target):
        """Assigns disputed slots. Very rarely, after several reshards on a busy machine, two nodes each
        take the other for the owner of the last slot, and do not resolve this on their own."""
        try:
            until(lambda: not self.disputed(), "the nodes agree", patience_s=5)
        except Failed:
            self.was_disputed = True
            for slot in self.disputed():
                say(f"slot {slot}: its owner is set on every node")
                for node in sorted(self.nodes, key=lambda one: one is not self.masters()[target]):
                    node.call("CLUSTER", "SETSLOT", slot, "NODE", target)
            until(lambda: not self.disputed(), "the nodes agree")

    def urls(self):
        """The section redis of a daemon's configuration. It names some of the nodes, which is enough."""
        return {"urls": f"[{', '.join(node.url() for node in self.nodes[:2])}]"}


# ---- the daemon ----------------------------------------------------------------------------------


class Daemon(Process):
    """`weir serve` with a configuration. `redis` and `more` are sections, as text or as a map.
    `program` is another build of weir."""

    def __init__(self, box, policies, redis=None, *, engine="redis", threads=1, memory="{size: 16m}",
                 more="", program=None):
        super().__init__(box, box.name("weir"))
        self.config = box.path / f"{self.name}.yaml"
        self.parts = {"policies": policies, "redis": redis, "engine": engine, "threads": threads,
                      "memory": memory}
        self.more, self.port, self.http, self.program = more, None, None, program or box.weir
        self.write()

    def write(self):
        lines = [f"listen: {{resp: {HOST}:0, http: {HOST}:0}}", f"threads: {self.parts['threads']}",
                 f"memory: {self.parts['memory']}"]
        if self.parts["engine"]:
            lines.append(f"engine: {self.parts['engine']}")
        if self.parts["redis"] is not None:
            lines.append("redis:")
            lines += [f"  {key}: {value}" for key, value in self.parts["redis"].items()]
        lines.append(self.more)
        lines.append("policies:")
        lines += [f"  {name}: {policy}" for name, policy in self.parts["policies"].items()]
        self.config.write_text("\n".join(lines) + "\n")

    def start(self):
        before = len(self.log_text())
        self.spawn([self.program, "serve", self.config])
        started = until(lambda: self.started(before), f"{self.name} starts")
        self.port, self.http = int(started[1]), int(started[2])
        return self

    def started(self, before):
        said = self.log_text()[before:]
        if not self.is_running():
            raise Failed(f"{self.name} did not start:\n{said}\n{self.config.read_text()}")
        return re.search(r" info started .*\bresp=[^ ]*:(\d+).*\bhttp=[^ ]*:(\d+)", said)

    def client(self, **more):
        return Client(self.port, **more)

    def call(self, *words):
        with contextlib.closing(self.client()) as client:
            return client.call(*words)

    def metrics(self):
        """The metrics: name with labels -> value."""
        with socket.create_connection((HOST, self.http), PATIENCE_S) as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()
        found = re.findall(r"^(\w+(?:\{[^\r\n]*\})?) ([-+0-9.eE]+|NaN|\+Inf)\r?$", text, re.M)
        return {name: float(value) for name, value in found}

    def metric(self, name):
        """The sum of a metric over all labels."""
        found = [value for key, value in self.metrics().items() if key.split("{")[0] == name]
        expect(found, f"{self.name} has no metric {name}")
        return sum(found)


# ---- certificates --------------------------------------------------------------------------------


class Certificates:
    """A certificate authority, a server certificate for the loopback, and a client certificate."""

    def __init__(self, path):
        path.mkdir()
        self.ca, self.cert, self.key = path / "ca.crt", path / "server.crt", path / "server.key"
        self.client_cert, self.client_key = path / "client.crt", path / "client.key"
        new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
               "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        # Python 3.13 and later verify with X509_V_FLAG_X509_STRICT, which requires the extensions
        # that RFC 5280 requires: key usage in the authority, key identifiers in both.
        self.openssl(*new, "-keyout", path / "ca.key", "-out", self.ca, "-subj", "/CN=tests",
                     "-addext", "keyUsage=critical,keyCertSign,cRLSign")
        for key, cert, name in ((self.key, self.cert, "server"),
                                (self.client_key, self.client_cert, "client")):
            self.openssl("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                         "-nodes", "-keyout", key, "-out", path / "request", "-subj", f"/CN={name}")
            (path / "more").write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n"
                                       "basicConstraints=critical,CA:FALSE\n"
                                       "keyUsage=critical,digitalSignature\n"
                                       "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
            self.openssl("openssl", "x509", "-req", "-in", path / "request", "-CA", self.ca,
                         "-CAkey", path / "ca.key", "-CAcreateserial", "-out", cert, "-days", "2",
                         "-extfile", path / "more")
        self.context = ssl.create_default_context(cafile=str(self.ca))
        self.context.load_cert_chain(self.client_cert, self.client_key)

    @staticmethod
    def openssl(*words):
        done = subprocess.run([str(word) for word in words], check=False,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        expect(done.returncode == 0, f"{words}: {done.stderr}")


# ---- tests ---------------------------------------------------------------------------------------


class Box:
    """A directory and the processes of a test."""

    def __init__(self, weir, module):
        self.weir, self.module, self.processes = weir, module, []
        self.directory = tempfile.TemporaryDirectory(prefix="weir-redis-")
        self.path = pathlib.Path(self.directory.name)
        self.count, self.certificates = 0, None
        atexit.register(self.close)

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def tls(self):
        if not self.certificates:
            self.certificates = Certificates(self.path / "tls")
        return self.certificates

    def close(self):
        atexit.unregister(self.close)
        for process in self.processes:
            process.kill()
        self.processes.clear()
        self.directory.cleanup()


def _stop(number, _frame):
    sys.exit(128 + number)


def is_redis_here():
    return shutil.which("redis-server") and shutil.which("redis-cli")


def run(tests, argv, long=(), needs_redis=True):
    """Runs the tests of TEST.py WEIR MODULE [--long | NAME...]: all quick ones, the long ones, or those
    named. Returns the exit status. Without a redis-server, skips all unless needs_redis is false."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    weir, module = (pathlib.Path(word).resolve() for word in argv[1:3])
    every = [*tests, *long]
    wanted = argv[3:] or [test.__name__ for test in tests]
    if wanted == ["--long"]:
        wanted = [test.__name__ for test in long]
    unknown = set(wanted) - {test.__name__ for test in every}
    if unknown:
        print(f"there are no tests {unknown}, but {[test.__name__ for test in every]}")
        return 2
    if needs_redis and not is_redis_here():
        print(f"skipped: {len(wanted)} in {pathlib.Path(argv[0]).stem}: there is no redis-server")
        print(f"0 passed, 0 failed, {len(wanted)} skipped")
        return 0
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for test in every:
        if test.__name__ not in wanted:
            continue
        box, began, result = Box(weir, module), time.monotonic(), "passed"
        try:
            test(box)
        except Skipped as skipped:
            result = "skipped"
            say(f"skipped: 1 in {test.__name__}: {skipped}")
        except Exception as failed:  # pylint: disable=broad-except
            result = "failed"
            for process in box.processes:
                say(f"---- {process.name}\n{process.tail(15)}")
            say("".join(traceback.format_exception(failed)))
        finally:
            box.close()
        counts[result] += 1
        took = time.monotonic() - began
        number = sum(counts.values())
        print(f"{'not ' if result == 'failed' else ''}ok {number} - {test.__name__}"
              f"{' # skip' if result == 'skipped' else ''} ({took:.1f} s)", flush=True)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["failed"] or not counts["passed"] + counts["skipped"] else 0

# SPDX-License-Identifier: BSD-2-Clause
"""redis-servers: alone, with replicas, under Sentinels, or as a Cluster."""

import contextlib
import re
import resource
import ssl
import subprocess

from kit.process import HOST, PATIENCE_S, Box, Failed, Process, expect, free_port, say, until
from kit.resp import Client, Refused, info


def is_up(client, process):
    """Whether this process replies and has loaded its files. It replies to INFO before that. A Sentinel
    loads nothing."""
    lines = client.call("INFO").splitlines()
    return f"process_id:{process.pid}".encode() in lines and b"loading:1" not in lines


def is_port_taken(log):
    """Whether a server did not start because its port is in use."""
    return "Could not create server TCP" in log or "Failed listening" in log


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

    connection = Client

    def __init__(self, *options, module=None):
        names = [name.removeprefix("--") for name in options[::2]]
        super().__init__(Box(None, module), module=module is not None, **dict(zip(names, options[1::2])))
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def client(self, proto=2, patience_s=PATIENCE_S):
        client = self.connection(self.port, patience_s=patience_s)
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

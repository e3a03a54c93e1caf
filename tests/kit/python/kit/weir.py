# SPDX-License-Identifier: BSD-2-Clause
"""`weir serve`."""

import contextlib
import re
import signal

from kit.http import fetch
from kit.process import HOST, Process, expect, until
from kit.resp import Client


class Serving(Process):
    """`weir serve` with a file: `config` is its path, write() writes it."""

    def __init__(self, box, program=None):
        super().__init__(box, box.name("weir"))
        self.config, self.program = box.path / f"{self.name}.yaml", program or box.weir

    def serve(self):
        """Starts it. Returns the line of the log that has its ports."""
        before = len(self.log_text())
        self.spawn([self.program, "serve", self.config])
        return until(lambda: self.started(before), f"{self.name} starts")

    def started(self, before):
        said = self.log_text()[before:]
        expect(self.is_running(), f"{self.name} did not start:\n{said}\n{self.config.read_text()}")
        found = re.search(r" info started .*", said)
        return found and found[0]

    @staticmethod
    def port_in(line, name):
        return int(re.search(rf"\b{name}=[^ ]*:(\d+)", line)[1])

    def read_again(self):
        """Makes it read its files again, and waits until they are active."""
        before = len(self.log_text())
        self.signal(signal.SIGHUP)
        until(lambda: " reloaded" in self.log_text()[before:], f"{self.name} reloads")


class Daemon(Serving):
    """`weir serve` with a configuration. `redis` and `more` are sections, as text or as a map.
    `program` is another build of weir."""

    def __init__(self, box, policies, redis=None, *, engine="redis", threads=1, memory="{size: 16m}",
                 more="", program=None):
        super().__init__(box, program)
        self.parts = {"policies": policies, "redis": redis, "engine": engine, "threads": threads,
                      "memory": memory}
        self.more, self.port, self.http = more, None, None
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
        line = self.serve()
        self.port, self.http = self.port_in(line, "resp"), self.port_in(line, "http")
        return self

    def client(self, **more):
        return Client(self.port, **more)

    def call(self, *words):
        with contextlib.closing(self.client()) as client:
            return client.call(*words)

    def metrics(self):
        """The metrics: name with labels -> value."""
        text = fetch(self.http, "/metrics", host="localhost").text()
        found = re.findall(r"^(\w+(?:\{[^\n]*\})?) ([-+0-9.eE]+|NaN|\+Inf)$", text, re.M)
        return {name: float(value) for name, value in found}

    def metric(self, name):
        """The sum of a metric over all labels."""
        found = [value for key, value in self.metrics().items() if key.split("{")[0] == name]
        expect(found, f"{self.name} has no metric {name}")
        return sum(found)

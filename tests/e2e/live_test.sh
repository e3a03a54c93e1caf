#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# /v1/live of a running daemon: its events over several threads, the limit on streams, clients that
# leave, a reload, and the stop of the daemon. Shadow and candidates that change at run time.
#
#   live_test.sh WEIR
set -uo pipefail
. "$(dirname "$0")/with_daemon.sh"

cat >"$tmp/weir.yaml" <<'YAML'
listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0"}
threads: 2
top: off
policies: {api: "gcra 1/365d burst 3"}
YAML
daemon_start "$tmp" "$weir" serve "$tmp/weir.yaml"
http=$(daemon_port http)
cat >"$tmp/live.py" <<'PYTHON'
from connections import *
import json
import os
import signal
import sys

http, pid, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def ask(target, method="GET"):
    s = connect(http)
    s.sendall(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return read_to_end(s)


class Stream:
    """A stream, with the events that have arrived."""

    def __init__(self):
        self.socket = connect(http)
        self.socket.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline() not in (b"\r\n", b""):
            pass

    def event(self):
        """The next event: its name and its data; None at the end of the stream."""
        name = self.file.readline()
        if not name:
            return None
        data = self.file.readline()
        assert name.startswith(b"event: ") and data.startswith(b"data: ") and self.file.readline() == b"\n"
        return name[7:-1].decode(), json.loads(data[6:])

    def until(self, condition):
        """Reads events until one fulfils the condition. Returns it, or None."""
        while event := self.event():
            if condition(*event):
                return event[1]
        return None

    def close(self):
        self.file.close()
        self.socket.close()


stream = Stream()
name, hello = stream.event()
say("the first event is hello", stream.status == 200 and name == "hello" and hello["top"] is False and
    [p["name"] for p in hello["policies"]] == ["api"])
name, tick = stream.event()
say("the first tick has all policies", name == "tick" and tick["policies"]["api"] == [0] * 7 and tick["engine"] is None)
for _ in range(8):  # on connections of both threads
    ask("/v1/take?policy=api&key=a")
say("a tick has the counts of all threads", stream.until(lambda n, d: d.get("policies", {}) == {"api": [3, 5, 0, 0, 0, 0, 0]}))
say("a candidate is set", ask("/v1/candidate?policy=api&limit=gcra+1/365d+burst+2", "POST").endswith(
    b'{"policy":"api","candidate":"gcra 1/365d burst 2"}\n'))
say("a policy is put into shadow", ask("/v1/shadow?policy=api&shadow=true", "POST").endswith(b'"shadow":true}\n'))
said = stream.until(lambda n, d: n == "policies" and d["policies"][0]["shadow"])
say("the stream announces both", said["policies"][0]["candidate"] == "gcra 1/365d burst 2")
allowed = [b" 200 " in ask("/v1/take?policy=api&key=b") for _ in range(5)]
say("neither denies a request", all(allowed))
say("a tick compares the verdicts", stream.until(lambda n, d: d.get("candidates", {}) == {"api": [2, 2, 0, 1, 0]}))
with open(path, encoding="utf-8") as config, open(path + ".new", "w", encoding="utf-8") as changed:
    changed.write(config.read().replace("burst 3", "burst 4"))
os.replace(path + ".new", path)  # the daemon watches the file
changed = stream.until(lambda n, d: n == "policies")["policies"][0]
say("a reload keeps the stream and announces the policies", changed["limit"] == "gcra 1/365d burst 4")
say("it returns to the shadow and the candidate of the file", not changed["shadow"] and changed["candidate"] is None)
say("ticks count reloads", stream.until(lambda n, d: d.get("reloads", 0) >= 1))

while True:  # the daemon ends a step each ten seconds, also without a stream that reads
    history = json.loads(ask("/v1/history").split(b"\r\n\r\n", 1)[1])
    if len(history["policies"]["api"]["allowed"]) > 1:
        break
    stream.event()
say("the history has the requests of both threads, and a reload keeps them",
    {verdict: sum(n) for verdict, n in history["policies"]["api"].items()} == {"allowed": 6, "denied": 5, "shadowed": 2})
others = [Stream() for _ in range(63)]
say("64 streams are open, over all threads", all(s.status == 200 for s in others))
say("one more gets 503", Stream().status == 503)
for s in others[:2]:
    s.close()
stream.until(lambda n, d: d.get("connections") == 62)  # those that left are closed
last = Stream()
say("streams that end make room", last.status == 200)

os.kill(pid, signal.SIGTERM)
say("a daemon that stops ends all streams",
    all(s.until(lambda n, d: False) is None for s in others[2:] + [stream, last]))
PYTHON
check_python "$tmp/live.py" "$http" "$daemon_pid" "$tmp/weir.yaml"
wait "$daemon_pid"
check "the daemon stopped, with status 0" 0 "$?"
daemon_pid=
check "the daemon did not wait for the drain to end" 1 "$(grep -c ' info stopped text="all connections are closed"' "$daemon_log")"
check "the log has the change of the candidate" 1 "$(grep -c ' info candidate-changed policy=api candidate="gcra 1/365d burst 2"' "$daemon_log")"
check "the log has the change of shadow" 1 "$(grep -c ' info shadow-changed policy=api shadow=true' "$daemon_log")"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

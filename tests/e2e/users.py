# SPDX-License-Identifier: BSD-2-Clause
"""Run by users_test.sh: the table of rights in docs/users.md against the commands and endpoints of a daemon, and
changes of users while connections are open.

    users.py matrix RESP HTTP USERS_MD    each right has a user of the same name, whose password it is too
    users.py changes RESP HTTP GRPC DIR   DIR has weir.yaml, with the user web"""

import pathlib
import re
import sys
import urllib.error
import urllib.request

from connections import connect, say
from kit.grpc import Grpc
from kit.process import Failed, until

OPEN_COMMANDS = {"AUTH", "RESET", "QUIT"}  # HELLO too, with AUTH
OPEN_PATHS = {"/healthz", "/readyz", "/healthcheck"}


class Connection:
    """Sends inline commands, and returns the first line of each reply."""

    def __init__(self, port):
        self.socket = connect(port)

    def call(self, text):
        self.socket.sendall(text.encode() + b"\r\n")
        reply = b""
        while b"\r\n" not in reply:
            reply += self.socket.recv(1 << 20)
        return reply.decode(errors="replace").split("\r\n")[0]


def status_of(port, path, user, method):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    if user:
        request.add_header("Authorization", f"Bearer {user}:{user}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def table_of(page):
    """The rights of each command and path in the table: {"WEIR.TAKE": {"take"}}."""
    commands, paths = {}, {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 3 or not re.fullmatch("`[a-z]+`", cells[0]) or cells[0] == "`admin`":
            continue
        right = cells[0].strip("`")
        for name in re.findall(r"`((?:WEIR|CL)\.[A-Z]+)`", cells[1]):
            commands.setdefault(name, set()).add(right)
        for path in re.findall(r"`(/[^`]+)`", cells[2]):
            paths.setdefault(path, set()).add(right)
    return commands, paths


def usages(port):
    """{"WEIR.TAKE": "WEIR.TAKE 1 1"}: each command with its least arguments."""
    connection = Connection(port)
    connection.call("AUTH admin admin")
    count = int(connection.call("COMMAND COUNT")[1:])
    connection.socket.sendall(b"COMMAND\r\n")
    text = b""
    while text.count(b"*6\r\n") < count or not text.endswith(b"\r\n"):
        text += connection.socket.recv(1 << 20)
    found = re.findall(r"\*6\r\n\$\d+\r\n([a-z.]+)\r\n:(-?\d+)\r\n", text.decode())
    return {name.upper(): " ".join([name] + ["1"] * (abs(int(arity)) - 1)) for name, arity in found}


def paths_of(port):
    """{"/v1/take": "GET"}: the paths that the front page lists, with a method."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Authorization": "Bearer admin:admin"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    listed = re.findall(r"^  (/\S+) +(.*)", text.split("Send parameters")[0], re.M)
    found = {path: "POST" if "(POST)" in what else "HEAD" for path, what in listed if path != "/playground"}
    return found | {"/": "HEAD"}


def matrix(resp, http, page):
    rights = "take peek refund reserve reset override policy top metrics none admin".split()
    commands, paths = table_of(pathlib.Path(page))
    wrong, requests = [], usages(resp)
    say("the table has only commands that there are", set(commands) <= set(requests))
    for name, request in requests.items():
        for right in rights:
            connection = Connection(resp)
            connection.call(f"AUTH {right} {right}")
            denied = connection.call(request).startswith("-NOPERM")
            wanted = name in commands and right != "admin" and right not in commands[name]
            wrong += [f"{name} with {right}"] if denied != wanted else []
        denied = Connection(resp).call(request).startswith("-NOAUTH")
        wrong += [f"{name} of nobody"] if denied != (name not in OPEN_COMMANDS) else []
    say(f"{len(requests)} commands need the rights of the table {wrong}", not wrong)
    wrong, endpoints = [], paths_of(http)
    unlisted = {path for path in paths if path not in endpoints}
    say(f"the table has only paths that there are {unlisted}", unlisted <= {"/counters/", "/limits/", "/status",
        "/check", "/report", "/check_and_report", "/json", "/rlconfig", "/stats", "/v1/forward-auth"})
    endpoints |= {path: "HEAD" for path in paths if path not in endpoints and path.startswith("/v1/")}
    for path, method in endpoints.items():
        for right in rights:
            denied = status_of(http, path, right, method) == 403
            wanted = path in paths and right != "admin" and right not in paths[path]
            wanted |= path == "/v1/forward-auth"  # no trusted proxy
            wrong += [f"{path} with {right}"] if denied != wanted else []
        denied = status_of(http, path, None, method) == 401
        wrong += [f"{path} of nobody"] if denied != (path not in OPEN_PATHS) else []
    say(f"{len(endpoints)} endpoints need the rights of the table {wrong}", not wrong)


def changes(resp, _http, grpc, folder):
    config = pathlib.Path(folder) / "weir.yaml"
    log = pathlib.Path(folder) / "log"
    text = config.read_text()

    def reload(new):
        before = log.read_text().count(" info reloaded ")
        config.with_suffix(".new").write_text(new)
        config.with_suffix(".new").replace(config)
        until(lambda: log.read_text().count(" info reloaded ") > before, "reloaded")

    called = Grpc(int(grpc))

    def is_answered():
        """Whether a call is answered, on a connection that was open before the changes."""
        try:
            return called.rate_limit("edge", {"who": "x"}, {"authorization": "Bearer caller:secret"}) == 1
        except Failed:
            return False

    say("a user calls over gRPC", is_answered())
    reload(text.replace("may: take}", "may: peek}"))
    say("an open connection of gRPC loses a right", not is_answered())
    reload(text)
    say("which is back", is_answered())
    reload(re.sub(r"\n  caller: .*", "", text))
    say("an open connection of gRPC loses its user", not is_answered())
    reload(text)
    old, new = Connection(resp), Connection(resp)
    old.call("AUTH web old")
    new.call("AUTH web new")
    take = "WEIR.TAKE api user:7"
    say("both passwords of a rotation work", (old.call(take), new.call(take)) == ("*6", "*6"))
    reload(text.replace("[old, new]", "[new]").replace("[take, peek]", "[peek]"))
    say("an open connection loses its password", old.call(take).startswith("-NOAUTH"))
    say("an open connection loses a right", new.call(take).startswith("-NOPERM"))
    say("and keeps the others", new.call("WEIR.PEEK api user:7") == "*6")
    reload(re.sub(r"\n  web: .*", "", text).replace("user: web", "user: slow"))
    say("an open connection loses its user", new.call("WEIR.PEEK api user:7").startswith("-NOAUTH"))
    reload(text)
    say("the user is back", new.call(take) == "*6")


{"matrix": matrix, "changes": changes}[sys.argv[1]](*sys.argv[2:])

# SPDX-License-Identifier: BSD-2-Clause
"""The servers of these tests: weir, an application, and real proxies between them and the tests. Each
proxy runs the very files of examples/proxies; only the ports are replaced by free ones."""

import base64
import collections
import contextlib
import functools
import hashlib
import http.client
import http.server
import os
import re
import socket
import struct
import threading
import wsgiref.simple_server

from kit import http as one_request
from kit.process import HOST, PATIENCE_S, ROOT, Process, equal, expect, free_port, until
from kit.weir import Serving

SHOP, API, OTHER = "shop.example.com", "api.example.com", "other.example.com"
EXAMPLES = ROOT / "examples" / "proxies"
# The ports in the files of examples/proxies.
PROXY, APPLICATION, WEIR, FALLBACK = 8000, 9000, 8080, 8079
PORTS = re.compile(rf"\b(?:{PROXY}|{APPLICATION}|{WEIR}|{FALLBACK})\b")
# 127.0.0.1 is the address of the proxies, so clients send from other addresses of the loopback.
ALICE, BOB = "127.0.0.2", "127.0.0.3"
WEBSOCKET_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


# ---- a client ------------------------------------------------------------------------------------


def fetch(port, path="/", *, client=ALICE, host=SHOP, **more):
    """One request, from an address of the loopback."""
    return one_request.fetch(port, path, client=client, host=host, **more)


def statuses(port, count, path="/", **more):
    return [fetch(port, path, **more).status for _ in range(count)]


class Raw:
    """A connection, for requests that are sent byte by byte."""

    def __init__(self, port, client=ALICE):
        self.socket = socket.create_connection((HOST, port), PATIENCE_S, source_address=(client, 0))

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        """The next response: its status, headers and body. 100 (Continue) is skipped."""
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return response.status, response.getheaders(), response.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class WebSocket:
    """A client of a WebSocket."""

    def __init__(self, port, client=ALICE):
        self.socket = socket.create_connection((HOST, port), PATIENCE_S, source_address=(client, 0))
        self.file = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET /socket HTTP/1.1\r\nHost: {SHOP}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        self.status = int(self.file.readline().split()[1])
        self.headers = http.client.parse_headers(self.file)
        if self.status == 101:
            equal(self.headers["Sec-WebSocket-Accept"], accept_of(key), "Sec-WebSocket-Accept")

    def echo(self, data):
        """Sends a binary message, and returns the message that comes back."""
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))
        self.socket.sendall(struct.pack("!BBH", 0x82, 0x80 | 126, len(data)) + mask + masked)
        return read_message(self.file)

    def close(self):
        self.file.close()
        self.socket.close()


def accept_of(key):
    return base64.b64encode(hashlib.sha1((key + WEBSOCKET_GUID).encode()).digest()).decode()


def read_message(file):
    """The payload of the next frame, unmasked; b"" at the end."""
    head = file.read(2)
    if len(head) < 2:
        return b""
    size = head[1] & 127
    if size == 126:
        size = struct.unpack("!H", file.read(2))[0]
    mask = file.read(4) if head[1] & 128 else bytes(4)
    return bytes(byte ^ mask[i % 4] for i, byte in enumerate(file.read(size)))


# ---- the application -----------------------------------------------------------------------------


Seen = collections.namedtuple("Seen", "method path headers body")


class Application:
    """An HTTP server that records each request, and echoes bodies and the messages of WebSockets."""

    def __init__(self):
        self.seen = []
        self.server = http.server.ThreadingHTTPServer((HOST, 0), self.handler())
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a proxy closed its connection
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handler(self):
        application = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = PATIENCE_S

            def answer(self):
                body = self.body()
                application.seen.append(Seen(self.command, self.path, self.headers, body))
                if self.headers.get("Upgrade", "").lower() == "websocket":
                    self.websocket()
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = answer  # noqa: N815

            def body(self):
                if self.headers.get("Transfer-Encoding") == "chunked":
                    return b"".join(iter(self.chunk, b""))
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def chunk(self):
                size = int(self.rfile.readline().split(b";")[0], 16)
                return self.rfile.read(size + 2)[:size]

            def websocket(self):
                self.send_response(101)
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                self.send_header("Sec-WebSocket-Accept", accept_of(self.headers["Sec-WebSocket-Key"]))
                self.end_headers()
                while data := read_message(self.rfile):
                    self.wfile.write(struct.pack("!BBH", 0x82, 126, len(data)) + data)
                self.close_connection = True

            def log_message(self, *_):
                pass

        return Handler

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Wsgi:
    """A WSGI application that records each request with the path that it gets, which is decoded."""

    def __init__(self):
        self.seen = []
        self.server = wsgiref.simple_server.make_server(HOST, 0, self.answer, handler_class=QuietWsgi)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, environ, start):
        self.seen.append(Seen(environ["REQUEST_METHOD"], environ["PATH_INFO"], None, b""))
        start("200 OK", [("Content-Length", "0")])
        return []

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class QuietWsgi(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


# ---- weir ----------------------------------------------------------------------------------------


class Weir(Serving):
    """`weir serve` with examples/proxies/weir.yaml. `edits` are pairs of a text of that file and its
    replacement."""

    def __init__(self, box, *edits):
        super().__init__(box)
        self.port = free_port()
        self.write(*edits)

    def write(self, *edits):
        text = with_ports((EXAMPLES / "weir.yaml").read_text(), {WEIR: self.port})
        for old, new in edits:
            expect(old in text, f"weir.yaml has no {old!r}")
            text = text.replace(old, new)
        self.config.write_text(text)

    def start(self):
        self.serve()
        return self

    def reload(self, *edits):
        self.write(*edits)
        self.read_again()


# ---- proxies -------------------------------------------------------------------------------------


def with_ports(text, ports):
    """The text with other ports: port in the text -> port. Ports that are not named remain."""
    return PORTS.sub(lambda found: str(ports.get(int(found[0]), found[0])), text)


class Proxy(Process):
    """A proxy that runs a directory of examples/proxies."""

    directory = None  # in examples/proxies
    closed = None  # a text and its replacement, with which the proxy fails closed

    def __init__(self, box, weir, application, edit=None):
        super().__init__(box, box.name(self.directory))
        self.path = box.path / self.name
        self.path.mkdir()
        self.port = free_port()
        self.ports = {PROXY: self.port, APPLICATION: application, WEIR: weir, FALLBACK: free_port()}
        for file in (EXAMPLES / self.directory).iterdir():
            text = file.read_text()
            if edit:
                expect(edit[0] in text, f"{file.name} has no {edit[0]!r}")
                text = text.replace(*edit)
            (self.path / file.name).write_text(self.prepare(with_ports(text, self.ports)))

    def prepare(self, text):
        """Changes what only the machine of the tests needs."""
        return text

    def command(self):
        raise NotImplementedError

    def start(self):
        self.spawn(self.command(), cwd=self.path, env={**os.environ, "HOME": str(self.path)})
        until(self.is_up, f"{self.name} accepts connections")
        return self

    def is_up(self):
        expect(self.is_running(), f"{self.name} ended:\n{self.tail()}")
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), PATIENCE_S):
            return True
        return False


class Caddy(Proxy):
    directory = "caddy"
    closed = f"{HOST}:{WEIR} {HOST}:{FALLBACK} {{", f"{HOST}:{WEIR} {{"

    def command(self):
        return [self.box.programs.caddy(), "run", "--config", "Caddyfile", "--adapter", "caddyfile"]


class Nginx(Proxy):
    directory = "nginx"
    closed = f"server {HOST}:{FALLBACK} backup;", ""

    def prepare(self, text):
        # An nginx without the rights of root cannot use the directories that are compiled in.
        temporary = "\n".join(f"    {name}_temp_path {self.path}/{name};"
                              for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return text.replace("http {\n", f"http {{\n    access_log off;\n{temporary}\n", 1)

    def command(self):
        return [self.box.programs.nginx(), "-p", self.path, "-e", "stderr", "-c", "nginx.conf",
                "-g", f"daemon off; pid nginx.pid; {'user root;' if os.geteuid() == 0 else ''}"]


class Envoy(Proxy):
    directory = "envoy"
    closed = "failure_mode_allow: true", "failure_mode_allow: false"

    def command(self):
        return [self.box.programs.envoy(), "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1",
                "--log-level", "warn", "--disable-hot-restart"]


class Traefik(Proxy):
    directory = "traefik"

    def command(self):
        return [self.box.programs.traefik(), "--configfile=traefik.yaml"]

    def is_up(self):
        # It listens before it has read its routes, and responds 404 until then.
        return super().is_up() and fetch(self.port, client="127.0.3.1").status != 404


class Haproxy(Proxy):
    directory = "haproxy"
    closed = ("    option forwardfor",
              "    http-request deny deny_status 503 if !{ var(txn.weir.allowed) -m found }\n    option forwardfor")

    def prepare(self, text):
        return text.replace("/usr/local/share/weir/haproxy", str(ROOT / "modules" / "haproxy"))

    def command(self):
        return [self.box.programs.haproxy(), "-db", "-f", "haproxy.cfg"]


PROXIES = (Caddy, Nginx, Envoy, Haproxy, Traefik)


class Setup:
    """weir, an application, and a proxy in front of them. `edits` are for weir.yaml, `edit` for the proxy."""

    def __init__(self, box, proxy, *edits, edit=None, application=Application):
        self.weir = Weir(box, *edits).start()
        self.application = application()
        box.cleanup.callback(self.application.close)
        self.proxy = proxy(box, self.weir.port, self.application.port, edit).start()
        self.port = self.proxy.port
        self.application.seen.clear()


def prepared(test, programs):
    """The test as a function that run() accepts: its box has the programs."""
    @functools.wraps(test)
    def run(box):
        box.programs = programs
        with contextlib.ExitStack() as box.cleanup:
            test(box)
    return run



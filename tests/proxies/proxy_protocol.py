# SPDX-License-Identifier: BSD-2-Clause
"""Real load balancers in front of weir that pass on connections, and report their clients with the PROXY
protocol: HAProxy with versions 1 and 2, and nginx."""

import os
import pathlib

from kit import proxies as kit
from kit.process import HOST, Skipped, equal, expect, free_port, until
from kit.proxies import ALICE, BOB, Proxy, Weir, fetch

NGINX_STREAM = pathlib.Path("/usr/lib/nginx/modules/ngx_stream_module.so")
FULL = 5
EDITS = ((f"http: {HOST}:", f"http: {{address: {HOST}:"), ("}\nmemory", ", proxy_protocol: true}}\nmemory"),
         ("per-client: gcra 10/m burst 5", "per-client: {limit: gcra 10/m burst 5, key: $client}"))
TAKE = "/v1/take?policy=per-client"


class Balancer(Proxy):
    """A load balancer with a configuration of a few lines."""

    directory = "balancer"

    def __init__(self, box, text, words):
        super(Proxy, self).__init__(box, box.name(self.directory))  # pylint: disable=bad-super-call
        self.path, self.port, self.words = box.path / self.name, free_port(), words
        self.path.mkdir()
        (self.path / "config").write_text(text.replace("PORT", str(self.port)))

    def command(self):
        return self.words


def haproxy(option):
    def start(box, weir):
        text = ("defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n"
                f"listen web\n    bind :PORT\n    server weir {HOST}:{weir.port} {option}\n")
        return Balancer(box, text, [box.programs.haproxy(), "-db", "-f", "config"]).start()
    return start


def nginx(box, weir):
    if not NGINX_STREAM.exists():
        raise Skipped("nginx has no module stream; tools/deps proxies installs libnginx-mod-stream")
    user = "user root;" if os.geteuid() == 0 else ""
    text = (f"load_module {NGINX_STREAM};\ndaemon off;\npid nginx.pid;\n{user}\nevents {{}}\n"
            f"stream {{\n    server {{\n        listen PORT;\n        proxy_pass {HOST}:{weir.port};\n"
            "        proxy_protocol on;\n    }\n}\n")
    return Balancer(box, text, [box.programs.nginx(), "-p", ".", "-e", "stderr", "-c", "config"]).start()


def balanced(box, start):
    """The address that the load balancer reports is the client's, and no header chooses another."""
    weir = Weir(box, *EDITS).start()
    port = start(box, weir).port
    for client in (ALICE, BOB):
        found = [fetch(port, TAKE, client=client, host="localhost") for _ in range(FULL + 1)]
        equal([answer.status for answer in found], [200] * FULL + [429], f"{client}: {found[-1].body}")
        expect(found[-1]["Retry-After"], "a denial has Retry-After")
    for name, value in (("X-Forwarded-For", "198.51.100.7"), ("Forwarded", "for=198.51.100.7")):
        equal(fetch(port, TAKE, host="localhost", headers=[(name, value)]).status, 429, f"with {name}")


def closed(weir, client, data):
    """Whether weir closes the connection without a response."""
    with kit.Raw(weir.port, client) as raw:
        try:
            raw.send(data + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return raw.socket.recv(1) == b""
        except OSError:
            return True


def without_a_balancer(box):
    """A connection without the header is closed, and so is one of a client that writes the header itself."""
    weir = Weir(box, *EDITS).start()
    header = b"PROXY TCP4 198.51.100.7 127.0.0.1 4711 80\r\n"
    equal(closed(weir, HOST, header), False, "a trusted proxy")
    equal(closed(weir, HOST, b""), True, "a trusted proxy, without the header")
    equal(closed(weir, ALICE, header), True, "a client that is no trusted proxy")
    until(lambda: "proxy-header" in weir.log_text(), "the log says so")


def haproxy_send_proxy(box):
    balanced(box, haproxy("send-proxy"))


def haproxy_send_proxy_v2(box):
    balanced(box, haproxy("send-proxy-v2"))


def haproxy_send_proxy_v2_with_a_checksum(box):
    balanced(box, haproxy("send-proxy-v2 proxy-v2-options crc32c"))


def nginx_proxy_protocol(box):
    balanced(box, nginx)


TESTS = (haproxy_send_proxy, haproxy_send_proxy_v2, haproxy_send_proxy_v2_with_a_checksum, nginx_proxy_protocol,
         without_a_balancer)

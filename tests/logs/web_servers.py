# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 the weir authors
"""The web servers and proxies of tests/logs/make: how each is started, which logs it writes, and what of a
request is in them."""

import base64
import contextlib
import hashlib
import http.client
import http.server
import os
import re
import socket
import subprocess
import threading
import urllib.parse

from kit.process import until

PORT = 8080     # of the server
BACKEND = 9000  # of the program behind a proxy
SYSLOG = 5514
USER, PASSWORD = "alice", "wonderland"
JSON_FIELDS = ("time_iso8601", "msec", "remote_addr", "remote_user", "request_method", "request_uri",
               "server_protocol", "status", "body_bytes_sent", "request_time", "http_referer",
               "http_user_agent", "http_x_api_key", "host")


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def password_file(box):
    digest = base64.b64encode(hashlib.sha1(PASSWORD.encode()).digest()).decode()
    return write(f"{box}/htpasswd", f"{USER}:{{SHA}}{digest}\n")


# ---- escapes: the text of a field in a log ------------------------------------------------------------------


def nginx_text(raw):
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02X}" for b in raw)


def apache_text(raw):
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else "\\" + chr(b) if b in b'"\\' else f"\\x{b:02x}"
                   for b in raw)


def haproxy_text(raw):
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"#' else f"#{b:02X}" for b in raw)


def go_uri(raw):
    """Go's net/url writes a path again, with escapes."""
    return urllib.parse.quote(raw, safe="%/:=&?~#+!$,;@()*")


def plain_text(raw):
    return raw.decode("utf-8", "replace")


# ---- times, with a parser of their own ----------------------------------------------------------------------

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def seconds(*parts):
    import calendar
    return calendar.timegm((*parts, 0, 0, 0))


def ns_of(whole, fraction=""):
    return whole * 10**9 + int((fraction or "").ljust(9, "0")[:9] or 0)


def clf_time(line):
    """[23/Nov/2026:14:10:05 +0000], and that of HAProxy, which has milliseconds and no zone"""
    m = re.search(r"\[(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?: \+0000)?\]", line)
    day, month, year, *clock = m.groups()[:6]
    return ns_of(seconds(int(year), MONTHS.index(month) + 1, int(day), *map(int, clock)), m.group(7))


def iso_time(text):
    m = re.search(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|\+00:00)", text)
    return ns_of(seconds(*map(int, m.groups()[:6])), m.group(7))


def unix_time(text):
    whole, _, fraction = text.partition(".")
    return ns_of(int(whole), fraction)


def member_time(name, convert):
    return lambda line: convert(re.search(rf'"{name}":\s*"?([^",}}]+)', line).group(1))


# ---- processes ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def process(words, box, **more):
    with open(f"{box}/errors", "ab") as errors, subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=more.pop("stdout", errors), stderr=errors,
            env={**os.environ, "TZ": "UTC", "HOME": box}, **more) as running:
        try:
            wait_for_port(PORT)
            yield
        finally:
            running.terminate()


def wait_for_port(port):
    def is_open():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True

    until(is_open, f"a server listens on port {port}")


def answers():
    """Whether the server has read its rules."""
    with contextlib.suppress(OSError):
        connection = http.client.HTTPConnection("127.0.0.1", PORT)
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    return False


class Backend(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        path = self.path.partition("?")[0]
        status = 404 if path == "/missing" else 401 if path == "/login" else 200
        body = f"{status} for a request\n".encode()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def backend():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", BACKEND), Backend)
    server.handle_error = lambda *_: None  # proxies reset idle connections
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


# ---- the servers --------------------------------------------------------------------------------------------
# Each is a context manager that runs a server on PORT, which logs to {box}/NAME for every NAME of its LOGS.


@contextlib.contextmanager
def nginx(box):
    members = ",".join(f'"{f}":"${f}"' for f in JSON_FIELDS)
    config = write(f"{box}/nginx.conf", f"""
daemon off; user root; worker_processes 1; pid {box}/pid; error_log {box}/errors;
events {{ }}
http {{
    log_format vhost '$host:$server_port $remote_addr - $remote_user [$time_local] "$request" '
                     '$status $body_bytes_sent "$http_referer" "$http_user_agent"';
    log_format json escape=json '{{{members}}}';
    access_log {box}/nginx-combined.log combined;
    access_log {box}/nginx-vhost.log vhost;
    access_log {box}/nginx-json.log json;
    server {{
        listen {PORT}; listen [::]:{PORT}; server_name shop.example; root {box}/root;
        location = /login {{ return 401; }}
        location /items {{ return 204; }}
        location = /admin {{ auth_basic admin; auth_basic_user_file {password_file(box)}; }}
    }}
}}
""")
    with process(["nginx", "-c", config, "-e", f"{box}/errors"], box):
        yield


@contextlib.contextmanager
def apache(box):
    modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n" for name in (
        "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "alias", "dir"))
    clf = r"%h %l %u %t \"%r\" %>s %b"
    tail = r"\"%{Referer}i\" \"%{User-Agent}i\""
    config = write(f"{box}/apache.conf", f"""
{modules}
ServerName shop.example:{PORT}
Listen {PORT}
PidFile {box}/pid
ErrorLog {box}/errors
DocumentRoot {box}/root
DirectoryIndex index.html
Redirect 401 /login
<Location /admin>
    AuthType Basic
    AuthName admin
    AuthUserFile {password_file(box)}
    Require valid-user
</Location>
CustomLog {box}/apache-common.log "{clf}"
CustomLog {box}/apache-combined.log "{clf} {tail}"
CustomLog {box}/apache-vhost.log "%v:%p {clf} {tail}"
""")
    with process(["/usr/sbin/apache2", "-D", "FOREGROUND", "-f", config], box):
        yield


@contextlib.contextmanager
def haproxy(box):
    """Logs to its standard output, and by syslog to a thread that writes lines as rsyslog does."""
    config = write(f"{box}/haproxy.cfg", f"""
global
    log stdout format raw local0
    log 127.0.0.1:{SYSLOG} format rfc3164 local0
    log-send-hostname lb1
defaults
    mode http
    option httplog
    log global
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend web
    bind :{PORT}
    bind :::{PORT} v6only
    capture request header X-Api-Key len 40
    capture request header User-Agent len 40
    default_backend app
backend app
    server one 127.0.0.1:{BACKEND}
""")
    syslog = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    syslog.bind(("127.0.0.1", SYSLOG))
    threading.Thread(target=write_syslog, args=(syslog, f"{box}/haproxy-syslog.log"), daemon=True).start()
    with open(f"{box}/haproxy.log", "ab") as log, backend(), process(
            [os.environ.get("HAPROXY", "haproxy"), "-db", "-f", config], box, stdout=log):
        yield


def write_syslog(received, path):
    while True:
        line = received.recv(65536)
        with open(path, "ab") as log:
            log.write(re.sub(rb"^<\d+>", b"", line).rstrip(b"\n") + b"\n")


@contextlib.contextmanager
def caddy(box):
    hashed = subprocess.run(["caddy", "hash-password", "--plaintext", PASSWORD], check=True,
                            capture_output=True, text=True).stdout.strip()
    config = write(f"{box}/Caddyfile", f"""
{{
    auto_https off
    admin off
    order respond after basicauth
}}
:{PORT} {{
    log {{
        output file {box}/caddy.log
    }}
    basicauth /admin {{
        {USER} {base64.b64encode(hashed.encode()).decode()}
    }}
    respond /login "no" 401
    respond /items/* 204
    root * {box}/root
    file_server
}}
""")
    with process(["caddy", "run", "--config", config, "--adapter", "caddyfile"], box):
        yield


@contextlib.contextmanager
def traefik(box, log_format, name):
    rules = write(f"{box}/rules.yaml", f"""
http:
  routers:
    admin: {{rule: "Path(`/admin`)", service: app, priority: 1000, middlewares: [users], entryPoints: [web]}}
    app: {{rule: "PathPrefix(`/`)", service: app, entryPoints: [web]}}
  middlewares:
    users: {{basicAuth: {{usersFile: "{password_file(box)}"}}}}
  services:
    app: {{loadBalancer: {{servers: [{{url: "http://127.0.0.1:{BACKEND}"}}]}}}}
""")
    config = write(f"{box}/traefik.yaml", f"""
global: {{checkNewVersion: false, sendAnonymousUsage: false}}
entryPoints: {{web: {{address: ":{PORT}"}}}}
providers: {{file: {{filename: "{rules}"}}}}
accessLog: {{filePath: "{box}/{name}", format: {log_format},
  fields: {{headers: {{defaultMode: drop, names: {{User-Agent: keep, X-Api-Key: keep}}}}}}}}
""")
    with backend(), process([os.environ.get("TRAEFIK", "traefik"), "--configFile", config], box):
        until(answers, "Traefik reads its rules")
        yield


ENVOY_MEMBERS = {  # as Istio configures them
    "start_time": "START_TIME", "method": "REQ(:METHOD)", "path": "REQ(X-ENVOY-ORIGINAL-PATH?:PATH)",
    "protocol": "PROTOCOL", "response_code": "RESPONSE_CODE", "response_flags": "RESPONSE_FLAGS",
    "bytes_received": "BYTES_RECEIVED", "bytes_sent": "BYTES_SENT", "duration": "DURATION",
    "upstream_service_time": "RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)", "x_forwarded_for": "REQ(X-FORWARDED-FOR)",
    "user_agent": "REQ(USER-AGENT)", "request_id": "REQ(X-REQUEST-ID)", "authority": "REQ(:AUTHORITY)",
    "upstream_host": "UPSTREAM_HOST", "downstream_local_address": "DOWNSTREAM_LOCAL_ADDRESS",
    "downstream_remote_address": "DOWNSTREAM_REMOTE_ADDRESS"}


@contextlib.contextmanager
def envoy(box):
    members = "".join(f'\n              {k}: "%{v}%"' for k, v in ENVOY_MEMBERS.items())
    log = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"
    http = "type.googleapis.com/envoy.extensions.filters"
    config = write(f"{box}/envoy.yaml", f"""
static_resources:
  listeners:
  - address: {{socket_address: {{address: "::", port_value: {PORT}, ipv4_compat: true}}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": {http}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          use_remote_address: true
          http_protocol_options: {{accept_http_10: true, default_host_for_http_10: shop.example}}
          access_log:
          - name: text
            typed_config: {{"@type": {log}, path: "{box}/envoy.log"}}
          - name: json
            typed_config:
              "@type": {log}
              path: "{box}/envoy-json.log"
              log_format: {{json_format: &members {{}}}}
          http_filters:
          - name: router
            typed_config: {{"@type": {http}.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: app}}}}]}}
  clusters:
  - name: app
    load_assignment:
      cluster_name: app
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {BACKEND}}}}}}}
""".replace("log_format: {json_format: &members {}}",
            "log_format:\n                json_format:" + members.replace("\n", "\n    ")))
    with backend(), process([os.environ.get("ENVOY", "envoy"), "-c", config, "--concurrency", "1",
                             "--file-flush-interval-msec", "50", "--log-level", "error"], box):
        yield


# ---- the logs -----------------------------------------------------------------------------------------------


class Log:
    """A file, the time of its lines, and what they say of a request.

    fields  the fields of each line that has a whole request
    text    how the bytes of a field are written
    uri     the same for the URI, if that differs
    bytes   the `bytes` of a line, for a server that counts something else than the body that was received"""

    def __init__(self, name, log_format, t_ns, fields, text, count=None, uri=None):
        self.name, self.format, self.t_ns, self.fields = name, log_format, t_ns, fields.split()
        self.text, self.bytes, self.uri = text, count, uri or text


def haproxy_bytes(line):
    """With the headers, as HAProxy received them."""
    return int(re.search(r" \d{3} (\d+) - - ", line).group(1))


CLF = "client user method uri protocol status bytes"
SERVERS = {
    "nginx": (nginx, [
        Log("nginx-combined.log", "combined", clf_time, CLF + " referer agent", nginx_text),
        Log("nginx-vhost.log", "vhost_combined", clf_time, CLF + " referer agent vhost", nginx_text),
        Log("nginx-json.log", "nginx-json", member_time("msec", unix_time),
            CLF + " referer agent http_x_api_key", plain_text)]),
    "apache": (apache, [
        Log("apache-common.log", "common", clf_time, CLF, apache_text),
        Log("apache-combined.log", "combined", clf_time, CLF + " referer agent", apache_text),
        Log("apache-vhost.log", "vhost_combined", clf_time, CLF + " referer agent vhost", apache_text)]),
    "haproxy": (haproxy, [
        Log("haproxy.log", "haproxy", clf_time, "client method uri protocol status bytes", haproxy_text,
            haproxy_bytes),
        Log("haproxy-syslog.log", "haproxy", clf_time, "client method uri protocol status bytes", haproxy_text,
            haproxy_bytes)]),
    "caddy": (caddy, [
        Log("caddy.log", "caddy", member_time("ts", unix_time), CLF + " referer agent http_x_api_key",
            plain_text)]),
    "traefik-json": (lambda box: traefik(box, "json", "traefik-json.log"), [
        Log("traefik-json.log", "traefik", member_time("StartUTC", iso_time), CLF + " agent http_x_api_key",
            plain_text, uri=go_uri)]),
    "traefik": (lambda box: traefik(box, "common", "traefik.log"), [
        Log("traefik.log", "traefik", clf_time, CLF + " agent", plain_text, uri=go_uri)]),
    "envoy": (envoy, [
        Log("envoy.log", "envoy", iso_time, "client method uri protocol status bytes agent", plain_text),
        Log("envoy-json.log", "envoy", member_time("start_time", iso_time),
            "client method uri protocol status bytes agent", plain_text)]),
}

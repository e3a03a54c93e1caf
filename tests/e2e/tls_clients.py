# SPDX-License-Identifier: BSD-2-Clause
"""TLS clients of the daemon in tls_test.sh: single connections, or a load that lasts until the file
`stop` exists.

  tls_clients.py clients|load RESP_PORT HTTP_PORT MUTUAL_PORT"""

import contextlib
import http.client
import os
import select
import ssl
import sys
import threading

from connections import connect, read, read_to_end, say

context = ssl.create_default_context(cafile="ca.pem")


def connect_tls(port, session=None):
    return context.wrap_socket(connect(port), server_hostname="127.0.0.1", session=session)


class Slow:
    """A client in memory whose encrypted bytes are sent in pieces."""

    def __init__(self, port, piece):
        self.socket, self.piece = connect(port), piece
        self.received, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.sent, server_hostname="127.0.0.1")

    def flush(self):
        data = self.sent.read()
        for i in range(0, len(data), self.piece):
            self.socket.sendall(data[i : i + self.piece])

    def run(self, function, *arguments):
        while True:
            try:
                result = function(*arguments)
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
                self.received.write(self.socket.recv(65536))


def ask_with_certificate(port, name):
    """The reply to PING, or the reason of the error, with the certificate NAME.pem."""
    own = ssl.create_default_context(cafile="ca.pem")
    if name:
        own.load_cert_chain(f"{name}.pem", f"{name}.key")
    try:
        client = own.wrap_socket(connect(port), server_hostname="127.0.0.1")
        client.sendall(b"PING\r\n")
        return read(client, 7).decode().strip()
    except ssl.SSLError as error:
        return error.reason


def client_certificates(mutual):
    say("a client with a certificate", ask_with_certificate(mutual, "client") == "+PONG")
    refused = ask_with_certificate(mutual, None)
    say(f"a client without a certificate: {refused}", refused == "TLSV13_ALERT_CERTIFICATE_REQUIRED")
    refused = ask_with_certificate(mutual, "outsider")
    say(f"a client with a certificate of another authority: {refused}", refused == "TLSV1_ALERT_UNKNOWN_CA")


def exchange(client, data, size):
    """Sends data, and meanwhile reads `size` bytes. In one thread, because two threads may not use one connection of
    Python's ssl at a time."""
    received, timeout = b"", client.gettimeout()
    client.setblocking(False)
    while len(received) < size:
        if not client.pending():
            select.select([client], [client] if data else [], [], timeout)
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            data = data[client.send(data[:65536]):] if data else data
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            more = client.recv(65536)
            if not more:
                break
            received += more
    client.settimeout(timeout)
    return received


def single_connections(resp, web):
    for piece in 1, 5, 1000:
        slow = Slow(resp, piece)
        slow.run(slow.tls.do_handshake)
        slow.run(slow.tls.write, b"PING\r\nECHO hello\r\n")
        reply = b""
        while len(reply) < 18:
            reply += slow.run(slow.tls.read, 100)
        say(f"bytes in pieces of {piece}", reply == b"+PONG\r\n$5\r\nhello\r\n")
        slow.socket.close()

    client = connect_tls(resp)
    many = 20000
    say("20000 requests in a pipeline", exchange(client, b"PING\r\n" * many, 7 * many) == b"+PONG\r\n" * many)
    value = b"x" * 300000
    client.sendall(b"ECHO " + value[:1000] + b"\r\n")
    say("a long reply", read(client, 1009) == b"$1000\r\n" + value[:1000] + b"\r\n")

    client.sendall(b"QUIT\r\n")
    say("the server closes with close_notify", read_to_end(client) == b"+OK\r\n")

    for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
        context.minimum_version = context.maximum_version = version
        first = connect_tls(resp)
        first.sendall(b"PING\r\n")
        read(first, 7)
        second = connect_tls(resp, first.session)
        second.sendall(b"PING\r\n")
        say(f"a session is resumed with {second.version()}", read(second, 7) == b"+PONG\r\n" and second.session_reused)
        second.close()
        first.close()
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.MAXIMUM_SUPPORTED

    raw = connect(resp)
    raw.sendall(b"\x16\x03\x01\x00\x05hello")
    answer = read_to_end(raw)
    say("a handshake that is none gets an alert", answer[:1] == b"\x15" or answer == b"")

    page = http.client.HTTPSConnection("127.0.0.1", int(web), context=context)
    page.request("GET", "/dashboard")
    response = page.getresponse()
    body = response.read()
    say("a page over TLS", response.status in (200, 404) and len(body) == int(response.headers["Content-Length"]))
    page.request("GET", "/v1/take?policy=none&key=k")
    response = page.getresponse()
    say("a second request on the connection", response.status == 404 and response.read() != b"")
    page.close()


def load(resp, web, _):
    """Each thread has a connection that stays open, and opens others."""
    wrong, done, lock = [], [0], threading.Lock()

    def one_thread():
        lasting = connect_tls(resp)
        while not os.path.exists("stop"):
            try:
                lasting.sendall(b"PING\r\n")
                good = read(lasting, 7) == b"+PONG\r\n"
                client = connect_tls(resp)
                client.sendall(b"PING\r\n")
                good = good and read(client, 7) == b"+PONG\r\n"
                client.close()
                page = http.client.HTTPSConnection("127.0.0.1", int(web), context=context)
                page.request("GET", "/healthz")
                good = good and page.getresponse().read() == b"ok\n"
                page.close()
            except (OSError, http.client.HTTPException) as error:
                good = False
                print("#", repr(error), flush=True)
            with lock:
                done[0] += 3
                if not good:
                    wrong.append(1)

    threads = [threading.Thread(target=one_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    print("began", flush=True)
    for thread in threads:
        thread.join()
    say("no request failed while certificates changed", not wrong and done[0] > 100)


if sys.argv[1] == "clients":
    single_connections(*sys.argv[2:4])
    client_certificates(sys.argv[4])
else:
    load(*sys.argv[2:])

# SPDX-License-Identifier: BSD-2-Clause
"""Imported by the Python scripts of the tests in bash: TCP connections to the daemon, and results for
check_python() of check.sh."""

import socket


def connect(port):
    connection = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read(connection, n):
    """Reads n bytes, or fewer at the end of the stream."""
    received = b""
    while len(received) < n:
        more = connection.recv(n - len(received))
        if not more:
            break
        received += more
    return received


def read_to_end(connection):
    received = b""
    try:
        while more := connection.recv(65536):
            received += more
    except ConnectionResetError:
        pass
    return received


def say(name, good):
    print(f"{'ok' if good else 'not ok'} - {name}", flush=True)

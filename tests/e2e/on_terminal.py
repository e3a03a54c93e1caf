#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command with a terminal of COLS columns as its standard error, and prints what it writes there.
Creates a file `shown` in the current directory once a progress bar is there.

    on_terminal.py COMMAND [ARGUMENT...]"""

import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios


def read_to_end(master):
    """What is still written to a terminal until its last writer has closed it."""
    got = b""
    while True:
        try:
            more = os.read(master, 65536)
        except OSError:
            break
        if not more:
            break
        if b"ETA" not in got and b"ETA" in got + more:
            pathlib.Path("shown").touch()
        got += more
    return got


def main():
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(os.environ.get("COLS", "80")), 0, 0))
    run = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    sys.stdout.buffer.write(read_to_end(master))
    run.wait()


if __name__ == "__main__":
    main()

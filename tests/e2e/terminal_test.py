#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`weir top` and `weir demo` on a pseudo-terminal: what is on the screen, keys, resizes, signals, a
daemon that ends and comes back, and that the terminal is always restored.

    terminal_test.py WEIR
"""
import fcntl
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios

from kit.process import PATIENCE_S, Failed, free_port, mortal, until
from kit.resp import Client

WEIR = str(pathlib.Path(sys.argv[1]).resolve())
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    print(f"{'ok' if good else 'not ok'} - {name}")
    if not good:
        print("  " + str(detail).replace("\n", "\n  "))
    passed, failed = passed + bool(good), failed + (not good)


# ---- a terminal emulator -------------------------------------------------------------------------


class Terminal:
    """Runs a script of bash on a pseudo-terminal, and keeps what is on the screen."""

    def __init__(self, script, directory, environment, size=(80, 24)):
        self.directory, self.size, self.errors, self.modes, self.plain = directory, size, [], {}, ""
        self.pending = b""
        self.clear()
        self.master, slave = pty.openpty()
        self.set_size(size)
        # The shell is the leader of the terminal's session, as a login shell is.
        self.shell = subprocess.Popen(mortal(["bash", "--norc", "-c", script]), cwd=directory, env=environment,
                                      stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                      preexec_fn=self.begin_session)
        os.close(slave)

    @staticmethod
    def begin_session():
        """In the child. A job in the background, or in a command substitution of a shell with job control, ignores signals."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTIN,
                       signal.SIGTTOU):
            signal.signal(number, signal.SIG_DFL)

    def set_size(self, size):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def resize(self, cols, rows):
        self.pump()
        self.size = (cols, rows)
        self.clear("#")  # what is not drawn again is found
        self.set_size(self.size)

    def clear(self, mark=" "):
        self.x = self.y = 0
        self.cells = [[mark] * self.size[0] for _ in range(self.size[1])]

    def write(self, text):
        for c in text:
            if c == "\r":
                self.x = 0
            elif not self.modes.get("?1049"):
                self.plain += c
            elif self.x < self.size[0] and self.y < self.size[1]:
                self.cells[self.y][self.x] = c
                self.x += 1
            else:
                self.errors.append(f"{c!r} at column {self.x + 1} of line {self.y + 1}, {self.size}")

    def obey(self, arguments, final):
        if final in "hl":
            self.modes[arguments] = final == "h"
            if arguments == "?1049":
                self.clear()
        elif final == "H":
            self.y, self.x = (int(n) - 1 for n in arguments.split(";"))
        elif final == "J":
            self.clear()
        elif final == "K" and self.y < self.size[1]:
            self.cells[self.y][self.x:] = " " * (self.size[0] - self.x)
        elif final == "m" and not self.modes.get("?1049"):
            self.plain += f"<{arguments}>"

    def pump(self):
        """Reads what has arrived. Returns false at the end."""
        while select.select([self.master], [], [], 0)[0]:
            try:
                got = os.read(self.master, 1 << 16)
            except OSError:
                return False
            # A frame may arrive in pieces: a sequence or a character that is not complete waits.
            text = self.pending + got
            cut = re.search(rb"\x1b(\[[0-9;?]*)?$|[\xc0-\xff][\x80-\xbf]{0,2}$", text)
            at = cut.start() if cut and not is_whole(cut.group()) else len(text)
            self.pending = text[at:]
            for plain, arguments, final in re.findall(r"([^\x1b]+)|\x1b\[([0-9;?]*)([A-Za-z])", text[:at].decode()):
                if plain:
                    self.write(plain)
                else:
                    self.obey(arguments, final)
        return True

    def lines(self):
        self.pump()
        return ["".join(line).rstrip() for line in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def wait(self, pattern):
        """Waits for a screen that matches."""
        try:
            until(lambda: re.search(pattern, self.text(), re.M), pattern)
        except Failed as e:
            raise Failed(f"{e}; the screen:\n{self.text()}\nbefore it:\n{self.plain}") from None

    def wait_plain(self, pattern):
        """Waits for what is printed outside of the alternate screen."""
        try:
            until(lambda: self.pump() and False or re.search(pattern, self.plain, re.M), pattern)
        except Failed as e:
            raise Failed(f"{e}; printed:\n{self.plain}\nthe screen:\n{self.text()}") from None

    def type(self, keys):
        os.write(self.master, keys.encode())

    def restored(self):
        """Whether the terminal is as it was before the alternate screen."""
        return not self.modes.get("?1049") and self.modes.get("?25", True) and self.modes.get("?7", True)

    def end(self):
        status = self.shell.wait(timeout=PATIENCE_S)
        self.pump()
        os.close(self.master)
        return status


def is_whole(piece):
    """Whether the bytes at the end of what was read are a whole character."""
    try:
        return b"\x1b" not in piece and piece.decode() != ""
    except UnicodeDecodeError:
        return False


# ---- the daemon ----------------------------------------------------------------------------------

POLICIES = """policies:
  api: {limit: gcra 1000/s burst 1000}
  login: {limit: sliding-log 5/m}
  %s: {limit: fixed-window 10/h, shadow: true}
""" % ("long-" * 12)


class Daemon:
    def __init__(self, directory, more=""):
        self.port = free_port()
        self.config, self.log = os.path.join(directory, "weir.yaml"), os.path.join(directory, "log")
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(f"listen: {{resp: 127.0.0.1:{self.port}}}\n{POLICIES}{more}")
        self.start()

    def start(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(mortal([WEIR, "serve", self.config]), stdout=log, stderr=log)
        until(lambda: b" info started " in pathlib.Path(self.log).read_bytes(), "the daemon starts")

    def take(self, policy, key, times):
        client = Client(self.port)
        client.many([("WEIR.TAKE", policy, key)] * times)
        client.close()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Scene:
    """A directory, a daemon, and `weir top` on a terminal."""

    def __init__(self, directory, more=""):
        self.directory, self.daemon = directory, Daemon(directory, more)
        self.environment = {**os.environ, "WEIR_SERVER": str(self.daemon.port), "TERM": "xterm", "WEIR": WEIR,
                            "LC_ALL": "C.UTF-8"}
        self.environment.pop("NO_COLOR", None)
        self.environment.pop("COLUMNS", None)

    def top(self, arguments="", then="", size=(80, 24)):
        # Without a trap, the shell ends with a child that SIGINT ended.
        script = (f"ulimit -c 0; trap : INT QUIT; stty -a >before; \"$WEIR\" top --interval 100ms {arguments}; echo \"status $?\"; "
                  f"{then} stty -a >after; echo done")
        return Terminal(script, self.directory, self.environment, size)

    def restored(self, terminal):
        terminal.wait_plain(r"^done$")
        terminal.end()
        modes = [pathlib.Path(self.directory, name).read_text(encoding="utf-8") for name in ("before", "after")]
        # A resize changes `rows` and `columns`.
        before, after = (re.sub(r"(rows|columns) \d+", "", text) for text in modes)
        return before == after and terminal.restored() and not terminal.errors


# ---- the tests -----------------------------------------------------------------------------------


def test_screen(scene):
    scene.daemon.take("login", b"b\xff\x1b[2J\xc3\xa9", 9)
    scene.daemon.take("api", "alice", 20)
    t = scene.top("--live login")
    t.wait(r"^>login +\d")
    t.wait(r"^ api +\d.*gcra 1000/s bu")
    t.wait(r"^login: the keys with the most denied units")
    t.wait(r"^ +4 +4 +4  b\\xFF\\x1B\[2Jé$")
    header = r"weir \S+  127\.0\.0\.1:\d+  up \d+s  connections \d+ of \d+$"
    check("the header has the figures of the daemon", re.match(header, t.lines()[0]), t.text())
    check("a long name is cut", re.search(r"^ (long-)+l?o?n?g?~ ", t.text(), re.M), t.text())
    t.type("n")
    t.wait(r"^ POLICY\*.*\n.api .*\n.login .*\n.long-")
    t.type("g")
    t.wait(r"^>api .*\n login ")
    t.wait(r"^api: the keys with the most denied units\n  none$")
    t.type("t")
    t.wait(r"^api: the keys with the most allowed units\n.*\n +20 +20 +20  alice$")
    t.type("\x1b[B")
    t.wait(r"^ api .*\n>login ")
    t.type("\x1bOA")
    t.wait(r"^>api .*\n login ")
    t.type("G")
    t.wait(r"^>long-")
    t.type("/gin")
    t.wait(r"^/gin_$")
    check("the filter hides the others", not re.search("^.api", t.text(), re.M), t.text())
    t.type("\x7f\r")
    t.wait(r"^filter: gi \(1 policy\)")
    t.type("\x1b")
    t.wait(r"^q quit")
    t.type("?")
    t.wait(r"^  q +quit$")
    t.type("q")  # only leaves the help
    t.wait(r"^>long-")
    t.type("r")
    t.wait(r"REQ/s\*")
    t.type("d")
    t.wait(r"DENIED/s\*")
    t.type("q")
    t.wait_plain(r"^status 0$")
    check("q restores the terminal", scene.restored(t), t.errors)


def test_resize(scene):
    t = scene.top()
    t.wait(r"^q quit")
    for cols, rows in ((20, 5), (132, 43), (1, 1), (7, 3), (80, 24)):
        t.resize(cols, rows)
        until(lambda: "#" not in t.text(), f"{cols}x{rows} is drawn")
        check(f"{cols}x{rows}: no line is too long", not t.errors, t.errors)
    t.wait(r"^q quit")
    t.type("q")
    check("after resizes, q restores the terminal", scene.restored(t), t.errors)


def test_lost_daemon(scene):
    t = scene.top("--timeout 400ms")
    t.wait(r"^>\w")
    scene.daemon.kill()
    t.wait(r"trying again every second$")
    check("the last figures stay", re.search(r"^>\w", t.text(), re.M), t.text())
    scene.daemon.start()
    t.wait(r"^q quit")
    scene.daemon.signal(signal.SIGSTOP)
    t.wait(r"timeout: .*; trying again every second$")
    scene.daemon.signal(signal.SIGCONT)
    t.wait(r"^q quit")
    scene.daemon.kill()
    t.wait(r"trying again every second$")
    t.type("q")
    t.wait_plain(r"^status 0$")
    check("q restores the terminal without a daemon", scene.restored(t), t.errors)
    t = scene.top()
    t.wait_plain(r"^weir top: cannot connect to .*\n?status 1$|^status 1$")
    check("without a daemon there is no screen", scene.restored(t) and "?1049" not in t.modes, t.plain)
    scene.daemon.start()


def test_signals(scene):
    for name, send, status in (("Ctrl-C", "\x03", 130), ("Ctrl-\\", "\x1c", 131), ("SIGTERM", signal.SIGTERM, 143),
                               ("SIGHUP", signal.SIGHUP, 129)):
        t = scene.top()
        t.wait(r"^q quit")
        if isinstance(send, signal.Signals):
            os.kill(child_of(t.shell.pid), send)
        else:
            t.type(send)
        t.wait_plain(rf"^status {status}$")
        check(f"{name} restores the terminal", scene.restored(t), t.errors)


def child_of(pid):
    """The process that the shell waits for."""
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_stop(scene):
    script = ("set -m; stty -a >before; \"$WEIR\" top --interval 100ms; status=$?; "
              "stty -a >stopped; echo \"stopped $status\"; "
              "read -r _; fg >/dev/null; echo \"status $?\"; stty -a >after; echo done")
    t = Terminal(script, scene.directory, scene.environment)
    t.wait(r"^q quit")
    t.type("\x1a")
    t.wait_plain(r"^stopped 148$")
    modes = [pathlib.Path(scene.directory, name).read_text(encoding="utf-8") for name in ("before", "stopped")]
    check("Ctrl-Z restores the terminal", modes[0] == modes[1] and t.restored(), modes)
    t.clear("#")
    t.type("\n")
    t.wait(r"^q quit")
    until(lambda: "#" not in t.text(), "the screen is drawn again")
    t.type("q")
    t.wait_plain(r"^status 0$")
    check("q restores the terminal after a stop", scene.restored(t), t.errors)


def test_live(scene):
    t = scene.top("--live --allowed --count 3 login")
    t.wait_plain(r"^status 0$")
    check("--count ends the screen, and it is restored", scene.restored(t), t.errors)
    t = scene.top("--live login")
    t.wait(r"^>login ")
    t.type("q")
    check("--live shows the screen for a policy", scene.restored(t), t.errors)


def test_keys_at_once(scene):
    scene.daemon.take("login", "dora", 9)
    t = scene.top("--interval 86400s --live api")
    t.wait(r"^api: .*\n  none$")
    t.type("j")
    t.wait(r"^login: .*\n.*\n(.*\n)* +\d+ +\d+ +\d+  dora$")
    t.type("t")
    t.wait(r"^login: the keys with the most allowed units\n.*\n(.*\n)* +5 +5 +5  dora$")
    t.type("q")
    check("another policy's keys are fetched at once", scene.restored(t), t.errors)


def test_many_policies(directory):
    scene = Scene(directory, "".join(f"  p{i:04}: {{limit: gcra 1/s}}\n" for i in range(1000)))
    scene.daemon.take("p0500", "x", 50)
    t = scene.top()
    t.wait(r"1003 policies$")
    t.type("/p0500\r")
    t.wait(r"^>p0500 ")
    t.type("\x1bnG")
    t.wait(r"^>p0999 ")
    t.type("\x1b[5~")
    t.wait(r"^>p09\d\d ")
    t.type("g")
    t.wait(r"^>api ")
    t.type("q")
    check("with 1000 policies, the screen is whole", scene.restored(t), t.errors)
    scene.daemon.kill()


def test_top_off(directory):
    scene = Scene(directory, "top: off\n")
    t = scene.top()
    t.wait(r"^  disabled by the configuration: remove `top: off` from weir.yaml$")
    t.type("q")
    check("with top: off, the screen says so", scene.restored(t), t.errors)
    scene.daemon.kill()


def test_no_terminal(scene):
    got = subprocess.run([WEIR, "top", "--count", "2", "--interval", "100ms"], env=scene.environment,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    check("a pipe gets tables", got.returncode == 0 and "\x1b" not in got.stdout and
          got.stdout.count("POLICY ") == 2 and len(re.findall(r"^ login  ", got.stdout, re.M)) == 2, got)
    with open("/dev/full", "w", encoding="utf-8") as full:
        got = subprocess.run([WEIR, "top", "--interval", "100ms"], env=scene.environment, stdin=subprocess.DEVNULL,
                             stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    check("a full disk ends it", got.returncode == 1 and "cannot write" in got.stderr, got)


def test_demo(scene):
    t = Terminal("\"$WEIR\" demo; echo done", scene.directory, scene.environment, (40, 24))
    t.wait_plain(r"^done$")
    lines = re.sub(r"<[0-9;]*>", "", t.plain).splitlines()
    check("weir demo has colours on a terminal", "<34>●<0>" in t.plain and "<31>✕<0>" in t.plain, t.plain)
    check("weir demo has the width of the terminal", max(map(len, lines)) <= 40, lines)
    t.end()
    t = Terminal("NO_COLOR=1 \"$WEIR\" demo; echo done", scene.directory, scene.environment)
    t.wait_plain(r"^done$")
    check("weir demo has no colours with NO_COLOR", "<" not in t.plain and "●" in t.plain, t.plain)
    t.end()


def main():
    with tempfile.TemporaryDirectory(prefix="weir-terminal-") as directory:
        for test in (test_top_off, test_many_policies):
            try:
                test(directory)
            except Failed as e:
                check(test.__name__, False, e)
        scene = Scene(directory)
        try:
            for test in (test_screen, test_resize, test_signals, test_keys_at_once, test_stop, test_live, test_no_terminal, test_demo,
                         test_lost_daemon):
                try:
                    test(scene)
                except Failed as e:
                    check(test.__name__, False, e)
        finally:
            scene.daemon.kill()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of a page of the docs in order, on a terminal, and compares what they print with
what the page says.

    pages_test.py [--write] WEIR ROOT PAGE

--write replaces outputs in the page that differ from what its commands print.

What the blocks of a page mean:

    ```sh                 the command `make run`: the daemon is started as `make run` starts it
    ```yaml FILE          is saved as FILE; so are ```python FILE and ```text FILE
    ```yaml               is added to the last FILE that was saved, and must be valid in it
    ```console            commands behind "$ ", each followed by what it prints
    ```console needs:NAME the same; skipped if there is no program NAME
    ```c                  must compile

In what a command prints, a line "..." matches any lines, and "..." within a line any text. After two
spaces, "# " begins a comment. `weir serve` and `python3 FILE` keep running beside the commands that
follow, until the next `weir serve` replaces the daemon.
"""
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from kit.process import until

WRITE = sys.argv[1] == "--write"
WEIR, ROOT, PAGE = (os.path.realpath(argument) for argument in sys.argv[-3:])
NAME = os.path.basename(PAGE)
PORTS = ("6380", "8080", "8000", "6379", "8081")  # of the pages: RESP, HTTP, the example handler, Redis, gRPC
MARK = "\x01"
passed = failed = skipped = 0


def check(name, good, detail=""):
    global passed, failed
    print(f"{'ok' if good else 'not ok'} - {NAME}: {name}")
    if not good:
        print("  " + detail.replace("\n", "\n  "))
    passed, failed = passed + bool(good), failed + (not good)


# ---- reading the page ----------------------------------------------------------------------------


def read_blocks(text):
    """The fenced blocks: (language, file name or "", text)."""
    return re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", text, re.M | re.S)


def read_commands(block):
    """The commands of a console block, each with the lines that it should print."""
    commands = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append((re.sub(r"\s\s+# .*", "", line[2:]), []))
        else:
            commands[-1][1].append(re.sub(r"\s\s+# .*", "", line))
    return commands


def agrees(expected, got):
    """Whether the output matches the page. A command without output in the page may print anything."""
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, got) is not None if expected else True


# ---- running the page ----------------------------------------------------------------------------


def run_on_terminal(commands, directory, environment):
    """Runs commands in one shell. Returns a list of (status, output)."""
    script = "".join(f"{command}\nprintf '{MARK}%d{MARK}' $?\n" for command in commands)
    master, slave = pty.openpty()
    shell = subprocess.Popen(["bash", "-c", script], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                             stdout=slave, stderr=slave)
    os.close(slave)
    output = b""
    try:
        while True:
            output += os.read(master, 65536)
    except OSError:  # the shell and all its children have closed the terminal
        pass
    os.close(master)
    shell.wait(timeout=60)
    text = re.sub(r"\r[^\r\n]*\x1b\[K", "", output.decode())  # a progress bar
    text = re.sub(r"\r|\x1b\[[0-9;]*m", "", text)  # line ends and colours
    parts = text.split(MARK)
    return [(int(parts[i + 1]), parts[i]) for i in range(0, len(parts) - 1, 2)]


class Daemon:
    """The daemon, in the foreground of a terminal of its own."""

    process = None

    def start(self, command, directory, environment):
        self.stop()
        self.process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=directory, env=environment,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:  # ends with the daemon
            log += line
            if " info started " in line:
                break
        check(f"{command}: starts", " info started " in log, log)

    def stop(self):
        """Stops it as Ctrl-C does."""
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.stderr.read()
            check("Ctrl-C stops the daemon with status 0", self.process.wait(timeout=60) == 0)
        self.process = None


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [str(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=1).close()
        return True
    except OSError:
        return False


class Page:
    """Runs the blocks of the page in a directory that looks like a checkout that was built."""

    def __init__(self, directory):
        self.directory = directory
        self.ports = free_ports(len(PORTS))
        self.daemon = Daemon()
        self.handlers = []
        self.saved = None
        self.printed = []  # (command, expected lines, output) of every command in order
        self.environment = {**os.environ, "WEIR_SERVER": f"127.0.0.1:{self.ports[0]}",
                            "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
        self.environment.pop("WEIR_PASSWORD", None)
        os.symlink(os.path.dirname(WEIR), os.path.join(directory, "build"))
        for name in ("bench", "examples"):
            os.symlink(os.path.join(ROOT, name), os.path.join(directory, name))

    def with_ports(self, text):
        for old, new in zip(PORTS, self.ports):
            text = re.sub(rf"\b{old}\b", new, text)
        return text

    def make_run(self):
        """Starts the daemon with the command of tools/run, which `make run` calls."""
        with open(os.path.join(ROOT, "tools/run"), encoding="utf-8") as script:
            command = re.search(r"^build/weir serve .*?(?= &&)", script.read(), re.M).group(0)
        for name, port in zip(("port", "http"), self.ports):
            command = command.replace(f'"${name}"', port)
        self.daemon.start(command, self.directory, self.environment)

    def save(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        self.saved = (name, text)

    def check_addition(self, text):
        name, before = self.saved
        with open(os.path.join(self.directory, "more.yaml"), "w", encoding="utf-8") as out:
            out.write(before + text)
        found = subprocess.run([WEIR, "check", "--syntax", "--quiet", "more.yaml"], cwd=self.directory,
                               capture_output=True, text=True, check=False)
        check(f"{name} is valid with the addition", found.returncode == 0, found.stderr)

    def start_handler(self, command):
        self.handlers.append(subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.directory,
                                              env=self.environment, stdout=subprocess.DEVNULL,
                                              stderr=subprocess.DEVNULL))
        until(lambda: accepts(self.ports[2]) or self.handlers[-1].poll() is not None, f"{command}: starts")
        check(f"{command}: starts", accepts(self.ports[2]))

    def run_console(self, text):
        commands = read_commands(text)
        while commands:
            first = commands[0][0]
            if first.startswith("weir serve "):
                self.daemon.start(first, self.directory, self.environment)
                commands.pop(0)
            elif re.match(r"python3 \S+$", first):
                self.start_handler(first)
                commands.pop(0)
            else:
                run = []
                while commands and not re.match(r"weir serve |python3 \S+$", commands[0][0]):
                    run.append(commands.pop(0))
                results = run_on_terminal([c for c, _ in run], self.directory, self.environment)
                judge(run, results)
                self.printed += [(*command, output) for command, (_, output) in zip(run, results)]
                # The `export PATH=..` of a page stays in effect for its later blocks.
                self.environment["PATH"] = os.path.join(self.directory, "build") + ":" + os.environ["PATH"]

    def lacks(self, name):
        """Whether a block must be skipped, because the program that it needs is missing."""
        global skipped
        needed = name.removeprefix("needs:")
        if not name or shutil.which(needed):
            return False
        print(f"ok - {NAME}: a block of commands # SKIP no {needed}")
        skipped += 1
        return True

    def without_ports(self, text):
        for old, new in zip(PORTS, self.ports):
            text = re.sub(rf"\b{new}\b", old, text)
        return text

    def write(self, text):
        """Returns the page with the outputs that differed."""
        start = 0
        for command, expected, output in self.printed:
            line = re.compile(rf"^\$ {re.escape(self.without_ports(command))}(?:\s\s+# .*)?\n", re.M)
            start = line.search(text, start).end()
            if not expected or not agrees(expected, output):
                end = re.compile(r"^(?:\$ |```)", re.M).search(text, start).start()
                text = text[:start] + self.without_ports(output) + text[end:]
        return text

    def run(self, blocks):
        for language, name, text in blocks:
            text = self.with_ports(text)
            if language == "sh":
                check("its shell block is `make run`", text == "make run\n", text)
                self.make_run()
            elif language == "console" and not self.lacks(name):
                self.run_console(text)
            elif language == "console":
                pass
            elif name:
                self.save(name, text)
            elif language == "yaml":
                self.check_addition(text)

    def close(self):
        for handler in self.handlers:
            handler.terminate()
            handler.wait(timeout=60)
        self.daemon.stop()
        if accepts(self.ports[3]):  # a Redis that a failed page has left
            subprocess.run(["redis-cli", "-p", self.ports[3], "SHUTDOWN", "NOSAVE"], check=False)


def judge(commands, results):
    for (command, expected), (status, got) in zip(commands, results):
        wanted = "\n".join(expected)
        check(f"{command}: prints the output of the page", agrees(expected, got), f"expected:\n{wanted}\ngot:\n{got}")
        denied = got.startswith("denied") and status == 3
        check(f"{command}: succeeds", (status == 0 or denied) and "(error)" not in got, f"status {status}\n{got}")
    check("every command ran", len(commands) == len(results), f"{len(results)} of {len(commands)}")


# ---- the rest of the page ------------------------------------------------------------------------


def check_c(code):
    source = ("#include <weir/weir.h>\nvoid serve(void);\nvoid f(int64_t now_ns);\nvoid f(int64_t now_ns)\n{\n" +
              "".join(code) + "}\n")
    found = subprocess.run([os.environ.get("CC", "cc").split()[0], "-std=c11", "-Wall", "-Wextra", "-Werror",
                            "-fsyntax-only", f"-I{ROOT}/include", "-x", "c", "-"], input=source,
                           capture_output=True, text=True, check=False)
    check("its C code compiles", found.returncode == 0, found.stderr)


def main():
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    blocks = read_blocks(text)
    commands = [c for language, _, block in blocks if language == "console" for c in read_commands(block)]
    check("it has commands with their output", sum(1 for _, lines in commands if lines) >= 2, str(commands))
    if NAME == "README.md":
        check("it has fewer than 150 lines", len(text.splitlines()) < 150)
    code = [block for language, _, block in blocks if language == "c"]
    if code:
        check_c(code)
    missing = [tool for tool in ("redis-cli", "curl", "make", "bash") if not shutil.which(tool)]
    if missing:
        print(f"ok - {NAME}: its commands # SKIP no {', '.join(missing)}")
        print(f"{passed} passed, {failed} failed, 1 skipped")
        sys.exit(1 if failed else 77)
    with tempfile.TemporaryDirectory() as directory:
        page = Page(directory)
        try:
            page.run(blocks)
            if WRITE:
                text = page.write(text)
                with open(PAGE, "w", encoding="utf-8") as out:
                    out.write(text)
        finally:
            page.close()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


main()

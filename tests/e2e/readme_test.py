#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of README.md in order, on a terminal, against what `make run` starts, and
compares what they print with what README says. A line "..." stands for any lines, and "..." within
a line for any text. Behind two spaces, "# " begins a comment.

    readme_test.py WEIR README.md
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

WEIR = os.path.realpath(sys.argv[1])
README = os.path.realpath(sys.argv[2])
ROOT = os.path.dirname(README)
MARK = "\x01"
passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    print(f"{'ok' if good else 'not ok'} - {name}")
    if not good:
        print("  " + detail.replace("\n", "\n  "))
    passed, failed = passed + bool(good), failed + (not good)


# ---- reading README ------------------------------------------------------------------------------


def read_blocks(text):
    """The fenced blocks: (language, text)."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


def read_commands(block):
    """The commands of a console block, each with the lines it should print."""
    commands = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            commands[-1][1].append(re.sub(r"\s\s+# .*", "", line))
    return commands


def agrees(expected, got):
    """Whether the lines that were printed are those of README; no line stands for any lines."""
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, got) is not None if expected else True


# ---- running it ----------------------------------------------------------------------------------


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
    except OSError:  # the shell and all it started have closed their side
        pass
    os.close(master)
    shell.wait(timeout=60)
    text = re.sub(r"\r|\x1b\[[0-9;]*m", "", output.decode())  # line ends and colours
    parts = text.split(MARK)
    return [(int(parts[i + 1]), parts[i]) for i in range(0, len(parts) - 1, 2)]


class Daemon:
    """A daemon in the foreground of a terminal of its own."""

    process = None

    def start(self, name, command, directory, environment):
        self.stop()
        self.process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=directory, env=environment,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        log = ""
        for line in self.process.stderr:  # ends with the daemon
            log += line
            if " info started " in line:
                break
        check(name, " info started " in log, log)

    def stop(self):
        """Ends it as Ctrl-C does."""
        if self.process:
            self.process.send_signal(signal.SIGINT)
            self.process.stderr.read()
            check("Ctrl-C ends the daemon", self.process.wait(timeout=60) == 0)
        self.process = None


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def make_run(port, http):
    """The command by which `make run` starts the daemon."""
    recipe = subprocess.run(["make", "-n", "-C", ROOT, "run", f"PORT={port}", f"HTTP={http}"], check=True,
                            capture_output=True, text=True).stdout
    return re.search(r"^build/weir serve .*?(?= \|\|)", recipe, re.M).group(0)


def judge(commands, results):
    for (command, expected), (status, got) in zip(commands, results):
        wanted = "\n".join(expected)
        check(f"README: {command}: its output", agrees(expected, got), f"expected:\n{wanted}\ngot:\n{got}")
        denied = got.startswith("denied") and status == 3
        check(f"README: {command}: it works", (status == 0 or denied) and "(error)" not in got,
              f"status {status}\n{got}")
    check("every command has run", len(commands) == len(results), f"{len(results)} of {len(commands)}")


def run_tour(blocks, directory, ports):
    """All blocks in order. A command that starts a daemon goes on beside those that follow."""

    def with_ports(text):
        return text.replace("6380", str(ports[0])).replace("8080", str(ports[1]))

    environment = {**os.environ, "WEIR_SERVER": f"127.0.0.1:{ports[0]}", "PATH": os.environ["PATH"]}
    environment.pop("WEIR_PASSWORD", None)
    daemon, saved, yaml = Daemon(), [], 0
    try:
        for language, text in blocks:
            if language == "sh":
                check("README begins with make run", text == "make run\n", text)
                daemon.start("make run starts the daemon", make_run(*ports), directory, environment)
            elif language == "yaml":
                yaml += 1
                with open(os.path.join(directory, "weir.yaml" if yaml == 1 else "more.yaml"), "w") as out:
                    out.write("".join(saved) + with_ports(text))
                saved.append(with_ports(text))
            elif language == "console":
                commands = read_commands(with_ports(text))
                serve = [c for c, _ in commands if c.startswith("weir serve ")]
                commands = [c for c in commands if c[0] not in serve]
                if serve:
                    daemon.stop()
                judge(commands, run_on_terminal([c for c, _ in commands], directory, environment))
                environment["PATH"] = os.path.join(directory, "build") + ":" + os.environ["PATH"]
                for command in serve:
                    daemon.start(f"README: {command}", command, directory, environment)
        found = subprocess.run([WEIR, "check", "--syntax", "--quiet", "more.yaml"], cwd=directory,
                               capture_output=True, text=True)
        check("what README adds to its weir.yaml is right", yaml == 2 and found.returncode == 0, found.stderr)
    finally:
        daemon.stop()


# ---- the rest of the page ------------------------------------------------------------------------


def check_c(blocks):
    code = [text for language, text in blocks if language == "c"]
    source = ("#include <weir/weir.h>\nvoid serve(void);\nvoid f(int64_t now_ns);\nvoid f(int64_t now_ns)\n{\n" +
              "".join(code) + "}\n")
    found = subprocess.run([os.environ.get("CC", "cc").split()[0], "-std=c11", "-Wall", "-Wextra", "-Werror",
                            "-fsyntax-only", f"-I{ROOT}/include", "-x", "c", "-"], input=source,
                           capture_output=True, text=True)
    check("README: the code in C compiles", len(code) == 1 and found.returncode == 0, found.stderr)


def check_layout(text):
    lines = text.splitlines()
    check("README has fewer than 150 lines", len(lines) < 150, str(len(lines)))
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).splitlines()
    long = [line for line in prose if len(line) > 120 and not line.startswith("|")]
    check("README has at most 120 columns", not long, "\n".join(long))


def main():
    with open(README) as page:
        text = page.read()
    blocks = read_blocks(text)
    commands = [c for language, block in blocks if language == "console" for c in read_commands(block)]
    check("README shows commands and what they print", sum(1 for _, lines in commands if lines) >= 5, str(commands))
    check_layout(text)
    check_c(blocks)
    missing = [tool for tool in ("redis-cli", "curl", "make", "bash") if not shutil.which(tool)]
    if missing:
        print(f"ok - README: its commands # SKIP no {', '.join(missing)}")
        print(f"{passed} passed, {failed} failed, 1 skipped")
        sys.exit(1 if failed else 77)
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(os.path.dirname(WEIR), os.path.join(directory, "build"))
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(directory, "examples"))
        run_tour(blocks, directory, free_ports(2))
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()

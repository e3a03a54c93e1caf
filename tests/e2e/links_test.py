#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A call from a room to one that it may not use does not link. Repeats the link of a room from the build, with one
more function in it: a call that goes down must link, and one that goes up or aside must fail.

    links_test.py BUILDDIR"""

import pathlib
import shlex
import subprocess
import sys
import tempfile

# The room, a function that it may call, and one that it may not.
CALLS = [
    ("codec_resp", "weir_service_open", "weir_http_reason"),  # another protocol
    ("service", "weir_store_open", "weir_answer_check"),
    ("store", "port_zalloc", "weir_limiter_open"),
    ("rls", "weir_service_take", "weir_rls_decode"),
    ("net", "port_steady_ns", "weir_resp_session_run"),
    ("cmd_config", "weir_rules_build", "daemon_run"),
]


def link(build, room, function, directory):
    """Links the room with a call of the function. Returns the linker's messages, or "" if it succeeds."""
    source = directory / "call.c"
    source.write_text(f"void {function}(void);\nvoid a_call(void);\nvoid a_call(void)\n{{\n    {function}();\n}}\n")
    subprocess.run(["cc", "-c", source, "-o", directory / "call.o"], check=True)
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", f"tests/{room}_links"], capture_output=True,
                              text=True, check=True).stdout.splitlines()
    words = shlex.split(commands[-1])
    out = words.index("-o") + 1
    words[out] = str(directory / "linked")
    words.insert(out + 1, str(directory / "call.o"))
    done = subprocess.run(words, cwd=build, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr + done.stdout or "failed"


def main():
    build, failed = pathlib.Path(sys.argv[1]), 0
    for room, down, up in CALLS:
        with tempfile.TemporaryDirectory() as directory:
            refused = link(build, room, down, pathlib.Path(directory))
            wrong = link(build, room, up, pathlib.Path(directory))
        for name, good in [(f"{room} calls {down}()", not refused),
                           (f"{room} does not link with {up}()", "undefined reference" in wrong and up in wrong)]:
            print(f"{'ok' if good else 'FAILED'}: {name}")
            failed += not good
        if refused:
            print(refused[-1500:])
    print(f"{2 * len(CALLS) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

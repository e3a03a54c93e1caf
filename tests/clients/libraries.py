# SPDX-License-Identifier: BSD-2-Clause
"""The replies of weir as each client library returns them with its default options.

A program in tests/clients runs steps with one library. It reads one step a line: the words of a
command are separated by tabs, and the commands of a pipeline by a tab, a bar and a tab. It prints a
line for each reply: the integers of a list separated by spaces, `error: TEXT` for an error reply,
and the reply's type and value for anything else."""

import pathlib
import re
import subprocess

from kit.process import PATIENCE_S, Failed
from kit.redis import Redis
from kit.weir import Daemon

LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "modules" / "lua" / "weir.lua"
LIMIT = "gcra 1/3650d burst 3"
LATER = r"[1-9]\d*"  # a field that depends on the time


def named(key, cost=1, policy="api"):
    return ["WEIR.TAKE", policy, key, "COST", str(cost)]


def of_functions(key, cost=1, policy="api"):
    text = {"api": LIMIT, "none": "nonsense"}[policy]
    return ["FCALL", "weir_take", "1", key, text, str(cost)]


def taking(take):
    """The steps, and the pattern of each reply."""
    yes, no = f"1 3 2 0 {LATER} 0", f"0 3 0 {LATER} {LATER} 0"
    error = r"error: .*(no policy 'none'|policy: ).*"
    last, one_left = f"1 3 0 0 {LATER} 0", f"1 3 1 0 {LATER} 0"
    return [
        ([take("alice")], [yes]),
        ([take("alice", 2)], [last]),
        ([take("alice")], [no]),
        ([take("alice", 4)], [f"0 3 0 -1 {LATER} 0"]),
        ([take("alice", policy="none")], [error]),
        ([take("bob")] * 5, [yes, one_left, last, no, no]),
        ([take("carol"), take("carol", policy="none"), take("carol")], [yes, error, one_left]),
    ]


COMMANDS = [
    ([["WEIR.PEEK", "api", "dave"]], ["1 3 3 0 0 0"]),
    ([["WEIR.CHECK", "gcra 1/h burst 2", "dave"]], ["1 2 1 0 3600000 0"]),
    ([["WEIR.CHECK", "leaky-queue 1/h depth 2", "dave"]] * 2,
     ["1 3 2 0 3600000 0", f"1 3 1 0 {LATER} {LATER}"]),
    ([["WEIR.TAKE", "api", "dave"]], [f"1 3 2 0 {LATER} 0"]),
    ([["WEIR.REFUND", "api", "dave", "1"]], ["1 3 3 0 0 0"]),
    ([["WEIR.TAKEALL", "2", "api", "erin", "1", "api", "frank", "2"]], [f"1 3 1 0 {LATER} 0 1"]),
    ([["CL.THROTTLE", "dave", "15", "30", "60"]], ["0 16 15 -1 2"]),
]


def judge(words, directory, port, steps):
    """Runs the steps with a program, and fails with all replies that differ."""
    asked = "".join("\t|\t".join("\t".join(command) for command in commands) + "\n"
                    for commands, _ in steps)
    done = subprocess.run([str(word) for word in [*words, port]], cwd=directory, input=asked, text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False)
    replies = done.stdout.splitlines()
    expected = [(command, one) for commands, all_ in steps for command, one in zip(commands, all_)]
    wrong = [f"{' '.join(command)}: expected {one!r}, found {reply!r}"
             for (command, one), reply in zip(expected, replies) if not re.fullmatch(one, reply)]
    if len(replies) != len(expected):
        wrong.append(f"expected {len(expected)} replies, found {len(replies)}")
    if wrong or done.returncode != 0:
        raise Failed("\n".join([*wrong, f"exit status {done.returncode}", done.stderr[-2000:]]))


def with_daemon(box, words, directory):
    daemon = Daemon(box, {"api": LIMIT}, None, engine=None).start()
    judge(words, directory, daemon.port, [*taking(named), *COMMANDS])


def with_module(box, words, directory):
    redis = Redis(box, module=True).start()
    redis.call("WEIR.POLICY", "SET", "api", LIMIT)
    judge(words, directory, redis.port, [*taking(named), *COMMANDS])


def with_functions(box, words, directory):
    redis = Redis(box).start()
    redis.call("FUNCTION", "LOAD", LIBRARY.read_bytes())
    judge(words, directory, redis.port, taking(of_functions))

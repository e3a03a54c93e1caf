# SPDX-License-Identifier: BSD-2-Clause
"""Runs steps with redis-py and its default options."""

import sys

import redis

from steps import show, steps

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
for commands in steps():
    if len(commands) == 1:
        try:
            show(client.execute_command(*commands[0]))
        except redis.ResponseError as error:
            show(error)
        continue
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    for reply in pipe.execute(raise_on_error=False):
        show(reply)

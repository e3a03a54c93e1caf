# SPDX-License-Identifier: BSD-2-Clause
"""Runs steps with redis.asyncio and its default options."""

import asyncio
import sys

from redis import ResponseError
from redis.asyncio import Redis

from steps import show, steps


async def main():
    async with Redis(host="127.0.0.1", port=int(sys.argv[1])) as client:
        for commands in steps():
            if len(commands) == 1:
                try:
                    show(await client.execute_command(*commands[0]))
                except ResponseError as error:
                    show(error)
                continue
            pipe = client.pipeline(transaction=False)
            for command in commands:
                pipe.execute_command(*command)
            for reply in await pipe.execute(raise_on_error=False):
                show(reply)


asyncio.run(main())

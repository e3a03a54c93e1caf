# SPDX-License-Identifier: BSD-2-Clause
"""16 processes take from one key at once: exactly `limit` requests are allowed.

    race.py URL fork|spawn|killed REQUESTS LIMIT

With fork, the processes inherit a limiter that was used before, as workers of a server that loads the application
first. With killed, each process is killed with SIGKILL while it takes, and another takes its place. Prints how many
were allowed; of a killed process, what it had counted."""

import multiprocessing
import os
import signal
import sys

import weir

PROCESSES = 16


def take(limiter, url, limit, requests, counted, number):
    limiter = limiter or weir.Limiter(f"fixed-window {limit}/365d from-first", url, on_error="raise", **options(url))
    for _ in range(requests):
        if limiter.check("all").allowed:
            counted[number] += 1


def options(url):
    return {"size": "8m"} if url.startswith("weir+file") else {"timeout": 60}


def main():
    url, how, requests, limit = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    context = multiprocessing.get_context("spawn" if how == "spawn" else "fork")
    counted = context.Array("q", PROCESSES * 4, lock=False)
    limiter = None
    if how != "spawn":
        limiter = weir.Limiter(f"fixed-window {limit}/365d from-first", url, on_error="raise", **options(url))
        limiter.check("other")
    rounds = 4 if how == "killed" else 1
    for round in range(rounds):
        last = round == rounds - 1
        children = [context.Process(target=take, args=(limiter, url, limit, requests if last else sys.maxsize, counted,
                                                       round * PROCESSES + i)) for i in range(PROCESSES)]
        for child in children:
            child.start()
        if not last:
            while sum(counted) < (round + 1) * limit // 8:
                pass
            for child in children:
                os.kill(child.pid, signal.SIGKILL)
        for child in children:
            child.join()
            if last and child.exitcode != 0:
                sys.exit(f"a process ended with {child.exitcode}")
    print(sum(counted))


if __name__ == "__main__":
    main()

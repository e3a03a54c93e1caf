# SPDX-License-Identifier: BSD-2-Clause
"""The fields of draft-ietf-httpapi-ratelimit-headers that the daemon sends for every policy of the vectors,
read by a parser of structured fields that is not weir's."""

import http.client
import json
import pathlib
import subprocess
import urllib.parse

from kit.process import HOST, PATIENCE_S, expect
from kit.weir import Daemon

VECTORS = pathlib.Path(__file__).resolve().parents[1] / "vectors"
COST_MAX = 2147483647


def policies():
    cases = [case for path in sorted(VECTORS.glob("*.json")) for case in json.loads(path.read_text()).get("cases", [])]
    return sorted({case["policy"] for case in cases if "policy" in case})


def ask(connection, policy, cost):
    query = {"limit": policy, "key": "k", "cost": cost, "delay": "report"}
    connection.request("GET", "/v1/check?" + urllib.parse.urlencode(query))
    response = connection.getresponse()
    body = json.loads(response.read())
    expect(response.status in (200, 429), f"{policy}: {body}")
    return {"text": policy, "policy": response.headers["RateLimit-Policy"], "ratelimit": response.headers["RateLimit"],
            "retry_after": response.headers["Retry-After"], "decision": body}


def structured_fields(box, directory, command):
    """Allowed requests, requests that are denied for a while, and requests that are never allowed."""
    daemon = Daemon(box, {}, None, engine=None).start()
    connection = http.client.HTTPConnection(HOST, daemon.http, timeout=PATIENCE_S)
    answers = []
    for policy in policies():
        answers.append(ask(connection, policy, 1))
        for _ in range(3):
            left = answers[-1]["decision"]["remaining"]
            answers.append(ask(connection, policy, max(left, 1)))
        answers.append(ask(connection, policy, COST_MAX))
    connection.close()
    expect(len(answers) > 500, f"{len(answers)} answers")
    denied = [one for one in answers if one["retry_after"]]
    expect(len(denied) > 100, f"{len(denied)} denials that end")
    lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    done = subprocess.run([str(word) for word in [*command, "structured_fields.py"]], cwd=directory, input=lines,
                          text=True, capture_output=True, timeout=PATIENCE_S, check=False)
    expect(done.returncode == 0 and not done.stdout, (done.stdout + done.stderr)[:4000])

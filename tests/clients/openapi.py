# SPDX-License-Identifier: BSD-2-Clause
"""docs/openapi.yaml with programs of others: a validator, and schemathesis, which sends requests that follow the
document, and requests that violate it, and checks the responses."""

import urllib.request

from kit import install
from kit.process import HOST, ROOT, Failed, expect
from kit.weir import Daemon

EXAMPLES = 25  # the most requests of each kind to an operation
POLICIES = {"api": "gcra 1000/s burst 100", "jobs": "leaky-queue 100/s depth 10",
            "login": "fixed-window 5/m & fixed-window 20/day", "slots": "concurrent 3 lease 30s"}
MORE = f"""
top: {{keys: 20}}
trusted_proxies: [{HOST}]
routes:
  - {{name: login, method: POST, path: /login, policy: login}}
"""


def openapi_is_valid(_box, directory):
    install.run([directory / "venv/bin/openapi-spec-validator", ROOT / "docs/openapi.yaml"], directory, Failed)


def openapi_holds(box, directory):
    """/v1/live is left out, because its response does not end."""
    daemon = Daemon(box, POLICIES, engine=None, more=MORE).start()
    at = f"http://{HOST}:{daemon.http}"
    install.run([directory / "venv/bin/st", "run", f"{at}/v1/openapi.yaml", "--url", at, "--exclude-path", "/v1/live",
                 "--max-examples", EXAMPLES, "--seed", 1, "--request-timeout", 10, "--continue-on-failure"],
                directory, Failed)
    with urllib.request.urlopen(f"{at}/readyz", timeout=60) as answer:
        expect(answer.status == 200, "it is ready")

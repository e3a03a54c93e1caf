#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests the container image (image.py), and the chart and the manifests for Kubernetes (kubernetes.py).

    containers_test.py WEIR MODULE [NAME...]"""

import sys

import image
import kubernetes
from kit.process import run

if __name__ == "__main__":
    sys.exit(run([*image.TESTS, *kubernetes.TESTS], sys.argv, needs_redis=False))

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs a test with Valkey in place of Redis: for the test and its child processes, redis-server,
# redis-cli and redis-benchmark are the programs of Valkey. Skips the test without Valkey.
#
#   tests/redis/on_valkey.sh COMMAND [ARGUMENT ...]
set -euo pipefail
if ! command -v valkey-server >/dev/null || ! command -v valkey-cli >/dev/null; then
    echo "skipped: valkey-server or valkey-cli is missing"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
fi
names=$(mktemp -d)
trap 'rm -rf "$names"' EXIT
for program in server cli benchmark; do
    ln -s "$(command -v "valkey-$program")" "$names/redis-$program"
done
PATH=$names:$PATH "$@"

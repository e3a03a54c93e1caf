#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs a test with Valkey in the place of Redis: for the test, and for all that it starts, the names
# redis-server, redis-cli and redis-benchmark are Valkey's programs. Skips without Valkey.
#
#   tests/redis/on_valkey.sh COMMAND [ARGUMENT ...]
set -euo pipefail
if ! command -v valkey-server >/dev/null || ! command -v valkey-cli >/dev/null; then
    echo "there is no valkey-server, or no valkey-cli"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
fi
names=$(mktemp -d)
trap 'rm -rf "$names"' EXIT
for program in server cli benchmark; do
    ln -s "$(command -v "valkey-$program")" "$names/redis-$program"
done
PATH=$names:$PATH "$@"

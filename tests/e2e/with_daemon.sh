# SPDX-License-Identifier: BSD-2-Clause
# Sourced first by the tests TEST.sh WEIR in bash: check.sh, daemon.sh, the program `weir`, and a directory
# `tmp` that is removed at the end.
# shellcheck shell=bash
weir=$(realpath "$1")
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
. "$(dirname "${BASH_SOURCE[0]}")/daemon.sh"
tmp=$(mktemp -d)
trap 'daemon_kill; rm -rf "$tmp"' EXIT

#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A weir that is built without limitador has nothing of it, and refuses its section.
#
#   without_test.sh PROGRAM
set -uo pipefail
. "$(dirname "$0")/../e2e/check.sh"
weir=$1
functions=$(nm "$weir")
check "the program has its functions" 1 "$(grep -c " [Tt] main$" <<<"$functions")"
check "no function of limitador is linked" "" "$(grep -iE "[TtDdRr] weir_(limitador|cel)_" <<<"$functions")"
said=$(printf 'limitador: {limits: limits.yaml}\n' | "$weir" check - 2>&1)
check "the section limitador is refused" 1 $?
check "and the error says why" 1 "$(grep -c "this weir was built without limitador" <<<"$said")"
check "the Rate Limit Service remains" 0 "$(printf 'policies: {a: {limit: gcra 1/s}}\nlisten: {grpc: 0}\n' |
    "$weir" check - >/dev/null 2>&1; echo $?)"
echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

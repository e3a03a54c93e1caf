#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The units of systemd: they name the installed files, systemd-analyze accepts them, the service is confined, and the
# sockets are the addresses of the default weir.yaml.
#
#   unit_test.sh BUILDDIR
set -uo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

DESTDIR=$tmp/root meson install -C "$build" --no-rebuild --quiet
unit=$(find "$tmp/root" -name weir.service)
prefix=${unit#"$tmp/root"} prefix=${prefix%/lib/systemd/system/weir.service}
check "the unit is below the prefix" "$prefix/lib/systemd/system/weir.socket" "$(cd "$tmp/root" && find . -name weir.socket | sed 's/^\.//')"
read -r weir _ config < <(sed -n 's/^ExecStart=//p' "$unit")
check "it starts the installed program" yes "$([ -x "$tmp/root$weir" ] && echo yes)"
check "with the installed configuration" yes "$([ -f "$tmp/root$config" ] && echo yes)"
check "no path is left out" "" "$(grep -h '@[a-z]*@' "$unit" "${unit%service}socket")"
user=$(sed -n 's/^User=//p' "$unit")
check "its user is created" "$user" "$(awk '$1 == "u" {print $2}' "$(find "$tmp/root" -path '*/sysusers.d/weir.conf')")"
check "its sockets are the addresses of weir.yaml" "$(sed -n 's/^  \(resp\|http\): \([^ ]*\).*/\2/p' packaging/weir.yaml)" \
    "$(sed -n 's/^ListenStream=//p' "${unit%service}socket")"

mkdir "$tmp/units"
sed "s|^ExecStart=[^ ]*|ExecStart=$(command -v true)|" "$unit" >"$tmp/units/weir.service"
cp "${unit%service}socket" "$tmp/units/"
said=$(systemd-analyze verify --man=no "$tmp/units/weir.service" "$tmp/units/weir.socket" 2>&1)
check "systemd-analyze verify: status" 0 $?
check "systemd-analyze verify: output" "" "$(grep weir <<<"$said")"
said=$(systemd-analyze security --offline=true --threshold=20 "$tmp/units/weir.service" 2>&1)
check "systemd-analyze security: at most 2.0" 0 $?
tail -n 1 <<<"$said" | sed 's/^/# /'

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

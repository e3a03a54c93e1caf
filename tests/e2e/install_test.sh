#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `meson install` and tools/uninstall, as `make install` and `make uninstall` run them: the licence
# and weir.yaml are installed, and the operator's weir.yaml and state file survive both.
#
#   install_test.sh BUILDDIR
set -uo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/e2e/check.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root

install_it() { DESTDIR=$root meson install -C "$build" --no-rebuild --quiet 2>&1; }
find_it() { find "$root" -path "$1" | head -n 1; }
files() { find "$root" -mindepth 1 ! -type d | sed "s|.*/root/||" | LC_ALL=C sort | tr '\n' ' '; }

install_it
config=$(find_it '*/etc/weir/weir.yaml')
check "the weir.yaml that is installed is the default" "" "$(diff packaging/weir.yaml "$config" 2>&1)"
check "the default is also where it is not edited" "" "$(diff packaging/weir.yaml "$(find_it '*/share/weir/weir.yaml')" 2>&1)"
weir=$(find_it '*/bin/weir')
"$weir" check "$config" >/dev/null 2>&1
check "weir check accepts it" 0 $?
for file in prometheus/weir.rules.yml prometheus/weir.test.yml grafana/weir.json; do
    check "$file is installed" "" "$(diff packaging/$file "$(find_it "*/share/weir/$file")" 2>&1)"
done
check "the licence is installed" "" "$(diff LICENSE "$(find_it '*/share/licenses/weir/LICENSE')" 2>&1)"

echo "threads: 1" >>"$config"
check "a second installation succeeds in silence" "" "$(install_it)"
check "and keeps a changed weir.yaml" "threads: 1" "$(tail -n 1 "$config")"

mkdir -p "$root/var/lib/weir"
echo state >"$root/var/lib/weir/state"
said=$(tools/uninstall "$build" "$root" 2>&1)
check "uninstalling prints the files that it keeps" "kept: $config, which differs from the default" "$(grep kept <<<"$said")"
check "and leaves the weir.yaml and the state" "${config#"$root/"} var/lib/weir/state " "$(files)"
check "and no directory of weir's own but theirs" "$(dirname "$config") $root/var/lib/weir" \
    "$(find "$root" -type d -name weir | LC_ALL=C sort | xargs)"
rm "$config"
install_it >/dev/null
tools/uninstall "$build" "$root" >/dev/null 2>&1
check "an unchanged weir.yaml is removed as well" "var/lib/weir/state " "$(files)"
check "uninstalling again removes no files" "removed: 0 files" "$(tools/uninstall "$build" "$root" 2>&1)"

echo "$passed passed, $failed failed, 0 skipped"
exit $((failed > 0))

# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests of the progress bar, which appears after some time. $here is the directory of
# this file.
# shellcheck shell=sh

# endless_log FILE: makes a compressed log `endless.gz`, and a program `endless/gzip` that prints the
# lines of FILE for it, again and again, until on_terminal.py has seen the bar.
endless_log() {
    mkdir -p endless
    printf '\037\213' >endless.gz
    printf '%s\n' '#!/bin/sh' 'cat >/dev/null' 'i=0' \
        'until [ -e shown ] || [ $((i += 1)) -gt 2000 ]; do' "    cat '$PWD/$1'" 'done' >endless/gzip
    chmod +x endless/gzip
}

# on_terminal COMMAND [ARGUMENT...]: its standard error is a terminal, whose contents are printed.
on_terminal() {
    rm -f shown
    PATH=$PWD/endless:$PATH python3 "$here/on_terminal.py" "$@"
}

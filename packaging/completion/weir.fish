# SPDX-License-Identifier: BSD-2-Clause
# Command line completion for weir in fish. Asks weir for its commands and for the options of a command.

function __weir_commands # prints NAME TAB DESCRIPTION
    weir help 2>/dev/null | string replace -rf '^  weir ([a-z]+) .*?  +([a-z].*)$' '$1\t$2'
end

function __weir_options # prints --OPTION TAB DESCRIPTION; an option with a value ends in =
    set -l words (commandline -opc)
    weir help $words[2] 2>/dev/null | string replace -rf '^  (--[a-z-]+)( [^ ]+)? +(.*)$' '$1\t$3'
end

function __weir_needs_command
    test (count (commandline -opc)) -eq 1
end

function __weir_takes_files
    set -l words (commandline -opc)
    contains -- "$words[2]" serve check replay suggest accuracy state
end

complete -c weir -f
complete -c weir -n '__weir_needs_command; or __fish_seen_subcommand_from help' -a '(__weir_commands)'
complete -c weir -n 'not __weir_needs_command; and string match -q -- "-*" (commandline -ct)' -a '(__weir_options)'
complete -c weir -n __weir_takes_files -F

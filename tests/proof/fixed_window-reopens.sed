# A clock that steps back reopens an older window.
# in src/core/fixed_window.c
# refuses view_of_word @ensures
s/if (word >= span.end_ns)/if (word < 0)/

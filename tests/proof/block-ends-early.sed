# A block ends one nanosecond early.
# in src/core/block.c
# refuses left_at @ensures
s/return end_ns > now_ns ? end_ns - now_ns : 0;/return end_ns - 1 > now_ns ? end_ns - 1 - now_ns : 0;/

# An addition loses the carry.
# in src/core/wide.h
# refuses weir_wide_add @ensures
s/ + (lo < a.lo), lo}/, lo}/

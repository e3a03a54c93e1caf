# A product loses the carry of its middle column.
# in src/core/wide.h
# refuses weir_wide_mul @ensures
s/ + (mid >> 32) + (mid2 >> 32)/ + (mid2 >> 32)/

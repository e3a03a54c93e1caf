# A damaged pair is taken at its word: a negative count is room for more.
# in src/core/fixed_window.c
# refuses view_of_pair @ensures
s/ || count < 0)/)/

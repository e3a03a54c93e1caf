# A damaged pair is not detected: a negative count allows more.
# in src/core/fixed_window.c
# refuses view_of_pair @ensures
s/ || count < 0)/)/

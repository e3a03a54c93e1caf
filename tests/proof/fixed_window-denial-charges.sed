# A denial is counted even without count-denied.
# in src/core/fixed_window.c
# refuses weir_window_check kept
s/(allowed || count_denied);/!never;/

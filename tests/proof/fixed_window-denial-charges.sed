# A denial is counted whether that was asked for or not.
# in src/core/fixed_window.c
# refuses weir_window_check kept
s/(allowed || count_denied);/!never;/

# The decision compares with < in place of <=.
# in src/core/fixed_window.c
# refuses weir_window_check verdict
s/bool allowed = cost <= limit - v.count/bool allowed = cost < limit - v.count/

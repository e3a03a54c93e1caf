# The decision compares with < in place of <=.
# in src/core/gcra.c
# refuses weir_gcra_check verdict
s/ret->allowed = over_ns <= 0;/ret->allowed = over_ns < 0;/

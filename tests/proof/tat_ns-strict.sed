# The verdict compares with < where the definition says <=.
# in src/core/tat_ns.c
# refuses weir_tat_ns_check verdict
s/ret->allowed = over_ns <= 0;/ret->allowed = over_ns < 0;/

# A peek moves the TAT up to now.
# in src/core/tat_ns.c
# refuses weir_tat_ns_check kept
s/^        if (cost > 0)$/        if (cost >= 0)/

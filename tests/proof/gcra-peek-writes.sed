# A peek moves the TAT to now.
# in src/core/gcra.c
# refuses weir_gcra_check kept
s/^        if (cost > 0)$/        if (cost >= 0)/

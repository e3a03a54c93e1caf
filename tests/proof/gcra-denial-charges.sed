# A denial is charged.
# in src/core/gcra.c
# refuses weir_gcra_check kept
s/^    if (ret->allowed) {/    if (!ret->never) {/

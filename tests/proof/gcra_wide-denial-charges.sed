# A denial is written like an allowance.
# in src/core/gcra_wide.c
# refuses weir_gcra_wide_check kept charged
s/if (o.allowed && cost > 0) {/if (!o.never \&\& cost > 0) {/

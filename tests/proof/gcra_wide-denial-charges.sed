# A denial writes the state.
# in src/core/gcra_wide.c
# refuses weir_gcra_wide_check kept charged
s/if (o.allowed && cost > 0) {/if (!o.never \&\& cost > 0) {/

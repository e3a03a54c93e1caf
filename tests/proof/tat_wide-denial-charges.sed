# A denial is written like an allowance.
# in src/core/tat_wide.c
# refuses weir_tat_wide_check kept charged
s/if (o.allowed && cost > 0) {/if (!o.never \&\& cost > 0) {/

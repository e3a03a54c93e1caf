# A denial is charged like an allowance.
# in src/core/tat_ns.c
# refuses weir_tat_ns_check kept
s/^    if (ret->allowed) {/    if (!ret->never) {/

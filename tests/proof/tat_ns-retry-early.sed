# retry_after is one nanosecond short: the request is still denied when it comes back.
# in src/core/tat_ns.c
# refuses weir_tat_ns_check retry
s/ret->allowed ? 0 : over_ns;/ret->allowed ? 0 : over_ns - 1;/

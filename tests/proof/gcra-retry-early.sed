# retry_after is one nanosecond too short: the request is still denied then.
# in src/core/gcra.c
# refuses weir_gcra_check retry
s/ret->allowed ? 0 : over_ns;/ret->allowed ? 0 : over_ns - 1;/

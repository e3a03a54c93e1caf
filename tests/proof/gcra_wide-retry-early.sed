# retry_after is rounded down: the request may still be denied then.
# in src/core/gcra_wide.c
# refuses ns_ceil @ensures
s/weir_wide_div_ceil(n, d)/weir_wide_div_floor(n, d)/

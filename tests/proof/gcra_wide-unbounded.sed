# weir_layer_init() no longer bounds the rate.
# in src/core/spec.h
# refuses clock_at @requires
s/ && 1 <= g->rate <= WEIR_RATE_MAX/ \&\& 1 <= g->rate/

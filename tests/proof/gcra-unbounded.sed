# weir_layer_init() no longer bounds limit * den.
# in src/core/spec.h
# refuses weir_gcra_check @assert
s/ && g->cap_lo <= WEIR_SPAN_NS_MAX;/;/

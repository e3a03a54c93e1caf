# A refund may take the TAT below now: better than fresh, should the clock step back.
# in src/core/gcra.c
# refuses weir_gcra_refund lowered
s/all ? now_ns : now_ns/all ? now_ns - 1 : now_ns/

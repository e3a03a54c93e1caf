# A refund can move the TAT to before now, which exceeds the full quota if the clock steps back.
# in src/core/gcra.c
# refuses weir_gcra_refund lowered
s/all ? now_ns : now_ns/all ? now_ns - 1 : now_ns/

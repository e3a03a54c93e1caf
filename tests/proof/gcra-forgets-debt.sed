# A charge ignores the backlog: now in place of max(now, TAT).
# in src/core/gcra.c
# refuses weir_gcra_check charged monotone
s/backlog_ns += cost \* interval_ns;/backlog_ns = cost * interval_ns;/

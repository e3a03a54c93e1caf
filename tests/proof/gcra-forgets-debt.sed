# The charge starts from now and forgets the backlog: max(now, TAT) replaced by now.
# in src/core/gcra.c
# refuses weir_gcra_check charged monotone
s/backlog_ns += cost \* interval_ns;/backlog_ns = cost * interval_ns;/

# The charge starts from now and forgets the backlog: max(now, TAT) replaced by now.
# in src/core/tat_ns.c
# refuses weir_tat_ns_check charged monotone
s/backlog_ns += cost \* interval_ns;/backlog_ns = cost * interval_ns;/

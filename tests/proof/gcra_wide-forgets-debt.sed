# The charge starts from now and forgets the backlog: max(now, TAT) replaced by now.
# in src/core/gcra_wide.c
# refuses decide @ensures
s/o.backlog = weir_wide_add(backlog, charge);/o.backlog = charge;/

# A charge ignores the backlog: now in place of max(now, TAT).
# in src/core/gcra_wide.c
# refuses decide @ensures
s/o.backlog = weir_wide_add(backlog, charge);/o.backlog = charge;/

# A request that fits exactly is denied.
# in src/core/gcra_wide.c
# refuses decide @ensures
s/o.allowed = !weir_wide_less(room, backlog);/o.allowed = weir_wide_less(backlog, room);/
